import { entryWithoutSecrets } from "../../channels/entry-without-secrets.ts";
import type { StoredChannel } from "../../gateway/storage.ts";
import type { Key } from "../../keys/key.ts";
import type { ChannelEditContext } from "../channel-context.ts";
import { groupFields, keyFields, priceFileFields } from "./fields.ts";
import { groupNamesOf } from "./group-plan.ts";
import { dayName } from "./price-plan.ts";

/** What the store says, as settings of the configuration, without secrets. */
export interface StoredSettings {
  readonly rows: readonly StoredSetting[];
  /** What was left out, and what a name does not tell. */
  readonly notes: readonly string[];
}

export interface StoredSetting {
  readonly path: string;
  readonly value: unknown;
  /** Where the configuration says otherwise, so that this value of the store is not used. */
  readonly overridden: string | null;
}

/** `paths`: the settings that are wanted, which may be more than are shown otherwise. Empty: all. */
export async function storedSettings(context: ChannelEditContext, paths: readonly string[]): Promise<StoredSettings> {
  const { reports } = context;
  const rows: StoredSetting[] = [];
  const notes: string[] = [];
  for (const channel of await reports.channels.list()) {
    const place = context.channels.isInFile(channel.name) ? context.definedAt("channels", channel.name) : null;
    rows.push(...membersOf(`channels.${channel.name}`, channelMembers(channel), place));
  }
  for (const price of await reports.prices.list()) rows.push(...membersOf(`prices.${dayName(price)}`, priceFileFields(price), null));
  const groups = await reports.groups.list();
  const groupName = groupNamesOf(context, groups);
  const asked = paths.filter((path) => path.startsWith("groups."));
  const shown = asked.length > 0 ? groups.filter(({ name }) => asked.some((path) => `${path}.`.startsWith(`groups.${name}.`))) : groups;
  if (shown.length > entriesMax) notes.push(manyGroups);
  for (const group of shown.slice(0, entriesMax)) {
    const twin = context.fileGroups().find(({ name }) => name === group.name);
    if (twin !== undefined) notes.push(`${alsoInStore(context, "groups", group)} Keys that were put into it stay there, with its limits.`);
    rows.push(...membersOf(`groups.${group.name}`, groupFields(group, groupName), null));
  }
  // There may be a million keys: all of them belong into an export.
  const named = paths.flatMap((path) => (path.startsWith("keys.") ? [path.slice("keys.".length)] : []));
  const wanted = named.flatMap((path) => path.split(".").map((_, at, parts) => parts.slice(0, at + 1).join(".")));
  const keys =
    wanted.length > 0
      ? (await Promise.all([...new Set(wanted)].slice(0, entriesMax).map((name) => reports.keys.find(name)))).filter((key) => key !== null)
      : await reports.keys.list({ search: null, revoked: false, after: null, limit: entriesMax });
  if (wanted.length === 0 && keys.length === entriesMax) notes.push(manyKeys);
  for (const key of keys) {
    const twin = context.fileKeys().find(({ id, name }) => id === key.id || name === key.name);
    const place = twin?.id === key.id ? context.definedAt("keys", twin.name) : null;
    if (twin !== undefined && place === null && key.revokedMs === null)
      notes.push(`${alsoInStore(context, "keys", key)} Clients can use both; to end it: sluice keys revoke ${key.id}`);
    const { name, ...members } = keyFields(key, groupName);
    rows.push(...membersOf(`keys.${key.name}`, { name, id: key.id, key: `****${key.tokens[0]?.last4 ?? ""}`, ...members }, place));
  }
  return { rows, notes };
}

/** Keys and groups are used by their tokens and ids, so that one of the same name in the file does not replace one of the store. */
function alsoInStore({ definedAt }: ChannelEditContext, list: "groups" | "keys", { id, name }: Pick<Key, "id" | "name">): string {
  const what = list === "keys" ? "key" : "group";
  return `Besides the ${what} ${name} of ${definedAt(list, name)}, the store has another of this name (${id}).`;
}

const entriesMax = 200;
const manyGroups = `Of the groups in the store, the first ${entriesMax} are shown: name one, as in groups.NAME, or use sluice groups list.`;
const manyKeys = `Of the keys in the store, the first ${entriesMax} are shown: name one, as in keys.NAME, or use sluice keys list.`;

function channelMembers({ entry, last4 }: StoredChannel): Readonly<Record<string, unknown>> {
  return {
    ...entryWithoutSecrets(entry),
    ...(last4.length === 0 ? {} : { api_keys: last4.map((end) => `****${end.replace(/^\*+$/, "")}`) }),
  };
}

function membersOf(path: string, members: Readonly<Record<string, unknown>>, overridden: string | null): readonly StoredSetting[] {
  return Object.entries(members).map(([name, value]) => ({ path: `${path}.${name}`, value, overridden }));
}
