import { describe, expect, test } from "bun:test";
import { newLoad, observed } from "../src/channels/load.ts";
import { hedgeDelayMs, type HedgeInput, hedgeWith } from "../src/routing/hedge.ts";
import type { Ahead } from "../src/routing/plan.ts";
import { candidate, candidates } from "./support/plan-world.ts";

const policy = {
  attemptsMax: 3,
  hedgeAfterMs: 10_000,
  rescue: "error",
  streamDeadlineMs: 120_000,
  wholeDeadlineMs: 600_000,
  waitMs: 0,
} as const;

function loadOf(latencyMs: number, calls: number): ReturnType<typeof newLoad> {
  const load = newLoad();
  for (let call = 0; call < calls; call += 1) observed(load, latencyMs, call);
  return load;
}

describe("when to hedge", () => {
  test("never where it is off", () => {
    expect(hedgeDelayMs({ ...policy, hedgeAfterMs: null }, loadOf(100, 100), 200)).toBeNull();
  });

  test("after the operator's figure, or twice the deployment's own 95th percentile if that is longer", () => {
    expect(hedgeDelayMs(policy, loadOf(1_000, 100), 200)).toBe(10_000);
    const slow = hedgeDelayMs(policy, loadOf(20_000, 100), 200)!;
    expect(slow).toBeGreaterThanOrEqual(40_000);
    expect(slow).toBeLessThanOrEqual(50_000);
  });

  test("after the operator's figure where too little is known", () => {
    expect(hedgeDelayMs(policy, undefined, 0)).toBe(10_000);
    expect(hedgeDelayMs(policy, loadOf(20_000, 49), 200)).toBe(10_000);
  });
});

describe("with whom to hedge", () => {
  const [a, b, c] = [candidate("a"), candidate("b"), candidate("c")];
  const plan = (...who: readonly (typeof a)[]): Ahead => ({
    go: "ahead",
    mode: "normal",
    candidates: who.map((one, tier) => ({ candidate: one, tier, probe: false })),
    skipped: [],
  });
  const input = (facts: Partial<HedgeInput> = {}): HedgeInput => ({
    plan: plan(a, b, c),
    asked: [a],
    bodyBytes: 1_000,
    choices: 1,
    hostedTools: false,
    mayHedge: true,
    canRetry: true,
    admits: () => true,
    ...facts,
  });

  test("the next channel of the plan that is well and was not asked", () => {
    expect(hedgeWith(input())).toBe(b);
    expect(hedgeWith(input({ admits: (one) => one !== b }))).toBe(c);
    expect(hedgeWith(input({ asked: [a, b] }))).toBe(c);
    expect(hedgeWith(input({ asked: [a, b, c] }))).toBeNull();
  });

  test("another channel, not another key of the same", () => {
    const pool = candidates("pool", { credentials: ["k1", "k2"] });
    expect(hedgeWith(input({ plan: plan(...pool), asked: [pool[0]!] }))).toBeNull();
    expect(hedgeWith(input({ plan: plan(...pool, b), asked: [pool[0]!] }))).toBe(b);
  });

  test.each([
    ["tools that act at the upstream", { hostedTools: true }],
    ["more than one choice", { choices: 2 }],
    ["a large body", { bodyBytes: 1024 * 1024 + 1 }],
    ["the quota used up", { mayHedge: false }],
    ["the retry budget used up", { canRetry: false }],
    ["nobody else", { plan: plan(a) }],
    ["a last resort", { plan: { ...plan(a, b), mode: "last_resort" as const } }],
  ])("with nobody: %s", (_why, facts) => {
    expect(hedgeWith(input(facts))).toBeNull();
  });

  test("never with a probe", () => {
    const probing = plan(a, b);
    const marked: Ahead = {
      ...probing,
      candidates: probing.candidates.map((choice) => ({ ...choice, probe: choice.candidate === b })),
    };
    expect(hedgeWith(input({ plan: marked }))).toBeNull();
  });
});
