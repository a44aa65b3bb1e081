import type { Database } from "./database.ts";
import { dropPartitions, mixedPartitions } from "./postgres/receipt-partitions.ts";
import { idAt } from "./receipts/receipt-conditions.ts";
import { dayMs } from "./receipts/usage-sums.ts";
import { nameSql, sql, type Sql } from "./sql.ts";

export interface Retention {
  /** How long receipts are kept; null keeps them forever. */
  readonly receiptsMs: number | null;
  /** How long hourly sums are kept; null keeps them forever. Daily sums are never deleted. */
  readonly hoursMs: number | null;
  readonly wallMs: number;
}

export interface RetentionResult {
  /** Whole days of receipts, of which PostgreSQL does not say how many they were. */
  readonly days: number;
  readonly receipts: number;
  /** Hourly sums of usage. */
  readonly hours: number;
}

/** Deletes expired rows in small batches, so that other writers do not have to wait long. On PostgreSQL, days of receipts are dropped. */
export async function retain(database: Database, retention: Retention): Promise<RetentionResult> {
  try {
    return await deleteExpired(database, retention);
  } finally {
    // The next round is an hour away, and a thread that waits for it would hold memory and descriptors meanwhile.
    database.rest?.();
  }
}

async function deleteExpired(database: Database, { receiptsMs, hoursMs, wallMs }: Retention): Promise<RetentionResult> {
  const { days, receipts } = receiptsMs === null ? { days: 0, receipts: 0 } : await forgetReceipts(database, wallMs - receiptsMs);
  // These index the receipts that were just deleted. They are few, so that one statement is enough.
  if (days + receipts > 0) await database.run(sql`delete from stray_receipts where id < ${idAt(wallMs - receiptsMs!)}`);
  if (hoursMs === null) return { days, receipts, hours: 0 };
  const beforeMs = Math.trunc(wallMs - hoursMs);
  const hours = await inBatches(async () => deleteHours(database, beforeMs));
  const ofOwners = await inBatches(async () => deleteOwnerHours(database, beforeMs));
  for (const [table, key] of otherHours) await inBatches(async () => deleteSums(database, table, key, beforeMs));
  return { days, receipts, hours: hours + ofOwners };
}

async function forgetReceipts(database: Database, beforeMs: number): Promise<Pick<RetentionResult, "days" | "receipts">> {
  const before = idAt(beforeMs);
  if (database.engine === "sqlite") return { days: 0, receipts: await inBatches(async () => deleteReceipts(database, before, sql``)) };
  const days = await dropPartitions(database, beforeMs - (beforeMs % dayMs));
  let receipts = 0;
  for (const partition of mixedPartitions) {
    if (await exists(database, `receipts_${partition}`)) {
      receipts += await inBatches(async () => deleteReceipts(database, before, nameSql(`_${partition}`)));
    }
  }
  return { days, receipts };
}

/** `receipts_before` is dropped some day. */
async function exists(database: Database, table: string): Promise<boolean> {
  const [row] = await database.all<{ readonly found: string | null }>(sql`select cast(to_regclass(${table}) as text) as found`);
  return row?.found != null;
}

/** Repeats a step until it deletes less than a full batch. It pauses at least as long as it worked, so that other writers get their turn. */
async function inBatches(step: () => Promise<number>): Promise<number> {
  let total = 0;
  for (;;) {
    const beganMs = performance.now();
    const done = await step();
    total += done;
    if (done < batchRows) return total;
    const pauseMs = Math.max(pauseMinMs, performance.now() - beganMs);
    await new Promise<void>((resolve) => void setTimeout(resolve, pauseMs));
  }
}

/** `partition`: the end of a partition's name; empty for all of them. */
async function deleteReceipts(database: Database, before: string, partition: Sql): Promise<number> {
  return database.transaction(async (inside) => {
    const last = await inside.all<{ readonly id: string }>(
      sql`select id from receipts${partition} where id < ${before} order by id limit 1 offset ${batchRows - 1}`,
    );
    const old = last[0] === undefined ? sql`< ${before}` : sql`<= ${last[0].id}`;
    await inside.run(sql`delete from attempts${partition} where receipt_id ${old}`);
    return inside.run(sql`delete from receipts${partition} where id ${old}`);
  });
}

async function deleteHours(database: Database, beforeMs: number): Promise<number> {
  return database.run(sql`delete from usage_hours where (key_id, at_ms, model, channel, operation) in
    (select key_id, at_ms, model, channel, operation from usage_hours where at_ms < ${beforeMs} order by at_ms limit ${batchRows})`);
}

async function deleteOwnerHours(database: Database, beforeMs: number): Promise<number> {
  return database.run(sql`delete from owner_hours where (owner_id, at_ms, model, channel, tags, operation) in
    (select owner_id, at_ms, model, channel, tags, operation from owner_hours where at_ms < ${beforeMs} order by at_ms limit ${batchRows})`);
}

/** The other hourly sums, and their primary keys. */
const otherHours = [
  [sql`outcome_hours`, sql`at_ms, owner_id, model, channel, operation`],
  [sql`model_time_hours`, sql`at_ms, owner_id, model, kind`],
] as const;

async function deleteSums(database: Database, table: Sql, key: Sql, beforeMs: number): Promise<number> {
  return database.run(sql`delete from ${table} where (${key}) in
    (select ${key} from ${table} where at_ms < ${beforeMs} order by at_ms limit ${batchRows})`);
}

const batchRows = 500;
const pauseMinMs = 5;
