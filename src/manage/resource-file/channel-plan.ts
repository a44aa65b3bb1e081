import type { StoredChannel } from "../../gateway/storage.ts";
import { secretEnd, type StoredChannelEntry } from "../channel-secrets.ts";
import { addChannel, channelInFile, editChannel, removeChannel } from "../channels.ts";
import type { ManageError } from "../error.ts";
import type { DesiredChannel, FieldChange, PlannedChange, ResourceContext } from "./desired-resources.ts";
import { entryChanges } from "./fields.ts";

export async function plannedChannels(
  context: ResourceContext,
  desired: readonly DesiredChannel[] | null,
  prune: boolean,
): Promise<readonly PlannedChange[] | ManageError> {
  if (desired === null) return [];
  const stored = new Map((await context.storage.channels.list()).map((channel) => [channel.name, channel]));
  const changes = desired.flatMap((channel) => {
    const before = stored.get(channel.name);
    return before === undefined ? [created(channel)] : changed(context, before, channel);
  });
  const inFile = changes.find(({ change: { name } }) => context.channels.isInFile(name));
  if (inFile !== undefined) return channelInFile(context, inFile.change.name);
  const wanted = new Set(desired.map(({ name }) => name));
  const extra = prune ? [...stored.values()].filter(({ name }) => !wanted.has(name)) : [];
  return [...changes, ...extra.map(removed)];
}

function created({ name, entry, secrets, line }: DesiredChannel): PlannedChange {
  const keys = secrets === null || secrets.length === 0 ? [] : [{ field: "api_keys", from: null, to: secrets.map(secretEnd) }];
  return {
    change: { what: "channel", name, action: "create", fields: [...entryChanges({}, entry), ...keys], line },
    run: (context, actor) => addChannel(context, { name, entry, secrets: secrets ?? [] }, actor),
  };
}

function changed({ channels }: ResourceContext, before: StoredChannel, { name, entry, secrets, line }: DesiredChannel): PlannedChange[] {
  const settings = entryChanges(before.entry, entry);
  const keys = secrets === null ? [] : secretChanges(before, secrets, channels.unseal);
  if (settings.length === 0 && keys.length === 0) return [];
  const edit = {
    ...(settings.length === 0 ? {} : { entry: { ...gone(before.entry, entry), ...entry } }),
    ...(keys.length === 0 || secrets === null ? {} : { secrets }),
  };
  return [
    {
      change: { what: "channel", name, action: "change", fields: [...settings, ...keys], line },
      run: (context, actor) => editChannel(context, name, edit, () => true, actor),
    },
  ];
}

/** Null removes a setting. */
function gone(before: StoredChannelEntry, after: StoredChannelEntry): StoredChannelEntry {
  const names = Object.keys(before).filter((name) => !Object.hasOwn(after, name));
  return Object.fromEntries(names.map((name) => [name, null]));
}

function secretChanges(
  { name, sealed, last4 }: StoredChannel,
  secrets: readonly string[],
  unseal: ResourceContext["channels"]["unseal"],
): readonly FieldChange[] {
  const present = sealed === null ? [] : unseal(name, sealed);
  if (present !== null && JSON.stringify(present) === JSON.stringify(secrets)) return [];
  return [{ field: "api_keys", from: [...last4], to: secrets.map(secretEnd) }];
}

function removed({ name, last4 }: StoredChannel): PlannedChange {
  const keys = last4.length === 0 ? [] : [{ field: "api_keys", from: [...last4], to: null }];
  return {
    change: { what: "channel", name, action: "remove", fields: keys, line: null },
    run: (context, actor) => removeChannel(context, name, actor),
  };
}
