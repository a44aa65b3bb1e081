import type { Actor } from "../gateway/storage.ts";
import { isoMoment } from "../usage/time-text.ts";
import type { ManageContext } from "./context.ts";
import { ManageError } from "./error.ts";

/** Backups and the master key of a store. */
export interface StoreMaintenance {
  readonly dataDir: string;
  /** The master key comes from the environment, not from the data folder. */
  readonly masterKeyGiven: boolean;
  /** The one in the data folder, as text; null if there is none yet. */
  readonly masterKeyText: () => string | null;
  readonly backup: (to: BackupTarget, onProgress: (progress: MaintenanceProgress) => void) => Promise<{ readonly bytes: number }>;
  readonly restore: (from: BackupSource, onProgress: (progress: MaintenanceProgress) => void) => Promise<RestoreResult>;
  /** A gateway of this machine uses the data folder. */
  readonly isInUse: () => boolean;
  /** `next` is the new master key if it is not kept in the data folder. */
  readonly rotateMasterKey: (next: string | null, by: Actor, onProgress: (done: number, of: number) => void) => Promise<void>;
}

/** The file to write, and how it is encrypted. */
export interface BackupTarget {
  readonly file: string;
  readonly protection:
    | { readonly kind: "master_key" }
    | { readonly kind: "passphrase"; readonly passphrase: string }
    | { readonly kind: "plain" };
}

export interface BackupSource {
  readonly file: string;
  readonly passphrase: string | null;
  /** Checks the backup and changes nothing. */
  readonly checkOnly: boolean;
}

export interface RestoreResult {
  readonly replaced: string | null;
  /** Whether the present master key is the one that the restored store needs; if not, where that one is, if that is known. */
  readonly masterKey:
    | { readonly kind: "fits" }
    | { readonly kind: "replaced"; readonly file: string }
    | { readonly kind: "other" }
    | { readonly kind: "missing" };
}

export interface MaintenanceProgress {
  readonly doing: "copying" | "checking" | "encrypting";
  readonly doneBytes: number;
  readonly totalBytes: number;
}

/** A running gateway would go on encrypting with the old key, so no gateway of this machine may use the store. */
export function inUseProblem({ isInUse, dataDir }: StoreMaintenance): ManageError | null {
  return isInUse() ? new ManageError("conflict", `A gateway is using ${dataDir}. Stop all gateways of this store first.`) : null;
}

/** The backups that a running gateway makes, in a folder of its own. They are encrypted with the master key. */
export interface KeptBackups {
  readonly folder: string;
  /** Where the master key is, without which none of them can be used. */
  readonly masterKeyPlace: string;
  /** Why this gateway makes none, and what to do instead; null if it does. */
  readonly impossible: string | null;
  /** The commands to use instead; null if it makes backups. */
  readonly instead: BackupInstead | null;
  /** Those in the folder, newest first. */
  readonly list: () => readonly KeptBackup[];
  /** How far the one is that is being made, and why the last one failed. */
  readonly state: () => { readonly running: MaintenanceProgress | null; readonly failure: string | null };
  /** Begins to make one. */
  readonly start: (name: string) => void;
  /** Null if there is no such backup. */
  readonly content: (name: string) => Blob | null;
  readonly remove: (name: string) => void;
}

/** Commands of a shell, without the password of the store. */
export interface BackupInstead {
  readonly backup: string;
  readonly restore: string;
  /** What has to be known about them, in sentences. */
  readonly notes: readonly string[];
}

export interface KeptBackup {
  readonly name: string;
  readonly bytes: number;
  readonly madeMs: number;
}

export interface BackupContext extends ManageContext {
  readonly backups: KeptBackups;
}

/** Returns the name of the backup that is being made now. */
export async function startBackup({ backups, storage, wallMs }: BackupContext, actor: Actor): Promise<string | ManageError> {
  if (backups.impossible !== null) return new ManageError("conflict", backups.impossible);
  if (backups.state().running !== null) return new ManageError("conflict", "A backup is being made already.");
  if (backups.list().length >= keptMax) {
    return new ManageError("conflict", `There are ${keptMax} backups in ${backups.folder}: move or delete one first.`);
  }
  const name = `sluice-${isoMoment(wallMs()).slice(0, 19).replaceAll(/[:T]/g, "-")}.backup`;
  // Before it begins, so that there is none without a trace.
  await storage.audit.note("backup.create", name, {}, actor);
  backups.start(name);
  return name;
}

/** A disk must not fill up because somebody pressed a button often. */
const keptMax = 20;

export async function readBackup({ backups, storage }: BackupContext, name: string, actor: Actor): Promise<Blob | ManageError> {
  const content = isBackupName(name) ? backups.content(name) : null;
  if (content === null) return noSuchBackup;
  await storage.audit.note("backup.download", name, { bytes: content.size }, actor);
  return content;
}

export async function removeBackup({ backups, storage }: BackupContext, name: string, actor: Actor): Promise<ManageError | null> {
  if (!isBackupName(name) || backups.content(name) === null) return noSuchBackup;
  await storage.audit.note("backup.remove", name, {}, actor);
  backups.remove(name);
  return null;
}

/** No other file can be read or deleted by its name. */
export function isBackupName(name: string): boolean {
  return /^sluice-\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d\.backup$/.test(name);
}

const noSuchBackup = new ManageError("not_found", "There is no such backup.");
