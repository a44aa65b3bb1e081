import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../scripts/source-tree.ts";

const page = readFileSync(join(root, "CONTRIBUTING.md"), "utf8");
const diffs = [...page.matchAll(/^```diff\n--- (\S+)\n(.*?)^```$/gms)].map(([, file = "", lines = ""]) => ({
  file,
  lines: lines.split("\n"),
}));

test("the changes of the first hour can be made: the lines that they begin with are there, once each", () => {
  expect(diffs.length).toBe(2);
  for (const { file, lines } of diffs) {
    const text = readFileSync(join(root, file), "utf8").split("\n");
    const before = lines.filter((line) => /^[- ]/.test(line)).map((line) => line.slice(1));
    expect(before.length).toBeGreaterThan(0);
    for (const line of before) expect(text.filter((one) => one === line)).toEqual([line]);
  }
});

test("the test of the first hour exists, and expects the message that is changed", () => {
  const [, file = "", name = ""] = /sh bin\/bun test (\S+) -t "([^"]+)"/.exec(page) ?? [];
  expect(readFileSync(join(root, file), "utf8")).toContain(`"${name}"`);
});
