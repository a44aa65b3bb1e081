import { StorageError } from "../gateway/storage.ts";
import { runAccounts } from "./accounts/command.ts";
import { runAudit } from "./audit/command.ts";
import { runUndo } from "./audit/undo-command.ts";
import { runBackup } from "./backup/command.ts";
import type { StoreRequest } from "./command-registry.ts";
import { runConfig } from "./config/command.ts";
import { explain } from "./config/explain.ts";
import { runExplain } from "./explain/command.ts";
import { runGroups } from "./groups/groups-command.ts";
import { runIssuers } from "./issuers/command.ts";
import { runKeys } from "./keys/keys-command.ts";
import { runLab } from "./lab/command.ts";
import { runOpen } from "./open/command.ts";
import { runPrices } from "./prices/command.ts";
import { runRequests } from "./requests/command.ts";
import { shown } from "./shown-text.ts";
import type { OpenStore, CommandContext } from "./command-context.ts";
import { CommandError, exitCodes } from "./command-error.ts";
import { runTail } from "./tail/command.ts";
import { runUsage } from "./usage/command.ts";

/** Carries out a command on the store and returns the exit code. Results go to standard output, everything else to standard error. */
export async function runStoreCommand(request: StoreRequest, context: CommandContext): Promise<number> {
  try {
    if (request.on === "backup") await runBackup(request, context);
    // A store that does not exist yet has nothing to explain, and must not be created for that.
    else if (request.on === "config" && request.act === "explain" && !context.hasStore()) await explain(request, null, context);
    else return await withStore(context, (store) => runOn(store, request, context));
    return 0;
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    context.terminal.say(words.split("\n").map(shown).join("\n"));
    return exitCodeOf(error);
  }
}

async function runOn(
  store: OpenStore,
  request: Exclude<StoreRequest, { readonly on: "backup" }>,
  context: CommandContext,
): Promise<number> {
  if (request.on === "config" && request.act !== "explain") return runConfig(request, store, context);
  if (request.on === "lab") return runLab(request, store, context);
  await runPlain(store, request, context);
  return 0;
}

type PlainRequest = Exclude<
  StoreRequest,
  { readonly on: "backup" | "lab" } | { readonly on: "config"; readonly act: "export" | "diff" | "apply" }
>;

async function runPlain(store: OpenStore, request: PlainRequest, context: CommandContext): Promise<void> {
  switch (request.on) {
    case "config":
      return explain(request, store, context);
    case "keys":
      return runKeys(request, store, context);
    case "groups":
      return runGroups(request, store, context);
    case "issuers":
      return runIssuers(request, store, context);
    case "usage":
      return runUsage(request, store, context);
    case "requests":
      return runRequests(request, store, context);
    case "audit":
      return runAudit(request, store, context);
    case "undo":
      return runUndo(request, store, context);
    case "prices":
      return runPrices(request, store, context);
    case "accounts":
      return runAccounts(request, store, context);
    case "explain":
      return runExplain(request, store, context);
    case "tail":
      return runTail(request, store, context);
    case "open":
      return runOpen(request, store, context);
  }
}

async function withStore<T>(context: CommandContext, work: (store: OpenStore) => Promise<T>): Promise<T> {
  const store = await context.open();
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommandError) return error.exitCode;
  if (!(error instanceof StorageError)) return exitCodes.failure;
  switch (error.kind) {
    case "unavailable":
    case "full":
    case "damaged":
      return exitCodes.unavailable;
    case "conflict":
    case "missing":
    case "invalid":
      return exitCodes.failure;
  }
}
