import type { Actor } from "../gateway/storage.ts";
import type { StoreMaintenance } from "../manage/backup.ts";
import type { ManageContext } from "../manage/context.ts";
import type { Terminal } from "./terminal.ts";

/** What the commands on the store need beside the store. */
export interface CommandContext {
  readonly terminal: Terminal;
  /** Who gives the command, for the audit trail. */
  readonly by: Actor;
  readonly wallMs: () => number;
  /** What the configuration says: its file, or null where it is the environment. */
  readonly configFile: string | null;
  readonly maintenance: StoreMaintenance;
  /** Rejects with a `StorageTrouble` or a `CommandError`. */
  readonly open: () => Promise<OpenStore>;
}

/** A store that is open, with what management actions need beside it. */
export interface OpenStore extends ManageContext {
  /**
   * Brings the receipts into the store that gateways of this data folder have written, and gives the number of bytes that are
   * not in it yet.
   */
  readonly catchUp: () => Promise<number>;
  readonly close: () => Promise<void>;
}
