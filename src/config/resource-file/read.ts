import type { NewGroup } from "../../keys/stored-group.ts";
import { unknownLast4, type HashedToken, type NewKey } from "../../keys/stored-key.ts";
import { ratesOfFields } from "../../usage/price-fields.ts";
import type { Price } from "../../usage/price.ts";
import { readDocument, type Document } from "../document.ts";
import { pathText, type Path, type Problem } from "../findings/problem.ts";
import { circleFindings, groupLimitsFindings } from "../keys/group.ts";
import { limitsFindings, limitsIn } from "../keys/limits.ts";
import { schemaProblems } from "../findings/schema-problems.ts";
import type { Environment } from "../interpolate.ts";
import { isGroup } from "../kinds.ts";
import { resourceFileSchema, type ResourceFile } from "./schema.ts";

/** What the file says; null for a list that it does not have. */
export interface ResourceFileContents {
  readonly storeId: string | null;
  readonly channels: readonly ChannelOfFile[] | null;
  readonly groups: readonly GroupOfFile[] | null;
  readonly keys: readonly KeyOfFile[] | null;
  readonly prices: readonly PriceOfFile[] | null;
}

interface ChannelOfFile {
  readonly line: number | null;
  readonly name: string;
  readonly entry: Readonly<Record<string, unknown>>;
  readonly secrets: readonly string[] | null;
}

interface GroupOfFile {
  readonly line: number | null;
  /** The parent by its name. */
  readonly fields: NewGroup;
  readonly frozen: boolean | null;
}

interface KeyOfFile {
  readonly line: number | null;
  readonly id: string | null;
  /** The group by its name. */
  readonly fields: NewKey;
  readonly token: string | HashedToken | null;
}

interface PriceOfFile {
  readonly line: number | null;
  readonly price: Price & { readonly note: string | null };
}

export type ResourceFileReading =
  | { readonly ok: true; readonly desired: ResourceFileContents }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** Reads a file for `sluice config diff` and `apply`. It never throws, whatever the text is. */
export async function readResourceFile(text: string, env: Environment): Promise<ResourceFileReading> {
  try {
    return await read(text, env);
  } catch {
    // What the parser threw may quote secrets, so it is not repeated.
    const fix = "check the file for unusual characters and deep nesting";
    return { ok: false, problems: [{ line: null, path: "", reason: "the file cannot be parsed", fix }] };
  }
}

async function read(text: string, env: Environment): Promise<ResourceFileReading> {
  const document = await readDocument(text, env);
  if ("problems" in document) return { ok: false, problems: document.problems };
  const { value, lineOf } = document;
  // An empty file must not be taken for an empty store, which `--prune` would make true.
  if (value === null || (isGroup(value) && Object.keys(value).length === 0)) return { ok: false, problems: [emptyFile] };
  const checked = resourceFileSchema.safeParse(value);
  if (!checked.success) return { ok: false, problems: schemaProblems(checked.error.issues, resourceFileSchema, lineOf) };
  const problems = entryProblems(checked.data, lineOf);
  return problems.length > 0 || !isGroup(value) ? { ok: false, problems } : { ok: true, desired: desiredOf(checked.data, value, lineOf) };
}

const emptyFile: Problem = {
  line: null,
  path: "",
  reason: "the file is empty",
  fix: "write what the store shall have under channels:, groups:, keys: or prices:; sluice config export prints what it has",
};

