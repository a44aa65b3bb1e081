import { resolve } from "node:path";
import type { BackupRequest } from "./arguments.ts";
import { readPassphrase } from "./passphrase.ts";
import { json, plural } from "../shown-text.ts";
import { inUseProblem, type MaintenanceProgress, type RestoreResult } from "../../manage/backup.ts";
import type { CommandContext } from "../command-context.ts";
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
  if (passphrase !== null) terminal.say("Nobody can open it without the passphrase: keep that in another place.");
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

/** What is to be done before a gateway can be started on a restored store; null where its master key is here. */
function masterKeyWarning(masterKey: RestoreResult["masterKey"], context: CommandContext): string | null {
  const place = masterKeyPlace(context);
  const put = context.maintenance.masterKeyGiven ? `set ${place} to that one` : `put that one there, or set SLUICE_MASTER_KEY,`;
  const before = "before a gateway is started on it: it refuses to start with another.";
  switch (masterKey.kind) {
    case "fits":
      return null;
    case "replaced": {
      const copy = context.maintenance.masterKeyGiven ? `set ${place} to what is in that file` : `copy that file to ${place}`;
      return `warning: the store in it needs the master key that has been replaced since, and is kept as ${masterKey.file}: ${copy} ${before}`;
    }
    case "other":
      return `warning: the store in it needs another master key than ${place}, the one it had when the backup was made: ${put} ${before}`;
    case "missing":
      return `warning: the store in it needs the master key it had when the backup was made, and there is none as ${place}: ${put} ${before}`;
  }
}

async function rotate({ yes }: BackupRequestOf<"rotate">, context: CommandContext): Promise<void> {
  const { terminal, maintenance, by } = context;
  orThrow(inUseProblem(maintenance));
  await agreed(yes, "Replace the master key? All gateways of this store must be stopped, on other machines too.", context);
  // What comes by the environment cannot be replaced by us.
  const next = maintenance.masterKeyGiven ? (await terminal.secret("New master key (not shown): ")).trim() : null;
  await maintenance.rotateMasterKey(next, by, (done, of) => terminal.progress(`Encrypting secrets: ${done} of ${of}`));
  terminal.print("Replaced the master key.");
  terminal.say(
    next === null
      ? `Make a copy of ${masterKeyPlace(context)}, and give it to other machines of this store: backups do not hold it.`
      : "Set SLUICE_MASTER_KEY to the new one wherever a gateway of this store is started, and keep a copy: backups do not hold it.",
  );
  terminal.say(
    "Backups from before need the old one. One that was in the data folder is kept there as master-key.replaced-…: delete it when no such backup is left.",
  );
}

/** Asks where somebody is there; otherwise the answer must have been given with the command. */
async function agreed(yes: boolean, question: string, { terminal }: CommandContext): Promise<void> {
  if (yes) return;
  if (!terminal.asks) throw new CommandError("There is no terminal to ask for confirmation: give --yes to go ahead.", exitCodes.usage);
  if (!(await terminal.confirm(question))) throw new CommandError("Nothing was changed.");
}

function masterKeyPlace({ maintenance: { masterKeyGiven, dataDir } }: CommandContext): string {
  return masterKeyGiven ? "SLUICE_MASTER_KEY" : resolve(dataDir, "master-key");
}

function showProgress({ terminal }: CommandContext): (progress: MaintenanceProgress) => void {
  return ({ doing, doneBytes, totalBytes }) => {
    const percent = Math.min(100, Math.floor((100 * doneBytes) / Math.max(1, totalBytes)));
    terminal.progress(doing === "checking" ? "Checking the copy" : `${doing === "copying" ? "Copying" : "Encrypting"}: ${percent} %`);
  };
}
