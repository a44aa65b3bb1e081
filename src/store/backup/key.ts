import { scrypt } from "node:crypto";
import { StorageError } from "../../gateway/storage.ts";
import type { BackupKeyHint } from "./header.ts";
import type { Database } from "../database.ts";
import { masterKeyFile, masterKeysAt, MasterKeyError, replacedKeysAt } from "../secrets/master-key-file.ts";
import { readMasterKeyRecord, decryptPepper } from "../secrets/master-key.ts";
import { deriveKey, keyBytes, encryptionKeyOf } from "../secrets/encryption.ts";

/** How a backup is encrypted: with the master key of its store unless another way is requested. */
export type BackupProtection =
  | { readonly kind: "master_key" }
  | { readonly kind: "passphrase"; readonly passphrase: string }
  | { readonly kind: "plain" };

/** A key for backups, and what their headers say about it. */
export interface BackupKey {
  readonly hint: BackupKeyHint;
  readonly secret: (salt: Uint8Array) => Promise<Uint8Array>;
}

export interface BackupKeyOptions {
  readonly dataDir: string;
  /** The master key, if the environment sets it. */
  readonly given: string | null;
}

/** The key for a backup of this store; null for a plain one. A master key of another store is never used. */
export async function encryptionKeyFor(
  protection: BackupProtection,
  options: BackupKeyOptions,
  store: Database,
): Promise<BackupKey | null> {
  if (protection.kind === "plain") return null;
  if (protection.kind === "passphrase") return passphraseKey(protection.passphrase, defaultWorkLog2);
  return (await storeMasterKey(options, store)) ?? fail(withoutOwnKey(options));
}

/** The available master key that belongs to this store; null if there is none. */
export async function storeMasterKey({ dataDir, given }: BackupKeyOptions, store: Database): Promise<BackupKey | null> {
  return toStorageErrors(async () => {
    const record = await readMasterKeyRecord(store);
    const own = masterKeysAt(dataDir, given).find((key) => record !== null && decryptPepper(record, encryptionKeyOf(key)) !== null);
    return own === undefined ? null : masterKey(own);
  });
}

/**
 * Whether the available master key fits a restored store: it does, or the store needs a replaced key that is kept in `file`, or
 * another key than the available one, or there is no key at all.
 */
export type MasterKeyFit =
  | { readonly kind: "fits" }
  | { readonly kind: "replaced"; readonly file: string }
  | { readonly kind: "other" }
  | { readonly kind: "missing" };

export async function masterKeyFitOf({ dataDir, given }: BackupKeyOptions, store: Database): Promise<MasterKeyFit> {
  const record = await toStorageErrors(() => readMasterKeyRecord(store));
  const opens = (key: Uint8Array): boolean => record !== null && decryptPepper(record, encryptionKeyOf(key)) !== null;
  try {
    const keys = masterKeysAt(dataDir, given);
    if (record === null || keys.some(opens)) return { kind: "fits" };
    const replaced = replacedKeysAt(dataDir).find(({ bytes }) => opens(bytes));
    if (replaced !== undefined) return { kind: "replaced", file: replaced.file };
    return { kind: keys.length === 0 ? "missing" : "other" };
  } catch (error) {
    // The key file is invalid, which must not stop a restore.
    if (error instanceof MasterKeyError) return { kind: "other" };
    throw error;
  }
}

/** The key for decrypting a backup. Throws with instructions if it is not available. */
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

/** Why a passphrase is not accepted; null if it is. It must be long, because whoever has the file can try any number of them. */
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
  if (problem !== null) throw new StorageError("invalid", problem);
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

/** scrypt with 128 MiB: less than a second. */
const defaultWorkLog2 = 17;
const passphraseCharactersMin = 16;
const passphraseCharactersMax = 1024;

function withoutOwnKey({ dataDir }: BackupKeyOptions): StorageError {
  return new StorageError(
    "missing",
    `There is nothing to encrypt the backup with: the master key of this store is neither ${masterKeyFile(dataDir)} nor SLUICE_MASTER_KEY. ` +
      "Provide it, give --passphrase-file, or give --plain for a backup that anybody can read.",
  );
}

function passphraseNeeded(file: string): StorageError {
  return new StorageError("missing", `${file} is encrypted with a passphrase: give the file that holds it as --passphrase-file.`);
}

function noMasterKey(file: string, dataDir: string): StorageError {
  return new StorageError(
    "missing",
    `${file} is encrypted with the master key of its store, and there is none here. Copy that key to ${masterKeyFile(dataDir)}, or set ` +
      "SLUICE_MASTER_KEY. The restored store needs it too.",
  );
}

function otherMasterKey(file: string, dataDir: string, given: boolean): StorageError {
  const which = given ? "SLUICE_MASTER_KEY" : `the one in ${masterKeyFile(dataDir)}`;
  return new StorageError(
    "invalid",
    `${file} is encrypted with another master key than ${which}. Replace it by the one that the store had when the backup was made. ` +
      "The restored store needs it too.",
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
  return error instanceof MasterKeyError ? new StorageError("invalid", error.message) : error;
}

function fail(error: Error): never {
  throw error;
}
