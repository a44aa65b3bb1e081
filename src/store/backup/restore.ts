import { Database, SQLiteError } from "bun:sqlite";
import { copyFileSync, existsSync, linkSync, mkdirSync, renameSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import { giveToOwnerOf } from "../../files/owner.ts";
import { StorageError } from "../../gateway/storage.ts";
import { checkStore } from "./check.ts";
import { fileError, fsyncPath, removeAbandoned, writeAtomically } from "./atomic-file.ts";
import type { BackupKeyHint } from "./header.ts";
import { decryptionKeyFor, masterKeyFitOf, type BackupKey, type BackupKeyOptions, type MasterKeyFit } from "./key.ts";
import { isEncrypted, decryptFile } from "./encrypted-file.ts";
import { bytesOf, rejectPostgres, withProgress, type BackupProgress } from "./backup.ts";
import { storeFile } from "../sqlite/sqlite.ts";
import { ThreadDatabase } from "../sqlite/thread-database.ts";

export interface RestoreOptions {
  /** The `store` setting. Only SQLite can be restored by Sluice. */
  readonly store?: string;
  readonly from: StoreBackupSource;
  readonly dataDir: string;
  /** The master key, if the environment sets it. */
  readonly given?: string | null;
  readonly onProgress?: (progress: BackupProgress) => void;
}

export interface StoreBackupSource {
  /** A backup, encrypted or plain, which is detected. */
  readonly file: string;
  /** The passphrase, if it was not encrypted with the master key. */
  readonly passphrase: string | null;
  /** Only check the backup, and change nothing. */
  readonly checkOnly: boolean;
}

export interface StoreRestoreResult {
  /** Where the previous store was moved; null if there was none, or if nothing was replaced. */
  readonly replaced: string | null;
  /** Whether the available master key is the one that the restored store needs. */
  readonly masterKey: MasterKeyFit;
}

/**
 * Replaces the store by a backup after copying and checking it. The previous store is kept beside it. At every moment there is a
 * complete store under the name, the old one or the new one.
 */
export async function restoreStore({
  store = "sqlite",
  from: { file: from, passphrase, checkOnly },
  dataDir,
  given = null,
  onProgress = () => {},
}: RestoreOptions): Promise<StoreRestoreResult> {
  rejectPostgres(store);
  const file = storeFile(dataDir);
  if (!existsSync(from)) throw new StorageError("missing", `There is no backup at ${from}.`);
  if (bytesOf(`${from}-wal`) > 0) {
    throw new StorageError("conflict", `${from} is in use, or was copied from a running gateway. Use a file made by \`sluice backup\`.`);
  }
  if (!checkOnly) rejectIfInUse(file);
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
    // Copying and checking may have taken a long time.
    rejectIfInUse(file);
    giveToOwnerOf(existsSync(file) ? file : dataDir, part);
    replaced = await setAside(file);
    return true;
  });
  return { replaced, masterKey };
}

/** A plain backup can be restored without the master key, but the store in it cannot be used without it. */
async function masterKeyFitOfFile(store: string, options: BackupKeyOptions): Promise<MasterKeyFit> {
  const database = new ThreadDatabase(store, { readonly: true });
  try {
    return await masterKeyFitOf(options, database);
  } finally {
    await database.close();
  }
}

async function copyOrDecrypt(from: string, to: string, keyFor: (hint: BackupKeyHint) => BackupKey): Promise<void> {
  if (await isEncrypted(from)) await decryptFile(from, to, keyFor);
  else await copyFile(from, to);
}

/**
 * Rejects if any process has the store open: leaving WAL mode needs exclusive access. It also checkpoints the WAL into the file.
 * Other errors are ignored: replacing a damaged store is what a restore is for.
 */
function rejectIfInUse(file: string): void {
  if (!existsSync(file)) return;
  let database: Database | undefined;
  try {
    database = new Database(file, { readwrite: true });
    database.run(`pragma busy_timeout = ${busyMs}`);
    database.run("pragma journal_mode = delete");
  } catch (error) {
    if (error instanceof SQLiteError && (error.code?.startsWith("SQLITE_BUSY") || error.code?.startsWith("SQLITE_LOCKED"))) {
      throw new StorageError("unavailable", `A gateway has the store ${file} open. Stop it first, then restore.`);
    }
  } finally {
    database?.close();
  }
}

/** Links the store under a second name, so that the first name always has a store. */
async function setAside(file: string): Promise<string | null> {
  if (!existsSync(file)) return null;
  const aside = `${file}.replaced-${new Date().toISOString().replaceAll(/[:.]/g, "-")}`;
  try {
    linkSync(file, aside);
  } catch {
    // Not every file system supports hard links.
    copyFileSync(file, aside);
    giveToOwnerOf(file, aside);
    await fsyncPath(aside);
  }
  for (const rest of ["-wal", "-shm", "-journal"]) if (existsSync(file + rest)) renameSync(file + rest, aside + rest);
  return aside;
}

const busyMs = 500;
