import type { Command } from "commander";
import type { AccountsRequest } from "./accounts/arguments.ts";
import type { ChannelListRequest } from "./channels/arguments.ts";
import type { AuditRequest, UndoRequest } from "./audit/arguments.ts";
import type { BackupRequest } from "./backup/arguments.ts";
import type { ConfigRequest } from "./config/arguments.ts";
import type { ExplainCallRequest } from "./explain/arguments.ts";
import type { GroupsRequest } from "./groups/groups-arguments.ts";
import type { IssuersRequest } from "./issuers/arguments.ts";
import type { KeysRequest } from "./keys/keys-arguments.ts";
import type { LabRequest } from "./lab/arguments.ts";
import type { OpenRequest } from "./open/arguments.ts";
import type { PricesRequest } from "./prices/arguments.ts";
import type { RequestsRequest } from "./requests/arguments.ts";
import type { TailRequest } from "./tail/arguments.ts";
import type { UsageRequest } from "./usage/arguments.ts";

/** A command on the store. */
export type StoreRequest =
  | KeysRequest
  | GroupsRequest
  | IssuersRequest
  | UsageRequest
  | RequestsRequest
  | AuditRequest
  | UndoRequest
  | PricesRequest
  | AccountsRequest
  | BackupRequest
  | ConfigRequest
  | ExplainCallRequest
  | OpenRequest
  | TailRequest
  | LabRequest
  | ChannelListRequest;

/** Where each group of commands adds its own. */
export interface CommandRegistry {
  readonly program: Command;
  readonly onRequest: (config: string | undefined, request: StoreRequest) => void;
}

export const configOption = [
  "-c, --config <file>",
  "the configuration file, whose store is used (default: SLUICE_CONFIG, else the environment)",
] as const;
export const jsonOption = ["--json", "print the result as JSON"] as const;

/** The options that all of these commands have. */
export interface CommonOptions {
  readonly config?: string;
  readonly json?: boolean;
}
