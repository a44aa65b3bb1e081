import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import type { Database } from "../database.ts";
import { givenMasterKey, makeKeyFile, masterKeyFile, MasterKeyError, nextKeyFile, promoteKeyFile, readKeyFile } from "./master-key-file.ts";
import {
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

/** What everything secret in a store hangs on. */
export interface MasterKey {
  /** What the keys of clients are hashed with. It stays the same when the master key changes. */
  readonly pepper: Uint8Array;
  /** Wraps the data keys of channels. */
  readonly sealing: EncryptionKey;
  /** The key that is about to replace it, while that is under way. */
  readonly next: EncryptionKey | null;
  /** Of a client's token. */
  readonly digest: TokenDigest;
  /** Of sessions, tokens for administration and the one for the first account. */
  readonly adminDigest: TokenDigest;
}

export interface MasterKeyOptions {
  readonly dataDir: string;
  /** What the environment says; null where it says nothing. */
  readonly given: string | null;
  readonly database: Database;
}

/**
 * The master key of this store: given, or kept in the data folder, where it is drawn at the first start. Refuses a key that is
 * not the one the store was begun with.
 */
export async function openMasterKey(place: MasterKeyOptions): Promise<MasterKey> {
  const { dataDir, database } = place;
  // In this order, because others may start at the same moment: a file is made before its lock, and a lock before any token.
  const inhabited = await isInhabited(database);
  const lock = await readMasterKeyRecord(database);
  const found = place.given === null ? readKeyFile(masterKeyFile(dataDir)) : givenMasterKey(place.given);
  if (inhabited && lock === null) throw orphaned();
  if (found === null && lock !== null) throw missing(dataDir);
  const master = found ?? makeKeyFile(dataDir, masterKeyFile(dataDir));
  const settled = lock ?? (await firstLock(database, encryptionKeyOf(master)));
  const opened = decryptPepper(settled, encryptionKeyOf(master));
  if (opened !== null) return masterKeyOf(opened, encryptionKeyOf(master), nextIn(dataDir));
  // Two first starts with different folders: what we just drew has sealed nothing yet, and would only be in the way.
  if (found === null) rmSync(masterKeyFile(dataDir), { force: true });
  return promoted(place, settled) ?? fail(wrong(dataDir, place.given !== null));
}

/** What the store knows of its master key: which one it is, and the pepper, sealed by it. */
export interface MasterKeyRecord {
  readonly version: string;
  readonly pepper: string;
}

const settingName = "master_key";

export async function readMasterKeyRecord(database: Database): Promise<MasterKeyRecord | null> {
  const [row] = await database.all<{ readonly value: string }>(sql`select value from settings where name = ${settingName}`);
  if (row === undefined) return null;
  const { version, pepper } = parsedObject(row.value) ?? {};
  if (typeof version === "string" && typeof pepper === "string") return { version, pepper };
  throw new MasterKeyError("What the store knows of its master key is damaged. Restore a backup of the store.");
}

/** For the end of a change of the master key. */
export async function replaceMasterKeyRecord(database: Database, lock: MasterKeyRecord): Promise<void> {
  await database.run(sql`update settings set value = ${JSON.stringify(lock)} where name = ${settingName}`);
}

export function masterKeyRecord(pepper: Uint8Array, key: EncryptionKey): MasterKeyRecord {
  return { version: key.version, pepper: encryptBytes(key.bytes, pepper, pepperContext(key.version)) };
}

/** The pepper, or null when this is not its key. */
export function decryptPepper(lock: MasterKeyRecord, key: EncryptionKey): Uint8Array | null {
  return lock.version === key.version ? decryptBytes(key.bytes, lock.pepper, pepperContext(key.version)) : null;
}

function pepperContext(version: string): AssociatedData {
  return { table: "settings", row: settingName, field: "pepper", version };
}

/** Of several first starts one writes it, and all go on with what that one wrote. */
async function firstLock(database: Database, key: EncryptionKey): Promise<MasterKeyRecord> {
  const text = JSON.stringify(masterKeyRecord(randomBytes(keyBytes), key));
  await database.run(sql`insert into settings (name, value) values (${settingName}, ${text}) on conflict (name) do nothing`);
  return (await readMasterKeyRecord(database)) ?? fail(new MasterKeyError("The store does not keep what it is told. Check its disk."));
}

function masterKeyOf(pepper: Uint8Array, sealing: EncryptionKey, next: EncryptionKey | null): MasterKey {
  return {
    pepper,
    sealing,
    next: next?.version === sealing.version ? null : next,
    digest: makeTokenDigest(pepper),
    adminDigest: makeTokenDigest(deriveKey(pepper, "sluice admin tokens 1", keyBytes)),
  };
}

/** A change of the master key that was cut off after its last step in the store: the last step in the folder is done now. */
function promoted({ dataDir, given }: MasterKeyOptions, lock: MasterKeyRecord): MasterKey | null {
  const next = given === null ? nextIn(dataDir) : null;
  const pepper = next === null ? null : decryptPepper(lock, next);
  if (next === null || pepper === null) return null;
  promoteKeyFile(dataDir);
  return masterKeyOf(pepper, next, null);
}

function nextIn(dataDir: string): EncryptionKey | null {
  const bytes = readKeyFile(nextKeyFile(dataDir));
  return bytes === null ? null : encryptionKeyOf(bytes);
}

async function isInhabited(database: Database): Promise<boolean> {
  const some = await database.all(sql`
    select 'token' as kind from key_tokens union all select 'secret' as kind from channels where sealed is not null or entry like '%"headers":"v1.%'
    union all select 'token' as kind from admin_tokens limit 1`);
  return some.length > 0;
}

/** Tokens and secrets without the pepper and the key they were made with open nothing any more. */
function orphaned(): MasterKeyError {
  return new MasterKeyError(
    "The store holds keys or secrets, but not what it knew of its master key, without which they are of no use. Restore a backup of the store.",
  );
}

function missing(dataDir: string): MasterKeyError {
  return new MasterKeyError(
    `The store was begun with a master key, and there is none here. Copy the file ${masterKeyFile(dataDir)} of the first replica ` +
      "or of a backup to this place, or set SLUICE_MASTER_KEY.",
  );
}

function wrong(dataDir: string, given: boolean): MasterKeyError {
  const which = given ? "SLUICE_MASTER_KEY" : `the master key in ${masterKeyFile(dataDir)}`;
  return new MasterKeyError(
    `The store was begun with another master key than ${which}. Copy the file master-key of the first replica to ${masterKeyFile(dataDir)}, ` +
      "or set SLUICE_MASTER_KEY to what it is there.",
  );
}

function fail(error: Error): never {
  throw error;
}
