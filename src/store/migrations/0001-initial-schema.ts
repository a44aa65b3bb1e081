import type { SqlByEngine } from "../database.ts";
import { sql, type Sql } from "../sql.ts";

/** Keys, channels, prices, receipts and their sums, budgets, the audit trail, accounts, and what processes share. */
export const initialSchema = [
  sql`create table settings (name text primary key, value text not null)`,
  sql`create table revision (id integer primary key, value bigint not null)`,
  sql`insert into revision (id, value) values (1, 0)`,

  sql`create table keys (
    id text primary key, name text not null, owner text, note text, scopes text not null, limits text not null, splits text not null,
    expires_ms bigint, created_ms bigint not null, revoked_ms bigint, last_used_ms bigint, revision bigint not null)`,
  sql`create unique index keys_name on keys (name)`,
  sql`create index keys_revision on keys (revision)`,
  sql`create table key_tokens (
    digest text primary key, key_id text not null, last4 text not null, created_ms bigint not null, expires_ms bigint)`,
  sql`create index key_tokens_key on key_tokens (key_id)`,

  sql`create table channels (
    name text primary key, entry text not null, sealed text, last4 text not null, created_ms bigint not null, updated_ms bigint not null,
    revision bigint not null)`,
  sql`create table prices (
    id text primary key, provider text not null, model text not null, from_ms bigint not null, rates text not null, note text,
    created_ms bigint not null)`,
  sql`create unique index prices_what on prices (provider, model, from_ms)`,

  sql`create table audit (
    id text primary key, at_ms bigint not null, actor_kind text not null, actor text not null, address text, action text not null,
    subject text not null, detail text not null)`,

  withoutRowid(sql`create table receipts (
    id text primary key, request_id text, key_id text not null, operation text not null, model text not null, channel text,
    upstream_model text, stream integer not null, status integer not null, state text not null, error text, started_ms bigint not null,
    took_ms bigint not null, first_content_ms bigint, prompt_tokens bigint, cached_tokens bigint, completion_tokens bigint,
    reasoning_tokens bigint, audio_ms bigint, characters bigint, generated_tokens bigint, billed_nanos bigint,
    hedge_waste_nanos bigint not null, cost_uncertain integer not null, estimated integer not null, partial integer not null,
    attempt_after_ms bigint, attempt_took_ms bigint, plan text)`),
  sql`create index receipts_key on receipts (key_id, id)`,
  sql`create index receipts_request on receipts (request_id, id) where request_id is not null`,
  withoutRowid(sql`create table attempts (
    receipt_id text not null, number integer not null, channel text not null, model text not null, after_ms bigint not null,
    took_ms bigint not null, outcome text not null, status integer, error text, blame text, hedge integer not null, prompt_tokens bigint,
    cached_tokens bigint, completion_tokens bigint, reasoning_tokens bigint, audio_ms bigint, characters bigint, nanos bigint,
    cost_uncertain integer not null, estimated integer not null, primary key (receipt_id, number))`),

  withoutRowid(sql`create table usage_hours (
    key_id text not null, at_ms bigint not null, model text not null, channel text not null, operation text not null, calls bigint not null,
    failed bigint not null, prompt_tokens bigint not null, cached_tokens bigint not null, completion_tokens bigint not null,
    reasoning_tokens bigint not null, audio_ms bigint not null, characters bigint not null, nanos bigint not null, unpriced bigint not null,
    uncertain bigint not null, estimated bigint not null, primary key (key_id, at_ms, model, channel, operation))`),
  sql`create index usage_hours_at on usage_hours (at_ms)`,
  withoutRowid(sql`create table usage_days (
    key_id text not null, at_ms bigint not null, model text not null, channel text not null, operation text not null, calls bigint not null,
    failed bigint not null, prompt_tokens bigint not null, cached_tokens bigint not null, completion_tokens bigint not null,
    reasoning_tokens bigint not null, audio_ms bigint not null, characters bigint not null, nanos bigint not null, unpriced bigint not null,
    uncertain bigint not null, estimated bigint not null, primary key (key_id, at_ms, model, channel, operation))`),
  sql`create index usage_days_at on usage_days (at_ms)`,
  sql`create table journals (name text primary key, segment bigint not null, position bigint not null)`,

  sql`create table budget_locks (key_id text primary key, turns bigint not null)`,
  sql`create table budget_holds (
    budget text not null, key_id text not null, models text, except_models text not null, holder text not null, since_ms bigint not null,
    nanos bigint not null, expires_ms bigint not null, primary key (budget, holder))`,
  sql`create index budget_holds_key on budget_holds (key_id)`,
  sql`create index budget_holds_holder on budget_holds (holder)`,

  sql`create table accounts (
    name text primary key, role text not null, password_hash text not null, created_ms bigint not null, disabled_ms bigint)`,
  sql`create table sessions (
    digest text primary key, account text not null, csrf text not null, created_ms bigint not null, seen_ms bigint not null)`,
  sql`create table admin_tokens (
    digest text primary key, name text not null, role text not null, last4 text not null, created_ms bigint not null, revoked_ms bigint)`,
  sql`create unique index admin_tokens_name on admin_tokens (name)`,
  sql`create table bootstrap (id integer primary key, digest text not null, expires_ms bigint not null, used_ms bigint)`,

  sql`create table shared_counts (id text not null, slot bigint not null, used bigint not null, primary key (id, slot))`,
  sql`create table shared_holds (id text not null, call text not null, expires_ms bigint not null, primary key (id, call))`,
  sql`create table shared_hints (scope text primary key, cause text not null, until_ms bigint not null)`,
  sql`create table processes (id text primary key, seen_ms bigint not null)`,
];

/** Tables `without rowid` keep their rows in the order of the primary key. That saves SQLite a second B-tree: a fifth of the disk. */
function withoutRowid(table: Sql): SqlByEngine {
  return { sqlite: sql`${table} without rowid`, postgres: table };
}
