import type { HeaderLines } from "../../src/net/message/header-lines.ts";

export type Header = readonly [name: string, value: string];

/** Sorted by name, as both sides are to be compared. */
export function headersOf(lines: HeaderLines): readonly Header[] {
  return sorted(lines.names.map((name) => [name, lines.get(name)!]));
}

/** The same of a list of names and values, with repeated ones joined. */
export function joined(list: readonly string[]): readonly Header[] {
  const byName = new Map<string, string>();
  for (let at = 0; at < list.length; at += 2) {
    const [name, value] = [list[at]!, list[at + 1]!];
    const before = byName.get(name);
    // A length that is said twice is one.
    const isSame = name === "content-length" && before === value;
    byName.set(name, before === undefined || isSame ? value : `${before}, ${value}`);
  }
  return sorted([...byName]);
}

function sorted(headers: readonly Header[]): readonly Header[] {
  return headers.toSorted(([one], [other]) => (one < other ? -1 : 1));
}
