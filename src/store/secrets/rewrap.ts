import { rewrappedEntry } from "../tables/channel-entry.ts";
import type { Database } from "../database.ts";
import { masterKeyRecord, readMasterKeyRecord, replaceMasterKeyRecord, decryptPepper } from "./master-key.ts";
import {
  makeKeyFile,
  masterKeyFile,
  MasterKeyError,
  nextKeyFile,
  parsedMasterKey,
  promoteKeyFile,
  readKeyFile,
} from "./master-key-file.ts";
import { encryptionKeyOf, type EncryptionKey } from "./encryption.ts";
import { sql } from "../sql.ts";
import { parsedObject } from "../stored-json.ts";
import { makeChannelSecrets, type ChannelSecrets, type DecryptionError } from "./channel-secrets.ts";

export interface RewrapProgress {
  readonly done: number;
  readonly of: number;
}

/**
 * Rewraps all secrets for another master key. It can be interrupted at any time and be called again: each row is wrapped with the old
 * key or with the new one, and the store's own record changes last, together with rows that were added in the meantime. Nothing
 * is changed if a secret cannot be decrypted. No secret is written to disk in plain text.
 */
export async function rewrap(
  database: Database,
  from: EncryptionKey,
  to: EncryptionKey,
  onProgress: (progress: RewrapProgress) => void = () => {},
): Promise<void> {
  const record = await readMasterKeyRecord(database);
  if (record === null) throw new MasterKeyError("The store has no master key yet: start the gateway once.");
  const pepper = decryptPepper(record, from) ?? decryptPepper(record, to);
  if (pepper === null)
    throw new MasterKeyError(
      "The store was created with another master key than the one to be replaced. Give the one it was created with.",
    );
  const channelSecrets = makeChannelSecrets(to, from);
  const rows = await secretRows(database);
  for (const row of rows) rewrapped(channelSecrets, row);
  for (const [at, row] of rows.entries()) {
    const fresh = rewrapped(channelSecrets, row);
    // A row that was changed in the meantime is left for the transaction at the end.
    await database.run(sql`
      update channels set sealed = ${fresh.sealed}, entry = ${fresh.entry}
      where name = ${row.name} and coalesce(sealed, '') = ${row.sealed ?? ""} and entry = ${row.entry}`);
    onProgress({ done: at + 1, of: rows.length });
  }
  await database.transaction(async (transaction) => {
    // Changes of channels lock this row first, so that none can happen in between.
    await transaction.run(sql`update revision set value = value + 1 where id = 1`);
    for (const row of await secretRows(transaction)) {
      const { sealed, entry } = rewrapped(channelSecrets, row);
      await transaction.run(sql`update channels set sealed = ${sealed}, entry = ${entry} where name = ${row.name}`);
    }
    await replaceMasterKeyRecord(transaction, masterKeyRecord(pepper, to));
  });
}

export interface RotationOptions {
  readonly dataDir: string;
  /** The current master key, if the environment sets it; null if it is in the data folder. */
  readonly given: string | null;
  /** The new master key; null to generate one, which replaces the key file. */
  readonly next: string | null;
  readonly database: Database;
}

/** Rotates the master key of a store while no gateway is running. If it was interrupted, it can simply be called again. */
export async function rotateMasterKey(
  { dataDir, given, next, database }: RotationOptions,
  onProgress: (progress: RewrapProgress) => void = () => {},
): Promise<void> {
  const old = given === null ? readKeyFile(masterKeyFile(dataDir)) : parsedMasterKey(given);
  if (old === null) throw new MasterKeyError("The master key to be replaced is neither in the data folder nor given as 32 bytes.");
  if (given !== null && next === null)
    throw new MasterKeyError("A master key that was given can only be replaced by one that is given too.");
  const fresh = next === null ? makeKeyFile(dataDir, nextKeyFile(dataDir)) : parsedMasterKey(next);
  if (fresh === null) throw new MasterKeyError("The new master key must be 32 random bytes, as 64 hexadecimal digits or base64.");
  await rewrap(database, encryptionKeyOf(old), encryptionKeyOf(fresh), onProgress);
  if (next === null) promoteKeyFile(dataDir);
}

interface SecretRow {
  readonly name: string;
  readonly sealed: string | null;
  readonly entry: string;
}

/** Channels with secrets, also those in plain text from older versions. */
async function secretRows(database: Database): Promise<readonly SecretRow[]> {
  const rows = await database.all<SecretRow>(sql`select name, sealed, entry from channels order by name`);
  return rows.filter(({ sealed, entry }) => sealed !== null || parsedObject(entry)?.["headers"] !== undefined);
}

function rewrapped(channelSecrets: ChannelSecrets, { name, sealed, entry }: SecretRow): Pick<SecretRow, "sealed" | "entry"> {
  const stored = parsedObject(entry);
  const freshEntry = stored === null ? null : rewrappedEntry(name, stored, channelSecrets);
  if (freshEntry?.kind === "decryption_error") throw notOpened(freshEntry);
  const freshSealed = sealed === null ? null : channelSecrets.rewrapped(name, sealed);
  if (freshSealed !== null && typeof freshSealed !== "string") throw notOpened(freshSealed);
  return { sealed: freshSealed, entry: freshEntry === null ? entry : JSON.stringify(freshEntry.entry) };
}

function notOpened({ message }: DecryptionError): MasterKeyError {
  return new MasterKeyError(`The master key was not changed. ${message}`);
}
