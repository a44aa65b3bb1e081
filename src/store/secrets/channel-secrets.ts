import { randomBytes } from "node:crypto";
import { keyBytes, decryptBytes, encryptBytes, type AssociatedData, type EncryptionKey } from "./encryption.ts";
import type { JsonObject } from "../../operations/json.ts";
import { parsedJson, parsedObject, textsFrom } from "../stored-json.ts";

/**
 * Encrypts the credentials of channels (envelope encryption). Each value has its own data key, which the master key wraps: rotating
 * the master key only rewraps the data keys. A value that was truncated, changed, moved to another channel or field, or encrypted
 * with another master key cannot be decrypted.
 */
export interface ChannelSecrets {
  encrypt(channel: string, secrets: readonly string[]): string;
  decrypt(channel: string, sealed: string): readonly string[] | DecryptionError;
  /** The custom headers of a channel, which may contain keys too. */
  encryptHeaders(channel: string, headers: JsonObject): string;
  decryptHeaders(channel: string, sealed: string): { readonly headers: JsonObject } | DecryptionError;
  /** The same value with its data key wrapped by the first key; the unchanged text if it already is. */
  rewrapped(channel: string, sealed: string, field?: EncryptedField): string | DecryptionError;
}

export type EncryptedField = "sealed" | "headers";

export interface DecryptionError {
  readonly kind: "decryption_error";
  readonly because: "other_key" | "damaged";
  /** Says how to fix it, and contains nothing secret. */
  readonly message: string;
}

/** Encrypts with the first key, and decrypts with any: during a rotation of the master key there are two. */
export function makeChannelSecrets(first: EncryptionKey, ...others: readonly EncryptionKey[]): ChannelSecrets {
  const keys = [first, ...others];
  const encrypt = (target: SecretField, text: string): string => {
    const dataKey = randomBytes(keyBytes);
    const payload = encryptBytes(dataKey, Buffer.from(text), payloadContext(target));
    return formatEnvelope({ version: first.version, wrapped: wrap(first, target, dataKey), payload });
  };
  const decrypt = (target: SecretField, sealed: string): { readonly text: string } | DecryptionError => {
    const envelope = parseEnvelope(sealed);
    if (envelope === null) return damaged(target);
    const dataKey = unwrap(keys, target, envelope);
    if ("kind" in dataKey) return dataKey;
    const plain = decryptBytes(dataKey.bytes, envelope.payload, payloadContext(target));
    return plain === null ? damaged(target) : { text: new TextDecoder().decode(plain) };
  };
  return {
    encrypt: (channel, secrets) => encrypt({ channel, field: "sealed" }, JSON.stringify(secrets)),
    decrypt: (channel, sealed) => {
      const target = { channel, field: "sealed" } as const;
      const opened = decrypt(target, sealed);
      return "kind" in opened ? opened : (textsFrom(parsedJson(opened.text)) ?? damaged(target));
    },
    encryptHeaders: (channel, headers) => encrypt({ channel, field: "headers" }, JSON.stringify(headers)),
    decryptHeaders: (channel, sealed) => {
      const target = { channel, field: "headers" } as const;
      const opened = decrypt(target, sealed);
      if ("kind" in opened) return opened;
      const headers = parsedObject(opened.text);
      return headers === null ? damaged(target) : { headers };
    },
    rewrapped: (channel, sealed, field = "sealed") => {
      const target = { channel, field };
      const envelope = parseEnvelope(sealed);
      if (envelope === null) return damaged(target);
      const dataKey = unwrap(keys, target, envelope);
      if ("kind" in dataKey) return dataKey;
      if (decryptBytes(dataKey.bytes, envelope.payload, payloadContext(target)) === null) return damaged(target);
      if (envelope.version === first.version) return sealed;
      return formatEnvelope({ version: first.version, wrapped: wrap(first, target, dataKey.bytes), payload: envelope.payload });
    },
  };
}

/** A field of a channel whose value is encrypted. */
interface SecretField {
  readonly channel: string;
  readonly field: EncryptedField;
}

/** The stored text: format version, version of the master key, wrapped data key, encrypted payload. */
interface Envelope {
  readonly version: string;
  readonly wrapped: string;
  readonly payload: string;
}

const format = "v1";

function formatEnvelope({ version, wrapped, payload }: Envelope): string {
  return [format, version, wrapped, payload].join(".");
}

function parseEnvelope(sealed: string): Envelope | null {
  const [found, version, wrapped, payload, ...more] = sealed.split(".", 5);
  if (found !== format || version === undefined || wrapped === undefined || payload === undefined || more.length > 0) return null;
  return { version, wrapped, payload };
}

function wrap(key: EncryptionKey, target: SecretField, dataKey: Uint8Array): string {
  return encryptBytes(key.bytes, dataKey, dataKeyContext(target, key.version));
}

function unwrap(keys: readonly EncryptionKey[], target: SecretField, envelope: Envelope): { readonly bytes: Uint8Array } | DecryptionError {
  const key = keys.find(({ version }) => version === envelope.version);
  if (key === undefined) return otherKey(target);
  const bytes = decryptBytes(key.bytes, envelope.wrapped, dataKeyContext(target, key.version));
  return bytes === null || bytes.length !== keyBytes ? damaged(target) : { bytes };
}

function dataKeyContext({ channel, field }: SecretField, version: string): AssociatedData {
  return { table: "channels", row: channel, field: field === "sealed" ? "data key" : "headers data key", version };
}

/** A data key is used for one payload, so that its version is that of the format. */
function payloadContext({ channel, field }: SecretField): AssociatedData {
  return { table: "channels", row: channel, field, version: format };
}

const fieldNames = { sealed: "secrets", headers: "headers" } as const;

function damaged({ channel, field }: SecretField): DecryptionError {
  const message =
    `The ${fieldNames[field]} of channel ${channel} are damaged, or belong to another channel. Set the channel's ${field === "sealed" ? "keys" : "headers"} again, ` +
    "or restore a backup of the store.";
  return { kind: "decryption_error", because: "damaged", message };
}

function otherKey({ channel, field }: SecretField): DecryptionError {
  const message =
    `The ${fieldNames[field]} of channel ${channel} were encrypted with another master key. Finish the rotation of the master key that was started, ` +
    `start with the master key they were encrypted with, or set the channel's ${field === "sealed" ? "keys" : "headers"} again.`;
  return { kind: "decryption_error", because: "other_key", message };
}
