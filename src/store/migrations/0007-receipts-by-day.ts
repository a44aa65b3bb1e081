import type { SqlByEngine } from "../database.ts";
import { sql, type Sql } from "../sql.ts";

/**
 * On PostgreSQL, receipts and attempts become partitioned tables: one partition for each day of their ids, so that old ones are
 * dropped and not deleted (`receipt-partitions.ts`). The present tables become the partition of everything before the day after
 * tomorrow, without being copied. Ids of a later time, which a wrong clock has made, move to the default partition. Earlier
 * versions use the tables as before.
 */
export const receiptsByDay: readonly SqlByEngine[] = [
  sql`alter table receipts rename to receipts_before`,
  sql`alter index receipts_pkey rename to receipts_before_pkey`,
  sql`create table receipts (like receipts_before including defaults, primary key (id)) partition by range (id)`,
  sql`create index receipts_by_request on receipts (request_id, id) where request_id is not null`,
  sql`create table receipts_default partition of receipts default`,

  sql`alter table attempts rename to attempts_before`,
  sql`alter index attempts_pkey rename to attempts_before_pkey`,
  sql`create table attempts (like attempts_before including defaults, primary key (receipt_id, number)) partition by range (receipt_id)`,
  sql`create table attempts_default partition of attempts default`,

  sql`with late as (delete from receipts_before where id >= ${firstDay()} returning *) insert into receipts_default select * from late`,
  sql`with late as (delete from attempts_before where receipt_id >= ${firstDay()} returning *) insert into attempts_default select * from late`,
  sql`alter table receipts attach partition receipts_before for values from (minvalue) to (${firstDay()})`,
  sql`alter table attempts attach partition attempts_before for values from (minvalue) to (${firstDay()})`,
].map(onlyPostgres);

/** The first id of the day after tomorrow: its first twelve digits are the time. `now` is the same in all of a transaction. */
function firstDay(): Sql {
  const digits = sql`lpad(to_hex((floor(extract(epoch from now()) / 86400)::bigint + 2) * 86400000), 12, '0')`;
  return sql`substr(${digits}, 1, 8) || '-' || substr(${digits}, 9)`;
}

function onlyPostgres(statement: Sql): SqlByEngine {
  return { sqlite: sql`select 1`, postgres: statement };
}
