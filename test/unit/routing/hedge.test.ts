import { describe, expect, test } from "bun:test";
import { newLoad, recordLatency } from "../../../src/channels/load.ts";
import { hedgeDelayMs, type HedgeInput, hedgeWith } from "../../../src/routing/hedge.ts";
import type { Candidates } from "../../../src/routing/plan.ts";
import { candidate, candidates } from "../../support/plan-world.ts";

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
  for (let call = 0; call < calls; call += 1) recordLatency(load, latencyMs, call, true);
  return load;
}

describe("when to hedge", () => {
  const auto = { ...policy, hedgeAfterMs: "auto" } as const;

  test("never if hedging is off", () => {
    expect(hedgeDelayMs({ ...policy, hedgeAfterMs: null }, loadOf(100, 100), true, false)).toBeNull();
  });

  test("after the operator's figure, or twice the deployment's own 95th percentile if that is longer", () => {
    expect(hedgeDelayMs(policy, loadOf(1_000, 100), true, false)).toBe(10_000);
    const slow = hedgeDelayMs(policy, loadOf(20_000, 100), true, false)!;
    expect(slow).toBeGreaterThanOrEqual(40_000);
    expect(slow).toBeLessThanOrEqual(50_000);
  });

  test("after the operator's figure if too few calls are known, whatever the request", () => {
    expect(hedgeDelayMs(policy, undefined, true, true)).toBe(10_000);
    expect(hedgeDelayMs(policy, loadOf(20_000, 19), true, false)).toBe(10_000);
  });

  test("by itself, after twice the deployment's own 95th percentile and five seconds at least, once twenty calls are known", () => {
    for (const reasons of [false, true]) {
      expect(hedgeDelayMs(auto, loadOf(300, 20), true, reasons)).toBe(5_000);
      const slow = hedgeDelayMs(auto, loadOf(8_000, 20), true, reasons)!;
      expect(slow).toBeGreaterThanOrEqual(16_000);
      expect(slow).toBeLessThanOrEqual(20_000);
    }
  });

  test("by itself, after fifteen seconds before that, and then not where reasoning is asked for", () => {
    for (const load of [undefined, loadOf(300, 19)]) {
      expect(hedgeDelayMs(auto, load, true, false)).toBe(15_000);
      expect(hedgeDelayMs(auto, load, true, true)).toBeNull();
    }
    // Of streams nothing is learned about whole answers.
    expect(hedgeDelayMs(auto, loadOf(300, 20), false, false)).toBe(15_000);
  });
});

describe("the candidate of a hedge", () => {
  const [a, b, c] = [candidate("a"), candidate("b"), candidate("c")];
  const plan = (...who: readonly (typeof a)[]): Candidates => ({
    ok: true,
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
    attemptsMax: 3,
    canRetry: true,
    admits: () => true,
    ...facts,
  });

  test("is on the next healthy channel of the plan that was not asked", () => {
    expect(hedgeWith(input())).toBe(b);
    expect(hedgeWith(input({ admits: (one) => one !== b }))).toBe(c);
    expect(hedgeWith(input({ asked: [a, b] }))).toBe(c);
    expect(hedgeWith(input({ asked: [a, b, c] }))).toBe("never");
  });

  test("is on another channel, not another credential of the same", () => {
    const pool = candidates("pool", { credentials: ["k1", "k2"] });
    expect(hedgeWith(input({ plan: plan(...pool), asked: [pool[0]!] }))).toBe("never");
    expect(hedgeWith(input({ plan: plan(...pool, b), asked: [pool[0]!] }))).toBe(b);
  });

  test.each([
    ["tools that act at the upstream", { hostedTools: true }],
    ["more than one choice", { choices: 2 }],
    ["a large body", { bodyBytes: 1024 * 1024 + 1 }],
    ["no attempt left", { attemptsMax: 1 }],
    ["nobody else", { plan: plan(a) }],
    ["a last resort", { plan: { ...plan(a, b), mode: "last_resort" as const } }],
  ])("with nobody: %s", (_why, facts) => {
    expect(hedgeWith(input(facts))).toBe("never");
  });

  test.each([
    ["the retry budget is used up", { canRetry: false }],
    ["all others are full or cooling", { admits: () => false }],
  ])("with nobody as long as %s", (_why, facts) => {
    expect(hedgeWith(input(facts))).toBe("later");
  });

  test("is never a probe", () => {
    const probing = plan(a, b);
    const marked: Candidates = {
      ...probing,
      candidates: probing.candidates.map((choice) => ({ ...choice, probe: choice.candidate === b })),
    };
    expect(hedgeWith(input({ plan: marked }))).toBe("never");
  });
});
