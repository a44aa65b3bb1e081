import type { ConsolePage } from "../../admin/console/pages.ts";

/** `g` and one of these go to a page. */
export const pageKeys: Readonly<Record<string, ConsolePage>> = {
  o: "overview",
  l: "live",
  r: "requests",
  c: "channels",
  k: "keys",
  t: "groups",
  u: "usage",
  w: "outcomes",
  s: "setup",
  p: "playground",
  f: "lab",
  e: "settings",
};

export type ShortcutAct = { readonly kind: "go"; readonly page: ConsolePage } | { readonly kind: "search" } | { readonly kind: "help" };

export interface KeyPress {
  readonly key: string;
  readonly atMs: number;
  /** Where a letter is text: a field, or with a modifier. */
  readonly isTyping: boolean;
}

/** Reads key presses as shortcuts. It is a value of the last press, so that it can be tested without a browser. */
export function readShortcut(
  waitingSinceMs: number | null,
  press: KeyPress,
): { readonly act: ShortcutAct | null; readonly waitingSinceMs: number | null } {
  if (press.isTyping) return { act: null, waitingSinceMs: null };
  if (waitingSinceMs !== null && press.atMs - waitingSinceMs <= patienceMs) {
    const page = pageKeys[press.key];
    return { act: page === undefined ? null : { kind: "go", page }, waitingSinceMs: null };
  }
  if (press.key === "g") return { act: null, waitingSinceMs: press.atMs };
  if (press.key === "/") return { act: { kind: "search" }, waitingSinceMs: null };
  if (press.key === "?") return { act: { kind: "help" }, waitingSinceMs: null };
  return { act: null, waitingSinceMs: null };
}

const patienceMs = 1500;
