import type { Operation } from "../operations/operation.ts";
import type { Key } from "./key.ts";

export function allowsModel(key: Pick<Key, "models">, model: string): boolean {
  if (key.models === null) return true;
  for (const pattern of key.models) if (matchesPattern(pattern, model)) return true;
  return false;
}

export function allowsOperation(key: Key, operation: Operation): boolean {
  return key.operations === null || key.operations.includes(operation);
}

/**
 * Whether a name matches a pattern in which `*` stands for any number of characters. Each fixed part is searched once, from the
 * end of the one before it, so that no pattern takes more than linear time.
 */
export function matchesPattern(pattern: string, name: string): boolean {
  const parts = pattern.split("*");
  const first = parts[0] ?? "";
  if (parts.length === 1) return name === first;
  const last = parts[parts.length - 1] ?? "";
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false;
  const end = name.length - last.length;
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at);
    if (found === -1 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}
