import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import type { ChannelSecrets, DecryptionError } from "../secrets/channel-secrets.ts";

/**
 * Encrypts the headers of a channel's entry, because people put keys into them. They are stored as one encrypted string. Headers in
 * plain text, from older versions, can be read as well.
 */
export function encryptedEntry(channel: string, entry: JsonObject, channelSecrets: ChannelSecrets | null): JsonObject {
  const { headers } = entry;
  if (channelSecrets === null || !isJsonObject(headers) || Object.keys(headers).length === 0) return entry;
  return { ...entry, headers: channelSecrets.encryptHeaders(channel, headers) };
}

export interface DecryptedEntry {
  readonly kind: "entry";
  readonly entry: JsonObject;
}

export function decryptedEntry(
  channel: string,
  entry: JsonObject,
  channelSecrets: ChannelSecrets | null,
): DecryptedEntry | DecryptionError {
  const { headers } = entry;
  if (typeof headers !== "string") return { kind: "entry", entry };
  if (channelSecrets === null)
    return { kind: "decryption_error", because: "other_key", message: `The headers of channel ${channel} are encrypted.` };
  const opened = channelSecrets.decryptHeaders(channel, headers);
  return "kind" in opened ? opened : { kind: "entry", entry: { ...entry, headers: opened.headers } };
}

/** The entry for a new master key. Headers in plain text are encrypted now. */
export function rewrappedEntry(channel: string, entry: JsonObject, channelSecrets: ChannelSecrets): DecryptedEntry | DecryptionError {
  if (typeof entry["headers"] !== "string") return { kind: "entry", entry: encryptedEntry(channel, entry, channelSecrets) };
  const headers = channelSecrets.rewrapped(channel, entry["headers"], "headers");
  return typeof headers === "string" ? { kind: "entry", entry: { ...entry, headers } } : headers;
}
