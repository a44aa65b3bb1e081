import type { ConfigurationPart, ConfigurationParts, WrittenValue } from "../../gateway/storage.ts";
import { isJsonObject } from "../../operations/json.ts";
import { parsedObject } from "../stored-json.ts";
import { settingsCharactersMax, shortened } from "./change.ts";

/** What the store keeps of a configuration file. Values without room are left out: of those, the log will say only that they changed. */
export function storedParts(parts: ConfigurationParts): string {
  let left = storedCharactersMax;
  const kept = [...parts].map(([name, part]) => {
    left -= part.values === null ? 0 : JSON.stringify(part.values).length;
    return [name, left >= 0 ? part : { ...part, values: null }];
  });
  return JSON.stringify(Object.fromEntries(kept));
}

/** Null if nothing is stored, or something that cannot be compared. */
export function partsFrom(text: string | undefined): ConfigurationParts | null {
  const stored = text === undefined ? null : parsedObject(text);
  if (stored === null) return null;
  const parts = new Map<string, ConfigurationPart>();
  for (const [name, part] of Object.entries(stored)) {
    if (!isJsonObject(part) || typeof part["written"] !== "string" || typeof part["resolved"] !== "string") return null;
    const values = isJsonObject(part["values"]) ? (part["values"] as Readonly<Record<string, WrittenValue>>) : null;
    parts.set(name, { written: part["written"], resolved: part["resolved"], values });
  }
  return parts;
}

/** What a process that used `before`, or has just started, has to record; empty if another one has done so, which left `stored`. */
export function configurationChanges(
  { stored, before }: { readonly stored: ConfigurationParts; readonly before: ConfigurationParts | null },
  after: ConfigurationParts,
): Readonly<Record<string, unknown>> {
  const from = before ?? stored;
  const names = (one: ConfigurationParts, isConcerned: (name: string, part: ConfigurationPart) => boolean): readonly string[] =>
    [...one].filter(([name, part]) => isConcerned(name, part)).map(([name]) => name);
  const added = names(after, (name, { written }) => !from.has(name) && (before === null || stored.get(name)?.written !== written));
  // Also what only another process has read, which was gone again before this one looked: nobody else will say so.
  const removed = names(stored, (name) => !after.has(name));
  const changed = names(after, (name, { written, resolved }) => {
    const [known, old] = [stored.get(name), from.get(name)];
    if (old === undefined) return false;
    if (old.written !== written) return before === null || known?.written !== written;
    return before !== null && old.resolved !== resolved && known?.resolved !== resolved;
  });
  return {
    ...(added.length === 0 ? {} : { added: some(added) }),
    ...(changed.length === 0 ? {} : { changed: changesOf(changed, from, after) }),
    ...(removed.length === 0 ? {} : { removed: some(removed) }),
  };
}

/** Each setting from what to what; of one that is secret or too long, that it changed; and if even that is too much, the parts by name. */
function changesOf(names: readonly string[], from: ConfigurationParts, to: ConfigurationParts): unknown {
  const changes: Record<string, unknown> = {};
  for (const name of names) {
    const [before, after] = [from.get(name)?.values ?? null, to.get(name)?.values ?? null];
    const fields = before === null || after === null ? {} : valueChanges(name, before, after);
    Object.assign(changes, Object.keys(fields).length === 0 ? { [name]: "changed" } : fields);
  }
  return shortened(changes, settingsCharactersMax) ?? some(names);
}

type Values = Readonly<Record<string, WrittenValue>>;

function valueChanges(name: string, before: Values, after: Values): Readonly<Record<string, unknown>> {
  const changes: Record<string, unknown> = {};
  for (const path of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [from, to] = [valueAt(before, path), valueAt(after, path)];
    if (JSON.stringify(from) === JSON.stringify(to)) continue;
    const isShown = JSON.stringify(from[0]) !== JSON.stringify(to[0]);
    changes[path === "" ? name : `${name}.${path}`] = isShown ? { from: from[0], to: to[0] } : "changed";
  }
  return changes;
}

function valueAt(values: Values, path: string): WrittenValue {
  const value = Object.hasOwn(values, path) ? values[path] : undefined;
  return Array.isArray(value) ? value : [null];
}

function some(names: readonly string[]): readonly string[] {
  const shown: string[] = [];
  let left = namesCharactersMax;
  for (const name of names) {
    left -= JSON.stringify(name).length + 1;
    if (shown.length === namesMax || left < 0) break;
    shown.push(name);
  }
  return shown.length === names.length ? shown : [...shown, `and ${names.length - shown.length} more`];
}

/** An entry of the log has a bound, of which each list of names has its part, beside the changes. */
const namesMax = 50;
const namesCharactersMax = 3_000;
/** Of a file with thousands of entries, the store need not hold a copy. */
const storedCharactersMax = 262_144;
