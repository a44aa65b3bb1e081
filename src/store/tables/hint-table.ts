import { hintsMax, type Hint, type PublishedHint, type DistributedHints } from "../../limits/distributed-hints.ts";
import { nowSql } from "./count-table.ts";
import type { Database } from "../database.ts";
import { sql } from "../sql.ts";

/** Cool-down hints in the database, for installations without Redis. */
export class SqlHints implements DistributedHints {
  constructor(
    private readonly database: Database,
    private readonly options: { readonly wallMs: () => number },
  ) {}

  async publish({ scope, cause, forMs }: Hint): Promise<string> {
    const now = nowSql(this.database.engine, this.options.wallMs);
    await this.database.run(sql`delete from shared_hints where until_ms <= ${now}`);
    const rows = await this.database.all<{ until_ms: number }>(sql`
      insert into shared_hints (scope, cause, until_ms) values (${scope}, ${cause}, ${now} + ${Math.ceil(forMs)})
      on conflict (scope) do update set cause = excluded.cause, until_ms = excluded.until_ms
      where shared_hints.until_ms < excluded.until_ms returning until_ms`);
    return idOf(scope, cause, rows[0]?.until_ms ?? 0);
  }

  async read(): Promise<readonly PublishedHint[]> {
    const now = nowSql(this.database.engine, this.options.wallMs);
    const rows = await this.database.all<{ scope: string; cause: string; until_ms: number; now_ms: number }>(sql`
      select scope, cause, until_ms, ${now} as now_ms from shared_hints where until_ms > ${now} order by until_ms desc limit ${hintsMax}`);
    return rows.map((row) => {
      const { scope, cause, until_ms: untilMs, now_ms: nowMs } = row;
      return { scope, cause, forMs: untilMs - nowMs, id: idOf(scope, cause, untilMs) };
    });
  }
}

function idOf(scope: string, cause: string, untilMs: number): string {
  return JSON.stringify([scope, cause, untilMs]);
}
