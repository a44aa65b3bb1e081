import { isGroup } from "../kinds.ts";
import type { Notes } from "../field.ts";

/** A value as it may be shown: of a secret, its end; of an address, all but its password or its path. */
export function withoutSecrets(value: unknown, secrecy: Notes["secrecy"]): unknown {
  if (secrecy === null || secrecy === undefined) return value;
  if (Array.isArray(value)) return value.map((item) => withoutSecrets(item, secrecy));
  if (isGroup(value)) return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withoutSecrets(item, secrecy)]));
  if (typeof value !== "string") return "****";
  switch (secrecy) {
    case "whole":
      return `****${value.length < shownFromCharacters ? "" : value.slice(-4)}`;
    case "password":
      return withoutPassword(value);
    case "path":
      return withoutPath(value);
  }
}

/** Of a shorter secret, four characters would tell too much. */
const shownFromCharacters = 16;

function withoutPassword(address: string): string {
  if (!address.includes("://")) return address;
  if (!URL.canParse(address)) return `${address.slice(0, address.indexOf("://"))}://****`;
  const url = new URL(address);
  if (url.password !== "") url.password = "****";
  // Drivers take passwords from the query as well.
  for (const name of [...url.searchParams.keys()].filter((one) => /pass|secret|token|key/i.test(one))) url.searchParams.set(name, "****");
  return url.href;
}

function withoutPath(address: string): string {
  if (!URL.canParse(address)) return "****";
  const { origin, pathname } = new URL(address);
  return pathname === "/" ? origin : `${origin}/****`;
}
