import type { Actor } from "../gateway/storage.ts";
import type { StoreMaintenance } from "../manage/backup.ts";
import type { ManageContext } from "../manage/context.ts";
import type { Terminal } from "./terminal.ts";

/** What the store commands need besides the store. */
export interface CommandContext {
  readonly terminal: Terminal;
  /** Who gives the command, for the audit log. */
  readonly actor: Actor;
  readonly wallMs: () => number;
  /** Null if the configuration comes from the environment. */
  readonly configFile: string | null;
  readonly maintenance: StoreMaintenance;
  /** Rejects with a `StorageError` or a `CommandError`. */
  readonly open: () => Promise<OpenStore>;
}

/** An open store, with everything that management actions need. */
export interface OpenStore extends ManageContext {
  /** Moves the receipts that gateways of this data folder have written into the store. Returns how many bytes are still missing. */
  readonly catchUp: () => Promise<number>;
  readonly close: () => Promise<void>;
}
