import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fstatSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { giveToOwnerOf } from "../../files/owner.ts";
import { keyBytes } from "./encryption.ts";

/** The master key cannot be used. The message says why and how to fix it, and never contains the key. */
export class MasterKeyError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "MasterKeyError";
  }
}

export function masterKeyFile(dataDir: string): string {
  return join(dataDir, "master-key");
}

/** The next master key, while secrets are moved to it. */
export function nextKeyFile(dataDir: string): string {
  return join(dataDir, "master-key.next");
}

/** 32 bytes as 64 hexadecimal digits or as base64; null for anything else. */
export function parsedMasterKey(text: string): Uint8Array | null {
  const trimmed = text.trim();
  const bytes = /^[0-9a-f]{64}$/i.test(trimmed) ? Buffer.from(trimmed, "hex") : fromBase64(trimmed);
  if (bytes === null || bytes.length !== keyBytes) return null;
  // A key with so few different bytes was not generated at random; somebody typed a placeholder.
  return new Set(bytes).size < differentBytesMin ? null : new Uint8Array(bytes);
}

const differentBytesMin = 8;

function fromBase64(text: string): Buffer | null {
  return /^[0-9a-z+/_-]{43}=?$/i.test(text) ? Buffer.from(text, "base64") : null;
}

/** Null if the file does not exist. */
export function readKeyFile(file: string): Uint8Array | null {
  const text = readText(file);
  if (text === null) return null;
  const bytes = parsedMasterKey(text);
  if (bytes !== null) return bytes;
  throw new MasterKeyError(`The master key in ${file} is not 64 hexadecimal digits. Restore the file from a backup.`);
}

/** The available master keys: that of the environment or else of the data folder, and the one that is about to replace it. */
export function masterKeysAt(dataDir: string, given: string | null): readonly Uint8Array[] {
  const own = given === null ? readKeyFile(masterKeyFile(dataDir)) : givenMasterKey(given);
  return [own, readKeyFile(nextKeyFile(dataDir))].filter((key) => key !== null);
}

export function givenMasterKey(given: string): Uint8Array {
  const key = parsedMasterKey(given);
  if (key !== null) return key;
  throw new MasterKeyError(
    "SLUICE_MASTER_KEY must be 32 random bytes, as 64 hexadecimal digits or base64, such as the output of `openssl rand -hex 32`.",
  );
}

/** Generates a key and writes it to the file. If the file exists already, its key is returned and nothing is written. */
export function makeKeyFile(dataDir: string, file: string): Uint8Array {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    const draft = `${file}.${randomBytes(6).toString("hex")}`;
    try {
      writeDurably(draft, `${randomBytes(keyBytes).toString("hex")}\n`);
      giveToOwnerOf(existsSync(masterKeyFile(dataDir)) ? masterKeyFile(dataDir) : dataDir, draft);
      // The link is created only when the draft is complete, and only one process can create it.
      linkSync(draft, file);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    } finally {
      rmSync(draft, { force: true });
    }
    syncFolder(dataDir);
  } catch (error) {
    throw new MasterKeyError(
      `The master key cannot be written to ${file}: ${messageOf(error)}. Make its folder writable, or set SLUICE_MASTER_KEY.`,
    );
  }
  const key = readKeyFile(file);
  if (key === null) throw new MasterKeyError(`The master key in ${file} was removed while it was created. Start again.`);
  return key;
}

/** Replaced master keys, which older backups may still need. */
export function replacedKeysAt(dataDir: string): readonly ReplacedKey[] {
  const names = existsSync(dataDir) ? readdirSync(dataDir).filter((name) => name.startsWith(replacedPrefix)) : [];
  return names.flatMap((name) => {
    const file = join(dataDir, name);
    const bytes = readKeyFile(file);
    return bytes === null ? [] : [{ file, bytes }];
  });
}

export interface ReplacedKey {
  readonly file: string;
  readonly bytes: Uint8Array;
}

const replacedPrefix = "master-key.replaced-";

/** Makes the next key the current one. The old key is kept beside it, because backups that were encrypted with it need it. */
export function promoteKeyFile(dataDir: string): void {
  try {
    const replaced = join(dataDir, `${replacedPrefix}${randomBytes(6).toString("hex")}`);
    if (existsSync(masterKeyFile(dataDir))) linkSync(masterKeyFile(dataDir), replaced);
    renameSync(nextKeyFile(dataDir), masterKeyFile(dataDir));
    syncFolder(dataDir);
  } catch (error) {
    throw new MasterKeyError(
      `The new master key cannot replace the old one: ${messageOf(error)}. Rename ${nextKeyFile(dataDir)} to ${masterKeyFile(dataDir)}.`,
    );
  }
}

const fileBytesMax = 1024;

function readText(file: string): string | null {
  let descriptor: number;
  try {
    descriptor = openSync(file, constants.O_RDONLY);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw unreadable(file, error);
  }
  try {
    keepPrivate(descriptor);
    const bytes = Buffer.alloc(fileBytesMax);
    return bytes.toString("latin1", 0, readSync(descriptor, bytes, 0, bytes.length, 0));
  } catch (error) {
    throw unreadable(file, error);
  } finally {
    closeSync(descriptor);
  }
}

function unreadable(file: string, error: unknown): MasterKeyError {
  return new MasterKeyError(
    `The master key in ${file} cannot be read: ${messageOf(error)}. Make the file readable for the user that runs the gateway.`,
  );
}

/** A key file from a backup may be readable by everybody. If the file is not ours, its permissions are left alone. */
function keepPrivate(descriptor: number): void {
  try {
    if ((fstatSync(descriptor).mode & 0o077) !== 0) fchmodSync(descriptor, 0o600);
  } catch {
    // The file can be read nevertheless.
  }
}

function writeDurably(file: string, text: string): void {
  const descriptor = openSync(file, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600);
  try {
    writeSync(descriptor, text);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** A new name survives a power failure only after its folder was synced. */
function syncFolder(folder: string): void {
  const descriptor = openSync(folder, constants.O_RDONLY);
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
