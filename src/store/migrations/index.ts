import type { SqlByEngine } from "../database.ts";
import { sql, type Sql } from "../sql.ts";
import { initialSchema } from "./0001-initial-schema.ts";
import { sumsByTime } from "./0002-sums-by-time.ts";
import { groups } from "./0005-groups.ts";
import { receiptsByDay } from "./0007-receipts-by-day.ts";
import { outcomes } from "./0009-outcomes.ts";
import { sumsOfEverybody } from "./0010-sums-of-everybody.ts";

/** One migration of the schema. A released migration is never changed; a mistake in it is fixed by the next one. */
export interface Migration {
  readonly number: number;
  readonly name: string;
  /**
   * The oldest version that still works on the migrated schema, given by the newest migration that it knows. During a rolling
   * upgrade old processes keep running, and restart, on the new schema. A migration that only adds something has a lower number
   * than its own; one that removes something has its own.
   */
  readonly reads: number;
  readonly statements: readonly (Sql | SqlByEngine)[];
}

/** A process that is short of a budget marks the holds of others. Few rows are marked, and each process looks for its own twice a second. */
const wantedHolds: readonly Sql[] = [
  sql`alter table budget_holds add column wanted integer not null default 0`,
  sql`create index budget_holds_wanted on budget_holds (holder) where wanted = 1`,
];

/** Why an answer may be less than its client expects although the call succeeded. */
const receiptWarnings: readonly Sql[] = [sql`alter table receipts add column warning text`];

/** Sessions of people who signed in with a provider have no account, and tokens of issuers can be blocked by their subject. */
const signIn: readonly Sql[] = [
  sql`alter table sessions add column role text`,
  sql`alter table sessions add column group_id text`,
  sql`alter table sessions add column issuer text`,
  sql`alter table sessions add column subject text`,
  sql`create table blocked_subjects (
    issuer text not null, subject text not null, created_ms bigint not null, primary key (issuer, subject))`,
];

/** Times to first content of streams, counted in buckets. Calls from before are not in it, nor those that earlier versions still store. */
const firstContentColumns = sql`
  at_ms bigint not null, operation text not null, ms_10 bigint not null, ms_15 bigint not null, ms_20 bigint not null,
  ms_30 bigint not null, ms_50 bigint not null, ms_70 bigint not null, ms_100 bigint not null, ms_150 bigint not null,
  ms_200 bigint not null, ms_300 bigint not null, ms_500 bigint not null, ms_700 bigint not null, ms_1000 bigint not null,
  ms_1500 bigint not null, ms_2000 bigint not null, ms_3000 bigint not null, ms_5000 bigint not null, ms_7000 bigint not null,
  ms_10000 bigint not null, ms_15000 bigint not null, ms_20000 bigint not null, ms_30000 bigint not null, ms_60000 bigint not null,
  ms_120000 bigint not null, ms_more bigint not null, primary key (at_ms, operation)`;
const firstContents: readonly SqlByEngine[] = [
  {
    sqlite: sql`create table first_content_hours (${firstContentColumns}) without rowid`,
    postgres: sql`create table first_content_hours (${firstContentColumns})`,
  },
];

/** What is below a group is asked for by every request of its administrators, and by every group that moves. */
const groupsByParent: readonly Sql[] = [sql`create index key_groups_parent on key_groups (parent) where deleted_ms is null`];

/** In order and without gaps. The names are stored in the database. */
export const migrations: readonly Migration[] = [
  { number: 1, name: "beginning", reads: 1, statements: initialSchema },
  { number: 2, name: "sums by time", reads: 1, statements: sumsByTime },
  { number: 3, name: "wanted holds", reads: 1, statements: wantedHolds },
  { number: 4, name: "receipt warnings", reads: 1, statements: receiptWarnings },
  { number: 5, name: "groups", reads: 1, statements: groups },
  { number: 6, name: "sign-in", reads: 1, statements: signIn },
  { number: 7, name: "receipts by day", reads: 1, statements: receiptsByDay },
  { number: 8, name: "first contents", reads: 1, statements: firstContents },
  { number: 9, name: "outcomes", reads: 1, statements: outcomes },
  { number: 10, name: "sums of everybody", reads: 1, statements: sumsOfEverybody },
  { number: 11, name: "groups by parent", reads: 1, statements: groupsByParent },
];
