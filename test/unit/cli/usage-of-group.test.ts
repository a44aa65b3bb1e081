import { expect, test } from "bun:test";
import { runUsage } from "../../../src/cli/usage/command.ts";
import type { UsageRequest } from "../../../src/cli/usage/arguments.ts";
import type { CommandSurroundings } from "../../../src/cli/command-context.ts";
import type { Management } from "../../../src/cli/management/management.ts";
import type { UsageColumn } from "../../../src/usage/usage-row.ts";

const all = { since: null, until: null, key: null, group: "web", model: null, channel: null } as const;

/** What is said for a group with this many calls in all, of which one key made some. */
async function said(calls: number, ofKey: number, by: readonly UsageColumn[], about: "use" | "outcomes" = "use"): Promise<string> {
  const texts: string[] = [];
  const rowsOf = (columns: readonly string[]): object[] => (columns.includes("key") ? [{ key: "k-1", calls: ofKey }] : [{ calls }]);
  const management = {
    catchUp: () => Promise.resolve(0),
    group: (id: string) => Promise.resolve({ id }),
    usage: (query: { readonly by: readonly string[] }) => Promise.resolve(rowsOf(query.by)),
    outcomes: (query: { readonly by: readonly string[] }) => Promise.resolve({ counted_from: null, rows: rowsOf(query.by) }),
  } as unknown as Management;
  const terminal = { print: () => {}, say: (text: string) => texts.push(text) };
  const request: UsageRequest = { on: "usage", as: "json", by, about: { kind: about }, ...all };
  await runUsage(request, management, { terminal } as unknown as CommandSurroundings);
  return texts.join("\n");
}

test("the usage of a group by key says how many calls have no row, and whose they are", async () => {
  expect(await said(3, 1, ["key"])).toStartWith(
    "note: the group has 3 calls in all, and these rows have 1: tokens of issuers, and keys that have left the group, have no rows.",
  );
  expect(await said(3, 1, ["model", "key"])).toContain("3 calls in all");
  expect(await said(3, 1, ["key"], "outcomes")).toContain("3 calls in all");
});

test("the usage of a group says nothing where no call is missing", async () => {
  expect(await said(3, 3, ["key"])).toBe("");
  // A key was moved here, and has calls from before.
  expect(await said(3, 5, ["key"])).toBe("");
  expect(await said(3, 1, ["model"])).toBe("");
});
