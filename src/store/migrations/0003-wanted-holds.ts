import { sql, type Sql } from "../sql.ts";

/** Who is short of a budget marks what others hold of it. Few rows are marked, and each process looks for its own twice a second. */
export const wantedHolds: readonly Sql[] = [
  sql`alter table budget_holds add column wanted integer not null default 0`,
  sql`create index budget_holds_wanted on budget_holds (holder) where wanted = 1`,
];