function desiredOf(file: ResourceFile, given: Readonly<Record<string, unknown>>, lineOf: Document["lineOf"]): ResourceFileContents {
  const has = (list: string): boolean => Object.hasOwn(given, list);
  const entries = Array.isArray(given["channels"]) ? (given["channels"] as readonly Readonly<Record<string, unknown>>[]) : [];
  return {
    storeId: file.store_id ?? null,
    channels: has("channels")
      ? file.channels.map(({ name, api_key: key, api_keys: keys }, at) => {
          // The store keeps what was written, and not what it was read as.
          const { name: _, api_key: __, api_keys: ___, ...entry } = entries[at] ?? {};
          return { line: lineOf(["channels", at]), name, entry, secrets: keys ?? (key === undefined ? null : [key]) };
        })
      : null,
    groups: has("groups") ? file.groups.map((entry, at) => desiredGroup(entry, lineOf(["groups", at]))) : null,
    keys: has("keys") ? file.keys.map((entry, at) => desiredKey(entry, lineOf(["keys", at]))) : null,
    prices: has("prices")
      ? file.prices.map(({ provider = null, model, from = 0, note = null, ...rates }, at) => ({
          line: lineOf(["prices", at]),
          price: { provider, model, fromMs: from, rates: ratesOfFields(rates), note },
        }))
      : null,
  };
}

function desiredGroup(
  { name, kind, parent, note, limits, defaults, frozen }: ResourceFile["groups"][number],
  line: number | null,
): GroupOfFile {
  return {
    line,
    fields: {
      name,
      kind,
      parent: parent ?? null,
      note: note ?? null,
      limits: limitsIn(limits),
      defaults: { keys: limitsIn(defaults?.keys), groups: limitsIn(defaults?.groups) },
    },
    frozen: frozen ?? null,
  };
}

function desiredKey(entry: ResourceFile["keys"][number], line: number | null): KeyOfFile {
  const token = entry.key ?? (entry.hash === undefined ? null : { digest: entry.hash, last4: entry.last4 ?? unknownLast4 });
  return {
    line,
    id: entry.id ?? null,
    fields: {
      name: entry.name,
      owner: entry.owner ?? null,
      note: entry.note ?? null,
      models: entry.models ?? null,
      operations: entry.operations ?? null,
      channels: entry.channels ?? null,
      expiresMs: entry.expires ?? null,
      limits: limitsIn(entry.limits),
      group: entry.group ?? null,
      splits: { audio: entry.long_audio === "split", input: entry.long_input === "split" },
    },
    token,
  };
}

function entryProblems({ channels, groups, keys, prices }: ResourceFile, lineOf: Document["lineOf"]): readonly Problem[] {
  const at = (path: Path, reason: string, fix: string): Problem => ({ line: lineOf(path), path: pathText(path), reason, fix });
  const twice = (list: string, names: readonly (string | null)[], setting: string): Problem[] => {
    const seen = new Set<string>();
    return names.flatMap((name, index) => {
      if (name === null || !seen.has(name)) {
        if (name !== null) seen.add(name);
        return [];
      }
      return [at([list, index, setting], "another entry has the same", "remove one of the two")];
    });
  };
  return [
    ...twice(
      "channels",
      channels.map(({ name }) => name),
      "name",
    ),
    ...channels.flatMap(({ api_key: key, api_keys: pool }, index) =>
      key !== undefined && pool !== undefined ? [at(["channels", index, "api_keys"], "api_key is also set", "keep one of the two")] : [],
    ),
    ...twice(
      "groups",
      groups.map(({ name }) => name),
      "name",
    ),
    ...[
      ...circleFindings(groups),
      ...groups.flatMap((group, index) => groupLimitsFindings(group, ["groups", index])),
      ...keys.flatMap(({ limits }, index) => limitsFindings(limits, ["keys", index, "limits"])),
    ].map(({ path, reason, fix }) => at(path, reason, fix)),
    ...twice(
      "keys",
      keys.map(({ name }) => name),
      "name",
    ),
    ...twice(
      "keys",
      keys.map(({ id }) => id ?? null),
      "id",
    ),
    ...twice(
      "keys",
      keys.map(({ key, hash }) => key ?? hash ?? null),
      "key",
    ),
    ...keys.flatMap(({ key, hash }, index) =>
      key !== undefined && hash !== undefined ? [at(["keys", index, "hash"], "key is also set", "keep one of the two")] : [],
    ),
    ...twice(
      "prices",
      prices.map(({ provider = "", model, from = 0 }) => JSON.stringify([provider, model, Math.floor(from / dayMs)])),
      "model",
    ),
  ];
}

const dayMs = 86_400_000;
