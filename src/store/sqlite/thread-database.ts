import type { SqliteSettings } from "./sqlite-connection.ts";
import { SerialDatabase } from "./serial-database.ts";
import { ThreadConnection } from "./thread-connection.ts";

/**
 * One SQLite file, worked on in a thread of its own: however long a statement takes, this thread goes on. What was under
 * way when that thread is lost is rejected as `unavailable`, and the next statement starts a new one.
 */
export class ThreadDatabase extends SerialDatabase {
  constructor(
    readonly file: string,
    { busyMs = 5_000, readonly = false }: SqliteSettings = {},
  ) {
    super(new ThreadConnection({ file, busyMs, readonly }));
  }
}
