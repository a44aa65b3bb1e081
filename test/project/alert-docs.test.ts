import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { root } from "../../scripts/source-tree.ts";

const page = readFileSync(join(root, "docs/alerts.md"), "utf8");
const rules = parse(readFileSync(join(root, "deploy/prometheus/sluice.rules.yaml"), "utf8")) as {
  readonly groups: readonly { readonly rules: readonly { readonly alert?: string; readonly labels?: { readonly severity: string } }[] }[];
};
const alerts = rules.groups.flatMap(({ rules: some }) => some).filter(({ alert }) => alert !== undefined);
const rows = page.split("\n").filter((line) => line.startsWith("| `Sluice"));

test("docs/alerts.md says for each alert what to look at and what to do, and whether it wakes somebody up", () => {
  expect(alerts.length).toBeGreaterThan(15);
  const said = rows.flatMap((row) => {
    const [names = "", ...others] = row.slice(1, -1).split("|");
    expect(others.filter((cell) => cell.trim().length > 20)).toHaveLength(2);
    return [...names.matchAll(/`(Sluice\w+)`/g)].map(([, name = ""]) => `${name} ${pages(names, name) ? "page" : "ticket"}`);
  });
  expect(said.toSorted()).toEqual(alerts.map(({ alert, labels }) => `${alert} ${labels?.severity}`).toSorted());
});

/** `(page)` stands behind the last of the names that it is said of. */
function pages(names: string, name: string): boolean {
  const [before = ""] = names.split("(page)");
  return names.includes("(page)") && before.includes(`\`${name}\``);
}
