import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  afterFailure,
  afterSuccess,
  type Health,
  isProbing,
  opensAgainMs,
  probeEnded,
  slowStartFactor,
  breakerState,
  withProbe,
} from "../../../src/channels/health.ts";
import { failure, type FailureKind } from "../../../src/operations/failure.ts";

/**
 * The rules of the breaker once more, told as plainly as possible: every outcome ever seen stays in a list, and each
 * question looks through it. Dice always show 0.5, so that open times are exact.
 */
class PlainBreaker {
  private outcomes: { readonly atMs: number; readonly ok: boolean }[] = [];
  private coolUntilMs = -Infinity;
  private refusals = 0;
  private refusedMs = -Infinity;
  private openings = 0;
  private turnedMs = -Infinity;
  private openUntilMs: number | null = null;
  private passed = 0;
  private probeMs: number | null = null;

  state(nowMs: number): string {
    if (nowMs < this.coolUntilMs) return "open";
    if (this.openUntilMs === null) return "closed";
    return nowMs < this.openUntilMs ? "open" : "half_open";
  }

  probing(): boolean {
    return this.openUntilMs !== null && this.probeMs !== null;
  }

  probe(nowMs: number): void {
    if (this.openUntilMs !== null) this.probeMs = nowMs;
  }

  /** Whatever came of it: who began with the probe, or after it, ends it. */
  ended(beganMs: number): void {
    if (this.probeMs !== null && beganMs >= this.probeMs) this.probeMs = null;
  }

  succeed(nowMs: number, beganMs: number): void {
    this.ended(beganMs);
    if (this.openUntilMs === null) {
      if (beganMs > this.refusedMs) this.refusals = 0;
      this.outcomes.push({ atMs: nowMs, ok: true });
      return;
    }
    if (beganMs <= this.turnedMs) return;
    this.passed += 1;
    this.openUntilMs = Math.min(this.openUntilMs, nowMs);
    if (this.passed < 2) return;
    this.openUntilMs = null;
    this.probeMs = null;
    this.turnedMs = nowMs;
    this.refusals = 0;
    this.outcomes = [];
  }

  fail(kind: FailureKind, retryAfterMs: number | null, nowMs: number, beganMs: number): void {
    this.ended(beganMs);
    if (kind === "client_gone") return;
    if (kind === "rate_limited") return this.cool(retryAfterMs, nowMs, beganMs);
    if (kind === "unauthorized") {
      if (beganMs <= this.turnedMs) return;
      if (this.openUntilMs !== null && nowMs < this.openUntilMs) {
        this.turnedMs = nowMs;
        return;
      }
      this.openings = this.openingsAt(nowMs);
      this.open(nowMs, Math.min(900_000, 60_000 * 2 ** this.refusals));
      this.refusals += 1;
      this.refusedMs = nowMs;
      return;
    }
    if (beganMs > this.turnedMs) {
      this.outcomes.push({ atMs: nowMs, ok: false });
      if (this.openUntilMs !== null || this.tooMuchFailed(nowMs)) {
        if (this.openUntilMs !== null && nowMs < this.openUntilMs) {
          this.turnedMs = nowMs;
        } else {
          const quick = nowMs - beganMs < 1_000;
          const openings = this.openingsAt(nowMs);
          this.openings = quick && openings >= 2 ? openings : openings + 1;
          // The dice of the real one would make this 10 s at the most.
          this.open(nowMs, Math.min(quick ? 10_000 / 1.2 : 300_000, 5_000 * 2 ** (this.openings - 1)));
        }
      }
    }
    if (retryAfterMs !== null) this.cool(retryAfterMs, nowMs, beganMs);
  }

  private cool(retryAfterMs: number | null, nowMs: number, beganMs: number): void {
    if (beganMs > this.refusedMs && beganMs >= this.coolUntilMs) {
      this.refusals += 1;
      this.refusedMs = nowMs;
    }
    const waitMs = retryAfterMs ?? 10_000 * 2 ** (Math.max(1, this.refusals) - 1);
    this.coolUntilMs = Math.max(this.coolUntilMs, nowMs + Math.min(3_600_000, Math.max(1_000, waitMs)));
    this.refusals = Math.max(1, this.refusals);
  }

  private tooMuchFailed(nowMs: number): boolean {
    const recent = this.outcomes.filter(({ atMs }) => Math.floor(atMs / 5_000) > Math.floor(nowMs / 5_000) - 6);
    const watched = recent.some(({ atMs }) => Math.floor(atMs / 5_000) < Math.floor(nowMs / 5_000) - 1);
    if (watched && recent.length >= 10 && recent.filter(({ ok }) => !ok).length * 2 >= recent.length) return true;
    const streak = this.outcomes.length - 1 - this.outcomes.findLastIndex(({ ok }) => ok);
    const others = recent.slice(0, Math.max(0, recent.length - streak));
    const share = others.filter(({ ok }) => !ok).length / others.length;
    return streak >= 5 && (others.length < 10 || share ** streak <= 0.05 ** 5);
  }

  private openingsAt(nowMs: number): number {
    if (this.openUntilMs !== null || this.turnedMs === -Infinity) return this.openings;
    return Math.max(0, this.openings - Math.floor((nowMs - this.turnedMs) / 60_000));
  }

