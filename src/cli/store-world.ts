import type { Actor } from "../gateway/storage.ts";
import type { ManageContext } from "../manage/context.ts";
import type { Terminal } from "./terminal.ts";

/** What the commands on the store need of the world. */
export interface StoreWorld {
  readonly terminal: Terminal;
  /** Who gives the command, for the audit trail. */
  readonly by: Actor;
  readonly wallMs: () => number;
  /** What the configuration says: its file, or null where it is the environment. */
  readonly configFile: string | null;
  readonly keeping: Keeping;
  /** Rejects with a `StorageTrouble` or a `CommandTrouble`. */
  readonly open: () => Promise<CliStore>;
}

/** A store that is open, with what management actions need beside it. */
export interface CliStore extends ManageContext {
  /**
   * Brings the receipts into the store that gateways of this data folder have written, and gives the number of bytes that are
   * not in it yet.
   */
  readonly catchUp: () => Promise<number>;
  readonly close: () => Promise<void>;
}

/** What is done with the store as a whole. */
export interface Keeping {
  readonly dataDir: string;
  /** The master key is given by the environment, and not in the data folder. */
  readonly masterKeyGiven: boolean;
  readonly backup: (to: BackupTarget, onProgress: (progress: KeepingProgress) => void) => Promise<{ readonly bytes: number }>;
  readonly restore: (from: BackupSource, onProgress: (progress: KeepingProgress) => void) => Promise<Restored>;
  /** A gateway of this machine uses the data folder. */
  readonly isInUse: () => boolean;
  /** `next`: the new one where it is not kept in the data folder. */
  readonly rotateMasterKey: (next: string | null, by: Actor, onProgress: (done: number, of: number) => void) => Promise<void>;
}

/** The file to be made, and what it is encrypted with. */
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
  /** To see whether it is good, and change nothing. */
  readonly checkOnly: boolean;
}

export interface Restored {
  readonly replaced: string | null;
  /** Whether the master key that is here is the one that the store needs; else where that one is, as far as that is known. */
  readonly masterKey:
    | { readonly kind: "fits" }
    | { readonly kind: "replaced"; readonly file: string }
    | { readonly kind: "other" }
    | { readonly kind: "missing" };
}

export interface KeepingProgress {
  readonly doing: "copying" | "checking" | "encrypting";
  readonly doneBytes: number;
  readonly totalBytes: number;
}
