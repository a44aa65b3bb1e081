import { joinSql, nameSql, sql, type Sql } from "../sql.ts";
import type { SqlByEngine } from "../database.ts";

/**
 * Receipts of a key are found through its hourly sums instead of an index (see `receipt-minutes.ts`). Hours from before this
 * migration have no minutes, and are read completely. In SQLite, which stores these rows in the order of their primary key, the
 * key now begins with the time: the sums that change all the time lie on a few pages, however many keys there are.
 */
export const sumsByTime: readonly (Sql | SqlByEngine)[] = [
  withoutRowid(sql`create table stray_receipts (key_id text not null, id text not null, primary key (key_id, id))`),
  {
    sqlite: sql`insert into stray_receipts (key_id, id) select key_id, id from receipts
      where id not like '________-____-7%' or ${idTimeSqlite()} / 3600000 <> started_ms / 3600000`,
    postgres: sql`insert into stray_receipts (key_id, id) select key_id, id from receipts
      where case when id ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7'
        then ('x' || substr(id, 1, 8) || substr(id, 10, 4))::bit(48)::bigint / 3600000 <> started_ms / 3600000 else true end`,
  },
  sql`drop index receipts_key`,
  ...addMinuteColumns("usage_hours"),
  // Daily sums do not use these columns, but the previous version combines both tables with `select *`.
  ...addMinuteColumns("usage_days"),
  ...reorderByTime("usage_hours"),
  ...reorderByTime("usage_days"),
];

function addMinuteColumns(table: string): readonly Sql[] {
  const columns = ["placed", "minutes_early", "minutes_late"];
  return columns.map((column) => sql`alter table ${nameSql(table)} add column ${nameSql(column)} bigint not null default 0`);
}

/** Only SQLite: PostgreSQL does not store rows in the order of a key. */
function reorderByTime(table: string): readonly SqlByEngine[] {
  const own = nameSql(table);
  const next = nameSql(`${table}_next`);
  return [
    sql`create table ${next} (
      key_id text not null, at_ms bigint not null, model text not null, channel text not null, operation text not null, calls bigint not null,
      failed bigint not null, prompt_tokens bigint not null, cached_tokens bigint not null, completion_tokens bigint not null,
      reasoning_tokens bigint not null, audio_ms bigint not null, characters bigint not null, nanos bigint not null, unpriced bigint not null,
      uncertain bigint not null, estimated bigint not null, placed bigint not null default 0,
      minutes_early bigint not null default 0, minutes_late bigint not null default 0,
      primary key (at_ms, key_id, model, channel, operation)) without rowid`,
    sql`insert into ${next} select * from ${own} order by at_ms, key_id, model, channel, operation`,
    sql`drop table ${own}`,
    sql`alter table ${next} rename to ${own}`,
    sql`create index ${nameSql(`${table}_key`)} on ${own} (key_id, at_ms)`,
  ].map((statement) => ({ sqlite: statement, postgres: sql`select 1` }));
}

/** The first 12 hex digits of an id as a number, which SQLite has no function for. */
function idTimeSqlite(): Sql {
  const digits = [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13].map(
    (position, at) => sql`(instr('123456789abcdef', substr(id, ${position}, 1)) << ${44 - 4 * at})`,
  );
  return sql`(${joinSql(digits, sql` + `)})`;
}

function withoutRowid(table: Sql): SqlByEngine {
  return { sqlite: sql`${table} without rowid`, postgres: table };
}
