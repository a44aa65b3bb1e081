import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { hashPassword } from "../admin/login/password.ts";
import type { CommandContext, OpenStore } from "../cli/command-context.ts";
import type { StoreMaintenance } from "../manage/backup.ts";
import { startBrowser } from "../cli/open/start-browser.ts";
import { interruption, processTerminal, type Terminal } from "../cli/terminal.ts";
import { CommandError, exitCodes } from "../cli/command-error.ts";
import { userName } from "../cli/user-name.ts";
import type { Settings } from "../config/settings.ts";
import type { ExplainedSetting } from "../config/explain/explain.ts";
import { readUtf8Text } from "../config/file-text.ts";
import { renderProblem } from "../config/findings/problem.ts";
import { withSecretFiles, type Environment } from "../config/interpolate.ts";
import { readSecretFile } from "../config/load.ts";
import { readRuntimeChannel } from "../config/runtime-channel.ts";
import { localModels } from "../engines/catalog.ts";
import { openStore } from "./durable.ts";
import { explainedConfiguration } from "./configuration/explained-configuration.ts";
import { desiredResources, readResourceText } from "./resource-text.ts";
import { schemaText } from "./schema-text.ts";
import { StorageError } from "../gateway/storage.ts";
import { adminTokenPrefix, makeToken } from "../keys/token.ts";
import { backupStore } from "../store/backup/backup.ts";
import { restoreStore } from "../store/backup/restore.ts";
import type { Database } from "../store/database.ts";
import { catchUp, hasLivingJournal } from "../store/journal/catch-up.ts";
import { masterKeyFile, MasterKeyError, readKeyFile } from "../store/secrets/master-key-file.ts";
import { openDatabase, storeFile } from "../store/open.ts";
import { rotateMasterKey } from "../store/secrets/rewrap.ts";
import { makeStorage, newId } from "../store/storage.ts";
import { shippedPrices } from "../usage/shipped-prices.ts";

/** Connects the store commands to the store. */
export function commandContext(
  settings: Settings,
  configFile: string | null,
  givenMasterKey: string | null,
  env: Environment,
  terminal: Terminal = processTerminal(),
): CommandContext {
  return {
    terminal,
    // Several machines may share a store.
    actor: { kind: "cli", name: userName(), address: hostname() },
    wallMs: Date.now,
    configFile,
    adminUrl: adminUrlOf(settings),
    startBrowser,
    interruption,
    maintenance: maintenance(settings, journalsOf(settings), givenMasterKey),
    open: () => keyTrouble(() => open(settings, configFile, givenMasterKey, terminal)),
    hasStore: () => settings.store !== "sqlite" || existsSync(storeFile(settings.dataDir)),
    explained: async () => ({ file: configFile, rows: await explainedRows(configFile, env) }),
    schemaText,
    readResourceText: (file) => readResourceText(file, env),
    readResources: async (file) => {
      const text = await readUtf8Text(file);
      if (typeof text !== "string") return { problems: [renderProblem(file, text)] };
      return desiredResources(file, { text, variables: withSecretFiles(text, env, readSecretFile) });
    },
  };
}

function adminUrlOf({ admin, tls }: Settings): string | null {
  if (admin === null) return null;
  // An address for listening on everything is not one to connect to.
  const host = admin.host === "0.0.0.0" ? "127.0.0.1" : admin.host === "::" ? "[::1]" : admin.host;
  return `${tls?.admin === true ? "https" : "http"}://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${admin.port}`;
}

async function explainedRows(file: string | null, env: Environment): Promise<readonly ExplainedSetting[]> {
  const { problem, settings } = await explainedConfiguration(file, env);
  if (problem !== null) throw new CommandError(problem, exitCodes.config);
  return settings;
}

