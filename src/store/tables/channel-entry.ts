import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import type { ChannelSecrets, DecryptionError } from "../secrets/channel-secrets.ts";

/**
 * What is said of a channel, as it stands in its row: its headers are one sealed text, because people put keys into them.
 * Those from before they were sealed stand there as they are, and are read as well.
 */
export function sealedEntry(channel: string, entry: JsonObject, channelSecrets: ChannelSecrets | null): JsonObject {
  const { headers } = entry;
  if (channelSecrets === null || !isJsonObject(headers) || Object.keys(headers).length === 0) return entry;
  return { ...entry, headers: channelSecrets.encryptHeaders(channel, headers) };
}

export interface OpenedEntry {
  readonly kind: "entry";
  readonly entry: JsonObject;
}

export function storedEntry(channel: string, entry: JsonObject, channelSecrets: ChannelSecrets | null): OpenedEntry | DecryptionError {
  const { headers } = entry;
  if (typeof headers !== "string") return { kind: "entry", entry };
  if (channelSecrets === null)
    return { kind: "decryption_error", because: "other_key", message: `The headers of channel ${channel} are encrypted.` };
  const opened = channelSecrets.decryptHeaders(channel, headers);
  return "kind" in opened ? opened : { kind: "entry", entry: { ...entry, headers: opened.headers } };
}

/** The same for a new master key. Headers that were never sealed are sealed on the occasion. */
export function rewrappedEntry(channel: string, entry: JsonObject, channelSecrets: ChannelSecrets): OpenedEntry | DecryptionError {
  if (typeof entry["headers"] !== "string") return { kind: "entry", entry: sealedEntry(channel, entry, channelSecrets) };
  const headers = channelSecrets.rewrapped(channel, entry["headers"], "headers");
  return typeof headers === "string" ? { kind: "entry", entry: { ...entry, headers } } : headers;
}
