import type { StoredChannel } from "../../gateway/storage.ts";
import { headersOf, hiddenValue } from "../../manage/channel-secrets.ts";
import { groupFields, keyFields, priceFileFields } from "../../manage/resource-file/fields.ts";
import { groupNamesOf } from "../../manage/resource-file/group-plan.ts";
import { dayName } from "../../manage/resource-file/price-plan.ts";
import type { CommandContext, ExplainedConfiguration, OpenStore } from "../command-context.ts";
import { CommandError } from "../command-error.ts";
import { json } from "../shown-text.ts";
import { table } from "../table.ts";
import type { ConfigRequest } from "./arguments.ts";

/** A setting with its origin, of the configuration or the store. */
interface OriginRow {
  readonly path: string;
  readonly numbered: string | null;
  readonly value: unknown;
  readonly origin: "file" | "environment" | "default" | "store";
  readonly line: number | null;
  readonly variables: readonly string[];
  readonly otherwise: string | null;
  /** Where the configuration says otherwise, so that this value of the store is not used. */
  readonly overridden: string | null;
}

export async function explain(
  { paths, all, json: asJson }: Extract<ConfigRequest, { readonly act: "explain" }>,
  store: OpenStore | null,
  context: CommandContext,
): Promise<void> {
  const settings = await context.explained();
  const stored = store === null ? [] : await storeRows(store, paths, (note) => context.terminal.say(note));
  const rows = [...settings.rows.map(configRow), ...stored];
  const unknown = paths.find((path) => !rows.some((row) => isUnder(row, path)));
  if (unknown !== undefined) {
    const fix = "docs/configuration.md lists all settings; without a path, all of them are shown";
    throw new CommandError(`There is no setting ${unknown} here: ${fix}.`);
  }
  const shown = rows.filter((row) => (all || row.origin !== "default") && (paths.length === 0 || paths.some((path) => isUnder(row, path))));
  if (asJson) return context.terminal.print(json(shown.map((row) => rowJson(row, settings))));
  if (shown.length === 0) return context.terminal.say("Everything here has its default.");
  context.terminal.print(
    table<OriginRow>(
      [
        { title: "SETTING", cell: ({ path }) => path },
        { title: "VALUE", cell: valueText },
        { title: "FROM", cell: (row) => originText(row, settings) },
      ],
      shown,
    ),
  );
}

/** A path names a setting and everything inside it, with the names of entries or their numbers. */
function isUnder({ path, numbered }: OriginRow, asked: string): boolean {
  return [path, numbered].some((one) => one !== null && (one === asked || one.startsWith(`${asked}.`) || one.startsWith(`${asked}[`)));
}

function configRow(row: ExplainedConfiguration["rows"][number]): OriginRow {
  const { path, numbered, value, origin, line, variables, otherwise } = row;
  return { path, numbered, value, origin, line, variables, otherwise, overridden: null };
}

async function storeRows(store: OpenStore, paths: readonly string[], say: (note: string) => void): Promise<readonly OriginRow[]> {
  const rows: OriginRow[] = [];
  for (const channel of await store.storage.channels.list()) {
    const place = store.channels.isInFile(channel.name) ? store.definedAt("channels", channel.name) : null;
    rows.push(...membersOf(`channels.${channel.name}`, channelMembers(channel), place));
  }
  for (const price of await store.storage.prices.list()) rows.push(...membersOf(`prices.${dayName(price)}`, priceFileFields(price), null));
  const groups = await store.storage.groups.list();
  const groupName = groupNamesOf(store, groups);
  const asked = paths.filter((path) => path.startsWith("groups."));
  const shown = asked.length > 0 ? groups.filter(({ name }) => asked.some((path) => `${path}.`.startsWith(`groups.${name}.`))) : groups;
  if (shown.length > entriesMax) say(manyGroups);
  for (const group of shown.slice(0, entriesMax)) {
    const place = store.fileGroups().some(({ name }) => name === group.name) ? store.definedAt("groups", group.name) : null;
    rows.push(...membersOf(`groups.${group.name}`, groupFields(group, groupName), place));
  }
  // There may be a million keys: all of them belong into an export.
  const named = paths.flatMap((path) => (path.startsWith("keys.") ? [path.slice("keys.".length)] : []));
  const wanted = named.flatMap((path) => path.split(".").map((_, at, parts) => parts.slice(0, at + 1).join(".")));
  const keys =
    wanted.length > 0
      ? (await Promise.all([...new Set(wanted)].slice(0, entriesMax).map((name) => store.storage.keys.find(name)))).filter(
          (key) => key !== null,
        )
      : await store.storage.keys.list({ search: null, revoked: false, after: null, limit: entriesMax });
  if (wanted.length === 0 && keys.length === entriesMax) say(manyKeys);
  for (const key of keys) {
    const place = store.fileKeys().some(({ name }) => name === key.name) ? store.definedAt("keys", key.name) : null;
    const { name, ...members } = keyFields(key, groupName);
    rows.push(...membersOf(`keys.${key.name}`, { name, id: key.id, key: `****${key.tokens[0]?.last4 ?? ""}`, ...members }, place));
  }
  return rows;
}

const entriesMax = 200;
const manyGroups = `Of the groups in the store, the first ${entriesMax} are shown: name one, as in groups.NAME, or use sluice groups list.`;
const manyKeys = `Of the keys in the store, the first ${entriesMax} are shown: name one, as in keys.NAME, or use sluice keys list.`;

function channelMembers({ entry, last4 }: StoredChannel): Readonly<Record<string, unknown>> {
  const headers = headersOf(entry);
  const hidden = headers === null ? {} : { headers: Object.fromEntries(Object.keys(headers).map((name) => [name, hiddenValue])) };
  return { ...entry, ...hidden, ...(last4.length === 0 ? {} : { api_keys: last4.map((end) => `****${end.replace(/^\*+$/, "")}`) }) };
}

function membersOf(path: string, members: Readonly<Record<string, unknown>>, overridden: string | null): readonly OriginRow[] {
  return Object.entries(members).map(([name, value]) => ({
    path: `${path}.${name}`,
    numbered: null,
    value,
    origin: "store",
    line: null,
    variables: [],
    otherwise: null,
    overridden,
  }));
}

function valueText({ value, otherwise }: OriginRow): string {
  if (value === null) return otherwise === null ? "not set" : otherwise;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length <= valueCharactersMax ? text : `${text.slice(0, valueCharactersMax)}…`;
}

const valueCharactersMax = 80;

function originText({ origin, line, variables, overridden }: OriginRow, { file }: ExplainedConfiguration): string {
  const place = file === null || line === null ? null : `${file}:${line}`;
  switch (origin) {
    case "file":
      return place ?? "file";
    case "environment":
      return [place, variables.join(", ")].filter((part) => part !== null).join(" ");
    case "store":
      return overridden === null ? "store" : `store, not used: ${overridden} defines it`;
    case "default":
      return "default";
  }
}

function rowJson({ overridden, numbered, ...row }: OriginRow, { file }: ExplainedConfiguration): Readonly<Record<string, unknown>> {
  const { path, value, origin, line, variables, otherwise } = row;
  return { path, numbered, value, origin, file: line === null ? null : file, line, variables, otherwise, overridden_by: overridden };
}
