import { access, constants, mkdir, rmdir, stat, statfs } from "node:fs/promises";
import { lookup } from "node:dns/promises";
import { dirname, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ConfigurationReport, DoctorContext } from "../cli/doctor/command.ts";
import { doubtful, failed, fine, type Diagnosis } from "../cli/doctor/diagnosis.ts";
import type { DataDirReport } from "../cli/doctor/machine.ts";
import { isExecutable } from "../cli/process/executable.ts";
import { openFilesMax } from "../cli/process/open-files.ts";
import { temporaryDirectoryProblem } from "../cli/process/temporary-directory.ts";
import { listenError } from "../cli/process/workers.ts";
import type { Terminal } from "../cli/terminal.ts";
import { isLocalModel } from "../channels/channel.ts";
import { renderProblem, type Loaded } from "../config/load.ts";
import { defaultDataDir } from "../config/schema.ts";
import type { Settings } from "../config/settings.ts";
import { localModels } from "../engines/catalog.ts";
import { missingCodecs, onnxProblem } from "../engines/command.ts";
import { memoryLimitBytes } from "../http/overload/memory-share.ts";
import { RedisLink } from "../state/redis/link.ts";
import { schemaVersion } from "../store/schema-version.ts";

/** Connects `sluice doctor` to the machine, the configuration and the store. */
export function doctorContext(file: string | null, loaded: Loaded, bunWanted: string, terminal: Terminal): DoctorContext {
  const settings = loaded.ok ? loaded.settings : null;
  const dataDir = settings?.dataDir ?? defaultDataDir;
  return {
    terminal,
    configuration: configurationReport(file, loaded),
    machine: async () => ({
      bun: process.versions["bun"] ?? "unknown",
      bunWanted,
      openFiles: openFilesMax(),
      memoryBytes: memoryLimitBytes(),
      temporaryProblem: temporaryDirectoryProblem(),
      dataDir: await dataDirReport(dataDir),
      local: isExecutable
        ? null
        : {
            models: (await localModels())(dataDir).map(({ id }) => id),
            missingCodecs: missingCodecs(),
            onnxProblem: await onnxProblem(),
          },
    }),
    listenError,
    probe: { fetch, resolves, nowMs: () => performance.now(), wallMs: Date.now },
    store: () => (settings === null ? Promise.resolve(fine("store", "not looked at")) : storeDiagnosis(settings)),
    state: () => (settings === null || settings.state === "memory" ? Promise.resolve(null) : stateDiagnosis(settings.state)),
  };
}

function configurationReport(file: string | null, loaded: Loaded): ConfigurationReport {
  const words = (problem: Parameters<typeof renderProblem>[1]): string => renderProblem(file, problem);
  const name = file ?? "The environment";
  if (!loaded.ok) return { name, problems: loaded.problems.map(words), warnings: [], settings: null };
  const { listen, admin, tls, channels } = loaded.settings;
  return {
    name,
    problems: [],
    warnings: loaded.warnings.map(words),
    settings: {
      listen,
      admin,
      hasTls: tls !== null,
      channels: channels
        .filter(({ address }) => !isLocalModel(address))
        .map(({ name: channel, address: { baseUrl }, proxy }) => ({ name: channel, baseUrl, proxy })),
    },
  };
}

async function dataDirReport(dataDir: string): Promise<DataDirReport> {
  const path = resolve(dataDir);
  const near = await nearestFolder(path);
  return { path, problem: await writeProblem(near), freeBytes: await freeBytesOf(near) };
}

/** A folder that does not exist yet is made in the nearest one above it that does. */
async function nearestFolder(path: string): Promise<string> {
  for (let folder = path; ; folder = dirname(folder)) {
    try {
      await stat(folder);
      return folder;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || dirname(folder) === folder) return folder;
    }
  }
}

/** Permissions do not tell of read-only disks and full ones, so a folder is made and removed. */
async function writeProblem(folder: string): Promise<string | null> {
  const probe = resolve(folder, `.sluice-doctor-${process.pid}`);
  try {
    await access(folder, constants.R_OK | constants.X_OK);
    await mkdir(probe);
    await rmdir(probe);
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}

async function freeBytesOf(folder: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    return null;
  }
}

async function resolves(host: string): Promise<boolean> {
  try {
    await lookup(host.replaceAll(/^\[|\]$/g, ""));
    return true;
  } catch {
    return false;
  }
}

async function storeDiagnosis({ store, dataDir }: Settings): Promise<Diagnosis> {
  const name = store === "sqlite" ? `The store in ${dataDir}` : "The store";
  try {
    const version = await schemaVersion({ store, dataDir });
    if (version === null) return fine("store", `There is no store in ${dataDir} yet; the first start makes it`);
    const { schema, missing } = version;
    if (missing === 0) return fine("store", `${name} can be read; its schema is ${schema}`);
    return doubtful(
      "store",
      `${name} has schema ${schema}; ${missing} steps are missing`,
      "The next start upgrades it. Make a backup first: sluice backup",
    );
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return failed(
      "store",
      message,
      store === "sqlite"
        ? "Check the file and its owner; docs/store.md says how to restore a backup."
        : "Check that the server runs, and the address under store.",
    );
  }
}

async function stateDiagnosis(url: string): Promise<Diagnosis> {
  const host = URL.parse(url)?.host ?? "the server";
  const link = new RedisLink({ url, connectMs: stateMs });
  try {
    const late = sleep(stateMs).then(() => Promise.reject(new Error("it does not answer in time")));
    await Promise.race([link.send("PING", []), late]);
    return fine("state", `${host} answers, and shares the limits`);
  } catch (error) {
    // The message of a client may contain the address, and the password in it.
    const reason = ((error as { readonly code?: unknown }).code as string | undefined) ?? "no answer";
    return failed("state", `${host} cannot be used (${reason})`, "Check that it runs, and the address and the password under state.");
  } finally {
    link.close();
  }
}

const stateMs = 3_000;
