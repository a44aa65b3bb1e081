import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root, sources } from "../../scripts/source-tree.ts";
import { exitCodes } from "../../src/cli/command-error.ts";

const read = (page: string): string => readFileSync(join(root, page), "utf8");

describe("what the pages for operators list", () => {
  test("docs/deploy.md names every exit code of the commands, and no other", () => {
    const [paragraph = ""] = read("docs/deploy.md")
      .split("\n\n")
      .filter((text) => text.startsWith("**Exit codes.**"));
    const named = new Set([...paragraph.matchAll(/\b\d+\b/g)].map(([code]) => Number(code)));
    const byNumber = (a: number, b: number): number => a - b;
    expect([...named].toSorted(byNumber)).toEqual([0, ...Object.values(exitCodes)].toSorted(byNumber));
  });

  test("docs/configuration.md names every variable that the program reads, and no other", () => {
    const named = (text: string): readonly string[] => [...text.matchAll(/\bSLUICE_[A-Z]+(?:_[A-Z]+)*\b/g)].map(([name]) => name);
    const known = new Set(sources.flatMap(({ code }) => named(code)));
    // `sluice init` gives this one to a check of its own, in place of a key that nobody has entered yet.
    known.delete("SLUICE_INIT_KEY");
    expect([...new Set(named(read("docs/configuration.md")))].toSorted()).toEqual([...known].toSorted());
  });
});
