import type { DistributedAbsences } from "../../limits/distributed-counts.ts";
import { nowSql } from "./count-table.ts";
import type { Database } from "../database.ts";
import { sql } from "../sql.ts";

/**
 * Absences in the database, for installations with Redis: the table of processes, which those use that count in the database,
 * holds the ones here that cannot count in Redis.
 */
export class SqlAbsences implements DistributedAbsences {
  constructor(
    private readonly database: Database,
    private readonly options: { readonly wallMs: () => number },
  ) {}

  async note(process: string, forMs: number): Promise<void> {
    const now = nowSql(this.database.engine, this.options.wallMs);
    await this.database.run(sql`
      insert into processes (id, seen_ms) values (${process}, ${now} + ${forMs}) on conflict (id) do update set seen_ms = excluded.seen_ms`);
  }

  async end(process: string): Promise<void> {
    await this.database.run(sql`delete from processes where id = ${process}`);
  }

  async read(): Promise<readonly string[]> {
    const now = nowSql(this.database.engine, this.options.wallMs);
    const rows = await this.database.all<{ id: string; gone: number }>(sql`
      select id, case when seen_ms <= ${now} then 1 else 0 end as gone from processes order by id limit ${rowsMax}`);
    for (const { id, gone } of rows) if (gone === 1) await this.end(id);
    return rows.filter(({ gone }) => gone === 0).map(({ id }) => id);
  }
}

const rowsMax = 1_000;
