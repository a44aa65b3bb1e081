import { parentPort, workerData } from "node:worker_threads";
import { StorageError } from "../../gateway/storage.ts";
import { Sql } from "../sql.ts";
import { BudgetTable } from "../tables/budget-table.ts";
import { SqlCounts } from "../tables/count-table.ts";
import { KeyTable } from "../tables/key-table.ts";
import { SerialDatabase } from "./serial-database.ts";
import { SqliteConnection } from "./sqlite-connection.ts";
import { openedForWriting } from "./sqlite.ts";
import type { ThreadOptions, ThreadReply, ThreadRequest, ThreadTables, ThreadTransaction } from "./thread-message.ts";

/** The worker of a `ThreadDatabase`: runs its requests one after the other. */
const { file, busyMs, readonly } = workerData as ThreadOptions;
let connection: SqliteConnection | null = null;
/** For queries outside of a transaction, which must not see what it has not committed. */
let reader: SqliteConnection | null = null;
let tables: ThreadTables | null = null;
/** The id of the audit entry that the current request writes. */
let auditId: string | null = null;

parentPort?.on("message", (request: ThreadRequest) => void replyTo(request).then((reply) => parentPort?.postMessage(reply, [])));

async function replyTo(request: ThreadRequest): Promise<ThreadReply> {
  const { id } = request;
  try {
    return { id, value: await done(request) };
  } catch (error) {
    const { kind, message, isBusy } =
      error instanceof StorageError ? error : new StorageError("unavailable", `The store's thread failed: ${String(error)}.`);
    return { id, error: { kind, message, isBusy } };
  }
}

/** Statements wait for nothing but the disk and other writers, so a request has been dealt with before the next one is looked at. */
function done(request: ThreadRequest): unknown {
  if (request.action === "close") {
    reader?.close();
    connection?.close();
    connection = reader = tables = null;
    return undefined;
  }
  // Opening is tried again with each request, because the reason of a failure may go away.
  connection ??= readonly ? SqliteConnection.open(file, { readonly, busyMs }) : openedForWriting(file, { busyMs });
  if (request.action === "transact") return transacted(connection, request);
  const { action, texts, values } = request;
  if (action === "read") {
    if (!readonly) reader ??= SqliteConnection.open(file, { readonly: true, busyMs });
    return (reader ?? connection).all(new Sql(texts, values));
  }
  const connected = connection;
  if (action === "all") return soon(connected, () => connected.all(new Sql(texts, values)));
  if (action === "run") return soon(connected, () => connected.run(new Sql(texts, values)));
  if (action === "begin") soon(connected, () => connected.begin());
  else connected[action]();
  return undefined;
}

async function transacted(
  connected: SqliteConnection,
  { table: name, method, given, auditId: givenId }: ThreadTransaction,
): Promise<unknown> {
  tables ??= tablesOf(serially(connected));
  auditId = givenId;
  const table = tables[name] as Readonly<Record<string, (...given: readonly unknown[]) => Promise<unknown>>>;
  // What is counted for a minute need not outlive the machine, and all other writers would wait for the disk with it.
  const syncs = name !== "counts";
  if (!syncs) connected.syncCommits(false);
  try {
    return await table[method]!(...given);
  } finally {
    if (!syncs) connected.syncCommits(true);
  }
}

function tablesOf(database: SerialDatabase): ThreadTables {
  const context = { wallMs: Date.now, newId: () => auditId ?? Bun.randomUUIDv7() };
  return { keys: new KeyTable(database, context), budgets: new BudgetTable(database, context), counts: new SqlCounts(database, context) };
}

function serially(connected: SqliteConnection): SerialDatabase {
  return new SerialDatabase({
    all: (query) => soon(connected, () => connected.all(query)),
    run: (query) => soon(connected, () => connected.run(query)),
    begin: () => soon(connected, () => connected.begin()),
    commit: () => connected.commit(),
    rollback: () => connected.rollback(),
    close: () => connected.close(),
  });
}

/** Fails soon where somebody else is writing. Whoever sent the request sends it again, and queries come in between. */
function soon<T>(connected: SqliteConnection, work: () => T): T {
  return connected.inTransaction ? work() : connected.waitingOnly(Math.min(waitMs, busyMs), busyMs, work);
}

/** How long the thread waits for another writer at a time. */
const waitMs = 100;
