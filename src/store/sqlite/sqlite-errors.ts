import { SQLiteError } from "bun:sqlite";
import { StorageTrouble } from "../../gateway/storage.ts";

/** What SQLite says, as what went wrong and how it is mended. Its messages name tables and columns, never values. */
export function sqliteError(error: unknown, file: string): StorageTrouble {
  if (error instanceof StorageTrouble) return error;
  if (!(error instanceof SQLiteError)) return new StorageTrouble("unavailable", `The store ${file} cannot be used: ${saidBy(error)}.`);
  const code = error.code ?? "";
  const said = `${error.message}${code === "" ? "" : ` (${code})`}`;
  if (code === "SQLITE_CONSTRAINT_UNIQUE" || code === "SQLITE_CONSTRAINT_PRIMARYKEY") return new StorageTrouble("conflict", error.message);
  if (noRoom.test(code)) {
    return new StorageTrouble("full", `The disk of the store ${file} takes no more: ${said}. Make room on it, and it goes on by itself.`);
  }
  if (code.startsWith("SQLITE_READONLY") || code === "SQLITE_PERM") {
    return new StorageTrouble(
      "full",
      `The store ${file} cannot be written: ${said}. ` +
        "Make the file, its folder and its disk writable for the user that runs the gateway.",
    );
  }
  if (code.startsWith("SQLITE_CORRUPT") || code === "SQLITE_NOTADB" || code === "SQLITE_FORMAT") {
    return new StorageTrouble(
      "damaged",
      `The store ${file} is damaged: ${said}. Stop the gateway and put a backup in its place with \`sluice restore\`.`,
    );
  }
  if (code.startsWith("SQLITE_BUSY") || code.startsWith("SQLITE_LOCKED")) {
    return new StorageTrouble("unavailable", `The store ${file} is held by another process for too long: ${said}. Try again.`);
  }
  if (code.startsWith("SQLITE_CANTOPEN") || code === "SQLITE_AUTH") {
    return new StorageTrouble(
      "unavailable",
      `The store ${file} cannot be opened: ${said}. Check that its folder exists and belongs to the user that runs the gateway.`,
    );
  }
  if (code.startsWith("SQLITE_IOERR") || code === "SQLITE_NOMEM") {
    return new StorageTrouble("unavailable", `The store ${file} cannot be read or written: ${said}. Check its disk.`);
  }
  return new StorageTrouble("damaged", `The store ${file} does not fit this version of the program: ${said}.`);
}

/** A disk without room shows itself in several steps of a write. */
const noRoom = /^SQLITE_(FULL|IOERR_(WRITE|FSYNC|DIR_FSYNC|TRUNCATE|SHMSIZE|SHMOPEN))/;

function saidBy(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
