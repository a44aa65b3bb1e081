import { isJsonObject } from "../operations/json.ts";
import { hidden, withoutUserInfo } from "./user-info.ts";

/** The settings of a channel as they may be shown and logged. People put keys into headers, and older versions allowed them in addresses. */
export function entryWithoutSecrets(entry: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { headers } = entry;
  const shown = Object.fromEntries(Object.entries(entry).map(([name, value]) => [name, withoutUserInfo(value)]));
  if (headers === undefined) return shown;
  return { ...shown, headers: isJsonObject(headers) ? Object.fromEntries(Object.keys(headers).map((name) => [name, hidden])) : hidden };
}
