import { resolve } from "node:path";
import type { BackupRequest } from "./arguments.ts";
import { readPassphrase } from "./passphrase.ts";
import { json, plural } from "../shown-text.ts";
import type { KeepingProgress, Restored, StoreWorld } from "../store-world.ts";
import { CommandTrouble, exitCodes } from "../trouble.ts";

type Of<Act extends BackupRequest["act"]> = Extract<BackupRequest, { readonly act: Act }>;

export async function runBackup(request: BackupRequest, world: StoreWorld): Promise<void> {
  try {
    switch (request.act) {
      case "backup":
        return await backup(request, world);
      case "restore":
        return await restore(request, world);
      case "rotate":
        return await rotate(request, world);
    }
  } finally {
    world.terminal.progress(null);
  }
}

async function backup({ file, json: asJson, plain, passphraseFile }: Of<"backup">, world: StoreWorld): Promise<void> {
  const { terminal, keeping } = world;
  const passphrase = passphraseFile === null ? null : readPassphrase(passphraseFile);
  const protection = plain
    ? ({ kind: "plain" } as const)
    : passphrase === null
      ? ({ kind: "master_key" } as const)
      : ({ kind: "passphrase", passphrase } as const);
  const { bytes } = await keeping.backup({ file, protection }, showProgress(world));
  const how = shownProtections[protection.kind];
  terminal.print(
    asJson
      ? json({ file: resolve(file), bytes, encrypted_with: plain ? null : protection.kind })
      : `The store is backed up in ${resolve(file)} (${plural(bytes, "byte")}, ${how}).`,
  );
  if (passphrase !== null) terminal.say("Without its passphrase nobody can open it: keep that in another place.");
  terminal.say(
    `The backup does not hold the master key, without which it is of no use: keep a copy of ${masterKeyPlace(world)} in another place.`,
  );
}

const shownProtections = {
  master_key: "encrypted with the master key",
  passphrase: "encrypted with the passphrase",
  plain: "not encrypted",
} as const;

async function restore({ file, yes, json: asJson, checkOnly, passphraseFile }: Of<"restore">, world: StoreWorld): Promise<void> {
  const { terminal, keeping } = world;
  const passphrase = passphraseFile === null ? null : readPassphrase(passphraseFile);
  if (checkOnly) {
    const { masterKey } = await keeping.restore({ file, passphrase, checkOnly }, showProgress(world));
    const warning = masterKeyWarning(masterKey, world);
    const good = `${resolve(file)} is a good backup${warning === null ? ", and can be restored here" : ""}.`;
    terminal.print(asJson ? json({ checked: resolve(file), master_key: masterKey.kind }) : good);
    if (warning !== null) terminal.say(warning);
    return;
  }
  await agreed(yes, `Put ${file} in the place of the store in ${keeping.dataDir}? What is there is kept beside it.`, world);
  const { replaced, masterKey } = await keeping.restore({ file, passphrase, checkOnly }, showProgress(world));
  const kept = replaced === null ? "There was none before." : `The one before is kept as ${replaced}.`;
  terminal.print(
    asJson
      ? json({ restored: resolve(file), replaced, master_key: masterKey.kind })
      : `The store is restored from ${resolve(file)}. ${kept}`,
  );
  terminal.say(masterKeyWarning(masterKey, world) ?? `The master key it needs is the one here, ${masterKeyPlace(world)}.`);
}

/** What is to be done before a gateway can be started on a restored store; null where its master key is here. */
function masterKeyWarning(masterKey: Restored["masterKey"], world: StoreWorld): string | null {
  const place = masterKeyPlace(world);
  const put = world.keeping.masterKeyGiven ? `set ${place} to that one` : `put that one there, or set SLUICE_MASTER_KEY,`;
  const before = "before a gateway is started on it: it refuses to start with another.";
  switch (masterKey.kind) {
    case "fits":
      return null;
    case "replaced": {
      const copy = world.keeping.masterKeyGiven ? `set ${place} to what is in that file` : `copy that file to ${place}`;
      return `warning: the store in it needs the master key that has been replaced since, and is kept as ${masterKey.file}: ${copy} ${before}`;
    }
    case "other":
      return `warning: the store in it needs another master key than ${place}, the one it had when the backup was made: ${put} ${before}`;
    case "missing":
      return `warning: the store in it needs the master key it had when the backup was made, and there is none as ${place}: ${put} ${before}`;
  }
}

async function rotate({ yes }: Of<"rotate">, world: StoreWorld): Promise<void> {
  const { terminal, keeping, by } = world;
  if (keeping.isInUse()) throw new CommandTrouble(`A gateway uses ${keeping.dataDir}. Stop all gateways of this store first.`);
  await agreed(yes, "Replace the master key? All gateways of this store must be stopped, on other machines too.", world);
  // What comes by the environment cannot be replaced by us.
  const next = keeping.masterKeyGiven ? (await terminal.secret("The new master key (it is not shown): ")).trim() : null;
  await keeping.rotateMasterKey(next, by, (done, of) => terminal.progress(`Encrypting secrets: ${done} of ${of}`));
  terminal.print("The master key is replaced.");
  terminal.say(
    next === null
      ? `Make a copy of ${masterKeyPlace(world)}, and give it to other machines of this store: backups do not hold it.`
      : "Set SLUICE_MASTER_KEY to the new one wherever a gateway of this store is started, and keep a copy: backups do not hold it.",
  );
  terminal.say(
    "Backups from before need the old one. One that was in the data folder is kept there as master-key.replaced-…: delete it when no such backup is left.",
  );
}

/** Asks where somebody is there; otherwise the answer must have been given with the command. */
async function agreed(yes: boolean, question: string, { terminal }: StoreWorld): Promise<void> {
  if (yes) return;
  if (!terminal.asks) throw new CommandTrouble("There is nobody to ask: give --yes to do it all the same.", exitCodes.usage);
  if (!(await terminal.confirm(question))) throw new CommandTrouble("Nothing was changed.");
}

function masterKeyPlace({ keeping: { masterKeyGiven, dataDir } }: StoreWorld): string {
  return masterKeyGiven ? "SLUICE_MASTER_KEY" : resolve(dataDir, "master-key");
}

function showProgress({ terminal }: StoreWorld): (progress: KeepingProgress) => void {
  return ({ doing, doneBytes, totalBytes }) => {
    const percent = Math.min(100, Math.floor((100 * doneBytes) / Math.max(1, totalBytes)));
    terminal.progress(doing === "checking" ? "Checking the copy" : `${doing === "copying" ? "Copying" : "Encrypting"}: ${percent} %`);
  };
}
