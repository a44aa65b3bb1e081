import type { StoredChannel } from "../../gateway/storage.ts";
import { entryWithoutSecrets } from "../../channels/entry-without-secrets.ts";
import { differences } from "./change.ts";

type ChannelEntryValues = StoredChannel["entry"];

/** The settings of a new or removed channel for the audit log, without anything secret. */
export function auditedSettings(entry: ChannelEntryValues): Readonly<Record<string, unknown>> {
  return bounded({ settings: entryWithoutSecrets(entry) });
}

/** What changed of a channel's settings, from what to what, without anything secret. */
export function auditedChanges(
  before: ChannelEntryValues,
  after: ChannelEntryValues,
  members: readonly string[],
): Readonly<Record<string, unknown>> {
  if (members.length === 0) return {};
  // A setting that is gone has to be mentioned as well.
  const gone = Object.fromEntries(members.filter((name) => !Object.hasOwn(after, name)).map((name) => [name, null]));
  const changed = differences(entryWithoutSecrets(before), { ...entryWithoutSecrets(after), ...gone });
  // Headers are hidden, so that one with another value looks the same.
  const headers = members.includes("headers") && changed["headers"] === undefined ? { headers: "changed" } : {};
  return bounded({ changed: { ...changed, ...headers } });
}

/** Whoever reads the log must find at least which settings changed, so that values which are too long are left out. */
function bounded(detail: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return JSON.stringify(detail).length <= valuesCharactersMax ? detail : {};
}

const valuesCharactersMax = 8_192;
