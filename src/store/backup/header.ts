import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { deriveKey, keyBytes } from "../secrets/encryption.ts";
import { isJsonObject } from "../../operations/json.ts";
import { parsedObject } from "../stored-json.ts";

/**
 * The header of an encrypted backup, in three lines: the magic, the parameters as JSON, and a MAC of the parameters. Nothing in it
 * is secret.
 */
export interface BackupHeader {
  /** Random for each backup, so that no two backups have the same key. */
  readonly salt: Uint8Array;
  /** The size of the chunks that are encrypted separately. */
  readonly chunkBytes: number;
  /** The length of the store. */
  readonly bytes: number;
  readonly opensWith: BackupKeyHint;
}

/** Which key decrypts the backup: a version of the master key, or a passphrase with this scrypt cost. */
export type BackupKeyHint =
  | { readonly kind: "master_key"; readonly version: string }
  | { readonly kind: "passphrase"; readonly workLog2: number };

export const backupMagic = "sluice backup 1\n";
/** Much longer than any header. */
export const headerBytesMax = 2048;
export const defaultChunkBytes = 256 * 1024;

export function newHeader(bytes: number, opensWith: BackupKeyHint): BackupHeader {
  return { salt: randomBytes(saltBytes), chunkBytes: defaultChunkBytes, bytes, opensWith };
}

export function serializeHeader(header: BackupHeader, secret: Uint8Array): Uint8Array {
  const { salt, chunkBytes, bytes, opensWith } = header;
  const line = JSON.stringify({ salt: Buffer.from(salt).toString("base64url"), chunkBytes, bytes, opensWith });
  return Buffer.from(`${backupMagic}${line}\n${headerMac(line, header, secret).toString("base64url")}\n`);
}

/** A header as it was read. Its values must not be trusted before `isAuthentic`. */
export interface ParsedHeader {
  readonly header: BackupHeader;
  readonly line: string;
  readonly mac: string;
  /** Where the encrypted store begins. */
  readonly end: number;
}

/** Null if this version does not understand the header. */
export function parseHeader(bytes: Uint8Array): ParsedHeader | null {
  const [mark = "", line = "", mac = "", rest] = Buffer.from(bytes).toString("latin1").split("\n", 4);
  if (`${mark}\n` !== backupMagic || rest === undefined) return null;
  const { salt, chunkBytes, bytes: storeBytes, opensWith } = parsedObject(line) ?? {};
  if (typeof salt !== "string" || !isCount(chunkBytes, chunkBytesMax) || !isCount(storeBytes, Number.MAX_SAFE_INTEGER)) return null;
  const hint = parseKeyHint(opensWith);
  const saltRead = Buffer.from(salt, "base64url");
  if (hint === null || saltRead.length !== saltBytes || chunkBytes < chunkBytesMin) return null;
  const header = { salt: new Uint8Array(saltRead), chunkBytes, bytes: storeBytes, opensWith: hint };
  return { header, line, mac, end: backupMagic.length + line.length + mac.length + 2 };
}

export function isAuthentic({ header, line, mac }: ParsedHeader, secret: Uint8Array): boolean {
  const [found, expected] = [Buffer.from(mac, "base64url"), headerMac(line, header, secret)];
  return found.length === expected.length && timingSafeEqual(found, expected);
}

/** The key that encrypts the store itself. */
export function contentKey({ salt }: BackupHeader, secret: Uint8Array): Uint8Array {
  return deriveKey(secret, "sluice backup contents 1", keyBytes, salt);
}

function headerMac(line: string, { salt }: BackupHeader, secret: Uint8Array): Buffer {
  const key = deriveKey(secret, "sluice backup header 1", keyBytes, salt);
  return createHmac("sha256", key).update(backupMagic).update(line, "latin1").digest();
}

function parseKeyHint(value: unknown): BackupKeyHint | null {
  if (!isJsonObject(value)) return null;
  const { kind, version, workLog2 } = value;
  if (kind === "master_key" && typeof version === "string") return { kind, version };
  // A file must not be able to request all of the memory.
  if (kind === "passphrase" && isCount(workLog2, workLog2Max)) return { kind, workLog2 };
  return null;
}

function isCount(value: unknown, max: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= max;
}

const saltBytes = 32;
const chunkBytesMin = 1024;
const chunkBytesMax = 16 * 1024 * 1024;
/** 512 MiB. */
const workLog2Max = 19;
