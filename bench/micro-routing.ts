/**
 * What the decisions of one call cost, in nanoseconds: `sh bin/bun bench/micro-routing.ts`. Each line is the median of
 * several rounds; the figures of a shared machine vary, their ratios hardly do.
 */
import { type Candidate, candidatesOf, type Route } from "../src/channels/channel.ts";
import { afterFailure, afterSuccess, type Health, scopeIds } from "../src/channels/health.ts";
import { LastAsked } from "../src/channels/last-asked.ts";
import { startCall, endCall, type Load, newLoad, recordLatency, p95Ms } from "../src/channels/load.ts";
import { countFirst, newRetryBudget, takeRetry } from "../src/limits/retry-budget.ts";
import { countAccept, countRequest, newThrottle } from "../src/limits/throttle.ts";
import { failure } from "../src/operations/failure.ts";
import { admits } from "../src/routing/condition.ts";
import { judge } from "../src/routing/judge.ts";
import { type Candidates, plan, type PlanInput } from "../src/routing/plan.ts";
import { channel } from "../test/support/plan-world.ts";

const policy = {
  attemptsMax: 3,
  hedgeAfterMs: null,
  rescue: "error",
  streamDeadlineMs: 120_000,
  wholeDeadlineMs: 600_000,
  waitMs: 0,
} as const;

function route(sizes: readonly number[]): Route {
  const tiers = sizes.map((size, tier) =>
    Array.from({ length: size }, (_, at) =>
      candidatesOf({ id: `t${tier}c${at}/m`, channel: channel(`t${tier}c${at}`, { tier }), model: "m" }),
    ).flat(),
  );
  return { model: "m", tiers, size: tiers.flat().length };
}

/** Tables as the gateway keeps them, after every deployment has served for a while. */
function world(of: Route): {
  input: PlanInput;
  healths: Map<string, Health>;
  loads: Map<string, Load>;
  candidates: readonly Candidate[];
} {
  const healths = new Map<string, Health>();
  const loads = new Map<string, Load>();
  const candidates = of.tiers.flat();
  for (const { scopes, deployment } of candidates) {
    for (const id of scopeIds(scopes)) healths.set(id, afterSuccess(undefined, 0, 0));
    const load = newLoad();
    for (let sample = 0; sample < 60; sample += 1) recordLatency(load, 300 + Math.random() * 200, sample * 100, true);
    loads.set(deployment.id, load);
  }
  const input: PlanInput = {
    route: of,
    health: (scope) => healths.get(scope),
    isWell: () => false,
    load: ({ deployment }) => loads.get(deployment.id),
    channelInFlight: () => 3,
    throttle: undefined,
    lastAsked: new LastAsked(new Map()),
    waited: false,
    promptTokensEstimate: 500,
    remainingMs: 120_000,
    nowMs: 60_000,
    dice: Math.random,
  };
  return { input, healths, loads, candidates };
}

let sink: unknown;

function measure(name: string, turns: number, run: (turn: number) => unknown): void {
  for (let turn = 0; turn < turns; turn += 1) sink = run(turn);
  const rounds = Array.from({ length: 9 }, () => {
    const start = performance.now();
    for (let turn = 0; turn < turns; turn += 1) sink = run(turn);
    return ((performance.now() - start) * 1e6) / turns;
  }).sort((a, b) => a - b);
  console.log(`${name.padEnd(64)} ${rounds[4]!.toFixed(0).padStart(7)} ns   (best ${rounds[0]!.toFixed(0)})`);
}

for (const sizes of [[1], [2], [2, 1], [5, 3], [16], [17], [100], [10_000]]) {
  const { input } = world(route(sizes));
  measure(`plan, tiers of ${sizes.join(" and ")}, all well`, 50_000, () => plan(input));
}
{
  const { input, healths, candidates } = world(route([10_000]));
  candidates.forEach(({ scopes }, at) => {
    let health: Health | undefined;
    for (let times = 0; times < 5; times += 1) health = afterFailure(health, failure("overloaded", ""), 59_000, Math.random, 58_000);
    if (at % 2 === 0) healths.set(scopes.deployment, health!);
  });
  measure("plan, tier of 10000, half of them cooling", 50_000, () => plan(input));
}
{
  const { input, healths, candidates } = world(route([3]));
  let health: Health | undefined;
  for (let times = 0; times < 5; times += 1) health = afterFailure(health, failure("overloaded", ""), 59_000, Math.random, 58_000);
  healths.set(candidates[0]!.scopes.deployment, health!);
  measure("plan, tier of 3, one cooling", 50_000, () => plan(input));
  const ahead = plan(input) as Candidates;
  const first = ahead.candidates[0]!.candidate;
  const failedAttempts = [{ candidate: first, failure: failure("overloaded", "", { status: 503 }), tookMs: 90 }];
  measure("judge, after one overload", 100_000, () =>
    judge({
      policy,
      plan: ahead,
      failedAttempts,
      deadlineMs: 120_000,
      remainingMs: 100_000,
      attemptTimerMs: 60_000,
      bodyBytes: 2_000,
      hostedTools: false,
      promptTokensEstimate: 500,
      upload: false,
      canRetry: true,
      admits: (candidate) => admits(candidate.scopes, input.health, input.nowMs),
      admitsAsLastResort: () => false,
      dice: Math.random,
    }),
  );
}
{
  const dice = Math.random;
  let clean = afterSuccess(undefined, 0, 0);
  measure("afterSuccess, busy healthy scope (5,000 a second)", 200_000, (turn) => (clean = afterSuccess(clean, turn / 5, turn / 5)));
  let quiet = afterSuccess(undefined, 0, 0);
  measure("afterSuccess, quiet healthy scope (10 a second)", 200_000, (turn) => (quiet = afterSuccess(quiet, turn * 100, turn * 100)));
  const hiccup = afterFailure(undefined, failure("overloaded", ""), 0, dice, 0);
  let counting = hiccup;
  measure(
    "afterSuccess, a failure in the window",
    200_000,
    (turn) => (counting = afterSuccess(turn % 1_000 === 0 ? hiccup : counting, turn % 1_000, 0)),
  );
  const overloaded = failure("overloaded", "");
  measure("afterFailure", 200_000, () => afterFailure(hiccup, overloaded, 10, dice, 5));

  const { healths, candidates } = world(route([3]));
  const { scopes } = candidates[0]!;
  measure("a success on every scope of a candidate, table included", 200_000, (turn) => {
    for (const id of scopeIds(scopes)) {
      const before = healths.get(id);
      const after = afterSuccess(before, turn / 5, turn / 5);
      if (after !== before) healths.set(id, after);
    }
  });
}
{
  const load = newLoad();
  measure("load: begun, observed, ended", 200_000, (turn) => {
    startCall(load);
    recordLatency(load, 400 + (turn % 100), turn, true);
    endCall(load);
  });
  measure("load: p95", 100_000, () => p95Ms(load, true));
  const budget = newRetryBudget();
  measure("retry budget: one first attempt", 200_000, (turn) => countFirst(budget, turn));
  measure("retry budget: one first attempt and one retry", 200_000, (turn) => {
    countFirst(budget, turn);
    return takeRetry(budget, turn);
  });
  const throttle = newThrottle();
  measure("throttle: one request, accepted", 200_000, (turn) => {
    countRequest(throttle, turn, true);
    countAccept(throttle, turn);
  });
}
if (sink === 0) console.log("");
