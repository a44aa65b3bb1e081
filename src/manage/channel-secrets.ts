import type { StoredChannel } from "../gateway/storage.ts";
import { ManageError } from "./error.ts";

export type StoredChannelEntry = StoredChannel["entry"];

/** Shown instead of a header's value. Sent back in a change, it means the stored value. */
export const hiddenValue = "****";

export function headersOf(entry: StoredChannelEntry): Readonly<Record<string, unknown>> | null {
  const { headers } = entry;
  return typeof headers === "object" && headers !== null && !Array.isArray(headers) ? (headers as Record<string, unknown>) : null;
}

/** Replaces hidden header values, in settings that were shown and sent back, with the stored ones. */
export function withHiddenHeaders(before: StoredChannelEntry, entry: StoredChannelEntry): StoredChannelEntry {
  const [old, given] = [headersOf(before), headersOf(entry)];
  if (old === null || given === null) return entry;
  const kept = Object.entries(given).map(([name, value]) => [name, value === hiddenValue && Object.hasOwn(old, name) ? old[name] : value]);
  return { ...entry, headers: Object.fromEntries(kept) };
}

/** A hidden value that stands for no stored one. */
export function hiddenHeaderProblem(entry: StoredChannelEntry): ManageError | null {
  const hidden = Object.entries(headersOf(entry) ?? {}).find(([, value]) => value === hiddenValue);
  if (hidden === undefined) return null;
  return new ManageError(
    "invalid_value",
    `The field 'entry.headers' must contain the value of a header instead of ${hiddenValue}.`,
    "entry.headers",
  );
}

/** Viewers can read the entry, so keys must be given as `secrets`. The name is a field of its own too. */
export function misplacedProblem(entry: StoredChannelEntry): ManageError | null {
  if (Object.hasOwn(entry, "name")) {
    return new ManageError(
      "invalid_value",
      "The field 'entry.name' is not allowed: the name is a field of its own, and cannot be changed.",
      "entry.name",
    );
  }
  const key = ["api_key", "api_keys", "api_key_file"].find((setting) => Object.hasOwn(entry, setting));
  if (key === undefined) return null;
  return new ManageError("invalid_channel", `The field 'entry.${key}' is not allowed: give keys as 'secrets'.`, `entry.${key}`);
}

/**
 * An operator who may change a channel cannot read its secrets and headers, and must not be able to have them sent to another
 * address either: with a new address they must be given again.
 */
export function redirectedSecretsProblem(before: StoredChannel, entry: StoredChannelEntry, edit: ChannelEdit): ManageError | null {
  const moved = addressSettings.find((setting) => JSON.stringify(before.entry[setting]) !== JSON.stringify(entry[setting]));
  if (moved === undefined) return null;
  if (edit.secrets === undefined && before.sealed !== null) {
    return new ManageError(
      "secrets_needed",
      `A new '${moved}' sends the keys to another address: give them again as 'secrets'.`,
      "secrets",
    );
  }
  const headers = headersOf(before.entry) ?? {};
  const fresh = headersOf(edit.entry ?? {});
  const kept = Object.keys(headersOf(entry) ?? {}).find(
    (name) => Object.hasOwn(headers, name) && (fresh?.[name] ?? hiddenValue) === hiddenValue,
  );
  if (kept === undefined) return null;
  return new ManageError(
    "secrets_needed",
    `A new '${moved}' sends the headers to another address: give them again as 'entry.headers', or null.`,
    "entry.headers",
  );
}

export interface ChannelEdit {
  /** Settings that are not given stay as they are; null removes one. */
  readonly entry?: StoredChannelEntry | undefined;
  /** Replaces all of them. */
  readonly secrets?: readonly string[] | undefined;
}

const addressSettings = ["base_url", "provider", "resource", "region", "api_version", "dialect", "auth_header"];

/** Placeholders for the stored secrets, as many and all different, with which the other settings of a channel can be checked. */
export function placeholderSecrets({ last4 }: StoredChannel): readonly string[] {
  return last4.map((end, at) => `kept-${at}-${end.replaceAll(/[^\x21-\x7e]/g, "")}`);
}

/** The end of a secret, which may be shown; of a short secret, nothing. */
export function secretEnd(secret: string): string {
  return secret.length < shownFromCharacters ? "****" : secret.slice(-4);
}

const shownFromCharacters = 16;
