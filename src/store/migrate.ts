import { StorageError } from "../gateway/storage.ts";
import type { Database } from "./database.ts";
import { migrations as known, type Migration } from "./migrations/index.ts";
import { sql, Sql } from "./sql.ts";

export interface MigrateOptions {
  readonly migrations?: readonly Migration[];
  /** Called before each step on a store that already has data, to back it up. Several processes may call it at the same time. */
  readonly beforeStep?: (migration: Migration) => Promise<void>;
  readonly nowMs?: () => number;
}

/**
 * Applies the pending migrations and returns those that this process applied: to a new store in one transaction, which waits for the
 * disk once, else each in a transaction of its own. Several processes may migrate at the same time: each step is applied by one of
 * them. Rejects if the store is too new for this version.
 */
export async function migrate(
  database: Database,
  { migrations = known, beforeStep = async () => {}, nowMs = Date.now }: MigrateOptions = {},
): Promise<readonly Migration[]> {
  // A new store has nothing to back up.
  const hasData = (await newestStep(database)) > 0;
  const steps = await pending(database, migrations);
  if (!hasData) return apply(steps, database, migrations, nowMs);
  const taken: Migration[] = [];
  for (const step of steps) {
    await beforeStep(step);
    taken.push(...(await apply([step], database, migrations, nowMs)));
  }
  return taken;
}

/**
 * The migrations that this version knows and the store does not have yet. Rejects if the store is too new for this version, and
 * says so of `shownAs`.
 */
export async function pending(
  database: Database,
  migrations: readonly Migration[] = known,
  shownAs = "The store",
): Promise<readonly Migration[]> {
  const applied = await appliedSteps(database);
  rejectTooNew(applied, migrations, database.engine, shownAs);
  const numbers = new Set(applied.map(({ number }) => number));
  return migrations.filter(({ number }) => !numbers.has(number));
}

/** The number of the newest applied migration; 0 for a new store, and for a database that is not a store. */
export async function newestStep(database: Database): Promise<number> {
  return Math.max(0, ...(await appliedSteps(database)).map(({ number }) => number));
}

/** Applies the steps in one transaction, except those that another process applied first. Returns those that it applied. */
async function apply(
  steps: readonly Migration[],
  database: Database,
  migrations: readonly Migration[],
  nowMs: () => number,
): Promise<readonly Migration[]> {
  return database.transaction(async (store) => {
    // SQLite needs no lock of its own: it allows one writer at a time.
    if (store.engine === "postgres") await store.all(sql`select pg_advisory_xact_lock(${lockId})`);
    await store.run(
      sql`create table if not exists migrations (number integer primary key, name text not null, at_ms bigint not null, reads integer not null)`,
    );
    const applied = await store.all<AppliedStep>(sql`select number, name, at_ms, reads from migrations`);
    rejectTooNew(applied, migrations, store.engine);
    const missing = steps.filter(({ number }) => !applied.some((one) => one.number === number));
    for (const { number, name, reads, statements } of missing) {
      for (const statement of statements) await store.run(statement instanceof Sql ? statement : statement[store.engine]);
      await store.run(sql`insert into migrations (number, name, at_ms, reads) values (${number}, ${name}, ${nowMs()}, ${reads})`);
    }
    return missing;
  });
}

interface AppliedStep {
  readonly number: number;
  readonly name: string;
  readonly at_ms: number;
  readonly reads: number;
}

async function appliedSteps(database: Database): Promise<readonly AppliedStep[]> {
  const tables =
    database.engine === "sqlite"
      ? sql`select name from sqlite_schema where type = 'table' and name = 'migrations'`
      : sql`select tablename as name from pg_catalog.pg_tables where schemaname = current_schema() and tablename = 'migrations'`;
  if ((await database.all(tables)).length === 0) return [];
  return database.all<AppliedStep>(sql`select number, name, at_ms, reads from migrations`);
}

function rejectTooNew(
  applied: readonly AppliedStep[],
  migrations: readonly Migration[],
  engine: Database["engine"],
  shownAs = "The store",
): void {
  const own = migrations.at(-1)?.number ?? 0;
  const tooNew = applied.find(({ reads }) => reads > own);
  if (tooNew === undefined) return;
  const newest = Math.max(...applied.map(({ number }) => number));
  const back =
    engine === "sqlite"
      ? `\`sluice restore\` with a backup from before the upgrade; a copy was made beside the store, as sluice.db.before-${paddedNumber(own + 1)}`
      : "`pg_restore` with a dump from before the upgrade, while all gateways are stopped";
  throw new StorageError(
    "damaged",
    `${shownAs} was upgraded by a newer version of Sluice on ${dayOf(tooNew.at_ms)}: its schema is ${newest}, this version knows ${own}, and step ` +
      `${tooNew.number} ("${tooNew.name}") cannot be used by versions that know less than ${tooNew.reads}. Nothing was changed. Run the newer ` +
      `version again, or go back: ${back}. What was stored since then is lost by going back. docs/upgrades.md describes both.`,
  );
}

/** As in the names of files: 0002. */
export function paddedNumber(number: number): string {
  return String(number).padStart(4, "0");
}

/** The table is read before anything is known about the version that wrote it. */
function dayOf(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? "an unknown day" : date.toISOString().slice(0, 10);
}

/** An arbitrary advisory lock id that no other program is likely to use. */
const lockId = 7_305_518_231;
