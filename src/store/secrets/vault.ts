import { randomBytes } from "node:crypto";
import { keyBytes, openBytes, sealBytes, type Place, type SealingKey } from "./sealing.ts";
import { parsedJson, parsedObject, textsFrom, type JsonObject } from "../stored-json.ts";

/**
 * What channels are opened with upstream, encrypted. Each channel has data keys of its own, and the master key only wraps
 * those: a new master key means new wrappings, and the secrets are not touched. What was cut, changed, moved to another channel
 * or another field, or sealed with another master key does not open.
 */
export interface Vault {
  seal(channel: string, secrets: readonly string[]): string;
  open(channel: string, sealed: string): readonly string[] | VaultTrouble;
  /** Headers that a channel sends along, in which people put keys, too. */
  sealHeaders(channel: string, headers: JsonObject): string;
  openHeaders(channel: string, sealed: string): { readonly headers: JsonObject } | VaultTrouble;
  /** The same, wrapped with the vault's first key; the text itself where it is already. */
  rewrapped(channel: string, sealed: string, field?: SealedField): string | VaultTrouble;
}

export type SealedField = "sealed" | "headers";

export interface VaultTrouble {
  readonly kind: "vault_trouble";
  readonly because: "other_key" | "damaged";
  /** With the mend, and without anything secret. */
  readonly message: string;
}

/** Seals with the first key, and opens what any of them has sealed: during a change of the master key there are two. */
export function makeVault(first: SealingKey, ...others: readonly SealingKey[]): Vault {
  const keys = [first, ...others];
  const seal = (place: Field, text: string): string => {
    const dataKey = randomBytes(keyBytes);
    const payload = sealBytes(dataKey, Buffer.from(text), payloadPlace(place));
    return written({ version: first.version, wrapped: wrap(first, place, dataKey), payload });
  };
  const open = (place: Field, sealed: string): { readonly text: string } | VaultTrouble => {
    const envelope = read(sealed);
    if (envelope === null) return damaged(place);
    const dataKey = unwrap(keys, place, envelope);
    if ("kind" in dataKey) return dataKey;
    const plain = openBytes(dataKey.bytes, envelope.payload, payloadPlace(place));
    return plain === null ? damaged(place) : { text: new TextDecoder().decode(plain) };
  };
  return {
    seal: (channel, secrets) => seal({ channel, field: "sealed" }, JSON.stringify(secrets)),
    open: (channel, sealed) => {
      const place = { channel, field: "sealed" } as const;
      const opened = open(place, sealed);
      return "kind" in opened ? opened : (textsFrom(parsedJson(opened.text)) ?? damaged(place));
    },
    sealHeaders: (channel, headers) => seal({ channel, field: "headers" }, JSON.stringify(headers)),
    openHeaders: (channel, sealed) => {
      const place = { channel, field: "headers" } as const;
      const opened = open(place, sealed);
      if ("kind" in opened) return opened;
      const headers = parsedObject(opened.text);
      return headers === null ? damaged(place) : { headers };
    },
    rewrapped: (channel, sealed, field = "sealed") => {
      const place = { channel, field };
      const envelope = read(sealed);
      if (envelope === null) return damaged(place);
      const dataKey = unwrap(keys, place, envelope);
      if ("kind" in dataKey) return dataKey;
      if (openBytes(dataKey.bytes, envelope.payload, payloadPlace(place)) === null) return damaged(place);
      if (envelope.version === first.version) return sealed;
      return written({ version: first.version, wrapped: wrap(first, place, dataKey.bytes), payload: envelope.payload });
    },
  };
}

/** What is sealed of which channel. */
interface Field {
  readonly channel: string;
  readonly field: SealedField;
}

/** What stands in the row: the format, the master key's version, the wrapped data key and the secrets. */
interface Envelope {
  readonly version: string;
  readonly wrapped: string;
  readonly payload: string;
}

const format = "v1";

function written({ version, wrapped, payload }: Envelope): string {
  return [format, version, wrapped, payload].join(".");
}

function read(sealed: string): Envelope | null {
  const [found, version, wrapped, payload, ...more] = sealed.split(".", 5);
  if (found !== format || version === undefined || wrapped === undefined || payload === undefined || more.length > 0) return null;
  return { version, wrapped, payload };
}

function wrap(key: SealingKey, place: Field, dataKey: Uint8Array): string {
  return sealBytes(key.bytes, dataKey, dataKeyPlace(place, key.version));
}

function unwrap(keys: readonly SealingKey[], place: Field, envelope: Envelope): { readonly bytes: Uint8Array } | VaultTrouble {
  const key = keys.find(({ version }) => version === envelope.version);
  if (key === undefined) return otherKey(place);
  const bytes = openBytes(key.bytes, envelope.wrapped, dataKeyPlace(place, key.version));
  return bytes === null || bytes.length !== keyBytes ? damaged(place) : { bytes };
}

function dataKeyPlace({ channel, field }: Field, version: string): Place {
  return { table: "channels", row: channel, field: field === "sealed" ? "data key" : "headers data key", version };
}

/** A data key lives as long as what it seals: its version is the format's. */
function payloadPlace({ channel, field }: Field): Place {
  return { table: "channels", row: channel, field, version: format };
}

const sealedOf = { sealed: "secrets", headers: "headers" } as const;

function damaged({ channel, field }: Field): VaultTrouble {
  const message =
    `The ${sealedOf[field]} of channel ${channel} are damaged, or not this channel's. Set the channel's ${field === "sealed" ? "keys" : "headers"} again, ` +
    "or restore a backup of the store.";
  return { kind: "vault_trouble", because: "damaged", message };
}

function otherKey({ channel, field }: Field): VaultTrouble {
  const message =
    `The ${sealedOf[field]} of channel ${channel} were sealed with another master key. Finish the change of the master key that was begun, ` +
    `start with the master key they were sealed with, or set the channel's ${field === "sealed" ? "keys" : "headers"} again.`;
  return { kind: "vault_trouble", because: "other_key", message };
}
