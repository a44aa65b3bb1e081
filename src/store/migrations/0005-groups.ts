import type { SqlByEngine } from "../database.ts";
import { nameSql, sql, type Sql } from "../sql.ts";

/**
 * Groups, and what their keys use together: sums by the owners of limits, besides those by key. A receipt remembers its owners,
 * because a key may move. Earlier versions ignore all of it.
 */
export const groups: readonly (Sql | SqlByEngine)[] = [
  sql`create table key_groups (
    id text primary key, name text not null, kind text not null, parent text, note text, limits text not null, key_defaults text not null,
    group_defaults text not null, frozen_ms bigint, created_ms bigint not null, deleted_ms bigint, revision bigint not null)`,
  sql`create unique index key_groups_name on key_groups (name) where deleted_ms is null`,
  sql`create index key_groups_revision on key_groups (revision)`,
  sql`alter table keys add column group_id text`,
  sql`create index keys_group on keys (group_id, id) where group_id is not null`,

  sql`alter table receipts add column owners text`,
  sql`alter table receipts add column channel_tags text`,
  sql`alter table budget_holds add column selector text`,
  ...sumsOf("owner_hours"),
  ...sumsOf("owner_days"),

  // What an account or a token may see and change: everything, or one group.
  sql`alter table accounts add column group_id text`,
  sql`alter table admin_tokens add column group_id text`,
  // The group that a change was about.
  sql`alter table audit add column group_id text`,
];

function sumsOf(table: string): readonly SqlByEngine[] {
  const own = nameSql(table);
  const columns = sql`
    owner_id text not null, at_ms bigint not null, model text not null, channel text not null, tags text not null, operation text not null,
    calls bigint not null, failed bigint not null, prompt_tokens bigint not null, cached_tokens bigint not null,
    completion_tokens bigint not null, reasoning_tokens bigint not null, audio_ms bigint not null, characters bigint not null,
    nanos bigint not null, unpriced bigint not null, uncertain bigint not null, estimated bigint not null`;
  // As for the sums of keys: SQLite keeps the rows in the order of the primary key, and those that change lie side by side.
  return [
    {
      sqlite: sql`create table ${own} (${columns}, primary key (at_ms, owner_id, model, channel, tags, operation)) without rowid`,
      postgres: sql`create table ${own} (${columns}, primary key (owner_id, at_ms, model, channel, tags, operation))`,
    },
    {
      sqlite: sql`create index ${nameSql(`${table}_owner`)} on ${own} (owner_id, at_ms)`,
      postgres: sql`create index ${nameSql(`${table}_at`)} on ${own} (at_ms)`,
    },
  ];
}
