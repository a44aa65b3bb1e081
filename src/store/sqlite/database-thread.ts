import { parentPort, workerData } from "node:worker_threads";
import { StorageError } from "../../gateway/storage.ts";
import { Sql } from "../sql.ts";
import { SqlCounts } from "../tables/count-table.ts";
import { SerialDatabase } from "./serial-database.ts";
import { SqliteConnection } from "./sqlite-connection.ts";
import { openedForWriting } from "./sqlite.ts";
import type { ThreadCount, ThreadOptions, ThreadReply, ThreadRequest } from "./thread-message.ts";

/** The worker of a `ThreadDatabase`: runs its requests one after the other. */
const { file, busyMs, readonly } = workerData as ThreadOptions;
let connection: SqliteConnection | null = null;
let counts: SqlCounts | null = null;

parentPort?.on("message", (request: ThreadRequest) => void replyTo(request).then((reply) => parentPort?.postMessage(reply, [])));

async function replyTo(request: ThreadRequest): Promise<ThreadReply> {
  const { id } = request;
  try {
    return { id, value: await done(request) };
  } catch (error) {
    const { kind, message } =
      error instanceof StorageError ? error : new StorageError("unavailable", `The store's thread failed: ${String(error)}.`);
    return { id, error: { kind, message } };
  }
}

/** Statements wait for nothing but the disk and other writers, so a request has been dealt with before the next one is looked at. */
function done(request: ThreadRequest): unknown {
  if (request.action === "close") {
    connection?.close();
    connection = null;
    counts = null;
    return undefined;
  }
  // Opening is tried again with each request, because the reason of a failure may go away.
  connection ??= readonly ? SqliteConnection.open(file, { readonly, busyMs }) : openedForWriting(file, { busyMs });
  if (request.action === "count") return counted(connection, request);
  const { action, texts, values } = request;
  if (action === "all" || action === "run") return connection[action](new Sql(texts, values));
  connection[action]();
  return undefined;
}

/** What is counted for a minute need not outlive the machine, and all other writers would wait for the disk with it. */
async function counted(connected: SqliteConnection, request: ThreadCount): Promise<unknown> {
  counts ??= new SqlCounts(new SerialDatabase(connected), { wallMs: Date.now });
  const method = counts[request.method] as (...given: unknown[]) => Promise<unknown>;
  connected.syncCommits(false);
  try {
    return await method.apply(counts, [...request.arguments]);
  } finally {
    connected.syncCommits(true);
  }
}
