import type { ReceiptQuery, ReceiptStorage } from "../gateway/storage.ts";
import type { Receipt } from "../usage/receipt.ts";
import type { Database } from "./database.ts";
import { entryOf, type ReceiptEntry } from "./receipt-entry.ts";
import { attemptRows, name, receiptOfRow, receiptRows, type ReceiptRow } from "./receipt-row.ts";
import { joinSql, sql, type Sql, type Value } from "./sql.ts";
import { receiptIdIn } from "./stored-request.ts";
import { pageRows } from "./stored-text.ts";
import { usageOf } from "./usage-question.ts";

export function makeReceiptStorage(database: Database): ReceiptStorage {
  return {
    find: async (id) => {
      const asked = name(id);
      const own = await receiptsWhere(database, sql`id = ${asked}`, 1);
      return own[0] ?? (await newestOfRequest(database, asked));
    },
    list: async (query) => receiptsWhere(database, conditionsOf(query), pageRows(query.limit)),
    usage: async (query) => usageOf(database, query),
  };
}

/** A client may have named a request of its own as we had named one. */
async function newestOfRequest(database: Database, requestId: string): Promise<Receipt | null> {
  const chosen = await receiptsWhere(database, sql`request_id = ${requestId}`, 1);
  const id = receiptIdIn(requestId);
  const made = id === null ? [] : await receiptsWhere(database, sql`id = ${id} and request_id is null`, 1);
  return [...chosen, ...made].sort((one, other) => (one.id < other.id ? 1 : -1))[0] ?? null;
}

function conditionsOf(query: ReceiptQuery): Sql {
  const conditions = [sql`1 = 1`];
  if (query.keyId !== null) conditions.push(sql`key_id = ${name(query.keyId)}`);
  if (query.model !== null) conditions.push(sql`model = ${name(query.model)}`);
  if (query.channel !== null) conditions.push(sql`channel = ${name(query.channel)}`);
  if (query.state !== null) conditions.push(sql`state = ${name(query.state)}`);
  // The id tells the time and has the index; the start of the call may differ from it by a moment.
  if (query.sinceMs !== null) conditions.push(sql`id >= ${idAt(query.sinceMs - leewayMs)} and started_ms >= ${Math.ceil(query.sinceMs)}`);
  if (query.untilMs !== null) conditions.push(sql`id < ${idAt(query.untilMs + leewayMs)} and started_ms < ${Math.ceil(query.untilMs)}`);
  if (query.before !== null) conditions.push(sql`id < ${name(query.before)}`);
  return joinSql(conditions, sql` and `);
}

/** Newest first. */
async function receiptsWhere(database: Database, condition: Sql, limit: number): Promise<readonly Receipt[]> {
  const rows = await database.all<ReceiptRow>(
    sql`select ${receiptRows.columns} from receipts where ${condition} order by id desc limit ${limit}`,
  );
  if (rows.length === 0) return [];
  const ids = joinSql(
    rows.map((row) => sql`${String(row["id"])}`),
    sql`, `,
  );
  const attempts = Map.groupBy(
    await database.all<ReceiptRow>(
      sql`select ${attemptRows.columns} from attempts where receipt_id in (${ids}) order by receipt_id, number`,
    ),
    (attempt) => attempt["receipt_id"],
  );
  return rows.map((row) => receiptOfRow(row, attempts.get(row["id"]) ?? []));
}

export async function addReceipts(database: Database, receipts: readonly Receipt[]): Promise<readonly ReceiptEntry[]> {
  return addEntries(database, receipts.map(entryOf));
}

/** Writes receipts down, and returns those that were not there before. To be called in a transaction. */
export async function addEntries(database: Database, entries: readonly ReceiptEntry[]): Promise<readonly ReceiptEntry[]> {
  const added = await receiptRows.add(
    database,
    entries.map(({ row }) => row),
  );
  const fresh = added.length === entries.length ? entries : added.map((at) => entries[at]!);
  const attempts: (readonly Value[])[] = [];
  for (const entry of fresh) for (const attempt of entry.attempts) attempts.push(attempt);
  await attemptRows.add(database, attempts);
  return fresh;
}

/** What sorts before every UUIDv7 that is made from this moment on. */
export function idAt(ms: number): string {
  const hex = Math.trunc(Math.min(Math.max(0, ms), 2 ** 48 - 1))
    .toString(16)
    .padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}`;
}

const leewayMs = 60_000;
