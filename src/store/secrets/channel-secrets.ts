import { randomBytes } from "node:crypto";
import { keyBytes, decryptBytes, encryptBytes, type AssociatedData, type EncryptionKey } from "./encryption.ts";
import type { JsonObject } from "../../operations/json.ts";
import { parsedJson, parsedObject, textsFrom } from "../stored-json.ts";

/**
 * What channels are opened with upstream, encrypted. Each channel has data keys of its own, and the master key only wraps
 * those: a new master key means new wrappings, and the secrets are not touched. What was cut, changed, moved to another channel
 * or another field, or sealed with another master key does not open.
 */
export interface ChannelSecrets {
  encrypt(channel: string, secrets: readonly string[]): string;
  decrypt(channel: string, sealed: string): readonly string[] | DecryptionError;
  /** Headers that a channel sends along, in which people put keys, too. */
  encryptHeaders(channel: string, headers: JsonObject): string;
  decryptHeaders(channel: string, sealed: string): { readonly headers: JsonObject } | DecryptionError;
  /** The same, wrapped with the vault's first key; the text itself where it is already. */
  rewrapped(channel: string, sealed: string, field?: EncryptedField): string | DecryptionError;
}

export type EncryptedField = "sealed" | "headers";

export interface DecryptionError {
  readonly kind: "decryption_error";
  readonly because: "other_key" | "damaged";
  /** With the mend, and without anything secret. */
  readonly message: string;
}

/** Seals with the first key, and opens what any of them has sealed: during a change of the master key there are two. */
export function makeChannelSecrets(first: EncryptionKey, ...others: readonly EncryptionKey[]): ChannelSecrets {
  const keys = [first, ...others];
  const encrypt = (place: SecretField, text: string): string => {
    const dataKey = randomBytes(keyBytes);
    const payload = encryptBytes(dataKey, Buffer.from(text), payloadContext(place));
    return formatEnvelope({ version: first.version, wrapped: wrap(first, place, dataKey), payload });
  };
  const decrypt = (place: SecretField, sealed: string): { readonly text: string } | DecryptionError => {
    const envelope = parseEnvelope(sealed);
    if (envelope === null) return damaged(place);
    const dataKey = unwrap(keys, place, envelope);
    if ("kind" in dataKey) return dataKey;
    const plain = decryptBytes(dataKey.bytes, envelope.payload, payloadContext(place));
    return plain === null ? damaged(place) : { text: new TextDecoder().decode(plain) };
  };
  return {
    encrypt: (channel, secrets) => encrypt({ channel, field: "sealed" }, JSON.stringify(secrets)),
    decrypt: (channel, sealed) => {
      const place = { channel, field: "sealed" } as const;
      const opened = decrypt(place, sealed);
      return "kind" in opened ? opened : (textsFrom(parsedJson(opened.text)) ?? damaged(place));
    },
    encryptHeaders: (channel, headers) => encrypt({ channel, field: "headers" }, JSON.stringify(headers)),
    decryptHeaders: (channel, sealed) => {
      const place = { channel, field: "headers" } as const;
      const opened = decrypt(place, sealed);
      if ("kind" in opened) return opened;
      const headers = parsedObject(opened.text);
      return headers === null ? damaged(place) : { headers };
    },
    rewrapped: (channel, sealed, field = "sealed") => {
      const place = { channel, field };
      const envelope = parseEnvelope(sealed);
      if (envelope === null) return damaged(place);
      const dataKey = unwrap(keys, place, envelope);
      if ("kind" in dataKey) return dataKey;
      if (decryptBytes(dataKey.bytes, envelope.payload, payloadContext(place)) === null) return damaged(place);
      if (envelope.version === first.version) return sealed;
      return formatEnvelope({ version: first.version, wrapped: wrap(first, place, dataKey.bytes), payload: envelope.payload });
    },
  };
}

/** What is sealed of which channel. */
interface SecretField {
  readonly channel: string;
  readonly field: EncryptedField;
}

/** What stands in the row: the format, the master key's version, the wrapped data key and the secrets. */
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

function wrap(key: EncryptionKey, place: SecretField, dataKey: Uint8Array): string {
  return encryptBytes(key.bytes, dataKey, dataKeyContext(place, key.version));
}

function unwrap(keys: readonly EncryptionKey[], place: SecretField, envelope: Envelope): { readonly bytes: Uint8Array } | DecryptionError {
  const key = keys.find(({ version }) => version === envelope.version);
  if (key === undefined) return otherKey(place);
  const bytes = decryptBytes(key.bytes, envelope.wrapped, dataKeyContext(place, key.version));
  return bytes === null || bytes.length !== keyBytes ? damaged(place) : { bytes };
}

function dataKeyContext({ channel, field }: SecretField, version: string): AssociatedData {
  return { table: "channels", row: channel, field: field === "sealed" ? "data key" : "headers data key", version };
}

/** A data key lives as long as what it seals: its version is the format's. */
function payloadContext({ channel, field }: SecretField): AssociatedData {
  return { table: "channels", row: channel, field, version: format };
}

const fieldNames = { sealed: "secrets", headers: "headers" } as const;

function damaged({ channel, field }: SecretField): DecryptionError {
  const message =
    `The ${fieldNames[field]} of channel ${channel} are damaged, or not this channel's. Set the channel's ${field === "sealed" ? "keys" : "headers"} again, ` +
    "or restore a backup of the store.";
  return { kind: "decryption_error", because: "damaged", message };
}

function otherKey({ channel, field }: SecretField): DecryptionError {
  const message =
    `The ${fieldNames[field]} of channel ${channel} were encrypted with another master key. Finish the change of the master key that was begun, ` +
    `start with the master key they were encrypted with, or set the channel's ${field === "sealed" ? "keys" : "headers"} again.`;
  return { kind: "decryption_error", because: "other_key", message };
}
