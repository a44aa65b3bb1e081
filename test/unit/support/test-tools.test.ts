import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../../scripts/source-tree.ts";
import { foundOrSkipped, installedTools, testTools } from "../../support/test-tools.ts";

describe("what a test needs, and does not find,", () => {
  test("is what it is skipped without, where nobody has installed it", () => {
    expect(foundOrSkipped("deploy", "hadolint", null, installedTools(""))).toBe(null);
    expect(foundOrSkipped("deploy", "hadolint", null, installedTools("python proxies"))).toBe(null);
  });

  test("is an error where it was installed", () => {
    const missing = (): unknown => foundOrSkipped("deploy", "hadolint", null, installedTools("python deploy"));
    expect(missing).toThrow("SLUICE_TEST_TOOLS says that deploy is installed, but there is no hadolint");
  });

  test("is refused by a name that nothing has", () => {
    expect(() => installedTools("python linters")).toThrow("not linters");
  });
});

test("what a test needs, and finds, is used", () => {
  expect(foundOrSkipped("deploy", "hadolint", "/bin/hadolint", installedTools("deploy"))).toBe("/bin/hadolint");
  expect(foundOrSkipped("deploy", "hadolint", "/bin/hadolint", installedTools(""))).toBe("/bin/hadolint");
});

test("CI says of each of these tools whether it could be installed", () => {
  const script = readFileSync(join(root, ".ci/run"), "utf8");
  const told = [...script.matchAll(/&& has (\S+)/g)].map(([, name = ""]) => name);
  expect(new Set(told)).toEqual(new Set<string>(testTools));
  expect(script).toMatch(/^export SLUICE_TEST_TOOLS="\$tools"\nnpm run test:all$/m);
});
