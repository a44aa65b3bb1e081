import { describe, expect, test } from "bun:test";
import { loadConfig } from "../../../src/config/load.ts";
import type { Problem } from "../../../src/config/findings/problem.ts";
import type { Settings } from "../../../src/config/settings.ts";
import { unlimited } from "../../../src/limits/limits.ts";

type Loaded = Awaited<ReturnType<typeof load>>;

async function load(text: string) {
  return loadConfig({ path: "sluice.yaml", text, env: {}, nofile: 20_000, nowMs: Date.UTC(2026, 0, 1) });
}

function settingsOf(loaded: Loaded): Settings {
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return loaded.settings;
}

function problemsOf(loaded: Loaded): readonly Pick<Problem, "line" | "path" | "reason">[] {
  return loaded.ok ? [] : loaded.problems.map(({ line, path, reason }) => ({ line, path, reason }));
}

describe("groups in the file", () => {
  test("are read with their limits, their defaults and their keys", async () => {
    const settings = settingsOf(
      await load(`
groups:
  - name: acme
    kind: organisation
    limits:
      budget_usd: 500
      budget_period: month
      budgets: [{ name: art, operations: [image], channels: [eu], budget_usd: 2 }]
    defaults: { keys: { rpm: 60 }, groups: { tpm: 5 } }
  - { name: web, parent: acme, frozen: true }
keys:
  - { name: laptop, key: 0123456789abcdef, group: web }
`),
    );
    expect(settings.groups).toEqual([
      {
        id: "file-group:acme",
        name: "acme",
        kind: "organisation",
        parent: null,
        limits: {
          ...unlimited,
          budget: { nanos: 500_000_000_000, period: "month" },
          budgets: [{ name: "art", models: null, operations: ["image"], channels: ["eu"], nanos: 2_000_000_000, period: "total" }],
        },
        frozen: false,
        defaults: { keys: { ...unlimited, requests: 60 }, groups: { ...unlimited, tokens: 5 } },
      },
      {
        id: "file-group:web",
        name: "web",
        kind: "group",
        parent: "file-group:acme",
        limits: unlimited,
        frozen: true,
        defaults: { keys: unlimited, groups: unlimited },
      },
    ]);
    expect(settings.keys[0]?.key).toMatchObject({ id: "file:laptop", group: "file-group:web" });
  });

  test.each([
    ["a parent that is missing", "groups:\n  - { name: a, parent: b }", 2, 'there is no group "b" in this file'],
    ["a group below itself", "groups:\n  - { name: a, parent: a }", 2, "the group would be below itself"],
    [
      "a circle",
      "groups:\n  - { name: a, parent: c }\n  - { name: b, parent: a }\n  - { name: c, parent: b }",
      2,
      "the group would be below itself",
    ],
    [
      "a fourth level",
      "groups:\n  - { name: a }\n  - { name: b, parent: a }\n  - { name: c, parent: b }\n  - { name: d, parent: c }",
      5,
      "groups have at most 3 levels",
    ],
    ["the id of a group of the store", "groups:\n  - { name: grp_0123456789ab }", 2, "ids of groups in the store begin with grp_"],
    ["a name twice", "groups:\n  - { name: a }\n  - { name: a }", 3, "another group has this name"],
    [
      "a key of a group that is missing",
      "keys:\n  - { name: k, key: 0123456789abcdef, group: a }",
      2,
      'there is no group "a" in this file',
    ],
    [
      "a period without a budget",
      "groups:\n  - name: a\n    defaults:\n      keys: { budget_period: day }",
      4,
      "there is no budget for this period",
    ],
    [
      "two budgets of one name",
      "groups:\n  - name: a\n    limits:\n      budgets:\n        - { name: x, budget_usd: 1 }\n        - { name: x, budget_usd: 2 }",
      6,
      "another budget has this name",
    ],
  ])("with %s are refused, and the line is named", async (_, text, line, reason) => {
    expect(problemsOf(await load(text))[0]).toMatchObject({ line, reason });
  });

  test("with a budget for channels that are misspelt are read, and a warning says so", async () => {
    const channels = "channels: [{ name: main, base_url: https://a.example/v1, models: [m], tags: [europe] }]";
    const limits = (names: string) => `{ budgets: [{ name: x, channels: [${names}], budget_usd: 1 }] }`;
    const loaded = await load(`${channels}
groups:
  - { name: a, limits: ${limits("main, europe, us-*, elsewhere")} }
  - { name: b, limits: ${limits("europa")} }
  - { name: c, defaults: { keys: ${limits("Main")} } }
keys:
  - { name: k, key: 0123456789abcdef, channels: [mian], limits: ${limits("uerope")} }
`);
    const warnings = loaded.ok ? loaded.warnings.map(({ line, path, reason, fix }) => [line, path, reason, fix]) : [];
    const about = (line: number, path: string, name: string, meant: string) => [
      line,
      path,
      `no channel of this file has the name or the tag '${name}', so that one of the store is meant`,
      `write '${meant}' if you mean that of this file`,
    ];
    expect(warnings).toEqual([
      about(4, "groups[1].limits.budgets[0].channels", "europa", "europe"),
      about(5, "groups[2].defaults.keys.budgets[0].channels", "Main", "main"),
      about(7, "keys[0].limits.budgets[0].channels", "uerope", "europe"),
      about(7, "keys[0].channels", "mian", "main"),
    ]);
  });

  test.each(["budget_usd: 0", "budget_usd: -1", "rpm: 0", "budgets: [{ name: x }]", "budgets: [{ budget_usd: 1 }]"])(
    "with a limit of %s are refused",
    async (limit) => {
      expect(problemsOf(await load(`groups:\n  - { name: a, limits: { ${limit} } }`))).not.toEqual([]);
    },
  );
});
