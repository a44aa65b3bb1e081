import type { Database } from "../database.ts";
import { idAt } from "../receipts/receipt-conditions.ts";
import { dayMs } from "../receipts/usage-sums.ts";
import { Sql, sql } from "../sql.ts";

/**
 * On PostgreSQL each day of receipts is a partition, which is dropped as a whole. Receipts whose day has none, because a clock was
 * wrong or because no gateway ran on that day, are in the default partition; those from before partitions existed are in
 * `receipts_before`. Attempts are divided in the same way.
 */
interface PartitionedTable {
  readonly name: string;
  readonly column: string;
}

const tables: readonly PartitionedTable[] = [
  { name: "receipts", column: "id" },
  { name: "attempts", column: "receipt_id" },
];

/** Partitions whose receipts are deleted row by row: their rows are of many days. */
export const mixedPartitions = ["before", "default"] as const;

/** Makes the partitions of today and the next days. Several processes may do so at once. */
export async function makePartitions(database: Database, wallMs: number): Promise<void> {
  const today = wallMs - (wallMs % dayMs);
  const days = Array.from({ length: daysAhead }, (_, at) => today + at * dayMs);
  for (const table of tables) {
    if ((await missingOf(database, table, days)).length === 0) continue;
    await inTurn(database, async (inside) => {
      // Another process may have made some by now.
      for (const dayFromMs of await missingOf(inside, table, days)) await makePartition(inside, table, dayFromMs);
    });
  }
}

/** Drops the partitions that hold only receipts from before a time, and returns how many days of receipts that were. */
export async function dropPartitions(database: Database, beforeMs: number): Promise<number> {
  const before = idAt(beforeMs);
  let dropped = 0;
  for (const { name } of tables) {
    for (const partition of await partitionsOf(database, name)) {
      if (partition.to === null || partition.to > before) continue;
      await inTurn(database, async (inside) => inside.run(statement(`drop table if exists ${partition.name}`)));
      if (name === "receipts") dropped += 1;
    }
  }
  return dropped;
}

interface ReceiptPartition {
  readonly name: string;
  /** From this id on; empty: from the first one on. */
  readonly from: string;
  /** Up to this id, exclusive; null for the default partition. */
  readonly to: string | null;
}

async function partitionsOf(database: Database, table: string): Promise<readonly ReceiptPartition[]> {
  const rows = await database.all<{ readonly name: string; readonly bounds: string }>(sql`
    select child.relname as name, pg_get_expr(child.relpartbound, child.oid) as bounds
    from pg_inherits join pg_class as child on child.oid = pg_inherits.inhrelid join pg_class as parent on parent.oid = pg_inherits.inhparent
    where parent.relname = ${table} and parent.relnamespace = current_schema()::regnamespace
      and child.relnamespace = parent.relnamespace`);
  return rows.flatMap(({ name, bounds }) => {
    const [, from = "", to = null] = /FROM \((?:MINVALUE|'([0-9a-f-]+)')\) TO \('([0-9a-f-]+)'\)/.exec(bounds) ?? [];
    return namePattern.test(name) ? [{ name, from, to }] : [];
  });
}

async function missingOf(database: Database, { name }: PartitionedTable, days: readonly number[]): Promise<readonly number[]> {
  const present = await partitionsOf(database, name);
  return days.filter((dayFromMs) => !present.some((partition) => isIn(partition, dayFromMs)));
}

function isIn({ from, to }: ReceiptPartition, dayFromMs: number): boolean {
  return to !== null && from <= idAt(dayFromMs) && to >= idAt(dayFromMs + dayMs);
}

/** Made on its own and then attached, because that does not keep receipts from being written meanwhile. */
async function makePartition(inside: Database, { name, column }: PartitionedTable, dayFromMs: number): Promise<void> {
  const partition = `${name}_${new Date(dayFromMs).toISOString().slice(0, 10).replaceAll("-", "")}`;
  const [from, to] = [idAt(dayFromMs), idAt(dayFromMs + dayMs)];
  await inside.run(statement(`create table ${partition} (like ${name} including defaults including indexes)`));
  await inside.run(
    statement(`with early as (delete from ${name}_default where ${column} >= '${from}' and ${column} < '${to}' returning *)
    insert into ${partition} select * from early`),
  );
  await inside.run(statement(`alter table ${name} attach partition ${partition} for values from ('${from}') to ('${to}')`));
}

/** One process at a time. It gives up soon if a long query is in the way, because the writers of receipts would wait behind it. */
async function inTurn(database: Database, work: (inside: Database) => Promise<unknown>): Promise<void> {
  await database.transaction(async (inside) => {
    await inside.run(sql`set local lock_timeout = 1000`);
    await inside.all(sql`select pg_advisory_xact_lock(${lockId})`);
    await work(inside);
  });
}

/** Names and bounds cannot be parameters. They are made here, of digits and of names from above. */
function statement(text: string): Sql {
  return new Sql([text], []);
}

const namePattern = /^(receipts|attempts)_[a-z0-9]+$/;
/** Today and a week: partitions are there long before their day, also if no gateway runs for some days. */
const daysAhead = 8;
/** An arbitrary advisory lock id, beside that of migrations. */
const lockId = 7_305_518_232;
