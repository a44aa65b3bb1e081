import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { StorageError } from "../../gateway/storage.ts";
import { checkStore } from "./check.ts";
import { withTempFile, removeAbandoned, writeAtomically } from "./atomic-file.ts";
import { encryptionKeyFor, type BackupProtection } from "./key.ts";
import { encryptFile } from "./encrypted-file.ts";
import { postgresDump } from "./postgres-dump.ts";
import { pending } from "../migrate.ts";
import { sql } from "../sql.ts";
import { storeFile } from "../sqlite/sqlite.ts";
import { ThreadDatabase } from "../sqlite/thread-database.ts";

export interface BackupOptions {
  /** The `store` setting. Only SQLite can be backed up by Sluice. */
  readonly store?: string;
  readonly dataDir: string;
  /** The master key, if the environment sets it. */
  readonly given?: string | null;
  readonly to: StoreBackupTarget;
  readonly onProgress?: (progress: BackupProgress) => void;
}

export interface StoreBackupTarget {
  /** The file to create. It must not exist yet. */
  readonly file: string;
  readonly protection: BackupProtection;
}

export interface BackupProgress {
  readonly doing: "copying" | "checking" | "encrypting";
  readonly doneBytes: number;
  /** An estimate. */
  readonly totalBytes: number;
}

/**
 * Writes a consistent copy of the store while gateways use it, and verifies it before it gets its name. For an encrypted backup, the
 * plain copy never leaves the data folder.
 */
export async function backupStore({
  store = "sqlite",
  dataDir,
  given = null,
  to: { file: to, protection },
  onProgress = () => {},
}: BackupOptions): Promise<{ readonly bytes: number }> {
  rejectPostgres(store);
  const file = storeFile(dataDir);
  if (!existsSync(file)) throw new StorageError("missing", `There is no store at ${file}. Give the data folder of the gateway.`);
  if (existsSync(to)) throw new StorageError("invalid", `${resolve(to)} already exists. Give the name of a new file.`);
  const database = new ThreadDatabase(file);
  try {
    const key = await encryptionKeyFor(protection, { dataDir, given }, database);
    await writeAtomically(resolve(to), async (part) => {
      // A store that this version cannot read is refused before all of it is copied.
      await pending(database);
      if (key === null) await checkedCopy(database, file, part, onProgress);
      else {
        await withTempFile(file, async (plain) => {
          await checkedCopy(database, file, plain, onProgress);
          const totalBytes = bytesOf(plain);
          await encryptFile(plain, part, key, (doneBytes) => onProgress({ doing: "encrypting", doneBytes, totalBytes }));
        });
      }
      return true;
    });
  } finally {
    await database.close();
  }
  removeAbandoned(file);
  removeAbandoned(resolve(to));
  return { bytes: bytesOf(to) };
}

async function checkedCopy(
  database: ThreadDatabase,
  file: string,
  to: string,
  onProgress: (progress: BackupProgress) => void,
): Promise<void> {
  const totalBytes = bytesOf(file) + bytesOf(`${file}-wal`);
  await withProgress(
    () => onProgress({ doing: "copying", doneBytes: bytesOf(to), totalBytes }),
    async () => database.run(sql`vacuum into ${to}`),
  );
  onProgress({ doing: "checking", doneBytes: bytesOf(to), totalBytes: bytesOf(to) });
  await checkStore(to, file);
}

/** PostgreSQL has better tools of its own. */
export function rejectPostgres(store: string): void {
  if (store === "sqlite") return;
  const { backup, restore } = postgresDump(store);
  throw new StorageError(
    "missing",
    `The store is on PostgreSQL, which backs itself up: use \`${backup}\` for a backup, and \`${restore}\`, with all gateways stopped, to restore it.`,
  );
}

/** Calls `report` regularly while the work runs. */
export async function withProgress<T>(report: () => void, work: () => Promise<T>): Promise<T> {
  report();
  const timer = setInterval(report, progressEveryMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    report();
  }
}

/** To be read as it is sent; null if there is no such file. */
export function contentOf(file: string): Blob | null {
  return statSync(file, { throwIfNoEntry: false })?.isFile() === true ? Bun.file(file) : null;
}

export function bytesOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

const progressEveryMs = 200;
