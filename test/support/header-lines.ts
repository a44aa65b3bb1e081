import type { HeaderLines } from "../../src/net/message/header-lines.ts";

/** All headers of a message, in the order they came. */
export function allHeaders(headers: HeaderLines): Record<string, string> {
  return Object.fromEntries(headers.names.map((name) => [name, headers.get(name) ?? ""]));
}
