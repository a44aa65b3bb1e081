import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { StorageTrouble } from "../../gateway/storage.ts";
import { checkStore } from "./check.ts";
import { withTempFile, removeAbandoned, writeAtomically } from "./atomic-file.ts";
import { encryptionKeyFor, type BackupProtection } from "./key.ts";
import { encryptFile } from "./encrypted-file.ts";
import { sql } from "../sql.ts";
import { storeFile } from "../sqlite/sqlite.ts";
import { ThreadDatabase } from "../sqlite/thread-database.ts";

export interface BackupOptions {
  /** As the configuration says; only SQLite is backed up by us. */
  readonly store?: string;
  readonly dataDir: string;
  /** The master key, where the environment gives it. */
  readonly given?: string | null;
  readonly to: StoreBackupTarget;
  readonly onProgress?: (progress: BackupProgress) => void;
}

export interface StoreBackupTarget {
  /** The file to be made. It must not exist yet. */
  readonly file: string;
  readonly protection: BackupProtection;
}

export interface BackupProgress {
  readonly doing: "copying" | "checking" | "encrypting";
  readonly doneBytes: number;
  /** About how many there will be. */
  readonly totalBytes: number;
}

/**
 * A copy of the store as it was at one moment, while gateways go on with it. It is checked before it gets its name. Where it is
 * encrypted, what is not yet never leaves the data folder.
 */
export async function backupStore({
  store = "sqlite",
  dataDir,
  given = null,
  to: { file: to, protection },
  onProgress = () => {},
}: BackupOptions): Promise<{ readonly bytes: number }> {
  refuseServer(store);
  const file = storeFile(dataDir);
  if (!existsSync(file)) throw new StorageTrouble("missing", `There is no store at ${file}. Name the data folder of the gateway.`);
  if (existsSync(to)) throw new StorageTrouble("conflict", `${resolve(to)} already exists. Give the name of a new file.`);
  const database = new ThreadDatabase(file);
  try {
    const key = await encryptionKeyFor(protection, { dataDir, given }, database);
    await writeAtomically(resolve(to), async (part) => {
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
  await checkStore(to);
}

/** PostgreSQL brings better tools for itself than we could make. */
export function refuseServer(store: string): void {
  if (store === "sqlite") return;
  throw new StorageTrouble(
    "missing",
    "The store is on PostgreSQL, which backs itself up: use `pg_dump --format=custom --file=FILE ADDRESS` for a backup, and " +
      "`pg_restore --clean --if-exists --dbname=ADDRESS FILE`, with all gateways stopped, to restore it.",
  );
}

/** Calls the one now and then while the other works. */
export async function withProgress<T>(look: () => void, work: () => Promise<T>): Promise<T> {
  look();
  const timer = setInterval(look, lookMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    look();
  }
}

export function bytesOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

const lookMs = 200;
