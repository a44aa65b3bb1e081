import type { Key, Splits } from "../../keys/key.ts";
import { operations, type Operation } from "../../operations/operation.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { textsFrom } from "../stored-json.ts";

/** What a key may use. */
export type KeyScopes = Pick<Key, "models" | "operations" | "channels">;

/** Null if a part is missing or unknown to this version: it must not be read as "everything". */
export function scopesFrom(value: unknown): KeyScopes | null {
  if (!isJsonObject(value)) return null;
  const models = listFrom(value, "models");
  const channels = listFrom(value, "channels");
  const named = listFrom(value, "operations");
  if (models === undefined || channels === undefined || named === undefined) return null;
  if (named === null) return { models, operations: null, channels };
  return named.every(isOperation) ? { models, operations: named, channels } : null;
}

function listFrom(value: JsonObject, name: keyof KeyScopes): readonly string[] | null | undefined {
  return value[name] === null ? null : (textsFrom(value[name]) ?? undefined);
}

function isOperation(name: string): name is Operation {
  return operations.some((operation) => operation === name);
}

export function splitsFrom(value: unknown): Splits | null {
  if (!isJsonObject(value)) return null;
  const { audio, input } = value;
  return typeof audio === "boolean" && typeof input === "boolean" ? { audio, input } : null;
}
