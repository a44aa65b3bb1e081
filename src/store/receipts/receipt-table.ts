import type { ReceiptQuery, ReceiptStorage } from "../../gateway/storage.ts";
import type { Receipt } from "../../usage/receipt.ts";
import type { Database } from "../database.ts";
import { conditionsOf, idAt, idBoundsOf } from "./receipt-conditions.ts";
import { firstContentsOf } from "./first-contents.ts";
import { entryOf, type ReceiptEntry } from "./receipt-entry.ts";
import { attemptRows, name, receiptOfRow, receiptRows, type ReceiptRow } from "./receipt-row.ts";
import { timeOfId } from "./receipt-minutes.ts";
import { receiptIdsOfKey } from "./receipts-of-key.ts";
import { joinSql, sql, type Sql, type Value } from "../sql.ts";
import { receiptIdIn } from "./stored-request.ts";
import { pageRows } from "../stored-text.ts";
import { modelTimesOf, outcomesFrom, outcomesOf, upstreamUseOf } from "./outcome-query.ts";
import { paymentsOf, usageOf } from "./usage-query.ts";

export function makeReceiptStorage(database: Database): ReceiptStorage {
  return {
    find: async (id) => {
      const asked = name(id);
      const own = await receiptsWhere(database, sql`id = ${asked}`, 1);
      return own[0] ?? (await ofRequest(database, asked));
    },
    namesakes: async ({ id, requestId }) => (await idsOfRequest(database, name(requestId))).filter((other) => other !== id),
    list: async (query) => {
      const limit = pageRows(query.limit);
      const { keyId } = query;
      if (keyId === null) return receiptsWhere(database, conditionsOf(query), limit);
      const ids = await receiptIdsOfKey(database, { ...query, keyId }, limit);
      return ids.length === 0 ? [] : receiptsWhere(database, sql`id in (${listOf(ids)})`, limit);
    },
    horizon: (query, count) => horizonOf(database, query, count),
    usage: async (query) => usageOf(database, query),
    firstContents: async (sinceMs, untilMs) => firstContentsOf(database, sinceMs, untilMs),
    outcomes: async (query) => outcomesOf(database, query),
    outcomesFrom: async () => outcomesFrom(database),
    modelTimes: async (query) => modelTimesOf(database, query),
    upstreamUse: async (sinceMs, untilMs) => upstreamUseOf(database, sinceMs, untilMs),
    payments: async (ownerId, sinceMs) => paymentsOf(database, name(ownerId), sinceMs ?? 0),
  };
}

/** Steps through the primary key. Only the time of the id is returned, because the receipt may be of somebody else. */
async function horizonOf(database: Database, query: ReceiptQuery, count: number): Promise<string | null> {
  const { sinceId, untilId } = idBoundsOf(query);
  const until = untilId === null ? sql`1 = 1` : sql`id < ${untilId}`;
  const [reached] = await database.all<{ readonly id: string }>(
    sql`select id from receipts where id >= ${sinceId} and ${until} order by id desc limit 1 offset ${Math.max(0, Math.trunc(count))}`,
  );
  const atMs = reached === undefined ? null : timeOfId(reached.id);
  return atMs === null ? null : `${idAt(atMs)}-7`;
}

/** A request id that the gateway created belongs to one call. It takes precedence over a client that sent the same id. */
async function ofRequest(database: Database, requestId: string): Promise<Receipt | null> {
  const id = receiptIdIn(requestId);
  const made = id === null ? [] : await receiptsWhere(database, sql`id = ${id} and request_id is null`, 1);
  return made[0] ?? (await receiptsWhere(database, sql`request_id = ${requestId}`, 1))[0] ?? null;
}

/** The ids of receipts that share a request id, newest first. */
async function idsOfRequest(database: Database, requestId: string): Promise<readonly string[]> {
  const chosen = await database.all<{ readonly id: string }>(
    sql`select id from receipts where request_id = ${requestId} order by id desc limit ${namesakesMax}`,
  );
  return chosen.map(({ id }) => id);
}

const namesakesMax = 50;

/** Newest first. */
async function receiptsWhere(database: Database, condition: Sql, limit: number): Promise<readonly Receipt[]> {
  const rows = await database.all<ReceiptRow>(
    sql`select ${receiptRows.columns} from receipts where ${condition} order by id desc limit ${limit}`,
  );
  if (rows.length === 0) return [];
  const ids = listOf(rows.map((row) => String(row["id"])));
  const attempts = Map.groupBy(
    await database.all<ReceiptRow>(
      sql`select ${attemptRows.columns} from attempts where receipt_id in (${ids}) order by receipt_id, number`,
    ),
    (attempt) => attempt["receipt_id"],
  );
  return rows.map((row) => receiptOfRow(row, attempts.get(row["id"]) ?? []));
}

function listOf(texts: readonly string[]): Sql {
  return joinSql(
    texts.map((text) => sql`${text}`),
    sql`, `,
  );
}

export async function addReceipts(database: Database, receipts: readonly Receipt[]): Promise<readonly ReceiptEntry[]> {
  return addEntries(database, receipts.map(entryOf));
}

/** Inserts receipts, and returns those that are new. Must run in a transaction. */
export async function addEntries(database: Database, entries: readonly ReceiptEntry[]): Promise<readonly ReceiptEntry[]> {
  const added = await receiptRows.add(database, entries.map(rowOf));
  const fresh = added.length === entries.length ? entries : added.map((at) => entries[at]!);
  await addAttempts(database, fresh);
  return fresh;
}

/**
 * Inserts receipts that are expected to be new, which is faster than finding out which of them are. Throws `DuplicateReceipt` if one
 * exists already; the transaction must then be rolled back.
 */
export async function addNewEntries(database: Database, entries: readonly ReceiptEntry[]): Promise<readonly ReceiptEntry[]> {
  if (database.runEach === undefined) return addEntries(database, entries);
  if ((await receiptRows.addAll(database, entries.map(rowOf))) !== entries.length) throw new DuplicateReceipt();
  await addAttempts(database, entries);
  return entries;
}

export class DuplicateReceipt extends Error {
  override readonly message = "One of the receipts already exists.";
}

function rowOf({ row }: ReceiptEntry): readonly Value[] {
  return row;
}

async function addAttempts(database: Database, entries: readonly ReceiptEntry[]): Promise<void> {
  const attempts: (readonly Value[])[] = [];
  for (const entry of entries) for (const attempt of entry.attempts) attempts.push(attempt);
  await attemptRows.addAll(database, attempts);
}