async function open(settings: Settings, configFile: string | null, givenMasterKey: string | null, terminal: Terminal): Promise<OpenStore> {
  const isNew = settings.store === "sqlite" && !existsSync(storeFile(settings.dataDir));
  const { database, storage, masterKey, channelSecrets } = await openStore(settings, givenMasterKey, false, ({ table, id, column }) =>
    terminal.say(`note: a damaged row of ${table} was left out: ${JSON.stringify(id)} (column ${column})`),
  );
  // The operator may be in the wrong folder, or have forgotten --config.
  if (isNew) terminal.say(`note: there was no store in ${settings.dataDir}: created a new one.`);
  return {
    storage,
    reports: storage,
    wallMs: Date.now,
    digest: masterKey.digest,
    adminDigest: masterKey.adminDigest,
    makeKeyToken: () => makeToken(randomBytes),
    makeAdminToken: () => makeToken(randomBytes, adminTokenPrefix),
    hashPassword,
    definedAt: (list, name) => settings.places[list].get(name) ?? configFile ?? "the environment",
    fileKeys: () => settings.keys.map(({ key }) => key),
    fileGroups: () => settings.groups,
    tokenIssuers: () => settings.tokenIssuers.map(({ name }) => name),
    opensFileKey: (token) => settings.keys.some((key) => key.token === token),
    prices: () => ({ shipped: shippedPrices(), file: settings.prices }),
    channels: {
      isInFile: (name) => settings.channels.some((channel) => channel.name === name),
      check: async (entry, secrets) => {
        const { listen, admin, allowPrivate, dataDir } = settings;
        const own = [listen, ...(admin === null ? [] : [admin])].map(({ host, port }) => `${host}:${port}`);
        const reading = readRuntimeChannel(entry, secrets, { allowPrivate, localModels: (await localModels())(dataDir), own });
        return reading.ok ? [] : reading.problems;
      },
      seal: (channel, secrets) => channelSecrets.encrypt(channel, secrets),
      unseal: (channel, sealed) => {
        const opened = channelSecrets.decrypt(channel, sealed);
        return "kind" in opened ? null : opened;
      },
    },
    catchUp: () => caughtUp(journalsOf(settings), database, terminal),
    close: () => database.close(),
  };
}

function journalsOf({ dataDir }: Settings): string {
  return join(dataDir, "journal");
}

/** Without permission to read the folder, the command goes on with a note; without the store, it fails. */
async function caughtUp(journals: string, database: Database, terminal: Terminal): Promise<number> {
  try {
    return await catchUp({ folder: journals, database, report: (message) => terminal.say(`note: ${message}`) });
  } catch (error) {
    if (error instanceof StorageError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    terminal.say(`note: the latest receipts may be missing here, because ${journals} cannot be read: ${reason}`);
    return 0;
  }
}

function maintenance({ store, dataDir }: Settings, journals: string, givenMasterKey: string | null): StoreMaintenance {
  return {
    dataDir,
    masterKeyGiven: givenMasterKey !== null,
    masterKeyText: () => {
      const key = readKeyFile(masterKeyFile(dataDir));
      return key === null ? null : Buffer.from(key).toString("hex");
    },
    backup: (to, onProgress) => backupStore({ store, dataDir, given: givenMasterKey, to, onProgress }),
    restore: (from, onProgress) => restoreStore({ store, dataDir, given: givenMasterKey, from, onProgress }),
    isInUse: () => hasLivingJournal(journals),
    rotateMasterKey: (next, by, onProgress) =>
      keyTrouble(async () => {
        const database = await openDatabase({ store, dataDir, givenMasterKey });
        try {
          const rotation = { dataDir, given: givenMasterKey, next, database };
          await rotateMasterKey(rotation, ({ done, of }) => onProgress(done, of));
          await makeStorage(database, { wallMs: Date.now, newId }).audit.note("master_key.rotate", "master-key", {}, by);
        } finally {
          await database.close();
        }
      }),
  };
}

/** A missing or wrong master key is a configuration error. */
async function keyTrouble<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof MasterKeyError ? new CommandError(error.message, exitCodes.config) : error;
  }
}
