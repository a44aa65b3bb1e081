import type { StoredChannel } from "../../gateway/storage.ts";
import { entryWithoutSecrets } from "../../channels/entry-without-secrets.ts";
import { differences, settingsCharactersMax, shortened } from "./change.ts";

type ChannelEntryValues = StoredChannel["entry"];

/** The settings of a new or removed channel for the audit log, without anything secret. */
export function auditedSettings(entry: ChannelEntryValues): Readonly<Record<string, unknown>> {
  const settings = entryWithoutSecrets(entry);
  // A channel that comes back must not lack some of them.
  return JSON.stringify(settings).length <= settingsCharactersMax ? { settings } : {};
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
  // Their values are masked before they are compared, so that a header with another value is not among the differences.
  const headers = members.includes("headers") && changed["headers"] === undefined ? { headers: "changed" } : {};
  const short = shortened({ ...changed, ...headers }, settingsCharactersMax);
  return short === null ? {} : { changed: short };
}
