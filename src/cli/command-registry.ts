import type { Command } from "commander";
import type { AccountsRequest } from "./accounts/arguments.ts";
import type { AuditRequest } from "./audit/arguments.ts";
import type { BackupRequest } from "./backup/arguments.ts";
import type { KeysRequest } from "./keys/keys-arguments.ts";
import type { PricesRequest } from "./prices/arguments.ts";
import type { UsageRequest } from "./usage/arguments.ts";

/** What is to be done with the store. */
export type StoreRequest = KeysRequest | UsageRequest | AuditRequest | PricesRequest | AccountsRequest | BackupRequest;

/** Where commands are added, and what is called when one is given. */
export interface CommandRegistry {
  readonly program: Command;
  readonly take: (config: string | undefined, request: StoreRequest) => void;
}

export const configOption = [
  "-c, --config <file>",
  "the configuration file, whose store is used (default: SLUICE_CONFIG, else the environment)",
] as const;
export const jsonOption = ["--json", "print it as JSON"] as const;

/** What every one of these commands can be told. */
export interface CommonOptions {
  readonly config?: string;
  readonly json?: boolean;
}
