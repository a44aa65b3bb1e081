import { StorageError } from "../../gateway/storage.ts";
import type { Splits } from "../../keys/key.ts";
import { defaultKey, type KeyChange } from "../../keys/stored-key.ts";
import { differences } from "./change.ts";
import type { KeyRow } from "./key-row.ts";
import type { JsonObject } from "../../operations/json.ts";
import { mergedJson, parsedJson, parsedObject } from "../stored-json.ts";
import { limitsFrom } from "./stored-limits.ts";
import { scopesFrom, splitsFrom } from "./stored-scopes.ts";
import { checkName, checkText, nameCharactersMax, noteCharactersMax } from "../stored-text.ts";

/** The columns of a key that can be changed. */
export type KeyColumns = Pick<KeyRow, "name" | "owner" | "note" | "scopes" | "limits" | "splits" | "expires_ms" | "group_id">;

export const emptyColumns: KeyColumns = {
  name: "",
  owner: null,
  note: null,
  scopes: "{}",
  limits: "{}",
  splits: "{}",
  expires_ms: null,
  group_id: null,
};

/** The changed columns. They can also be computed for a damaged row, which a change repairs. */
export function changedColumns(row: KeyColumns, change: KeyChange): KeyColumns {
  const { limits, splits } = change;
  return {
    name: change.name ?? row.name,
    owner: change.owner === undefined ? row.owner : change.owner,
    note: change.note === undefined ? row.note : change.note,
    expires_ms: change.expiresMs === undefined ? row.expires_ms : change.expiresMs,
    group_id: change.group === undefined ? row.group_id : change.group,
    scopes: mergedJson(row.scopes, scopesIn(change)),
    limits: limits === undefined ? row.limits : mergedJson(row.limits, { ...limits }),
    splits: splits === undefined ? row.splits : changedSplits(row.splits, splits),
  };
}

/** Merged with what is in the row at this moment, because another change may have set the other one just now. */
function changedSplits(before: string, splits: Partial<Splits>): string {
  const isReadable = splitsFrom(parsedJson(before)) !== null;
  return mergedJson(before, isReadable ? { ...splits } : { ...defaultKey.splits, ...splits });
}

/** For the audit log. A note may contain anything, so that only the fact of its change is recorded. */
export function keyDifferences(before: KeyColumns, after: KeyColumns): JsonObject {
  const noted = before.note === after.note ? {} : { note: "changed" };
  return { ...differences(described(before), described(after)), ...noted };
}

function described({ name, owner, expires_ms, group_id: group, scopes, limits, splits }: KeyColumns): JsonObject {
  const { models = null, operations = null, channels = null } = parsedObject(scopes) ?? {};
  return {
    name,
    owner,
    group,
    expiresMs: expires_ms,
    models,
    operations,
    channels,
    limits: parsedObject(limits),
    splits: parsedObject(splits),
  };
}

/** Rejects values that could not be read back. For example, JSON turns NaN into null, which would mean "no limit". */
export function checkKeyChange(change: KeyChange): void {
  if (change.name !== undefined) checkName("The name of a key", change.name);
  checkText("The owner of a key", change.owner ?? null, nameCharactersMax);
  checkText("The note of a key", change.note ?? null, noteCharactersMax);
  checkText("The group of a key", change.group ?? null, nameCharactersMax);
  const { expiresMs, limits, splits } = change;
  if (expiresMs !== undefined && expiresMs !== null && !Number.isSafeInteger(expiresMs))
    reject("The expiry of a key must be a time in milliseconds.");
  if (scopesFrom({ models: null, operations: null, channels: null, ...scopesIn(change) }) === null)
    reject("The models, operations or channels of a key are invalid.");
  if (limits !== undefined && limitsFrom(limits) === null) reject("The limits of a key are invalid.");
  if (splits !== undefined && splitsFrom({ ...defaultKey.splits, ...splits }) === null) reject("The split settings of a key are invalid.");
  if (JSON.stringify([limits, scopesIn(change)]).length > jsonCharactersMax) reject("The limits and the models of a key are too long.");
}

function scopesIn({ models, operations, channels }: KeyChange): JsonObject {
  return Object.fromEntries(Object.entries({ models, operations, channels }).filter(([, value]) => value !== undefined));
}

/** Bounded, because each process caches the keys that it has seen. */
const jsonCharactersMax = 262_144;

function reject(message: string): never {
  throw new StorageError("invalid", message);
}
