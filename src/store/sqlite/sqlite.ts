import { accessSync, chmodSync, closeSync, constants, existsSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { StorageError } from "../../gateway/storage.ts";
import { SqliteConnection, type SqliteSettings } from "./sqlite-connection.ts";
import { SerialDatabase } from "./serial-database.ts";

/** A SQLite file on this thread, which each statement blocks. For the command line and for tests. */
export class SqliteDatabase extends SerialDatabase {
  constructor(
    readonly file: string,
    settings: Omit<SqliteSettings, "readonly"> = {},
  ) {
    super(openedForWriting(file, settings));
  }
}

/** The path of the SQLite file in a data folder. */
export function storeFile(dataDir: string): string {
  return join(dataDir, "sluice.db");
}

/** Opens the file, and creates it and its folder if they do not exist, readable only by their owner. */
export function openedForWriting(file: string, settings: Omit<SqliteSettings, "readonly"> = {}): SqliteConnection {
  makePrivate(file);
  return SqliteConnection.open(file, settings);
}

/** SQLite gives its `-wal` and `-shm` files the same permissions as this one. */
function makePrivate(file: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    createMissing(file);
    const status = statSync(file);
    if (status.isFile() && (status.mode & 0o077) !== 0) chmodSync(file, 0o600);
  } catch (error) {
    throw storeFileError(error, file);
  }
}

/**
 * Does not open a file that exists: on POSIX systems, closing it again would drop the locks that other connections of this process
 * hold on it, and other processes would take the store for unused.
 */
function createMissing(file: string): void {
  if (existsSync(file)) return accessSync(file, constants.R_OK | constants.W_OK);
  try {
    closeSync(openSync(file, "wx", 0o600));
  } catch (error) {
    // Another thread or process was faster.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

function storeFileError(error: unknown, file: string): StorageError {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new StorageError("full", `There is no space for the store ${file}: ${message}. Free some space on its disk.`);
  }
  // A part of the path is a file.
  if (code === "EEXIST" || code === "ENOTDIR") {
    return new StorageError(
      "unavailable",
      `The store ${file} cannot be created: ${dirname(file)} is a file, or is inside one. Set data_dir to a folder, or remove that file.`,
    );
  }
  return new StorageError(
    code === "EROFS" ? "full" : "unavailable",
    `The store ${file} cannot be opened: ${message}. Check that its folder exists and belongs to the user that runs the gateway.`,
  );
}
