import { Database, SQLiteError } from "bun:sqlite";
import { copyFileSync, existsSync, linkSync, mkdirSync, renameSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import { StorageTrouble } from "../../gateway/storage.ts";
import { checkStore } from "./check.ts";
import { fileError, fsyncPath, removeAbandoned, writeAtomically } from "./atomic-file.ts";
import type { BackupKeyHint } from "./header.ts";
import { decryptionKeyFor, masterKeyFitOf, type BackupKey, type BackupKeyOptions, type MasterKeyFit } from "./key.ts";
import { isEncrypted, decryptFile } from "./encrypted-file.ts";
import { bytesOf, refuseServer, withProgress, type BackupProgress } from "./backup.ts";
import { storeFile } from "../sqlite/sqlite.ts";
import { ThreadDatabase } from "../sqlite/thread-database.ts";

export interface RestoreOptions {
  /** As the configuration says; only SQLite is restored by us. */
  readonly store?: string;
  readonly from: StoreBackupSource;
  readonly dataDir: string;
  /** The master key, where the environment gives it. */
  readonly given?: string | null;
  readonly onProgress?: (progress: BackupProgress) => void;
}

export interface StoreBackupSource {
  /** A backup, encrypted or plain: it tells by itself. */
  readonly file: string;
  /** What it was encrypted with, where that was not the master key. */
  readonly passphrase: string | null;
  /** To see whether it is good, and change nothing. */
  readonly checkOnly: boolean;
}

export interface StoreRestoreResult {
  /** Where the store from before is kept; null where there was none, or where it is still in its place. */
  readonly replaced: string | null;
  /** Whether the master key that is here is the one that the store in the backup needs. */
  readonly masterKey: MasterKeyFit;
}

/**
 * Puts a backup in the place of the store, after it was copied and checked. What it replaces is kept beside it. At every
 * moment there is one whole store under the name, the old one or the new one.
 */
export async function restoreStore({
  store = "sqlite",
  from: { file: from, passphrase, checkOnly },
  dataDir,
  given = null,
  onProgress = () => {},
}: RestoreOptions): Promise<StoreRestoreResult> {
  refuseServer(store);
  const file = storeFile(dataDir);
  if (!existsSync(from)) throw new StorageTrouble("missing", `There is no backup at ${from}.`);
  if (bytesOf(`${from}-wal`) > 0) {
    throw new StorageTrouble("conflict", `${from} is in use, or was copied from a running gateway. Use a file made by \`sluice backup\`.`);
  }
  if (!checkOnly) refuseInUse(file);
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw fileError(error, dataDir);
  }
  removeAbandoned(file);
  let replaced: string | null = null;
  let masterKey: MasterKeyFit = { kind: "fits" };
  await writeAtomically(file, async (part) => {
    const totalBytes = bytesOf(from);
    await withProgress(
      () => onProgress({ doing: "copying", doneBytes: bytesOf(part), totalBytes }),
      async () => copyOrDecrypt(from, part, (hint) => decryptionKeyFor(from, hint, passphrase, { dataDir, given })),
    );
    onProgress({ doing: "checking", doneBytes: totalBytes, totalBytes });
    await checkStore(part, from);
    masterKey = await masterKeyFitOfFile(part, { dataDir, given });
    if (checkOnly) return false;
    // Much time may have passed since we looked.
    refuseInUse(file);
    replaced = setAside(file);
    return true;
  });
  return { replaced, masterKey };
}

/** A backup that is not encrypted opens without the master key, but the store in it is of no use without it. */
async function masterKeyFitOfFile(store: string, place: BackupKeyOptions): Promise<MasterKeyFit> {
  const database = new ThreadDatabase(store, { readonly: true });
  try {
    return await masterKeyFitOf(place, database);
  } finally {
    await database.close();
  }
}

async function copyOrDecrypt(from: string, to: string, keyFor: (hint: BackupKeyHint) => BackupKey): Promise<void> {
  if (await isEncrypted(from)) await decryptFile(from, to, keyFor);
  else await copyFile(from, to);
}

/**
 * Rejects while anybody has the store open: leaving WAL mode needs the file for oneself. It also brings everything that was
 * written into the one file. A damaged store cannot be asked, and is what a restore is for.
 */
function refuseInUse(file: string): void {
  if (!existsSync(file)) return;
  let database: Database | undefined;
  try {
    database = new Database(file, { readwrite: true });
    database.run(`pragma busy_timeout = ${busyMs}`);
    database.run("pragma journal_mode = delete");
  } catch (error) {
    if (error instanceof SQLiteError && (error.code?.startsWith("SQLITE_BUSY") || error.code?.startsWith("SQLITE_LOCKED"))) {
      throw new StorageTrouble("unavailable", `A gateway has the store ${file} open. Stop it first, then restore.`);
    }
  } finally {
    database?.close();
  }
}

/** Under a second name, so that the first one is never without a store. */
function setAside(file: string): string | null {
  if (!existsSync(file)) return null;
  const aside = `${file}.replaced-${new Date().toISOString().replaceAll(/[:.]/g, "-")}`;
  try {
    linkSync(file, aside);
  } catch {
    // Some disks know no links.
    copyFileSync(file, aside);
    fsyncPath(aside);
  }
  for (const rest of ["-wal", "-shm", "-journal"]) if (existsSync(file + rest)) renameSync(file + rest, aside + rest);
  return aside;
}

const busyMs = 500;
