import { groupKinds } from "../../keys/group.ts";
import type { GroupChange, StoredGroup } from "../../keys/stored-group.ts";
import { hasEmptyBudget, unlimited, type Limits } from "../../limits/limits.ts";
import type { JsonObject } from "../../operations/json.ts";
import { StorageError } from "../../gateway/storage.ts";
import { mergedJson, parsedJson, parsedObject } from "../stored-json.ts";
import { checkName, checkText, noteCharactersMax } from "../stored-text.ts";
import { differences } from "./change.ts";
import { limitsFrom } from "./stored-limits.ts";

export interface GroupRow {
  readonly id: string;
  readonly name: string;
  readonly kind: string;
  readonly parent: string | null;
  readonly note: string | null;
  readonly limits: string;
  readonly key_defaults: string;
  readonly group_defaults: string;
  readonly frozen_ms: number | null;
  readonly created_ms: number;
  readonly deleted_ms: number | null;
}

/** The columns that can be changed. */
export type GroupColumns = Pick<GroupRow, "name" | "kind" | "parent" | "note" | "limits" | "key_defaults" | "group_defaults" | "frozen_ms">;

export const emptyGroup: GroupColumns = {
  name: "",
  kind: "group",
  parent: null,
  note: null,
  limits: "{}",
  key_defaults: "{}",
  group_defaults: "{}",
  frozen_ms: null,
};

/** The group, or the name of the column that this version cannot read. */
export function groupFrom(row: GroupRow, limitsOf: LimitsReader = limitsFromText): StoredGroup | { readonly damaged: string } {
  const limits = limitsOf(row.limits);
  const keys = limitsOf(row.key_defaults);
  const groups = limitsOf(row.group_defaults);
  if (limits === null) return { damaged: "limits" };
  if (keys === null || groups === null) return { damaged: "defaults" };
  return {
    id: row.id,
    name: row.name,
    // It only has a part in messages, so that one of a newer version is no reason to refuse calls.
    kind: groupKinds.find((kind) => kind === row.kind) ?? "group",
    parent: row.parent,
    limits,
    frozen: row.frozen_ms !== null,
    defaults: { keys, groups },
    note: row.note,
    createdMs: row.created_ms,
    frozenMs: row.frozen_ms,
  };
}

/** Groups without limits share one object: there may be many. */
function limitsFromText(text: string): Limits | null {
  return text === unlimitedText ? unlimited : limitsFrom(parsedJson(text));
}

type LimitsReader = (text: string) => Limits | null;

/** Of many groups, most have the same limits as some others: they are parsed once. */
export function makeLimitsReader(): LimitsReader {
  const known = new Map<string, Limits | null>();
  return (text) => {
    let limits = known.get(text);
    if (limits === undefined) known.set(text, (limits = limitsFromText(text)));
    return limits;
  };
}

const unlimitedText = mergedJson("{}", { ...unlimited });

export function changedGroup(row: GroupColumns, change: GroupChange, nowMs: number): GroupColumns {
  const merged = (before: string, limits: Limits | undefined): string =>
    limits === undefined ? before : mergedJson(before, { ...limits });
  return {
    name: change.name ?? row.name,
    kind: change.kind ?? row.kind,
    parent: change.parent === undefined ? row.parent : change.parent,
    note: change.note === undefined ? row.note : change.note,
    limits: merged(row.limits, change.limits),
    key_defaults: merged(row.key_defaults, change.defaults?.keys),
    group_defaults: merged(row.group_defaults, change.defaults?.groups),
    frozen_ms: change.frozen === undefined ? row.frozen_ms : change.frozen ? (row.frozen_ms ?? nowMs) : null,
  };
}

/** For the audit log. A note may contain anything, so that only the fact of its change is recorded. */
export function groupDifferences(before: GroupColumns, after: GroupColumns): JsonObject {
  const noted = before.note === after.note ? {} : { note: "changed" };
  return { ...differences(described(before), described(after)), ...noted };
}

function described({ name, kind, parent, limits, key_defaults, group_defaults, frozen_ms }: GroupColumns): JsonObject {
  const defaults = { keys: parsedObject(key_defaults), groups: parsedObject(group_defaults) };
  return { name, kind, parent, limits: parsedObject(limits), defaults, frozen: frozen_ms !== null };
}

/** Rejects values that could not be read back. */
export function checkGroupChange({ name, kind, note, limits, defaults }: GroupChange): void {
  if (name !== undefined) checkName("The name of a group", name);
  checkText("The note of a group", note ?? null, noteCharactersMax);
  if (kind !== undefined && !groupKinds.includes(kind)) reject("There is no such kind of group.");
  for (const one of [limits, defaults?.keys, defaults?.groups]) {
    if (one !== undefined && limitsFrom(one) === null) reject("The limits of a group are invalid.");
    if (one !== undefined && hasEmptyBudget(one)) reject("A budget of 0 would reject every call with a price: freeze the group instead.");
  }
  if (JSON.stringify([limits, defaults]).length > jsonCharactersMax) reject("The limits of a group are too long.");
}

/** Bounded, because each process has all groups in memory. */
const jsonCharactersMax = 65_536;

function reject(message: string): never {
  throw new StorageError("invalid", message);
}
