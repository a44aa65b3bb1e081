import { isJsonObject, type JsonObject } from "../operations/json.ts";

/** `undefined` if the text is not valid JSON. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function parsedObject(text: string): JsonObject | null {
  const value = parsedJson(text);
  return isJsonObject(value) ? value : null;
}

/**
 * Merges new members into the stored JSON, at every depth, so that members that only another version knows are preserved.
 * Text that is not a JSON object counts as empty.
 */
export function mergedJson(text: string, members: JsonObject): string {
  return JSON.stringify(over(parsedObject(text) ?? {}, members));
}

function over(old: unknown, fresh: unknown): unknown {
  if (isJsonObject(old) && isJsonObject(fresh)) {
    return { ...old, ...Object.fromEntries(Object.entries(fresh).map(([name, value]) => [name, over(old[name], value)])) };
  }
  if (Array.isArray(old) && Array.isArray(fresh)) return fresh.map((item: unknown) => over(sameIn(old, item), item));
  return fresh;
}

/** Elements of a list are matched by their `pattern`, if they have one. */
function sameIn(old: readonly unknown[], item: unknown): unknown {
  if (!isJsonObject(item) || typeof item["pattern"] !== "string") return undefined;
  return old.find((other) => isJsonObject(other) && other["pattern"] === item["pattern"]);
}

export function textsFrom(value: unknown): readonly string[] | null {
  return Array.isArray(value) && value.every((item) => typeof item === "string") ? value : null;
}
