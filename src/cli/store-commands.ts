import { StorageError } from "../gateway/storage.ts";
import { runAccounts } from "./accounts/command.ts";
import { runAudit } from "./audit/command.ts";
import { runUndo } from "./audit/undo-command.ts";
import { runBackup } from "./backup/command.ts";
import { runRemoteBackup } from "./backup/remote-command.ts";
import type { StoreRequest } from "./command-registry.ts";
import { runConfig } from "./config/command.ts";
import { explain } from "./config/explain.ts";
import { runExplain } from "./explain/command.ts";
import { runGroups } from "./groups/groups-command.ts";
import { runIssuers } from "./issuers/command.ts";
import { runKeys } from "./keys/keys-command.ts";
import { runLab } from "./lab/command.ts";
import { apiConfigManagement, storeConfigManagement, storelessConfiguration } from "./management/config-management.ts";
import { apiManagement } from "./management/api-management.ts";
import type { Management } from "./management/management.ts";
import { storeManagement } from "./management/store-management.ts";
import { runOpen } from "./open/command.ts";
import { runPrices } from "./prices/command.ts";
import { runRequests } from "./requests/command.ts";
import { shown } from "./shown-text.ts";
import { remoteAdminApi, withAdminApi, type RemoteGateway } from "./admin-api.ts";
import type { ChannelsRequest } from "./channels/arguments.ts";
import { listChannels, testChannelOf } from "./channels/list-command.ts";
import type { CommandSurroundings, OpenStore, CommandContext } from "./command-context.ts";
import { CommandError, exitCodes } from "./command-error.ts";
import { runTail } from "./tail/command.ts";
import { runUsage } from "./usage/command.ts";

/** Carries out a command on the store and returns the exit code. Results go to standard output, everything else to standard error. */
export function runStoreCommand(request: StoreRequest, context: CommandContext): Promise<number> {
  return reported(context, async () => {
    if (request.on === "backup") await runBackup(request, context);
    // A store that does not exist yet has nothing to explain, and must not be created for that.
    else if (request.on === "config" && request.act === "explain" && !context.hasStore())
      await explain(request, storelessConfiguration(context), context);
    else return withStore(context, (store) => runOn(store, request, context));
    return 0;
  });
}

/** The same through the admin API of a gateway elsewhere. */
export function runRemoteCommand(request: StoreRequest, remote: RemoteGateway, context: CommandSurroundings): Promise<number> {
  return reported(context, async () => {
    const api = remoteAdminApi(remote);
    if (isManagement(request)) {
      await runManagement(request, apiManagement(api), context);
      return 0;
    }
    switch (request.on) {
      case "channels":
        await listChannels(request, api, context);
        return 0;
      case "tail":
        await runTail(request, api, context);
        return 0;
      case "lab":
        return runLab(request, api, context);
      case "backup":
        await runRemoteBackup(request, api, context);
        return 0;
      case "config":
        return runConfig(request, apiConfigManagement(api, context), context);
      case "open":
        throw new CommandError(
          `A link that signs in is made on the machine of the gateway alone. Open ${remote.url}/console in a browser and log in there.`,
          exitCodes.usage,
        );
    }
  });
}

export function runRemoteChannelTest(request: ChannelsRequest, remote: RemoteGateway, context: CommandSurroundings): Promise<number> {
  return reported(context, () => testChannelOf(request, remoteAdminApi(remote), context));
}

/** Says what went wrong. */
async function reported({ terminal }: Pick<CommandSurroundings, "terminal">, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    terminal.say(words.split("\n").map(shown).join("\n"));
    return exitCodeOf(error);
  }
}

/** What works on the store and through the admin API alike. */
const managed = ["keys", "groups", "usage", "requests", "audit", "undo", "explain", "prices", "accounts", "issuers"] as const;
type ManagementRequest = Extract<StoreRequest, { readonly on: (typeof managed)[number] }>;

function isManagement(request: StoreRequest): request is ManagementRequest {
  return managed.some((name) => name === request.on);
}

function runManagement(request: ManagementRequest, management: Management, context: CommandSurroundings): Promise<void> {
  switch (request.on) {
    case "keys":
      return runKeys(request, management, context);
    case "groups":
      return runGroups(request, management, context);
    case "usage":
      return runUsage(request, management, context);
    case "requests":
      return runRequests(request, management, context);
    case "audit":
      return runAudit(request, management, context);
    case "undo":
      return runUndo(request, management, context);
    case "explain":
      return runExplain(request, management, context);
    case "prices":
      return runPrices(request, management, context);
    case "accounts":
      return runAccounts(request, management, context);
    case "issuers":
      return runIssuers(request, management, context);
  }
}

async function runOn(
  store: OpenStore,
  request: Exclude<StoreRequest, { readonly on: "backup" }>,
  context: CommandContext,
): Promise<number> {
  if (request.on === "config") return runConfig(request, storeConfigManagement(store, context), context);
  if (request.on === "lab") return withAdminApi({ command: "lab", role: "admin" }, store, context, (api) => runLab(request, api, context));
  await runPlain(store, request, context);
  return 0;
}

type PlainRequest = Exclude<StoreRequest, { readonly on: "backup" | "lab" | "config" }>;

async function runPlain(store: OpenStore, request: PlainRequest, context: CommandContext): Promise<void> {
  if (isManagement(request)) return runManagement(request, storeManagement(store, context.actor), context);
  switch (request.on) {
    case "channels":
      return withAdminApi({ command: "channels", role: "viewer" }, store, context, (api) => listChannels(request, api, context));
    case "tail":
      return withAdminApi({ command: "tail", role: "viewer" }, store, context, (api) => runTail(request, api, context));
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
    // As where the same mistake is noticed earlier, or by the admin API.
    case "invalid":
      return exitCodes.usage;
    case "conflict":
    case "missing":
      return exitCodes.failure;
  }
}
