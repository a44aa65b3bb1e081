import { isObject, type JsonObject } from "../stored-json.ts";
import type { Vault, VaultTrouble } from "../secrets/vault.ts";

/**
 * What is said of a channel, as it stands in its row: its headers are one sealed text, because people put keys into them.
 * Those from before they were sealed stand there as they are, and are read as well.
 */
export function sealedEntry(channel: string, entry: JsonObject, vault: Vault | null): JsonObject {
  const { headers } = entry;
  if (vault === null || !isObject(headers) || Object.keys(headers).length === 0) return entry;
  return { ...entry, headers: vault.sealHeaders(channel, headers) };
}

export interface OpenedEntry {
  readonly kind: "entry";
  readonly entry: JsonObject;
}

export function storedEntry(channel: string, entry: JsonObject, vault: Vault | null): OpenedEntry | VaultTrouble {
  const { headers } = entry;
  if (typeof headers !== "string") return { kind: "entry", entry };
  if (vault === null) return { kind: "vault_trouble", because: "other_key", message: `The headers of channel ${channel} are sealed.` };
  const opened = vault.openHeaders(channel, headers);
  return "kind" in opened ? opened : { kind: "entry", entry: { ...entry, headers: opened.headers } };
}

/** The same for a new master key. Headers that were never sealed are sealed on the occasion. */
export function rewrappedEntry(channel: string, entry: JsonObject, vault: Vault): OpenedEntry | VaultTrouble {
  if (typeof entry["headers"] !== "string") return { kind: "entry", entry: sealedEntry(channel, entry, vault) };
  const headers = vault.rewrapped(channel, entry["headers"], "headers");
  return typeof headers === "string" ? { kind: "entry", entry: { ...entry, headers } } : headers;
}
