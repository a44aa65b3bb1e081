import { expect, test } from "bun:test";
import { pageKeys, readShortcut } from "../../../src/console/core/shortcuts.ts";

const press = (key: string, atMs = 0, isTyping = false) => ({ key, atMs, isTyping });

test("g and a letter go to a page, if they follow each other soon", () => {
  for (const [key, page] of Object.entries(pageKeys)) {
    const first = readShortcut(null, press("g", 100));
    expect(first).toEqual({ act: null, waitingSinceMs: 100 });
    expect(readShortcut(first.waitingSinceMs, press(key, 900))).toEqual({ act: { kind: "go", page }, waitingSinceMs: null });
  }
  expect(readShortcut(100, press("o", 5000)).act).toBeNull();
  expect(readShortcut(100, press("z", 200))).toEqual({ act: null, waitingSinceMs: null });
});

test("a letter that is typed into a field is text", () => {
  expect(readShortcut(null, press("?", 0, true)).act).toBeNull();
  expect(readShortcut(100, press("o", 200, true))).toEqual({ act: null, waitingSinceMs: null });
});

test("a slash searches, and a question mark helps", () => {
  expect(readShortcut(null, press("/")).act).toEqual({ kind: "search" });
  expect(readShortcut(null, press("?")).act).toEqual({ kind: "help" });
  expect(readShortcut(null, press("x")).act).toBeNull();
});
