import { Database, SQLiteError } from "bun:sqlite";
import { closeSync, openSync } from "node:fs";

/** Held until `release`, or until the process exits in any way. */
export interface FileLock {
  release(): void;
}

/**
 * Locks a file, or returns null if another process, or somebody else in this one, holds the lock. Bun has no flock, so that the
 * lock is an exclusive transaction on an empty SQLite database; nothing is ever written to the file. Nothing else may open the
 * file, because closing any descriptor of it would release the lock (POSIX).
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
