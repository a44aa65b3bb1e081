import type { Database } from "./database.ts";
import { idAt } from "./receipts/receipt-conditions.ts";
import { sql } from "./sql.ts";

export interface Retention {
  /** How long receipts are kept; null keeps them forever. */
  readonly receiptsMs: number | null;
  /** How long hourly sums are kept; null keeps them forever. Daily sums are never deleted. */
  readonly hoursMs: number | null;
  readonly wallMs: number;
}

export interface RetentionResult {
  readonly receipts: number;
  readonly hours: number;
}

/** Deletes expired rows in small batches, so that other writers do not have to wait long. */
export async function retain(database: Database, { receiptsMs, hoursMs, wallMs }: Retention): Promise<RetentionResult> {
  const receipts = receiptsMs === null ? 0 : await inBatches(async () => deleteReceipts(database, idAt(wallMs - receiptsMs)));
  // These index the receipts that were just deleted. They are few, so that one statement is enough.
  if (receipts > 0) await database.run(sql`delete from stray_receipts where id < ${idAt(wallMs - receiptsMs!)}`);
  if (hoursMs === null) return { receipts, hours: 0 };
  const beforeMs = Math.trunc(wallMs - hoursMs);
  const hours = await inBatches(async () => deleteHours(database, beforeMs));
  return { receipts, hours: hours + (await inBatches(async () => deleteOwnerHours(database, beforeMs))) };
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

async function deleteReceipts(database: Database, before: string): Promise<number> {
  return database.transaction(async (inside) => {
    const last = await inside.all<{ readonly id: string }>(
      sql`select id from receipts where id < ${before} order by id limit 1 offset ${batchRows - 1}`,
    );
    const old = last[0] === undefined ? sql`< ${before}` : sql`<= ${last[0].id}`;
    await inside.run(sql`delete from attempts where receipt_id ${old}`);
    return inside.run(sql`delete from receipts where id ${old}`);
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

const batchRows = 500;
const pauseMinMs = 5;
