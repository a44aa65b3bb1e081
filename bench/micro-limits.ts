/**
 * What the limits of one call cost, in nanoseconds: `sh bin/bun bench/micro-limits.ts`. Each line is the median of several
 * rounds of a call let in and settled; the figures of a shared machine vary, their ratios hardly do.
 */
import type { AskedCall, Limiter } from "../src/gateway/admission/limiter.ts";
import type { BudgetStorage } from "../src/gateway/storage.ts";
import type { Group } from "../src/keys/group.ts";
import { GroupTree } from "../src/keys/group-tree.ts";
import type { Key } from "../src/keys/key.ts";
import { unlimited, unlimitedRates, type Demand, type Limits } from "../src/limits/limits.ts";
import { adjust, fits, MinuteWindow, take } from "../src/limits/minute-window.ts";
import { BudgetLedger } from "../src/state/budgets/budget-ledger.ts";
import { makeLimiter } from "../src/state/limiter.ts";
import { MemoryRateLimits } from "../src/state/memory-rate-limits.ts";

const nowMs = (): number => performance.now();

function keyWith(id: string, limits: Partial<Limits>): Key {
  return {
    id,
    name: id,
    models: null,
    operations: null,
    channels: null,
    expiresMs: null,
    group: null,
    splits: { audio: false, input: false },
    limits: { ...unlimited, ...limits },
  };
}

/** A store with all the money in the world, which is never the one that is measured. */
const richStore: BudgetStorage = {
  hold: ({ wish }) => Promise.resolve({ ok: true, nanos: wish, spentNanos: 0, leftNanos: Number.MAX_SAFE_INTEGER }),
  renew: () => Promise.resolve(),
  wanted: () => Promise.resolve([]),
  release: () => Promise.resolve(),
};

const estimate: Demand = { tokens: 900, audioSeconds: 0, characters: 0, nanos: 5_000 };
const truth: Demand = { tokens: 640, audioSeconds: 0, characters: 0, nanos: 3_100 };

const asked: AskedCall = {
  id: "call",
  model: "some-model-large",
  operation: "chat",
  route: { model: "some-model-large", tiers: [], size: 0 },
};

let sink: unknown;

function measure(name: string, turns: number, run: (turn: number) => unknown): void {
  for (let turn = 0; turn < turns; turn += 1) sink = run(turn);
  const rounds = Array.from({ length: 9 }, () => {
    const start = performance.now();
    for (let turn = 0; turn < turns; turn += 1) sink = run(turn);
    return ((performance.now() - start) * 1e6) / turns;
  }).sort((a, b) => a - b);
  console.log(`${name.padEnd(72)} ${rounds[4]!.toFixed(0).padStart(7)} ns   (best ${rounds[0]!.toFixed(0)})`);
}

function pair(limiter: Limiter, key: Key): void {
  const answer = limiter.admit(key, asked, estimate);
  if (answer instanceof Promise || answer.kind === "limit_exceeded") throw new Error("a call had to wait or was refused");
  answer.settle(truth);
}

const ledger = new BudgetLedger({ storage: richStore, holder: "bench", nowMs, wallMs: Date.now, after: () => () => {} });
const limiter = makeLimiter({ rates: new MemoryRateLimits(nowMs), budgets: ledger, wallMs: Date.now });
const large = 1e12;
const money = { nanos: 9e15, period: "month" } as const;

const window = new MinuteWindow();
measure("a window: fits, take, adjust", 200_000, () => {
  const now = performance.now();
  if (fits(window, large, 900, now)) adjust(window, take(window, 900, now), -260);
});
measure("a reading of the clock", 200_000, nowMs);

const none = keyWith("none", {});
const requests = keyWith("requests", { requests: large });
const usual = keyWith("usual", { requests: large, tokens: large, concurrency: 64 });
const all = keyWith("all", { requests: large, tokens: large, audioSeconds: large, characters: large, concurrency: 64, budget: money });
const budget = keyWith("budget", { requests: large, tokens: large, concurrency: 64, budget: money });
const ruled = keyWith("ruled", {
  requests: large,
  tokens: large,
  concurrency: 64,
  budget: money,
  models: [
    { ...unlimitedRates, pattern: "other-*", budget: null, requests: 5 },
    { ...unlimitedRates, pattern: "some-*", budget: money, requests: large, tokens: large },
  ],
});
const levels = { requests: large, tokens: large, concurrency: 64, budget: money };
const group = (id: string, parent: string | null, limits: Partial<Limits> = levels): Group => ({
  id,
  name: id,
  kind: "group",
  parent,
  limits: { ...unlimited, ...limits },
  frozen: false,
  defaults: { keys: unlimited, groups: unlimited },
});
const tree = new GroupTree([
  group("organisation", null),
  group("team", "organisation"),
  group("project", "team"),
  group("plain", null, {}),
  group("inner", "plain", {}),
  group("innermost", "inner", {}),
]);
const inGroup = (id: string, groupId: string, limits: Partial<Limits>): Key => tree.attached({ ...keyWith(id, limits), group: groupId })!;
const nested = inGroup("nested", "project", levels);
const unlimitedGroups = inGroup("unlimited-groups", "innermost", levels);
// A first call opens each budget: after it there is money here.
for (const key of [budget, all, ruled, nested, unlimitedGroups]) {
  const opened = await limiter.admit(key, asked, { ...estimate, nanos: 1e12 });
  if (opened.kind === "grant") opened.settle(null);
}

measure("admit + settle, a key without limits", 100_000, () => pair(limiter, none));
measure("admit + settle, requests", 100_000, () => pair(limiter, requests));
measure("admit + settle, requests, tokens, concurrency", 100_000, () => pair(limiter, usual));
measure("admit + settle, the same and a budget with money held", 100_000, () => pair(limiter, budget));
measure("admit + settle, every limit there is", 100_000, () => pair(limiter, all));
measure("admit + settle, the same and a rule for the model", 100_000, () => pair(limiter, ruled));
measure("admit + settle, the limits of the fourth line, in three groups without any", 100_000, () => pair(limiter, unlimitedGroups));
measure("admit + settle, the same limits on four levels", 100_000, () => pair(limiter, nested));
measure("precheck", 100_000, () => limiter.precheck(usual));
measure("precheck on four levels", 100_000, () => limiter.precheck(nested));
const raw = { ...keyWith("raw", levels), group: "project" };
measure("a key with its groups, when it is found", 100_000, () => tree.attached(raw));

const many = Array.from({ length: 10_000 }, (_, at) => keyWith(`key-${at}`, { requests: large, tokens: large, concurrency: 64 }));
measure("admit + settle over 10,000 keys", 100_000, (turn) => pair(limiter, many[(turn * 7) % many.length]!));

const spent = keyWith("spent", { requests: 1 });
pair(limiter, spent);
measure("a refusal", 50_000, () => limiter.admit(spent, asked, estimate));
void sink;
