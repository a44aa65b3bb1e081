import { SQLiteError } from "bun:sqlite";
import { StorageError } from "../../gateway/storage.ts";

/** Translates an SQLite error into what is wrong and how to fix it. SQLite's messages name tables and columns, never values. */
export function sqliteError(error: unknown, file: string): StorageError {
  if (error instanceof StorageError) return error;
  if (!(error instanceof SQLiteError)) return new StorageError("unavailable", `The store ${file} cannot be used: ${messageOf(error)}.`);
  const code = error.code ?? "";
  const reason = `${error.message}${code === "" ? "" : ` (${code})`}`;
  if (code === "SQLITE_CONSTRAINT_UNIQUE" || code === "SQLITE_CONSTRAINT_PRIMARYKEY") return new StorageError("conflict", error.message);
  if (diskFullCode.test(code)) {
    return new StorageError(
      "full",
      `The disk of the store ${file} is full: ${reason}. Free some space on it; the gateway then continues by itself.`,
    );
  }
  if (code.startsWith("SQLITE_READONLY") || code === "SQLITE_PERM") {
    return new StorageError(
      "full",
      `The store ${file} cannot be written: ${reason}. ` +
        "Make the file, its folder and its disk writable for the user that runs the gateway.",
    );
  }
  if (code.startsWith("SQLITE_CORRUPT") || code === "SQLITE_NOTADB" || code === "SQLITE_FORMAT") {
    return new StorageError(
      "damaged",
      `The store ${file} is damaged: ${reason}. Stop the gateway and restore a backup with \`sluice restore\`.`,
    );
  }
  if (lockedCode.test(code)) {
    return new StorageError("unavailable", `The store ${file} is locked by another process: ${reason}. Try again.`, true);
  }
  if (code.startsWith("SQLITE_CANTOPEN") || code === "SQLITE_AUTH") {
    return new StorageError(
      "unavailable",
      `The store ${file} cannot be opened: ${reason}. Check that its folder exists and belongs to the user that runs the gateway.`,
    );
  }
  if (code.startsWith("SQLITE_IOERR") || code === "SQLITE_NOMEM") {
    return new StorageError("unavailable", `The store ${file} cannot be read or written: ${reason}. Check its disk.`);
  }
  return new StorageError(
    "damaged",
    `The store ${file} does not match this version of Sluice: ${reason}. Run the version that wrote it, or restore a backup.`,
  );
}

/** A full disk can make any of these steps of a write fail. */
const diskFullCode = /^SQLITE_(FULL|IOERR_(WRITE|FSYNC|DIR_FSYNC|TRUNCATE|SHMSIZE|SHMOPEN))/;

/** Of the last, SQLite says that too many processes wanted to begin at the same moment. */
const lockedCode = /^SQLITE_(BUSY|LOCKED|PROTOCOL)/;

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
