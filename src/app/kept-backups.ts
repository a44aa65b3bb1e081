import { mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Settings } from "../config/settings.ts";
import { StorageError } from "../gateway/storage.ts";
import { isBackupName, type BackupInstead, type KeptBackup, type KeptBackups, type MaintenanceProgress } from "../manage/backup.ts";
import { backupStore, contentOf, rejectPostgres } from "../store/backup/backup.ts";
import { postgresDump } from "../store/backup/postgres-dump.ts";
import type { Log } from "../telemetry/log.ts";

/** The backups that this gateway makes while it runs, in `backups` of its data folder. */
export function keptBackups(
  { store, dataDir }: Pick<Settings, "store" | "dataDir">,
  givenMasterKey: string | null,
  log: Pick<Log, "info" | "error">,
): KeptBackups {
  const folder = resolve(dataDir, "backups");
  let running: MaintenanceProgress | null = null;
  let failure: string | null = null;
  const make = async (name: string): Promise<void> => {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const to = { file: join(folder, name), protection: { kind: "master_key" } as const };
      const onProgress = (progress: MaintenanceProgress): void => void (running = progress);
      const { bytes } = await backupStore({ store, dataDir, given: givenMasterKey, to, onProgress });
      log.info("backup", { name, bytes });
    } catch (error) {
      failure = error instanceof Error ? error.message : String(error);
      log.error("backup_failed", { name, detail: failure });
    } finally {
      running = null;
    }
  };
  const masterKeyPlace = givenMasterKey === null ? resolve(dataDir, "master-key") : "SLUICE_MASTER_KEY";
  return {
    folder,
    masterKeyPlace,
    impossible: impossibleFor(store),
    instead: store === "sqlite" ? null : insteadFor(store, masterKeyPlace),
    list: () => keptIn(folder),
    state: () => ({ running, failure }),
    start: (name) => {
      running = { doing: "copying", doneBytes: 0, totalBytes: 0 };
      failure = null;
      void make(name);
    },
    content: (name) => contentOf(join(folder, name)),
    remove: (name) => rmSync(join(folder, name), { force: true }),
  };
}

function impossibleFor(store: string): string | null {
  try {
    rejectPostgres(store);
    return null;
  } catch (error) {
    if (error instanceof StorageError) return error.message;
    throw error;
  }
}

function insteadFor(store: string, masterKeyPlace: string): BackupInstead {
  const { backup, restore, throughPooler } = postgresDump(store);
  return {
    backup,
    restore,
    notes: [
      "The password is not part of the commands: they ask for it, or take it from PGPASSWORD or ~/.pgpass. Their version must not be older than that of the server.",
      ...(throughPooler ? ["They do not work through a pooler of transactions: put the address of PostgreSQL itself in its place."] : []),
      `The dump does not contain the master key, without which its keys and secrets are useless: keep a copy of ${masterKeyPlace} in another place.`,
      "Redis needs no backup: it holds counts of the last minutes, concurrency slots and hints, and may be empty after a restore. Budgets and receipts are in the dump.",
      "Receipts that are still in the journal of a gateway, about the last second, are not in the dump. Keys that were revoked after it are valid again after a restore.",
    ],
  };
}

function keptIn(folder: string): readonly KeptBackup[] {
  let names: readonly string[];
  try {
    names = readdirSync(folder);
  } catch {
    // It is made with the first backup.
    return [];
  }
  return names
    .filter(isBackupName)
    .toSorted()
    .toReversed()
    .flatMap((name) => {
      const found = statSync(join(folder, name), { throwIfNoEntry: false });
      return found === undefined ? [] : [{ name, bytes: found.size, madeMs: found.mtimeMs }];
    });
}
