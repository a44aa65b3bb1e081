import { entryWithoutSecrets } from "../../channels/entry-without-secrets.ts";
import type { Limits } from "../../limits/limits.ts";
import type { NewGroup } from "../../keys/stored-group.ts";
import type { NewKey } from "../../keys/stored-key.ts";
import { priceFields } from "../../usage/price-fields.ts";
import type { Price } from "../../usage/price.ts";
import { isoOrNull } from "../../usage/time-text.ts";
import { headersOf, hiddenValue, type StoredChannelEntry } from "../channel-secrets.ts";
import { limitsView, type SelectedBudgetView } from "../key-view.ts";
import type { FieldChange } from "./desired-resources.ts";

type FileFields = Readonly<Record<string, unknown>>;

/** The name of a group by its id. What is not an id is a name. */
export type GroupNames = (idOrName: string) => string;

/** A key in the words of the file, without what is not set. */
export function keyFields(key: NewKey, groupName: GroupNames): FileFields {
  const { name, owner, note, models, operations, channels, limits, group, splits, expiresMs } = key;
  return present({
    name,
    owner,
    note: noteField(note),
    models: listField(models),
    operations: listField(operations),
    channels: listField(channels),
    limits: limitsField(limits),
    group: group === null ? null : groupName(group),
    long_audio: splits.audio ? "split" : null,
    long_input: splits.input ? "split" : null,
    expires: isoOrNull(expiresMs),
  });
}

/** A group in the words of the file, without what is not set. */
export function groupFields(group: NewGroup & { readonly frozen: boolean }, groupName: GroupNames): FileFields {
  const { name, kind, parent, note, limits, defaults, frozen } = group;
  const children = present({ keys: limitsField(defaults.keys), groups: limitsField(defaults.groups) });
  return present({
    name,
    kind: kind === "group" ? null : kind,
    parent: parent === null ? null : groupName(parent),
    note: noteField(note),
    limits: limitsField(limits),
    frozen: frozen ? true : null,
    defaults: Object.keys(children).length === 0 ? null : children,
  });
}

function limitsField(limits: Limits): FileFields | null {
  const shown = limitsView(limits);
  if (Object.keys(shown).length === 0) return null;
  return { ...shown, ...(shown.budgets === undefined ? {} : { budgets: shown.budgets.map(budgetField) }) };
}

function budgetField({ name, models, operations, channels, ...budget }: SelectedBudgetView): FileFields {
  return { name, ...present({ models: listField(models), operations: listField(operations), channels: listField(channels) }), ...budget };
}

/** A file takes no note of nothing, which the store may have: it means the same as none. */
function noteField(note: string | null): string | null {
  return note === "" ? null : note;
}

/** A file takes nothing twice in a list, which the store may have: it means the same as once. */
function listField(list: readonly string[] | null | undefined): readonly string[] | null {
  return list == null ? null : [...new Set(list)];
}

/** A price in the words of the file, without what is not set. */
export function priceFileFields({ provider, model, fromMs, rates, note }: Price & { readonly note: string | null }): FileFields {
  return present({ provider, model, from: fromMs === 0 ? null : isoOrNull(fromMs), ...priceFields(rates), note: noteField(note) });
}

function present(fields: FileFields): FileFields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined));
}

/** The members that differ, by name. */
export function fieldChanges(before: FileFields, after: FileFields): readonly FieldChange[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].toSorted();
  return names
    .filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
    .map((field) => ({ field, from: before[field] ?? null, to: after[field] ?? null }));
}

/** The same for a channel, each header by itself and without its value. */
export function entryChanges(before: StoredChannelEntry, after: StoredChannelEntry): readonly FieldChange[] {
  const headers = fieldChanges(headersOf(before) ?? {}, headersOf(after) ?? {}).map(({ field, from, to }) => ({
    field: `headers.${field}`,
    from: from === null ? null : hiddenValue,
    to: to === null ? null : hiddenValue,
  }));
  const [from, to] = [entryWithoutSecrets(before), entryWithoutSecrets(after)];
  const others = fieldChanges({ ...before, headers: null }, { ...after, headers: null });
  return [...others.map(({ field }) => ({ field, from: from[field] ?? null, to: to[field] ?? null })), ...headers];
}
