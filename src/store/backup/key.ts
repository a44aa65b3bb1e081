import { scrypt } from "node:crypto";
import { StorageTrouble } from "../../gateway/storage.ts";
import type { BackupKeyHint } from "./header.ts";
import type { Database } from "../database.ts";
import { masterKeyFile, masterKeysAt, MasterKeyError, replacedKeysAt } from "../secrets/master-key-file.ts";
import { readMasterKeyRecord, decryptPepper } from "../secrets/master-key.ts";
import { deriveKey, keyBytes, encryptionKeyOf } from "../secrets/encryption.ts";

/** What a backup is sealed with: the master key of its store unless something else is wished. */
export type BackupProtection =
  | { readonly kind: "master_key" }
  | { readonly kind: "passphrase"; readonly passphrase: string }
  | { readonly kind: "plain" };

/** A key for backups, and what their headers say of it. */
export interface BackupKey {
  readonly hint: BackupKeyHint;
  readonly secret: (salt: Uint8Array) => Promise<Uint8Array>;
}

export interface BackupKeyOptions {
  readonly dataDir: string;
  /** The master key, where the environment gives it. */
  readonly given: string | null;
}

/** The key for a backup of this store; null where it is to be plain. A master key that is not the store's own seals nothing. */
export async function encryptionKeyFor(protection: BackupProtection, place: BackupKeyOptions, store: Database): Promise<BackupKey | null> {
  if (protection.kind === "plain") return null;
  if (protection.kind === "passphrase") return passphraseKey(protection.passphrase, workLog2Usual);
  return (await storeMasterKey(place, store)) ?? fail(withoutOwnKey(place));
}

/** The master key at hand that the store was begun with; null where there is none. */
export async function storeMasterKey({ dataDir, given }: BackupKeyOptions, store: Database): Promise<BackupKey | null> {
  return toStorageErrors(async () => {
    const lock = await readMasterKeyRecord(store);
    const own = masterKeysAt(dataDir, given).find((key) => lock !== null && decryptPepper(lock, encryptionKeyOf(key)) !== null);
    return own === undefined ? null : masterKey(own);
  });
}

/**
 * Whether a store could be begun with the master key that is here: it could, or it needs the one that is kept in this file since it
 * was replaced, or one that is not here, where there is another one or none.
 */
export type MasterKeyFit =
  | { readonly kind: "fits" }
  | { readonly kind: "replaced"; readonly file: string }
  | { readonly kind: "other" }
  | { readonly kind: "missing" };

export async function masterKeyFitOf({ dataDir, given }: BackupKeyOptions, store: Database): Promise<MasterKeyFit> {
  const lock = await toStorageErrors(() => readMasterKeyRecord(store));
  const opens = (key: Uint8Array): boolean => lock !== null && decryptPepper(lock, encryptionKeyOf(key)) !== null;
  try {
    const keys = masterKeysAt(dataDir, given);
    if (lock === null || keys.some(opens)) return { kind: "fits" };
    const replaced = replacedKeysAt(dataDir).find(({ bytes }) => opens(bytes));
    if (replaced !== undefined) return { kind: "replaced", file: replaced.file };
    return { kind: keys.length === 0 ? "missing" : "other" };
  } catch (error) {
    // What lies there is no master key, and a restore is not the moment to refuse for it.
    if (error instanceof MasterKeyError) return { kind: "other" };
    throw error;
  }
}

/** The key that a backup asks for. Throws where it is not at hand, with what is to be done. */
export function decryptionKeyFor(
  file: string,
  hint: BackupKeyHint,
  passphrase: string | null,
  { dataDir, given }: BackupKeyOptions,
): BackupKey {
  if (hint.kind === "passphrase") {
    return passphrase === null ? fail(passphraseNeeded(file)) : passphraseKey(passphrase, hint.workLog2);
  }
  const keys = toStorageErrorsSync(() => [...masterKeysAt(dataDir, given), ...replacedKeysAt(dataDir).map(({ bytes }) => bytes)]).map(
    masterKey,
  );
  const found = keys.find((key) => key.hint.kind === "master_key" && key.hint.version === hint.version);
  return found ?? fail(keys.length === 0 ? noMasterKey(file, dataDir) : otherMasterKey(file, dataDir, given !== null));
}

/** Why a passphrase is none; null when it is one. Whoever has the file may try as many as they like. */
export function passphraseProblem(passphrase: string): string | null {
  if (passphrase.length >= passphraseCharactersMin && passphrase.length <= passphraseCharactersMax) return null;
  return `A passphrase for backups must have ${passphraseCharactersMin} to ${passphraseCharactersMax} characters.`;
}

function masterKey(master: Uint8Array): BackupKey {
  return {
    hint: { kind: "master_key", version: encryptionKeyOf(master).version },
    secret: () => Promise.resolve(deriveKey(master, "sluice backup key 1", keyBytes)),
  };
}

function passphraseKey(passphrase: string, workLog2: number): BackupKey {
  const problem = passphraseProblem(passphrase);
  if (problem !== null) throw new StorageTrouble("invalid", problem);
  return {
    hint: { kind: "passphrase", workLog2 },
    secret: (salt) => derivePassphraseKey(passphrase.normalize("NFC"), salt, workLog2),
  };
}

function derivePassphraseKey(passphrase: string, salt: Uint8Array, workLog2: number): Promise<Uint8Array> {
  const cost = { N: 2 ** workLog2, r: 8, p: 1, maxmem: 2 ** workLog2 * 1024 * 2 };
  return new Promise((resolve, reject) => {
    scrypt(passphrase, salt, keyBytes, cost, (error, key) => (error == null ? resolve(new Uint8Array(key)) : reject(error)));
  });
}

/** 128 MiB and less than a second. */
const workLog2Usual = 17;
const passphraseCharactersMin = 16;
const passphraseCharactersMax = 1024;

function withoutOwnKey({ dataDir }: BackupKeyOptions): StorageTrouble {
  return new StorageTrouble(
    "missing",
    `There is nothing to encrypt the backup with: the master key of this store is neither ${masterKeyFile(dataDir)} nor SLUICE_MASTER_KEY. ` +
      "Put it there, give --passphrase-file, or give --plain for a backup that anybody can read.",
  );
}

function passphraseNeeded(file: string): StorageTrouble {
  return new StorageTrouble("missing", `${file} is encrypted with a passphrase: give the file that holds it as --passphrase-file.`);
}

function noMasterKey(file: string, dataDir: string): StorageTrouble {
  return new StorageTrouble(
    "missing",
    `${file} is encrypted with the master key of its store, and there is none here. Copy that to ${masterKeyFile(dataDir)}, or set ` +
      "SLUICE_MASTER_KEY: the store in it needs it, too.",
  );
}

function otherMasterKey(file: string, dataDir: string, given: boolean): StorageTrouble {
  const which = given ? "SLUICE_MASTER_KEY" : `the one in ${masterKeyFile(dataDir)}`;
  return new StorageTrouble(
    "invalid",
    `${file} is encrypted with another master key than ${which}. Put the one in its place that the store had when the backup was made: ` +
      "the store in it needs it, too.",
  );
}

async function toStorageErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw translated(error);
  }
}

function toStorageErrorsSync<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw translated(error);
  }
}

function translated(error: unknown): unknown {
  return error instanceof MasterKeyError ? new StorageTrouble("invalid", error.message) : error;
}

function fail(error: Error): never {
  throw error;
}
