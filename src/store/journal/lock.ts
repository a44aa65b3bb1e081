import { Database, SQLiteError } from "bun:sqlite";
import { closeSync, openSync } from "node:fs";

/** Held until it is released or its process dies, however it dies. */
export interface FileLock {
  release(): void;
}

/**
 * Takes a lock on a file, or returns null where a living process, or somebody else in this one, has it. An empty SQLite
 * database in an exclusive transaction is the lock of the operating system that this runtime has; nothing is ever written to
 * the file. Nobody else may open it: closing it would set the lock free.
 */
export function acquireLock(file: string): FileLock | null {
  makePrivate(file);
  const database = new Database(file, { readwrite: true, create: true });
  try {
    database.run("pragma busy_timeout = 0");
    database.run("begin exclusive");
  } catch (error) {
    database.close();
    if (error instanceof SQLiteError && error.code?.startsWith("SQLITE_BUSY")) return null;
    throw error;
  }
  return { release: () => database.close() };
}

function makePrivate(file: string): void {
  try {
    closeSync(openSync(file, "wx", 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}
