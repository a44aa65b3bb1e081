/**
 * What the limits of a call through four levels cost, in microseconds: with limits in memory, and with leases of a store that
 * answers at once. Between two calls other memory is read, as in a gateway, so that what a call needs is in no near cache.
 * `sh bin/bun bench/micro-levels.ts`
 */
import { GroupTree } from "../src/keys/group-tree.ts";
import type { Group } from "../src/keys/group.ts";
import { defaultKey } from "../src/keys/stored-key.ts";
import type { DistributedCounts } from "../src/limits/distributed-counts.ts";
import { unlimited } from "../src/limits/limits.ts";
import type { RateLimitStore } from "../src/limits/rate-limit-store.ts";
import { BudgetLedger } from "../src/state/budgets/budget-ledger.ts";
import { LeasedRateLimits } from "../src/state/leases/leased-rate-limits.ts";
import { makeLimiter } from "../src/state/limiter.ts";
import { MemoryRateLimits } from "../src/state/memory-rate-limits.ts";
import { farBudget } from "./stored-keys.ts";

const nowMs = (): number => performance.now();
const after = (ms: number, then: () => void): (() => void) => {
  const timer = setTimeout(then, ms);
  return () => clearTimeout(timer);
};
const group = (id: string, kind: Group["kind"], parent: string | null): Group => ({
  id,
  name: id,
  kind,
  parent,
  limits: farBudget,
  frozen: false,
  defaults: { keys: unlimited, groups: unlimited },
});
const tree = new GroupTree([group("org", "organisation", null), group("web", "team", "org"), group("app", "project", "web")]);
const key = { ...defaultKey, id: "k1", name: "k1", limits: farBudget, chain: tree.chainOf("app")! };

const generous: DistributedCounts = {
  releasesInPassing: true,
  take: (requests, slots) =>
    Promise.resolve({
      ok: true,
      granted: requests.map(({ id, wish, need, limit }) => ({ id, amount: Math.max(wish, need), slot: 1, remaining: limit })),
      slots: slots.map(({ more = [] }) => 1 + more.length),
    }),
  correct: () => Promise.resolve(),
  renew: () => Promise.resolve(),
  release: () => Promise.resolve(),
  heartbeat: () => Promise.resolve(4),
  leave: () => Promise.resolve(),
  forget: () => Promise.resolve(),
  close: () => {},
};
const guard = { open: true, stalledMs: 1_000, lostSinceMs: null, run: <T>(ask: () => Promise<T>): Promise<T> => ask() };
const storage = {
  hold: () => Promise.resolve({ ok: true as const, nanos: 1e13, spentNanos: 0, leftNanos: 1e15 }),
  renew: () => Promise.resolve(),
  wanted: () => Promise.resolve([]),
};

const route = { model: "gpt", tiers: [], size: 0 };
const others = new Float64Array(1 << 18);
let sum = 0;
function readOthers(): void {
  for (let i = 0; i < others.length; i += 8) sum += others[i]!;
}

const parallel = 16;
const rounds = 12;
const callsPerRound = 20_000;

async function measured(name: string, rates: RateLimitStore, isCold: boolean): Promise<void> {
  const budgets = new BudgetLedger({ storage, holder: "bench", nowMs, wallMs: Date.now, after, processes: () => 4 });
  const limiter = makeLimiter({ rates, budgets, wallMs: Date.now });
  const demand = { tokens: 150, audioSeconds: 0, characters: 0, nanos: 400_000 };
  const used = { ...demand, tokens: 128, nanos: 300_000 };
  const best: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    let micros = 0;
    for (let call = 0; call < callsPerRound; call += parallel) {
      const grants: { settle(actual: typeof used): void }[] = [];
      for (let at = 0; at < parallel; at += 1) {
        if (isCold) readOthers();
        const asked = { id: `c${call + at}`, model: "gpt", operation: "chat" as const, route };
        const began = nowMs();
        const answer = limiter.admit(key, asked, demand);
        const passed = nowMs() - began;
        const grant = answer instanceof Promise ? await answer : answer;
        if (grant.kind !== "grant") throw new Error(JSON.stringify(grant));
        if (!(answer instanceof Promise)) micros += passed * 1000;
        grants.push(grant);
      }
      for (const grant of grants) {
        if (isCold) readOthers();
        const began = nowMs();
        grant.settle(used);
        micros += (nowMs() - began) * 1000;
      }
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    best.push(micros / callsPerRound);
  }
  best.sort((a, b) => a - b);
  console.log(`${name.padEnd(40)} least ${best[0]!.toFixed(2)} us, median ${best[rounds >> 1]!.toFixed(2)} us`);
  await budgets.stop();
}

for (const isCold of [false, true]) {
  const suffix = isCold ? ", cold" : "";
  await measured(`in memory${suffix}`, new MemoryRateLimits(nowMs), isCold);
  const leased = new LeasedRateLimits({ counts: generous, guard, local: new MemoryRateLimits(nowMs), processes: () => 4, nowMs, after });
  await measured(`leased${suffix}`, leased, isCold);
  await leased.stop();
}
if (sum !== 0) console.log(sum);
process.exit(0);
