import { StorageTrouble } from "../gateway/storage.ts";
import { runAccounts } from "./accounts/command.ts";
import { runAudit } from "./audit/command.ts";
import { runBackup } from "./backup/command.ts";
import type { StoreRequest } from "./process/command-place.ts";
import { runKeys } from "./keys/keys-command.ts";
import { runPrices } from "./prices/command.ts";
import { shown } from "./shown-text.ts";
import type { CliStore, StoreWorld } from "./store-world.ts";
import { CommandTrouble, exitCodes } from "./trouble.ts";
import { runUsage } from "./usage/command.ts";

/** Carries out a command on the store and gives the code to exit with. Results go to standard output, everything else to standard error. */
export async function runStoreCommand(request: StoreRequest, world: StoreWorld): Promise<number> {
  try {
    if (request.on === "backup") await runBackup(request, world);
    else await withStore(world, (store) => runOn(store, request, world));
    return 0;
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    world.terminal.say(words.split("\n").map(shown).join("\n"));
    return exitCodeOf(error);
  }
}

async function runOn(store: CliStore, request: Exclude<StoreRequest, { readonly on: "backup" }>, world: StoreWorld): Promise<void> {
  switch (request.on) {
    case "keys":
      return runKeys(request, store, world);
    case "usage":
      return runUsage(request, store, world);
    case "audit":
      return runAudit(request, store, world);
    case "prices":
      return runPrices(request, store, world);
    case "accounts":
      return runAccounts(request, store, world);
  }
}

async function withStore(world: StoreWorld, work: (store: CliStore) => Promise<void>): Promise<void> {
  const store = await world.open();
  try {
    await work(store);
  } finally {
    await store.close();
  }
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommandTrouble) return error.exitCode;
  if (!(error instanceof StorageTrouble)) return exitCodes.failure;
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