  private open(nowMs: number, forMs: number): void {
    this.openUntilMs = nowMs + forMs;
    this.turnedMs = nowMs;
    this.passed = 0;
    this.probeMs = null;
  }
}

type Step =
  | { readonly do: "wait"; readonly ms: number }
  | { readonly do: "wait_for_opening" }
  | { readonly do: "succeed"; readonly lastedMs: number; readonly times: number }
  | {
      readonly do: "fail";
      readonly kind: FailureKind;
      readonly retryAfterMs: number | null;
      readonly lastedMs: number;
      readonly times: number;
    }
  | { readonly do: "probe" }
  | { readonly do: "abandon" };

const lastedMs = fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 120_000 }));
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("wait" as const),
      ms: fc.oneof(fc.integer({ min: 1, max: 3_000 }), fc.integer({ min: 1, max: 200_000 })),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("wait_for_opening" as const) }) },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("succeed" as const), lastedMs, times: fc.integer({ min: 1, max: 6 }) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("fail" as const),
      kind: fc.constantFrom<FailureKind>(
        "overloaded",
        "overloaded",
        "timed_out",
        "disconnected",
        "rate_limited",
        "unauthorized",
        "client_gone",
      ),
      retryAfterMs: fc.oneof(fc.constant(null), fc.constant(null), fc.integer({ min: 0, max: 30_000 })),
      lastedMs,
      times: fc.integer({ min: 1, max: 6 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("probe" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("abandon" as const) }) },
);

/** Runs a story against both; hands every moment to `check`. */
function play(steps: readonly Step[], check: (health: Health | undefined, plain: PlainBreaker, nowMs: number) => void): void {
  const plain = new PlainBreaker();
  let health: Health | undefined;
  let nowMs = 1_000_000;
  const dice = (): number => 0.5;
  for (const one of steps) {
    switch (one.do) {
      case "wait":
        nowMs += one.ms;
        break;
      case "wait_for_opening":
        nowMs = Math.max(nowMs, Math.ceil(opensAgainMs(health)));
        break;
      case "succeed":
        for (let time = 0; time < one.times; time += 1) {
          health = afterSuccess(health, nowMs, nowMs - one.lastedMs);
          plain.succeed(nowMs, nowMs - one.lastedMs);
        }
        break;
      case "fail":
        for (let time = 0; time < one.times; time += 1) {
          const what = failure(one.kind, "", { retryAfterMs: one.kind === "unauthorized" ? null : one.retryAfterMs });
          health = afterFailure(health, what, nowMs, dice, nowMs - one.lastedMs);
          plain.fail(one.kind, what.retryAfterMs, nowMs, nowMs - one.lastedMs);
        }
        break;
      case "probe":
        if (health === undefined || breakerState(health, nowMs) === "closed" || isProbing(health, nowMs)) break;
        health = withProbe(health, nowMs);
        plain.probe(nowMs);
        break;
      case "abandon":
        if (health !== undefined) health = probeEnded(health, nowMs);
        plain.ended(nowMs);
        break;
    }
    check(health, plain, nowMs);
  }
}

const stories = fc.array(step, { maxLength: 60 });

describe("the breaker, over any story", () => {
  test("stands as the plainly told rules say", () => {
    fc.assert(
      fc.property(stories, (steps) => {
        play(steps, (health, plain, nowMs) => {
          for (const laterMs of [0, 1_000, 5_000, 10_000, 60_000, 300_000]) {
            expect(breakerState(health, nowMs + laterMs)).toBe(plain.state(nowMs + laterMs) as ReturnType<typeof breakerState>);
          }
        });
      }),
      { numRuns: 1_500 },
    );
  });

  test("has at most one probe, which is over when its attempt is, or the breaker turns", () => {
    fc.assert(
      fc.property(stories, (steps) => {
        play(steps, (health, plain, nowMs) => {
          // The model knows no lease, so a probe may be over here that is still counted there.
          if (isProbing(health, nowMs)) expect(plain.probing()).toBe(true);
        });
      }),
      { numRuns: 500 },
    );
  });

  test("lets requests in again within an hour of the last failure, whatever happened", () => {
    fc.assert(
      fc.property(stories, (steps) => {
        play(steps, (health, _plain, nowMs) => expect(breakerState(health, nowMs + 3_600_001)).not.toBe("open"));
      }),
      { numRuns: 500 },
    );
  });

  test("keeps its weight between a tenth and one, and full for what never failed", () => {
    fc.assert(
      fc.property(stories, (steps) => {
        let failures = 0;
        play(steps, (health, _plain, nowMs) => {
          failures = steps.filter((one) => one.do === "fail" && one.kind !== "client_gone").length;
          const factor = slowStartFactor(health, nowMs);
          expect(factor).toBeGreaterThanOrEqual(0.1);
          expect(factor).toBeLessThanOrEqual(1);
          if (failures === 0) expect(factor).toBe(1);
        });
      }),
      { numRuns: 500 },
    );
  });

  test("never changes a value it was given", () => {
    fc.assert(
      fc.property(stories, (steps) => {
        const seen: { readonly health: Health; readonly text: string }[] = [];
        play(steps, (health) => {
          if (health !== undefined) seen.push({ health, text: JSON.stringify(health) });
        });
        for (const { health, text } of seen) expect(JSON.stringify(health)).toBe(text);
      }),
      { numRuns: 200 },
    );
  });
});
