import { open, rm } from "node:fs/promises";
import { resolve } from "node:path";
import type { RunningAdminApi } from "../admin-api.ts";
import type { CommandSurroundings } from "../command-context.ts";
import { CommandError, exitCodes } from "../command-error.ts";
import { placeOf } from "../management/api-paths.ts";
import { json, plural, shown } from "../shown-text.ts";
import type { BackupRequest } from "./arguments.ts";
import { showProgress } from "./command.ts";

interface KeptBackupsView {
  readonly master_key: string;
  readonly running: {
    readonly doing: "copying" | "checking" | "encrypting";
    readonly done_bytes: number;
    readonly total_bytes: number;
  } | null;
  readonly failure: string | null;
  readonly backups: readonly { readonly name: string; readonly bytes: number }[];
}

/** Lets a gateway elsewhere make a backup, and brings it here. */
export async function runRemoteBackup(request: BackupRequest, api: RunningAdminApi, context: CommandSurroundings): Promise<void> {
  if (request.act === "show") throw new CommandError(shownThere, exitCodes.usage);
  if (request.act !== "backup") throw new CommandError(stoppedOnly, exitCodes.usage);
  if (request.plain || request.passphraseFile !== null) throw new CommandError(masterKeyOnly, exitCodes.usage);
  const { terminal } = context;
  const signal = context.interruption();
  // Before anything is made elsewhere.
  const file = await open(request.file, "wx", 0o600).catch((error: unknown) => {
    throw cannotWrite(request.file, error);
  });
  try {
    const { name, masterKey, whole } = await made(api, context, signal);
    let bytes = 0;
    const { body } = await api.request("GET", placeOf("backups", name), { signal });
    for await (const piece of (body ?? []) as AsyncIterable<Uint8Array>) {
      await file.writeFile(piece);
      bytes += piece.length;
      terminal.progress(`Downloading: ${bytes} bytes`);
    }
    if (bytes !== whole) throw new CommandError(`The download ended after ${bytes} of ${whole} bytes: try again.`, exitCodes.unavailable);
    await file.sync();
    await file.close();
    // The gateway keeps a few only, so that this can be done every day.
    await api.json("DELETE", placeOf("backups", name));
    terminal.progress(null);
    const target = resolve(request.file);
    terminal.print(
      request.json
        ? json({ file: target, bytes, encrypted_with: "master_key" })
        : `Backed up the store of the gateway to ${target} (${plural(bytes, "byte")}, encrypted with its master key).`,
    );
    terminal.say(
      `The backup does not contain the master key, and is useless without it: keep a copy of ${shown(masterKey)} of the gateway in another place.`,
    );
  } catch (error) {
    terminal.progress(null);
    await file.close().catch(() => undefined);
    await rm(request.file, { force: true });
    if (signal.aborted) throw new CommandError("Stopped: nothing was kept here.", exitCodes.interrupt);
    throw error;
  }
}

/** Returns the name and the length of a new backup when it is complete. */
async function made(
  api: RunningAdminApi,
  context: CommandSurroundings,
  signal: AbortSignal,
): Promise<{ readonly name: string; readonly whole: number; readonly masterKey: string }> {
  const before = new Set((await api.json<KeptBackupsView>("GET", "/backups")).backups.map(({ name }) => name));
  let state = await api.json<KeptBackupsView>("POST", "/backups", {});
  while (state.running !== null) {
    signal.throwIfAborted();
    const { doing, done_bytes, total_bytes } = state.running;
    showProgress(context)({ doing, doneBytes: done_bytes, totalBytes: total_bytes });
    await Bun.sleep(askAgainMs);
    state = await api.json<KeptBackupsView>("GET", "/backups");
  }
  if (state.failure !== null) throw new CommandError(`The gateway could not make the backup: ${state.failure}`);
  // Another may have been made right after it. Names are in the order of time.
  const [own] = state.backups.filter(({ name }) => !before.has(name)).toSorted((one, other) => (one.name < other.name ? -1 : 1));
  if (own === undefined) throw new CommandError("The backup is not there any more: somebody else has deleted it.");
  return { name: own.name, whole: own.bytes, masterKey: state.master_key };
}

const askAgainMs = 250;

function cannotWrite(file: string, error: unknown): CommandError {
  const { code = "unknown reason" } = error as { readonly code?: string };
  const why = code === "EEXIST" ? "it exists already, and is not replaced" : `it cannot be written (${code})`;
  return new CommandError(`${file}: ${why}. Choose another name.`, exitCodes.usage);
}

const masterKeyOnly =
  "A gateway elsewhere encrypts its backups with its master key: leave --plain and --passphrase-file out, or run this where the store can be " +
  "reached, with --config, and without --url and SLUICE_ADMIN_URL.";

const shownThere = "The master key is shown on the machine of the gateway alone: run `sluice master-key show` there.";
const stoppedOnly =
  "This replaces the store or its master key, for which all gateways must be stopped: run it where the store can be reached, with --config, " +
  "and without --url and SLUICE_ADMIN_URL.";
