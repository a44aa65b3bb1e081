import { randomBytes } from "node:crypto";
import { keyBytes, openBytes, sealBytes, type Place, type SealingKey } from "./sealing.ts";
import { parsedJson, textsFrom } from "./stored-json.ts";

/**
 * What channels are opened with upstream, encrypted. Each channel has a data key of its own, and the master key only wraps
 * that: a new master key means new wrappings, and the secrets are not touched. What was cut, changed, moved to another channel
 * or sealed with another master key does not open.
 */
export interface Vault {
  seal(channel: string, secrets: readonly string[]): string;
  open(channel: string, sealed: string): readonly string[] | VaultTrouble;
  /** The same secrets, wrapped with the vault's first key; the text itself where they are already. */
  rewrapped(channel: string, sealed: string): string | VaultTrouble;
}

export interface VaultTrouble {
  readonly kind: "vault_trouble";
  readonly because: "other_key" | "damaged";
  /** With the mend, and without anything secret. */
  readonly message: string;
}

/** Seals with the first key, and opens what any of them has sealed: during a change of the master key there are two. */
export function makeVault(first: SealingKey, ...others: readonly SealingKey[]): Vault {
  const keys = [first, ...others];
  return {
    seal: (channel, secrets) => {
      const dataKey = randomBytes(keyBytes);
      const payload = sealBytes(dataKey, Buffer.from(JSON.stringify(secrets)), secretsPlace(channel));
      return written({ version: first.version, wrapped: wrap(first, channel, dataKey), payload });
    },
    open: (channel, sealed) => {
      const envelope = read(sealed);
      if (envelope === null) return damaged(channel);
      const dataKey = unwrap(keys, channel, envelope);
      if ("kind" in dataKey) return dataKey;
      const plain = openBytes(dataKey.bytes, envelope.payload, secretsPlace(channel));
      const secrets = plain === null ? null : textsFrom(parsedJson(new TextDecoder().decode(plain)));
      return secrets ?? damaged(channel);
    },
    rewrapped: (channel, sealed) => {
      const envelope = read(sealed);
      if (envelope === null) return damaged(channel);
      const dataKey = unwrap(keys, channel, envelope);
      if ("kind" in dataKey) return dataKey;
      if (openBytes(dataKey.bytes, envelope.payload, secretsPlace(channel)) === null) return damaged(channel);
      if (envelope.version === first.version) return sealed;
      return written({ version: first.version, wrapped: wrap(first, channel, dataKey.bytes), payload: envelope.payload });
    },
  };
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

function wrap(key: SealingKey, channel: string, dataKey: Uint8Array): string {
  return sealBytes(key.bytes, dataKey, dataKeyPlace(channel, key.version));
}

function unwrap(keys: readonly SealingKey[], channel: string, envelope: Envelope): { readonly bytes: Uint8Array } | VaultTrouble {
  const key = keys.find(({ version }) => version === envelope.version);
  if (key === undefined) return otherKey(channel);
  const bytes = openBytes(key.bytes, envelope.wrapped, dataKeyPlace(channel, key.version));
  return bytes === null || bytes.length !== keyBytes ? damaged(channel) : { bytes };
}

function dataKeyPlace(channel: string, version: string): Place {
  return { table: "channels", row: channel, field: "data key", version };
}

/** A data key lives as long as what it seals: its version is the format's. */
function secretsPlace(channel: string): Place {
  return { table: "channels", row: channel, field: "sealed", version: format };
}

function damaged(channel: string): VaultTrouble {
  const message = `The secrets of channel ${channel} do not open: what is stored is not what was sealed for it. Set its keys again.`;
  return { kind: "vault_trouble", because: "damaged", message };
}

function otherKey(channel: string): VaultTrouble {
  const message =
    `The secrets of channel ${channel} were sealed with another master key. Finish the change of the master key that was begun, ` +
    "start with the master key they were sealed with, or set the channel's keys again.";
  return { kind: "vault_trouble", because: "other_key", message };
}
