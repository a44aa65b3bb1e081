import { expect, test } from "bun:test";
import { StorageError } from "../../../src/gateway/storage.ts";
import { GroupTree } from "../../../src/keys/group-tree.ts";
import { defaultKey } from "../../../src/keys/stored-key.ts";
import type { BudgetRefusal } from "../../../src/limits/budget-refusal.ts";
import { unlimited, unlimitedRates } from "../../../src/limits/limits.ts";
import type { ManageContext } from "../../../src/manage/context.ts";
import { OwnBudgets } from "../../../src/manage/problems/own-budgets.ts";

const budget = { nanos: 100, period: "total" } as const;
const limits = {
  ...unlimited,
  models: [{ ...unlimitedRates, pattern: "#images", budget }],
  budgets: [{ name: "images", models: null, operations: ["image" as const], channels: null, ...budget }],
};

/** A scope with one key and its two budgets, of each of which 90 of 100 are spent. */
function scope() {
  const world = { nowMs: 1_000_000, queries: 0, error: null as Error | null };
  const context = {
    wallMs: () => world.nowMs,
    scope: { groupId: "g1", treeAbove: async () => new GroupTree([]) },
    fileKeys: () => [{ ...defaultKey, id: "k1", name: "laptop", limits }],
    fileGroups: () => [],
    reports: {
      keys: { list: async () => [] },
      groups: { list: async () => [] },
      receipts: {
        usage: async () => {
          world.queries += 1;
          if (world.error !== null) throw world.error;
          return [{ group: { model: "#images" }, nanos: 90 }];
        },
        payments: async () => [{ model: "m", channel: "c", tags: [], operation: "image", nanos: 90 }],
      },
    },
  } as unknown as ManageContext;
  return { world, context };
}

test("the budgets of a group are looked up once a minute, however many ask, and those of another group for themselves", async () => {
  const { world, context } = scope();
  const budgets = new OwnBudgets();
  const ask = (group: string) => budgets.of(group, context, new Map());
  const [one, other] = await Promise.all([ask("web"), ask("web")]);
  expect([one, world.queries]).toEqual([other, 1]);
  world.nowMs += 59_999;
  await ask("web");
  expect(world.queries).toBe(1);
  await ask("ads");
  expect(world.queries).toBe(2);
  world.nowMs += 1;
  await Promise.all([ask("web"), ask("web")]);
  expect(world.queries).toBe(3);
});

test("the budgets are looked up again when the clock was set back", async () => {
  const { world, context } = scope();
  const budgets = new OwnBudgets();
  await budgets.of("web", context, new Map());
  for (const passedMs of [-600_000, 59_999]) {
    world.nowMs += passedMs;
    await budgets.of("web", context, new Map());
    expect(world.queries).toBe(2);
  }
});

test("a lookup that fails is not kept, and one that takes long is not made twice", async () => {
  const { world, context } = scope();
  const budgets = new OwnBudgets();
  world.error = new StorageError("unavailable", "away");
  await expect(budgets.of("web", context, new Map())).rejects.toThrow("away");
  world.error = null;
  const slow = budgets.of("web", context, new Map());
  world.nowMs += 600_000;
  await Promise.all([slow, budgets.of("web", context, new Map())]);
  expect(world.queries).toBe(2);
});

test("a budget that refused a call is known by its id, whichever budgets the gateway itself has checked", async () => {
  const { world, context } = scope();
  const refusing = async (budget: string) => {
    const refusal: BudgetRefusal = { budget, limitNanos: 100, atMs: world.nowMs };
    const { budgets } = await new OwnBudgets().of("web", context, new Map([[budget, refusal]]));
    expect(budgets).toHaveLength(2);
    return budgets.filter(({ isRefusing }) => isRefusing).map(({ models }) => models);
  };
  expect(await refusing("k1 ##images")).toEqual(["##images"]);
  expect(await refusing("k1 #images")).toEqual(["#images"]);
  expect(await refusing("k2")).toEqual([]);
});
