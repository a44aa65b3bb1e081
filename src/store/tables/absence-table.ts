import type { DistributedAbsences } from "../../limits/distributed-counts.ts";
import { nowSql } from "./count-table.ts";
import type { Database } from "../database.ts";
import { sql } from "../sql.ts";

/**
 * Reports of processes that cannot reach Redis, for installations with Redis. They are stored in the `processes` table, which
 * installations without Redis use to count their processes.
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
    const rows = await this.database.all<{ id: string; expired: number }>(sql`
      select id, case when seen_ms <= ${now} then 1 else 0 end as expired from processes order by id limit ${rowsMax}`);
    for (const { id, expired } of rows) if (expired === 1) await this.end(id);
    return rows.filter(({ expired }) => expired === 0).map(({ id }) => id);
  }
}

const rowsMax = 1_000;
