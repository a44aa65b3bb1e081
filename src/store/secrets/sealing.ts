import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

/** A key that seals other keys and secrets, and the name it is told apart by, which says nothing about it. */
export interface SealingKey {
  readonly version: string;
  readonly bytes: Uint8Array;
}

export const keyBytes = 32;
const versionBytes = 16;
/** 96 bits, drawn anew each time: what AES-GCM is made for. */
const nonceBytes = 12;
const tagBytes = 16;

export function sealingKeyOf(master: Uint8Array): SealingKey {
  return {
    version: Buffer.from(derived(master, "sluice master key version 1", versionBytes)).toString("hex"),
    bytes: derived(master, "sluice sealing key 1", keyBytes),
  };
}

export function derived(from: Uint8Array, purpose: string, bytes: number, salt: Uint8Array = new Uint8Array(0)): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", from, salt, purpose, bytes));
}

/** Where a sealed text belongs. Anywhere else it does not open. */
export interface Place {
  readonly table: string;
  readonly row: string;
  readonly field: string;
  readonly version: string;
}

export function sealBytes(key: Uint8Array, plain: Uint8Array, place: Place): string {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes });
  cipher.setAAD(boundTo(place));
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]).toString("base64url");
}

/** Null when it is not exactly what was sealed, with this key, for this place. */
export function openBytes(key: Uint8Array, sealed: string, place: Place): Uint8Array | null {
  const bytes = Buffer.from(sealed, "base64url");
  if (bytes.length < nonceBytes + tagBytes || bytes.toString("base64url") !== sealed) return null;
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes });
  decipher.setAAD(boundTo(place));
  decipher.setAuthTag(bytes.subarray(-tagBytes));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()]);
  } catch {
    return null;
  }
}

/** As a list in JSON, so that no name can be chosen that reads like another place. */
function boundTo({ table, row, field, version }: Place): Uint8Array {
  return Buffer.from(JSON.stringify([table, row, field, version]));
}
