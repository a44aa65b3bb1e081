import { chmodSync, closeSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { StorageTrouble } from "../../gateway/storage.ts";
import { SqliteConnection, type SqliteSettings } from "./sqlite-connection.ts";
import { SerialDatabase } from "./serial-database.ts";

/** One file, on this thread: a statement is done when its promise is made. For programs that may wait, and for tests. */
export class SqliteDatabase extends SerialDatabase {
  constructor(
    readonly file: string,
    settings: Omit<SqliteSettings, "readonly"> = {},
  ) {
    super(openedForWriting(file, settings));
  }
}

/** Where the store of a data folder lies. */
export function storeFile(dataDir: string): string {
  return join(dataDir, "sluice.db");
}

/** The file and its folder come to be where they are missing, for nobody else to read. */
export function openedForWriting(file: string, settings: Omit<SqliteSettings, "readonly"> = {}): SqliteConnection {
  makePrivate(file);
  return SqliteConnection.open(file, settings);
}

/** SQLite gives the files it puts beside this one the same rights. */
function makePrivate(file: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    closeSync(openSync(file, "a", 0o600));
    if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, 0o600);
  } catch (error) {
    throw fileTrouble(error, file);
  }
}

function fileTrouble(error: unknown, file: string): StorageTrouble {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new StorageTrouble("full", `There is no room for the store ${file}: ${message}. Make room on its disk.`);
  }
  // Something other than a folder is in the way.
  if (code === "EEXIST" || code === "ENOTDIR") {
    return new StorageTrouble(
      "unavailable",
      `The store ${file} cannot be made: ${dirname(file)} is a file, or inside of one. Set data_dir to a folder, or remove that file.`,
    );
  }
  return new StorageTrouble(
    code === "EROFS" ? "full" : "unavailable",
    `The store ${file} cannot be opened: ${message}. Check that its folder exists and belongs to the user that runs the gateway.`,
  );
}
