import type { Actor } from "../gateway/storage.ts";
import type { StoreMaintenance } from "../manage/backup.ts";
import type { DesiredResources, ResourceContext } from "../manage/resource-file/desired-resources.ts";
import type { SchemaText } from "./schema-file.ts";
import type { Terminal } from "./terminal.ts";

/** What every command needs, wherever the gateway is. */
export interface CommandSurroundings {
  readonly terminal: Terminal;
  readonly wallMs: () => number;
  /** A signal for a command that goes on until the user ends it. */
  readonly interruption: () => AbortSignal;
  readonly schemaText: SchemaText;
  /** The text of a resource file, with the values of the variables that it refers to; or why it cannot be read, in sentences. */
  readonly readResourceText: (
    file: string,
  ) => Promise<{ readonly text: string; readonly variables: Readonly<Record<string, string>> } | { readonly problems: readonly string[] }>;
}

/** What the store commands need besides the store. */
export interface CommandContext extends CommandSurroundings {
  /** Who gives the command, for the audit log. */
  readonly actor: Actor;
  /** Null if the configuration comes from the environment. */
  readonly configFile: string | null;
  /** Where a gateway with this configuration has its admin API, without a path; null if it is off. */
  readonly adminUrl: string | null;
  /** Returns whether there is a browser to start. */
  readonly startBrowser: (url: string) => boolean;
  readonly maintenance: StoreMaintenance;
  /** Rejects with a `StorageError` or a `CommandError`. */
  readonly open: () => Promise<OpenStore>;
  /** Whether there is a store to open; `open` creates one. */
  readonly hasStore: () => boolean;
  /** Every setting of the configuration, and where its value comes from. */
  readonly explained: () => Promise<ExplainedConfiguration>;
  /** What a resource file says, or what is wrong with it, in sentences. */
  readonly readResources: (file: string) => Promise<{ readonly desired: DesiredResources } | { readonly problems: readonly string[] }>;
}

export interface ExplainedConfiguration {
  /** Null if there is none. */
  readonly file: string | null;
  readonly rows: readonly {
    readonly path: string;
    readonly numbered: string;
    readonly value: unknown;
    readonly origin: "file" | "environment" | "default";
    readonly line: number | null;
    readonly variables: readonly string[];
    readonly otherwise: string | null;
  }[];
}

/** An open store, with everything that management actions need. */
export interface OpenStore extends ResourceContext {
  /** Moves the receipts that gateways of this data folder have written into the store. Returns how many bytes are still missing. */
  readonly catchUp: () => Promise<number>;
  readonly close: () => Promise<void>;
}
