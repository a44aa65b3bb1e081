/** Members of a JSON object in a row, which this version may know or not. */
export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `undefined` where the text is no JSON at all. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function parsedObject(text: string): JsonObject | null {
  const value = parsedJson(text);
  return isObject(value) ? value : null;
}

/**
 * The old text with new members in it. What another version wrote and this one does not know stays, also inside of members;
 * a damaged text counts as empty.
 */
export function overlaid(text: string, members: JsonObject): string {
  return JSON.stringify(over(parsedObject(text) ?? {}, members));
}

function over(old: unknown, fresh: unknown): unknown {
  if (isObject(old) && isObject(fresh)) {
    return { ...old, ...Object.fromEntries(Object.entries(fresh).map(([name, value]) => [name, over(old[name], value)])) };
  }
  if (Array.isArray(old) && Array.isArray(fresh)) return fresh.map((item: unknown) => over(sameIn(old, item), item));
  return fresh;
}

/** Members of a list are told apart by their pattern, where they have one. */
function sameIn(old: readonly unknown[], item: unknown): unknown {
  if (!isObject(item) || typeof item["pattern"] !== "string") return undefined;
  return old.find((other) => isObject(other) && other["pattern"] === item["pattern"]);
}

export function textsFrom(value: unknown): readonly string[] | null {
  return Array.isArray(value) && value.every((item) => typeof item === "string") ? value : null;
}
