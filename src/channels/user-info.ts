import { isJsonObject } from "../operations/json.ts";

/** Shown instead of what is secret. Not even its end: what is shown so may be kept. */
export const hidden = "****";

/** The value without the names and passwords in addresses, at any depth. */
export function withoutUserInfo(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll(/\/\/[^/\s]*@/g, `//${hidden}@`);
  if (Array.isArray(value)) return value.map(withoutUserInfo);
  return isJsonObject(value) ? Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withoutUserInfo(item)])) : value;
}
