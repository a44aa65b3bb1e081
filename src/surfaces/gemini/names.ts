import { lastMember, type JsonMember, type JsonObject } from "../../operations/json.ts";
import { present } from "../../operations/mistakes.ts";

/** Every field has two names, that of JSON and that of the API's definition, and clients use either: `inlineData` and `inline_data`. */
export function value(object: JsonObject | null, name: string): unknown {
  return object?.[name] ?? object?.[snakeCase(name)];
}

export function member(members: readonly JsonMember[], name: string): JsonMember | undefined {
  return present(lastMember(members, name)) ?? present(lastMember(members, snakeCase(name)));
}

/** Every member of that name: where a name is repeated, an upstream may read either. */
export function membersNamed(members: readonly JsonMember[], name: string): readonly JsonMember[] {
  const other = snakeCase(name);
  return members.filter(({ key, kind }) => (key === name || key === other) && kind !== "null");
}

/** The name of JSON for either of them. */
export function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function snakeCase(name: string): string {
  let known = snakeCases.get(name);
  if (known === undefined) snakeCases.set(name, (known = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)));
  return known;
}

/** Only names that stand in this folder get here. */
const snakeCases = new Map<string, string>();
