import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import type { Database } from "../database.ts";
import { givenMasterKey, makeKeyFile, masterKeyFile, MasterKeyError, nextKeyFile, promoteKeyFile, readKeyFile } from "./master-key-file.ts";
import {
  carriedKeyOf,
  deriveKey,
  keyBytes,
  decryptBytes,
  encryptBytes,
  encryptionKeyOf,
  type AssociatedData,
  type EncryptionKey,
  makeTokenDigest,
  type TokenDigest,
} from "./encryption.ts";
import { sql } from "../sql.ts";
import { parsedObject } from "../stored-json.ts";

/** The keys that are derived from the master key of a store. */
export interface MasterKey {
  /** The key of the client tokens' hash. It stays the same when the master key is rotated. */
  readonly pepper: Uint8Array;
  /** Wraps the data keys of channels. */
  readonly sealing: EncryptionKey;
  /** The key that is about to replace it, during a rotation. */
  readonly next: EncryptionKey | null;
  /** The hash of a client's token. */
  readonly digest: TokenDigest;
  /** The hash of sessions, admin tokens and the bootstrap token. */
  readonly adminDigest: TokenDigest;
  /** Seals what clients carry for upstreams. Like the pepper, it stays the same when the master key is rotated. */
  readonly carried: EncryptionKey;
}

export interface MasterKeyOptions {
  readonly dataDir: string;
  /** The value of SLUICE_MASTER_KEY; null if it is not set. */
  readonly given: string | null;
  readonly database: Database;
}

/**
 * The master key of this store: from the environment, or from the data folder, where it is generated on the first start. Rejects a
 * key that is not the one of this store.
 */
export async function openMasterKey(options: MasterKeyOptions): Promise<MasterKey> {
  const { dataDir, database } = options;
  // The order matters, because other processes may start at the same time: each creates the key file before the record, and the
  // record before any token.
  const hasData = await hasEncryptedData(database);
  const record = await readMasterKeyRecord(database);
  const found = options.given === null ? readKeyFile(masterKeyFile(dataDir)) : givenMasterKey(options.given);
  if (hasData && record === null) throw orphaned();
  if (found === null && record !== null) throw missing(dataDir);
  const master = found ?? makeKeyFile(dataDir, masterKeyFile(dataDir));
  const agreed = record ?? (await createRecord(database, encryptionKeyOf(master)));
  const opened = decryptPepper(agreed, encryptionKeyOf(master));
  if (opened !== null) return masterKeyOf(opened, encryptionKeyOf(master), nextIn(dataDir));
  // Two processes with different data folders started for the first time: the key that we generated has encrypted nothing yet, so that it is deleted.
  if (found === null) rmSync(masterKeyFile(dataDir), { force: true });
  return finishRotation(options, agreed) ?? fail(wrong(dataDir, options.given !== null));
}

/** What the store knows about its master key: its version, and the pepper, encrypted with it. */
export interface MasterKeyRecord {
  readonly version: string;
  readonly pepper: string;
}

export const masterKeySetting = "master_key";

export async function readMasterKeyRecord(database: Database): Promise<MasterKeyRecord | null> {
  const [row] = await database.all<{ readonly value: string }>(sql`select value from settings where name = ${masterKeySetting}`);
  if (row === undefined) return null;
  const { version, pepper } = parsedObject(row.value) ?? {};
  if (typeof version === "string" && typeof pepper === "string") return { version, pepper };
  throw new MasterKeyError("The store's record of its master key is damaged. Restore a backup of the store.");
}

/** The last step of a rotation. */
export async function replaceMasterKeyRecord(database: Database, record: MasterKeyRecord): Promise<void> {
  await database.run(sql`update settings set value = ${JSON.stringify(record)} where name = ${masterKeySetting}`);
}

export function masterKeyRecord(pepper: Uint8Array, key: EncryptionKey): MasterKeyRecord {
  return { version: key.version, pepper: encryptBytes(key.bytes, pepper, pepperContext(key.version)) };
}

/** The pepper; null if it was encrypted with another key. */
export function decryptPepper(record: MasterKeyRecord, key: EncryptionKey): Uint8Array | null {
  return record.version === key.version ? decryptBytes(key.bytes, record.pepper, pepperContext(key.version)) : null;
}

function pepperContext(version: string): AssociatedData {
  return { table: "settings", row: masterKeySetting, field: "pepper", version };
}

/** If several processes start for the first time, one of them writes the record and all use it. */
async function createRecord(database: Database, key: EncryptionKey): Promise<MasterKeyRecord> {
  const text = JSON.stringify(masterKeyRecord(randomBytes(keyBytes), key));
  await database.run(sql`insert into settings (name, value) values (${masterKeySetting}, ${text}) on conflict (name) do nothing`);
  return (
    (await readMasterKeyRecord(database)) ??
    fail(new MasterKeyError("The store lost the record of its master key right after it was written. Check its disk."))
  );
}

function masterKeyOf(pepper: Uint8Array, sealing: EncryptionKey, next: EncryptionKey | null): MasterKey {
  return {
    pepper,
    sealing,
    next: next?.version === sealing.version ? null : next,
    digest: makeTokenDigest(pepper),
    adminDigest: makeTokenDigest(deriveKey(pepper, "sluice admin tokens 1", keyBytes)),
    carried: carriedKeyOf(pepper),
  };
}

/** Finishes a rotation that was interrupted after its last step in the store, but before the key file was replaced. */
function finishRotation({ dataDir, given }: MasterKeyOptions, record: MasterKeyRecord): MasterKey | null {
  const next = given === null ? nextIn(dataDir) : null;
  const pepper = next === null ? null : decryptPepper(record, next);
  if (next === null || pepper === null) return null;
  promoteKeyFile(dataDir);
  return masterKeyOf(pepper, next, null);
}

function nextIn(dataDir: string): EncryptionKey | null {
  const bytes = readKeyFile(nextKeyFile(dataDir));
  return bytes === null ? null : encryptionKeyOf(bytes);
}

async function hasEncryptedData(database: Database): Promise<boolean> {
  const some = await database.all(sql`
    select 'token' as kind from key_tokens union all select 'secret' as kind from channels where sealed is not null or entry like '%"headers":"v1.%'
    union all select 'token' as kind from admin_tokens limit 1`);
  return some.length > 0;
}

/** Without the pepper and the key that they were made with, tokens and secrets cannot be used. */
function orphaned(): MasterKeyError {
  return new MasterKeyError(
    "The store contains keys or secrets, but its record of the master key is missing, and they cannot be used without it. Restore a backup of the store.",
  );
}

function missing(dataDir: string): MasterKeyError {
  return new MasterKeyError(
    `The store was created with a master key, and there is none here. Copy the file ${masterKeyFile(dataDir)} of the first replica ` +
      "or of a backup to this path, or set SLUICE_MASTER_KEY.",
  );
}

function wrong(dataDir: string, given: boolean): MasterKeyError {
  const which = given ? "SLUICE_MASTER_KEY" : `the master key in ${masterKeyFile(dataDir)}`;
  return new MasterKeyError(
    `The store was created with another master key than ${which}. Copy the file master-key of the first replica to ${masterKeyFile(dataDir)}, ` +
      "or set SLUICE_MASTER_KEY to the value that is used there.",
  );
}

function fail(error: Error): never {
  throw error;
}
