import type { StoredChannel } from "../gateway/storage.ts";
import { ManageError } from "./error.ts";

export type StoredChannelEntry = StoredChannel["entry"];

/** Stands for a header's value when a channel is shown; sent back in a change, it means the value that is there. */
export const hiddenValue = "****";

export function headersOf(entry: StoredChannelEntry): Readonly<Record<string, unknown>> | null {
  const { headers } = entry;
  return typeof headers === "object" && headers !== null && !Array.isArray(headers) ? (headers as Record<string, unknown>) : null;
}

/** An entry that was shown and sent back means the header values that were hidden. */
export function withHiddenHeaders(before: StoredChannelEntry, entry: StoredChannelEntry): StoredChannelEntry {
  const [old, given] = [headersOf(before), headersOf(entry)];
  if (old === null || given === null) return entry;
  const kept = Object.entries(given).map(([name, value]) => [name, value === hiddenValue && Object.hasOwn(old, name) ? old[name] : value]);
  return { ...entry, headers: Object.fromEntries(kept) };
}

/** A header whose value is still hidden has no value that anybody knows. */
export function hiddenHeaderProblem(entry: StoredChannelEntry): ManageError | null {
  const hidden = Object.entries(headersOf(entry) ?? {}).find(([, value]) => value === hiddenValue);
  if (hidden === undefined) return null;
  return new ManageError("invalid_value", `The field 'entry.headers': give a value instead of ${hiddenValue}.`, "entry.headers");
}

/** A key in the entry would be readable for everybody, so keys and the name have fields of their own. */
export function misplacedProblem(entry: StoredChannelEntry): ManageError | null {
  if (Object.hasOwn(entry, "name")) {
    return new ManageError("invalid_value", "The field 'entry.name': the name is given beside the entry, and cannot change.", "entry.name");
  }
  const key = ["api_key", "api_keys", "api_key_file"].find((setting) => Object.hasOwn(entry, setting));
  if (key === undefined) return null;
  return new ManageError("invalid_channel", `The field 'entry.${key}': this cannot be set here. Give keys as 'secrets'.`, `entry.${key}`);
}

/**
 * Whoever may change a channel can read neither its secrets nor its headers, and must not be able to have them sent to another
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

/** Stand-ins for stored secrets that nobody can read: as many, and no two alike, so that the rest of a channel can be checked. */
export function placeholderSecrets({ last4 }: StoredChannel): readonly string[] {
  return last4.map((end, at) => `kept-${at}-${end.replaceAll(/[^\x21-\x7e]/g, "")}`);
}

/** What may be shown of a secret. The end of a short one would be too much of it. */
export function secretEnd(secret: string): string {
  return secret.length < shownFromCharacters ? "****" : secret.slice(-4);
}

const shownFromCharacters = 16;
