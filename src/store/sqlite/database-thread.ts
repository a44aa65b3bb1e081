import { parentPort, workerData } from "node:worker_threads";
import { StorageTrouble } from "../../gateway/storage.ts";
import { Sql } from "../sql.ts";
import { SqliteConnection } from "./sqlite-connection.ts";
import { openedForWriting } from "./sqlite.ts";
import type { ThreadOptions, ThreadReply, ThreadRequest } from "./thread-message.ts";

/** The other end of a `ThreadDatabase`: does what it is asked, one after the other. */
const { file, busyMs, readonly } = workerData as ThreadOptions;
let connection: SqliteConnection | null = null;

parentPort?.on("message", (request: ThreadRequest) => parentPort?.postMessage(replyTo(request), []));

function replyTo(request: ThreadRequest): ThreadReply {
  const { id } = request;
  try {
    return { id, value: done(request) };
  } catch (error) {
    const { kind, message } =
      error instanceof StorageTrouble ? error : new StorageTrouble("unavailable", `The store's thread failed: ${String(error)}.`);
    return { id, trouble: { kind, message } };
  }
}

function done({ action, texts, values }: ThreadRequest): unknown {
  if (action === "close") {
    connection?.close();
    connection = null;
    return undefined;
  }
  // A store that could not be opened may be able to later.
  connection ??= readonly ? SqliteConnection.open(file, { readonly, busyMs }) : openedForWriting(file, { busyMs });
  if (action === "all" || action === "run") return connection[action](new Sql(texts, values));
  connection[action]();
  return undefined;
}
