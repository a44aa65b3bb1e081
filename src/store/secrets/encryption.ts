import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

/** A key that encrypts other keys and secrets. `version` identifies it without revealing anything about it. */
export interface EncryptionKey {
  readonly version: string;
  readonly bytes: Uint8Array;
}

export const keyBytes = 32;
const versionBytes = 16;
/** A random 96-bit nonce for each encryption, as AES-GCM expects. */
const nonceBytes = 12;
const tagBytes = 16;

export function encryptionKeyOf(master: Uint8Array): EncryptionKey {
  return {
    version: Buffer.from(deriveKey(master, "sluice master key version 1", versionBytes)).toString("hex"),
    bytes: deriveKey(master, "sluice sealing key 1", keyBytes),
  };
}

/** The key of what clients carry. Its version goes with each value, and is short for that reason. */
export function carriedKeyOf(pepper: Uint8Array): EncryptionKey {
  return {
    version: Buffer.from(deriveKey(pepper, "sluice carried key version 1", 4)).toString("hex"),
    bytes: deriveKey(pepper, "sluice carried key 1", keyBytes),
  };
}

export function deriveKey(from: Uint8Array, purpose: string, bytes: number, salt: Uint8Array = new Uint8Array(0)): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", from, salt, purpose, bytes));
}

/** Where an encrypted value is stored (the AAD of AES-GCM). Moved anywhere else, it cannot be decrypted. */
export interface AssociatedData {
  readonly table: string;
  readonly row: string;
  readonly field: string;
  readonly version: string;
}

export function encryptBytes(key: Uint8Array, plain: Uint8Array, context: AssociatedData): string {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes });
  cipher.setAAD(aadBytes(context));
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]).toString("base64url");
}

/** Null if the key or the context differ, or the ciphertext was changed. */
export function decryptBytes(key: Uint8Array, encrypted: string, context: AssociatedData): Uint8Array<ArrayBuffer> | null {
  const bytes = Buffer.from(encrypted, "base64url");
  if (bytes.length < nonceBytes + tagBytes || bytes.toString("base64url") !== encrypted) return null;
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes });
  decipher.setAAD(aadBytes(context));
  decipher.setAuthTag(bytes.subarray(-tagBytes));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()]);
  } catch {
    return null;
  }
}

/** As a JSON array, so that no combination of names is ambiguous. */
function aadBytes({ table, row, field, version }: AssociatedData): Uint8Array {
  return Buffer.from(JSON.stringify([table, row, field, version]));
}

/** The keyed hash (HMAC) under which tokens are stored and found, in hex. Without the key nobody can try tokens on a stolen store. */
export type TokenDigest = (token: string) => string;

export function makeTokenDigest(key: Uint8Array): TokenDigest {
  const keyed = new Bun.CryptoHasher("sha256", key);
  return (token) => keyed.copy().update(token).digest("hex");
}
