import { resolve } from "node:path";
import type { BackupRequest } from "./arguments.ts";
import { readPassphrase } from "./passphrase.ts";
import { json, plural } from "../shown-text.ts";
import { inUseProblem, type MaintenanceProgress, type RestoreResult } from "../../manage/backup.ts";
import type { CommandContext, CommandSurroundings } from "../command-context.ts";
import { CommandError, exitCodes, orThrow } from "../command-error.ts";

type BackupRequestOf<Act extends BackupRequest["act"]> = Extract<BackupRequest, { readonly act: Act }>;

export async function runBackup(request: BackupRequest, context: CommandContext): Promise<void> {
  try {
    switch (request.act) {
      case "backup":
        return await backup(request, context);
      case "restore":
        return await restore(request, context);
      case "rotate":
        return await rotate(request, context);
      case "show":
        return showMasterKey(context);
    }
  } finally {
    context.terminal.progress(null);
  }
}

async function backup({ file, json: asJson, plain, passphraseFile }: BackupRequestOf<"backup">, context: CommandContext): Promise<void> {
  const { terminal, maintenance } = context;
  const passphrase = passphraseFile === null ? null : readPassphrase(passphraseFile);
  const protection = plain
    ? ({ kind: "plain" } as const)
    : passphrase === null
      ? ({ kind: "master_key" } as const)
      : ({ kind: "passphrase", passphrase } as const);
  const { bytes } = await maintenance.backup({ file, protection }, showProgress(context));
  const how = shownProtections[protection.kind];
  terminal.print(
    asJson
      ? json({ file: resolve(file), bytes, encrypted_with: plain ? null : protection.kind })
      : `Backed up the store to ${resolve(file)} (${plural(bytes, "byte")}, ${how}).`,
  );
  if (passphrase !== null) terminal.say("The backup cannot be opened without the passphrase: keep that in another place.");
  terminal.say(
    `The backup does not contain the master key, and is useless without it: keep a copy of ${masterKeyPlace(context)} in another place.`,
  );
}

const shownProtections = {
  master_key: "encrypted with the master key",
  passphrase: "encrypted with the passphrase",
  plain: "not encrypted",
} as const;

async function restore(
  { file, yes, json: asJson, checkOnly, passphraseFile }: BackupRequestOf<"restore">,
  context: CommandContext,
): Promise<void> {
  const { terminal, maintenance } = context;
  const passphrase = passphraseFile === null ? null : readPassphrase(passphraseFile);
  if (checkOnly) {
    const { masterKey } = await maintenance.restore({ file, passphrase, checkOnly }, showProgress(context));
    const warning = masterKeyWarning(masterKey, context);
    const good = `${resolve(file)} is a valid backup${warning === null ? ", and can be restored here" : ""}.`;
    terminal.print(asJson ? json({ checked: resolve(file), master_key: masterKey.kind }) : good);
    if (warning !== null) terminal.say(warning);
    return;
  }
  await agreed(yes, `Replace the store in ${maintenance.dataDir} with ${file}? The present store is kept beside it.`, context);
  const { replaced, masterKey } = await maintenance.restore({ file, passphrase, checkOnly }, showProgress(context));
  const kept = replaced === null ? "There was no store before." : `The previous store is kept as ${replaced}.`;
  terminal.print(
    asJson ? json({ restored: resolve(file), replaced, master_key: masterKey.kind }) : `Restored the store from ${resolve(file)}. ${kept}`,
  );
  terminal.say(masterKeyWarning(masterKey, context) ?? `Its master key is the one here, ${masterKeyPlace(context)}.`);
}

/** What to do before a gateway can start on a restored store; null if its master key is here. */
function masterKeyWarning(masterKey: RestoreResult["masterKey"], context: CommandContext): string | null {
  const place = masterKeyPlace(context);
  const put = context.maintenance.masterKeyGiven ? `set ${place} to it` : `put it there, or set SLUICE_MASTER_KEY,`;
  const before = "before you start a gateway, which refuses to start with another one.";
  switch (masterKey.kind) {
    case "fits":
      return null;
    case "replaced": {
      const copy = context.maintenance.masterKeyGiven ? `set ${place} to what is in that file` : `copy that file to ${place}`;
      return `warning: this backup needs the previous master key, which is kept as ${masterKey.file}: ${copy} ${before}`;
    }
    case "other":
      return `warning: this backup needs the master key that the store had when it was made, and ${place} is another one: ${put} ${before}`;
    case "missing":
      return `warning: this backup needs the master key that the store had when it was made, and there is none in ${place}: ${put} ${before}`;
  }
}

async function rotate({ yes }: BackupRequestOf<"rotate">, context: CommandContext): Promise<void> {
  const { terminal, maintenance, actor } = context;
  orThrow(inUseProblem(maintenance));
  await agreed(yes, "Replace the master key? All gateways of this store must be stopped, on other machines too.", context);
  // A master key in the environment can only be replaced by the operator.
  const next = maintenance.masterKeyGiven ? (await terminal.secret("New master key (not shown): ")).trim() : null;
  await maintenance.rotateMasterKey(next, actor, (done, of) => terminal.progress(`Encrypting secrets: ${done} of ${of}`));
  terminal.print("Replaced the master key.");
  terminal.say(
    next === null
      ? `Copy ${masterKeyPlace(context)} to another place, and to the other machines of this store: backups do not contain it.`
      : "Set SLUICE_MASTER_KEY to the new one wherever a gateway of this store is started, and keep a copy: backups do not contain it.",
  );
  terminal.say(
    "Older backups need the old one. If it was in the data folder, it is kept there as master-key.replaced-…: delete it when you have no such backup left.",
  );
}

/** Images without a shell have no other way to copy it. */
function showMasterKey(context: CommandContext): void {
  const { terminal, maintenance } = context;
  if (maintenance.masterKeyGiven)
    throw new CommandError("The master key is the one in SLUICE_MASTER_KEY, not in the data folder: copy it from where that is set.");
  const text = maintenance.masterKeyText();
  if (text === null)
    throw new CommandError(
      `There is no master key in ${masterKeyPlace(context)} yet: the gateway makes it when it starts for the first time.`,
    );
  terminal.print(text);
}

/** Asks at a terminal; a script has to give `--yes`. */
async function agreed(yes: boolean, question: string, { terminal }: CommandContext): Promise<void> {
  if (yes) return;
  if (!terminal.isInteractive)
    throw new CommandError("There is no terminal to ask for confirmation: give --yes to go ahead.", exitCodes.usage);
  if (!(await terminal.confirm(question))) throw new CommandError("Nothing was changed.");
}

function masterKeyPlace({ maintenance: { masterKeyGiven, dataDir } }: CommandContext): string {
  return masterKeyGiven ? "SLUICE_MASTER_KEY" : resolve(dataDir, "master-key");
}

export function showProgress({ terminal }: CommandSurroundings): (progress: MaintenanceProgress) => void {
  return ({ doing, doneBytes, totalBytes }) => {
    const percent = Math.min(100, Math.floor((100 * doneBytes) / Math.max(1, totalBytes)));
    terminal.progress(doing === "checking" ? "Checking the copy" : `${doing === "copying" ? "Copying" : "Encrypting"}: ${percent} %`);
  };
}
