import { entryWithoutSecrets } from "../../channels/entry-without-secrets.ts";
import type { StoredChannel } from "../../gateway/storage.ts";
import type { StoredKey } from "../../keys/stored-key.ts";
import { headersOf } from "../channel-secrets.ts";
import type { ManageContext } from "../context.ts";
import { ManageError } from "../error.ts";
import { storedKeys } from "../key-search.ts";
import { groupFields, keyFields, priceFileFields, type GroupNames } from "./fields.ts";
import { groupNamesOf } from "./group-plan.ts";
import { storeIdOf } from "./planned-changes.ts";
import { dayName } from "./price-plan.ts";

export const resourceSections = ["channels", "groups", "keys", "prices"] as const;
export type ResourceSection = (typeof resourceSections)[number];

/** The contents of the store as a file would say them, in an order that depends on nothing but the contents. */
export interface ExportedResources {
  readonly document: Readonly<Record<string, unknown>>;
  /** The variables that stand for secrets, and what belongs into each. */
  readonly variables: ReadonlyMap<string, string>;
}

export interface ExportOptions {
  readonly sections: readonly ResourceSection[];
  /** Variables in place of the hashes of keys, for another store: the operator has to know the tokens. */
  readonly keyVariables: boolean;
}

export async function exportedResources(context: ManageContext, { sections, keyVariables }: ExportOptions): Promise<ExportedResources> {
  const { reports } = context;
  const names = new VariableNames();
  const has = (section: ResourceSection): boolean => sections.includes(section);
  const channels = has("channels") ? (await reports.channels.list()).toSorted(byName).map((channel) => channelEntry(channel, names)) : null;
  const groups = (await reports.groups.list()).toSorted(byName);
  const groupName = groupNamesOf(context, groups);
  const keys = has("keys") ? await keyEntries(context, keyVariables ? names : null, groupName) : null;
  const prices = has("prices") ? (await reports.prices.list()).toSorted((one, other) => order(dayName(one), dayName(other))) : null;
  return {
    document: {
      ...(keys === null || keys.length === 0 || keyVariables ? {} : { store_id: storeIdOf(context) }),
      ...(channels === null ? {} : { channels }),
      ...(has("groups") ? { groups: groups.map((group) => escaped(groupFields(group, groupName))) } : {}),
      ...(keys === null ? {} : { keys }),
      ...(prices === null ? {} : { prices: prices.map((price) => escaped(priceFileFields(price))) }),
    },
    variables: names.meanings,
  };
}

/** Why a store cannot be exported by a gateway that has calls to serve. */
export async function exportProblem({ reports }: ManageContext, { sections }: ExportOptions, keysMax: number): Promise<ManageError | null> {
  if (!sections.includes("keys")) return null;
  let keys = 0;
  for await (const _ of storedKeys(reports, keysMax + 1)) keys += 1;
  if (keys <= keysMax) return null;
  const fix = "export the other lists only, or run sluice config export where the store can be reached";
  return new ManageError("invalid_value", `The store has more than ${keysMax} keys: ${fix}.`, "only");
}

/** Secrets stay out of the file: each is replaced by a variable. */
function channelEntry({ name, entry, last4 }: StoredChannel, names: VariableNames): Readonly<Record<string, unknown>> {
  const keys = last4.map((end, at) =>
    names.refer(`channel_${name}_key${at === 0 ? "" : `_${at + 1}`}`, `a key of channel ${name}, ending in ${end}`),
  );
  const headers = headersOf(entry);
  const hidden = Object.keys(headers ?? {})
    .toSorted(order)
    .map((header) => [header, names.refer(`channel_${name}_${header}`, `the header ${header} of channel ${name}`)]);
  const { headers: _, ...others } = entryWithoutSecrets(entry);
  return {
    name,
    ...sortedMembers(escaped(others)),
    ...(hidden.length === 0 ? {} : { headers: Object.fromEntries(hidden) }),
    ...(keys.length === 0 ? {} : keys.length === 1 ? { api_key: keys[0] } : { api_keys: keys }),
  };
}

async function keyEntries(
  context: ManageContext,
  names: VariableNames | null,
  groupName: GroupNames,
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const keys: StoredKey[] = [];
  for await (const key of storedKeys(context.reports)) keys.push(key);
  keys.sort((one, other) => order(one.name, other.name));
  const entries: Readonly<Record<string, unknown>>[] = [];
  for (let at = 0; at < keys.length; at += pageKeys) {
    const page = keys.slice(at, at + pageKeys);
    const current = await context.reports.keys.current(page.map(({ id }) => id));
    for (const [index, key] of page.entries()) {
      // Both lists are in the same order, with the token that is not being replaced first.
      const digest = current[index]?.tokens[0]?.digest;
      const last4 = key.tokens[0]?.last4 ?? "";
      const variable = names?.refer(`key_${key.name}`, `the token of key ${key.name}, ending in ${last4}`);
      const token = variable !== undefined ? { key: variable } : digest === undefined ? {} : { hash: digest, last4 };
      const { name, ...others } = keyFields(key, groupName);
      entries.push({ ...escaped({ name }), id: key.id, ...token, ...escaped(others) });
    }
  }
  return entries;
}

const pageKeys = 200;

/** Names of variables, each used once. */
class VariableNames {
  readonly meanings = new Map<string, string>();

  refer(wanted: string, meaning: string): string {
    const base = wanted.toUpperCase().replaceAll(/[^A-Z0-9]+/g, "_");
    let name = base;
    for (let number = 2; this.meanings.has(name); number++) name = `${base}_${number}`;
    this.meanings.set(name, meaning);
    return `\${${name}}`;
  }
}

/** What looks like a variable in a text would be replaced, or refused, when the file is read. */
function escaped(members: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(members).map(([name, value]) => [name, escapedValue(value)]));
}

function escapedValue(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll(/\$\{|(?<!\$)\$(?=[A-Za-z_])/g, (found) => (found === "$" ? "${$}" : "$${"));
  if (Array.isArray(value)) return (value as readonly unknown[]).map(escapedValue);
  return typeof value === "object" && value !== null ? escaped({ ...value }) : value;
}

function sortedMembers(members: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(members).toSorted(([one], [other]) => order(one, other)));
}

function byName(one: { readonly name: string }, other: { readonly name: string }): number {
  return order(one.name, other.name);
}

function order(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
