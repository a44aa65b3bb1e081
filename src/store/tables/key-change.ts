import { StorageTrouble } from "../../gateway/storage.ts";
import type { KeyChange } from "../../keys/stored-key.ts";
import { differences } from "./change.ts";
import type { KeyRow } from "./key-row.ts";
import type { JsonObject } from "../../operations/json.ts";
import { overlaid, parsedObject } from "../stored-json.ts";
import { limitsFrom } from "./stored-limits.ts";
import { scopesFrom, splitsFrom } from "./stored-scopes.ts";
import { checkName, checkText, nameCharactersMax, noteCharactersMax } from "../stored-text.ts";

/** The columns of a key that somebody may change. */
export type KeyColumns = Pick<KeyRow, "name" | "owner" | "note" | "scopes" | "limits" | "splits" | "expires_ms">;

export const emptyColumns: KeyColumns = { name: "", owner: null, note: null, scopes: "{}", limits: "{}", splits: "{}", expires_ms: null };

/** What the row becomes. Works on a damaged row as well: that is how it is mended. */
export function changedColumns(row: KeyColumns, change: KeyChange): KeyColumns {
  const { limits, splits } = change;
  return {
    name: change.name ?? row.name,
    owner: change.owner === undefined ? row.owner : change.owner,
    note: change.note === undefined ? row.note : change.note,
    expires_ms: change.expiresMs === undefined ? row.expires_ms : change.expiresMs,
    scopes: overlaid(row.scopes, scopesIn(change)),
    limits: limits === undefined ? row.limits : overlaid(row.limits, { ...limits }),
    splits: splits === undefined ? row.splits : overlaid(row.splits, { ...splits }),
  };
}

/** For the audit trail. A note may say anything, so only that it changed is told. */
export function keyDifferences(before: KeyColumns, after: KeyColumns): JsonObject {
  const noted = before.note === after.note ? {} : { note: "changed" };
  return { ...differences(described(before), described(after)), ...noted };
}

function described({ name, owner, expires_ms, scopes, limits, splits }: KeyColumns): JsonObject {
  const { models = null, operations = null, channels = null } = parsedObject(scopes) ?? {};
  return { name, owner, expiresMs: expires_ms, models, operations, channels, limits: parsedObject(limits), splits: parsedObject(splits) };
}

/** Refuses what could not be read back as it was meant: JSON has no NaN, and "no limit" would come of it. */
export function checkKeyChange(change: KeyChange): void {
  if (change.name !== undefined) checkName("The name of a key", change.name);
  checkText("The owner of a key", change.owner ?? null, nameCharactersMax);
  checkText("The note of a key", change.note ?? null, noteCharactersMax);
  const { expiresMs, limits, splits } = change;
  if (expiresMs !== undefined && expiresMs !== null && !Number.isSafeInteger(expiresMs)) refuse("The end of a key's life");
  if (scopesFrom({ models: null, operations: null, channels: null, ...scopesIn(change) }) === null) refuse("What a key may reach");
  if (limits !== undefined && limitsFrom(limits) === null) refuse("What a key is limited to");
  if (splits !== undefined && splitsFrom(splits) === null) refuse("What is split for a key");
  if (JSON.stringify([limits, scopesIn(change)]).length > jsonCharactersMax) refuse("What a key may reach and use is too long and");
}

function scopesIn({ models, operations, channels }: KeyChange): JsonObject {
  return Object.fromEntries(Object.entries({ models, operations, channels }).filter(([, value]) => value !== undefined));
}

/** A key is in the memory of every process that has seen it. */
const jsonCharactersMax = 262_144;

function refuse(what: string): never {
  throw new StorageTrouble("invalid", `${what} cannot be kept as it is given.`);
}
