import { randomBytes } from "node:crypto";
import { openStore } from "../../src/app/durable.ts";
import { startPostgres } from "../../test/support/servers/postgres.ts";
import { startRedis } from "../../test/support/servers/redis.ts";
import { ask } from "../ask.ts";
import type { Bench, Scenario } from "../bench.ts";
import { type Gateway, oneChannel, withKey } from "../gateway.ts";
import { openLoop } from "../load.ts";
import { compared, judged, type Row } from "../report.ts";
import { farLimits, madeStore, type MadeStore } from "../stored-keys.ts";

/** Two processes over one PostgreSQL and one Redis: how exactly they hold a rate limit together, and that a budget is never overspent (P15). */
export const replicas: Scenario = async (bench) => {
  const postgres = await startPostgres({ fsync: false });
  if ("skipped" in postgres) return leftOut(bench, postgres.skipped);
  try {
    const redis = await startRedis();
    if ("skipped" in redis) return leftOut(bench, redis.skipped);
    try {
      return await measured(bench, await postgres.freshDatabase(), redis.url);
    } finally {
      await redis.stop();
    }
  } finally {
    await postgres.stop();
  }
};

function leftOut(bench: Bench, why: string): readonly Row[] {
  bench.remark(`replicas: left out: ${why}`);
  return [];
}

async function measured(bench: Bench, store: string, state: string): Promise<readonly Row[]> {
  const { quick } = bench.options;
  const perMinute = quick ? 600 : 3_000;
  const seconds = quick ? 20 : 50;
  const budgetNanos = quick ? 100_000_000 : 400_000_000;
  const masterKey = randomBytes(32).toString("hex");
  const made = await madeStore({
    store,
    masterKey,
    keys: [
      { ...farLimits, requests: perMinute },
      { ...farLimits, budget: { nanos: budgetNanos, period: "total" } },
    ],
  });
  const settings = { ...oneChannel(bench.upstream), store, state, masterKey, prices: [{ model: "*", input: 1, output: 4 }] };
  const first = await bench.gatewayWith(settings);
  const second = await bench.gatewayWith(settings);
  if (first === null || second === null) return [];
  const both = [first, second] as const;
  const [limited = "", budgeted = ""] = made.tokens;

  console.error(`replicas, ${perMinute} requests a minute, twice as many asked for`);
  const admitted = await served(both, limited, { perSecond: (perMinute * 2) / seconds, seconds });
  console.error(`replicas, a budget of ${budgetNanos / 1e9} dollars`);
  // Enough for half as many again as the budget allows.
  const calls = Math.ceil((1.5 * budgetNanos) / nanosPerCall);
  const paid = await served(both, budgeted, { perSecond: 100, seconds: Math.ceil(calls / 100) });
  await Promise.all(both.map((gateway) => gateway.stop()));
  const { spentNanos, receipts } = await spent(store, masterKey, made);
  bench.remark(
    `replicas: of the budget's calls ${paid} were answered, ${receipts} have receipts, ${(100 * spentNanos) / budgetNanos} % was spent`,
  );
  return [
    {
      bar: "P15",
      measure: `requests let through of ${perMinute} a minute by two replicas, 70 : 30`,
      unit: "requests",
      raw: { gateway: [admitted] },
      judgement: judged("off by, %", Math.abs(admitted / perMinute - 1) * 100, { limit: 5, sense: "at most" }),
    },
    {
      bar: "P15",
      measure: "budget overspent by two replicas",
      unit: "dollars",
      raw: { gateway: [Math.max(0, spentNanos - budgetNanos) / 1e9] },
      judgement: judged("gateway", Math.max(0, spentNanos - budgetNanos) / 1e9, { limit: 0, sense: "at most" }),
    },
    {
      bar: "",
      measure: "of the budget spent when both refuse",
      unit: "%",
      raw: { gateway: [(100 * spentNanos) / budgetNanos] },
      judgement: compared("gateway", (100 * spentNanos) / budgetNanos),
    },
  ] satisfies Row[];
}

/** How many were answered. Most goes to the first replica: traffic is never even. */
async function served(
  both: readonly [Gateway, Gateway],
  token: string,
  { perSecond, seconds }: { perSecond: number; seconds: number },
): Promise<number> {
  const rates = [Math.round(perSecond * 0.7), Math.round(perSecond * 0.3)];
  const results = await Promise.all(
    both.map((gateway, index) => openLoop(withKey(gateway, token), ask("json", longestAnswer), { perSecond: rates[index] ?? 1, seconds })),
  );
  return results.reduce((sum, { statuses }) => sum + (statuses["200"] ?? 0), 0);
}

async function spent(
  store: string,
  masterKey: string,
  { dataDir }: MadeStore,
): Promise<{ readonly spentNanos: number; readonly receipts: number }> {
  const { storage, database } = await openStore({ store, dataDir }, masterKey, false);
  try {
    const [key] = await storage.keys.list({ search: "asked-1", revoked: true, after: null, limit: 1 });
    const [row] = await storage.receipts.usage({ by: [], sinceMs: null, untilMs: null, keyId: key?.id ?? "", model: null, channel: null });
    return { spentNanos: row?.nanos ?? 0, receipts: row?.calls ?? 0 };
  } finally {
    await database.close();
  }
}

/** A short one, so that the money set aside for calls under way is little beside the budget. */
const longestAnswer = 64;
/** 82 tokens of prompt at a dollar a million, 46 of the answer at four. */
const nanosPerCall = 82 * 1_000 + 46 * 4_000;
