import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { importedSources, root, sources } from "../../scripts/source-tree.ts";

const page = readFileSync(join(root, "docs/life-of-a-request.md"), "utf8");

/** The numbered list of files, under the names of the steps. */
const walk = [...page.matchAll(/^(\d+)\. `(src\/[\w./-]+\.ts)` \S.*$/gm)].map(([, number = "", path = ""]) => ({
  number: Number(number),
  path,
}));
const steps = ["Read", "Authenticate", "Admit", "Plan", "Attempt", "Judge", "Relay", "Settle"];
const filesMax = 50;

test("the walk goes through the steps of a call in their order, and its files are numbered from one", () => {
  const headings = [...page.matchAll(/^\*\*(\w+)\*\*$/gm)].map(([, name = ""]) => name);
  expect(headings).toEqual(steps);
  expect(walk.length).toBeGreaterThan(steps.length);
  expect(walk.map(({ number }) => number)).toEqual(walk.map((_, at) => at + 1));
});

test("every file of the walk exists, none is listed twice, and they are few", () => {
  const known = new Set(sources.map(({ path }) => path));
  expect(walk.map(({ path }) => path).filter((path) => !known.has(path))).toEqual([]);
  expect(walk.map(({ path }) => path).filter((path, at, paths) => paths.indexOf(path) !== at)).toEqual([]);
  expect(walk.length).toBeLessThanOrEqual(filesMax);
});

test("every file of the walk after the first is imported, directly, by one that stands before it, or imports one that does", () => {
  const imports = new Map(sources.map((source) => [source.path, importedSources(source).map(({ path }) => path)]));
  const lost = walk.slice(1).filter(({ path }, at) => {
    const before = walk.slice(0, at + 1).map((file) => file.path);
    return !before.some((earlier) => imports.get(earlier)?.includes(path) === true || imports.get(path)?.includes(earlier) === true);
  });
  expect(lost.map(({ number, path }) => `${number}. ${path}`)).toEqual([]);
});
