import { rewrappedEntry } from "../tables/channel-entry.ts";
import type { Database } from "../database.ts";
import { lockedWith, readLock, replaceLock, unlocked } from "./master-key.ts";
import {
  makeKeyFile,
  masterKeyFile,
  MasterKeyTrouble,
  nextKeyFile,
  parsedMasterKey,
  promoteKeyFile,
  readKeyFile,
} from "./master-key-file.ts";
import { sealingKeyOf, type SealingKey } from "./sealing.ts";
import { sql } from "../sql.ts";
import { parsedObject } from "../stored-json.ts";
import { makeVault, type Vault, type VaultTrouble } from "./vault.ts";

export interface RewrapProgress {
  readonly done: number;
  readonly of: number;
}

/**
 * Moves everything sealed to another master key. It can die at any moment and be called again: each channel's row is of the
 * old key or of the new one, and the store's own key is changed last, together with any row that came meanwhile. Nothing is
 * changed where something would not open. No secret is decrypted onto the disk.
 */
export async function rewrap(
  database: Database,
  from: SealingKey,
  to: SealingKey,
  onProgress: (progress: RewrapProgress) => void = () => {},
): Promise<void> {
  const lock = await readLock(database);
  if (lock === null) throw new MasterKeyTrouble("The store has no master key yet: start the gateway once.");
  const pepper = unlocked(lock, from) ?? unlocked(lock, to);
  if (pepper === null)
    throw new MasterKeyTrouble("The store was begun with another master key than the one to be replaced. Give that one.");
  const vault = makeVault(to, from);
  const rows = await secretRows(database);
  for (const row of rows) rewrapped(vault, row);
  for (const [at, row] of rows.entries()) {
    const fresh = rewrapped(vault, row);
    // A row that is changed at this moment is left for the end.
    await database.run(sql`
      update channels set sealed = ${fresh.sealed}, entry = ${fresh.entry}
      where name = ${row.name} and coalesce(sealed, '') = ${row.sealed ?? ""} and entry = ${row.entry}`);
    onProgress({ done: at + 1, of: rows.length });
  }
  await database.transaction(async (transaction) => {
    // Changes of channels begin with this row, so none comes between.
    await transaction.run(sql`update revision set value = value + 1 where id = 1`);
    for (const row of await secretRows(transaction)) {
      const { sealed, entry } = rewrapped(vault, row);
      await transaction.run(sql`update channels set sealed = ${sealed}, entry = ${entry} where name = ${row.name}`);
    }
    await replaceLock(transaction, lockedWith(pepper, to));
  });
}

export interface RotationPlace {
  readonly dataDir: string;
  /** The master key in use, where it is given by the environment; null where it is the file of the data folder. */
  readonly given: string | null;
  /** The one to come; null: one is drawn and takes the place of the file. */
  readonly next: string | null;
  readonly database: Database;
}

/** Replaces the master key of a store whose gateways are stopped. When it was cut off, it is simply called again. */
export async function rotateMasterKey(
  { dataDir, given, next, database }: RotationPlace,
  onProgress: (progress: RewrapProgress) => void = () => {},
): Promise<void> {
  const old = given === null ? readKeyFile(masterKeyFile(dataDir)) : parsedMasterKey(given);
  if (old === null) throw new MasterKeyTrouble("The master key to be replaced is neither in the data folder nor given as 32 bytes.");
  if (given !== null && next === null) throw new MasterKeyTrouble("A master key that is given is replaced by one that is given, too.");
  const fresh = next === null ? makeKeyFile(dataDir, nextKeyFile(dataDir)) : parsedMasterKey(next);
  if (fresh === null) throw new MasterKeyTrouble("The new master key must be 32 random bytes, as 64 hexadecimal digits or base64.");
  await rewrap(database, sealingKeyOf(old), sealingKeyOf(fresh), onProgress);
  if (next === null) promoteKeyFile(dataDir);
}

interface SecretRow {
  readonly name: string;
  readonly sealed: string | null;
  readonly entry: string;
}

/** Channels with something secret, be it that it was never sealed. */
async function secretRows(database: Database): Promise<readonly SecretRow[]> {
  const rows = await database.all<SecretRow>(sql`select name, sealed, entry from channels order by name`);
  return rows.filter(({ sealed, entry }) => sealed !== null || parsedObject(entry)?.["headers"] !== undefined);
}

function rewrapped(vault: Vault, { name, sealed, entry }: SecretRow): Pick<SecretRow, "sealed" | "entry"> {
  const stored = parsedObject(entry);
  const freshEntry = stored === null ? null : rewrappedEntry(name, stored, vault);
  if (freshEntry?.kind === "vault_trouble") throw notOpened(freshEntry);
  const freshSealed = sealed === null ? null : vault.rewrapped(name, sealed);
  if (freshSealed !== null && typeof freshSealed !== "string") throw notOpened(freshSealed);
  return { sealed: freshSealed, entry: freshEntry === null ? entry : JSON.stringify(freshEntry.entry) };
}

function notOpened({ message }: VaultTrouble): MasterKeyTrouble {
  return new MasterKeyTrouble(`The master key stays as it is. ${message}`);
}
