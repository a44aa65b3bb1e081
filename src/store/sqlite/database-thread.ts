import { parentPort, workerData } from "node:worker_threads";
import { StorageError } from "../../gateway/storage.ts";
import { Sql } from "../sql.ts";
import { SqliteConnection } from "./sqlite-connection.ts";
import { openedForWriting } from "./sqlite.ts";
import type { ThreadOptions, ThreadReply, ThreadRequest } from "./thread-message.ts";

/** The worker of a `ThreadDatabase`: runs its requests one after the other. */
const { file, busyMs, readonly } = workerData as ThreadOptions;
let connection: SqliteConnection | null = null;

parentPort?.on("message", (request: ThreadRequest) => parentPort?.postMessage(replyTo(request), []));

function replyTo(request: ThreadRequest): ThreadReply {
  const { id } = request;
  try {
    return { id, value: done(request) };
  } catch (error) {
    const { kind, message } =
      error instanceof StorageError ? error : new StorageError("unavailable", `The store's thread failed: ${String(error)}.`);
    return { id, error: { kind, message } };
  }
}

function done({ action, texts, values }: ThreadRequest): unknown {
  if (action === "close") {
    connection?.close();
    connection = null;
    return undefined;
  }
  // Opening is tried again with each request, because the reason of a failure may go away.
  connection ??= readonly ? SqliteConnection.open(file, { readonly, busyMs }) : openedForWriting(file, { busyMs });
  if (action === "all" || action === "run") return connection[action](new Sql(texts, values));
  connection[action]();
  return undefined;
}
