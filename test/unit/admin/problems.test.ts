import { expect, test } from "bun:test";
import { overviewRoutes } from "../../../src/admin/routes/overview-routes.ts";
import type { Context } from "../../../src/admin/route.ts";
import { OwnBudgets } from "../../../src/manage/problems/own-budgets.ts";
import { StorageError } from "../../../src/gateway/storage.ts";

const lost = (): Promise<never> => Promise.reject(new StorageError("unavailable", "the disk is gone"));
const spent = { models: "", limitNanos: 1, spentNanos: 2 };
const services = {
  reports: { keys: { get: lost, list: lost }, groups: { names: lost, list: lost } },
  fileKeys: () => [{ id: "file:laptop", name: "laptop" }],
  fileGroups: () => [],
  budgets: () => ({
    spent: [
      { ...spent, of: "key", id: "file:laptop" },
      { ...spent, of: "key", id: "key_1" },
      { ...spent, of: "group", id: "grp_1" },
    ],
    isWhole: true,
    refusals: new Map(),
  }),
  ownBudgets: new OwnBudgets(),
  health: async () => ({ store: { ok: false }, state: { ok: true }, insecureTransport: false, certificate: null }),
  traffic: { since: () => [] },
  wallMs: () => 0,
  channels: { status: () => [{ name: "main", state: "ready", troubles: [] }] },
};

/** Of the services, only what the route uses. */
async function problems(change: object = {}): Promise<readonly { readonly kind: string; readonly message: string }[]> {
  const route = overviewRoutes.find(({ path }) => path === "/admin/api/problems")!;
  const answer = await route.handle({ services: { ...services, ...change } } as unknown as Context<
    unknown,
    unknown,
    Record<string, string>
  >);
  return (answer as { readonly problems: readonly { readonly kind: string; readonly message: string }[] }).problems;
}

test("a lost store is shown as a problem, and budgets have their ids where only the store knows their names", async () => {
  const [first, ...others] = await problems();
  expect(first?.kind).toBe("store_lost");
  expect(others.map(({ message }) => message)).toEqual([
    "The budget of key laptop is used up: its calls are refused.",
    "The budget of key key_1 is used up: its calls are refused.",
    "The budget of group grp_1 is used up: its calls are refused.",
  ]);
});

test("without the store an administrator of a group is shown nothing, because what belongs to the group is not known", async () => {
  await expect(problems({ scope: { groupId: "grp_1" } })).rejects.toThrow("the disk is gone");
});

test("what is no failure of the store is not taken for one", async () => {
  const broken = () => Promise.reject(new TypeError("a bug"));
  await expect(problems({ reports: { keys: { get: broken }, groups: { names: broken } } })).rejects.toThrow("a bug");
});
