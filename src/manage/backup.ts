import type { Actor } from "../gateway/storage.ts";
import { ManageError } from "./error.ts";

/** Backups and the master key of a store. */
export interface StoreMaintenance {
  readonly dataDir: string;
  /** The master key comes from the environment, not from the data folder. */
  readonly masterKeyGiven: boolean;
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
