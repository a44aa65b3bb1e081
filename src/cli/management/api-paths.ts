import { AdminApiError } from "../admin-api.ts";
import { exitCodes } from "../command-error.ts";

export type ListName =
  | "keys"
  | "groups"
  | "requests"
  | "history"
  | "audit"
  | "accounts"
  | "tokens"
  | "issuers"
  | "prices"
  | "backups"
  | "channels";

/** The path of one thing in a list of the admin API. */
export function placeOf(list: ListName, idOrName: string): string {
  // These would lead to another path.
  if (/^\.{0,2}$/.test(idOrName)) throw new AdminApiError("There is no such name.", exitCodes.failure, "not_found");
  return `/${list}/${encodeURIComponent(idOrName)}`;
}

export type Query = Readonly<Record<string, string | null>>;

export function queryText(query: Query): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== null);
  return given.length === 0 ? "" : `?${new URLSearchParams(given).toString()}`;
}
