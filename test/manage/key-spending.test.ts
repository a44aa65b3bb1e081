import { expect, test } from "bun:test";
import { unlimited, unlimitedRates } from "../../src/limits/limits.ts";
import { budgetSpending, totalSpentNanos } from "../../src/manage/key-spending.ts";
import type { UsageQuery, UsageRow } from "../../src/usage/usage-row.ts";
import { fileKey, manageWorld } from "../support/manage-world.ts";

const row = (model: string, nanos: number): UsageRow => ({
  group: { model },
  calls: 1,
  failedCalls: 0,
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
  reasoningTokens: 0,
  audioSeconds: 0,
  characters: 0,
  nanos,
  unpricedCalls: 0,
  uncertainCalls: 0,
  estimatedCalls: 0,
});

test("each budget counts the models of its rule, since the beginning of its period", async () => {
  await using world = await manageWorld();
  const asked: UsageQuery[] = [];
  const usage = async (query: UsageQuery): Promise<readonly UsageRow[]> => {
    asked.push(query);
    return [row("large-1", 5), row("large-2", 7), row("small", 11)];
  };
  const context = { ...world.context, reports: { ...world.storage, receipts: { ...world.storage.receipts, usage } } };
  const limits = {
    ...unlimited,
    budget: { nanos: 100, period: "day" as const },
    models: [
      { ...unlimitedRates, pattern: "large-1", budget: null },
      { ...unlimitedRates, pattern: "large-*", budget: { nanos: 10, period: "total" as const } },
    ],
  };
  expect(await budgetSpending(context, { ...fileKey, limits })).toEqual([
    { name: null, models: null, budget: limits.budget, spentNanos: 23, sinceMs: Date.UTC(2027, 0, 31), resetsMs: Date.UTC(2027, 1, 1) },
    { name: null, models: "large-*", budget: { nanos: 10, period: "total" }, spentNanos: 7, sinceMs: null, resetsMs: null },
  ]);
  expect(asked.map(({ keyId, sinceMs }) => [keyId, sinceMs])).toEqual([
    [fileKey.id, Date.UTC(2027, 0, 31)],
    [fileKey.id, null],
  ]);
});

test("a key without budgets and receipts has spent nothing", async () => {
  await using world = await manageWorld();
  expect(await budgetSpending(world.context, fileKey)).toEqual([]);
  expect(await totalSpentNanos(world.context, fileKey)).toBe(0);
});
