import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { begun, ended, latencyMs, newLoad, observed, p95Ms } from "../src/channels/load.ts";
import { diceOf } from "./support/plan-world.ts";

describe("the load of a deployment", () => {
  test("calls that begin and end leave nothing in flight, and none ends that never began", () => {
    const load = newLoad();
    begun(load);
    begun(load);
    expect(load.inFlight).toBe(2);
    ended(load);
    ended(load);
    expect(load.inFlight).toBe(0);
    expect(() => ended(load)).toThrow();
  });

  test("a latency nobody observed is unknown", () => {
    expect(latencyMs(undefined, 0)).toBeNull();
    expect(latencyMs(newLoad(), 0)).toBeNull();
  });

  test("the average stays between the smallest and the largest latency observed", () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ ms: fc.integer({ min: 1, max: 600_000 }), gapMs: fc.integer({ min: 0, max: 60_000 }) }), {
          minLength: 1,
        }),
        (samples) => {
          const load = newLoad();
          let nowMs = 0;
          for (const { ms, gapMs } of samples) observed(load, ms, (nowMs += gapMs));
          const all = samples.map(({ ms }) => ms);
          expect(latencyMs(load, nowMs)).toBeGreaterThanOrEqual(Math.min(...all) * (1 - 1e-9));
          expect(latencyMs(load, nowMs)).toBeLessThanOrEqual(Math.max(...all) * (1 + 1e-9));
        },
      ),
    );
  });

  test("it follows a deployment that slows down within half a minute, and one outlier does not carry it away", () => {
    const load = newLoad();
    for (let nowMs = 0; nowMs < 60_000; nowMs += 100) observed(load, 500, nowMs);
    observed(load, 60_000, 60_000);
    expect(latencyMs(load, 60_000)).toBeLessThan(2_000);
    for (let nowMs = 60_100; nowMs < 90_000; nowMs += 100) observed(load, 3_000, nowMs);
    expect(latencyMs(load, 90_000)).toBeGreaterThan(2_700);
  });

  test("it fades when nobody renews it, so that a deployment which was slow once is tried again", () => {
    const load = newLoad();
    observed(load, 8_000, 0);
    expect(latencyMs(load, 30_000)).toBeLessThan(4_500);
    expect(latencyMs(load, 300_000)).toBeLessThan(50);
  });
});

describe("the 95th percentile", () => {
  test("is unknown below fifty calls", () => {
    const load = newLoad();
    for (let call = 0; call < 49; call += 1) observed(load, 100, call);
    expect(p95Ms(load, 100)).toBeNull();
    observed(load, 100, 50);
    expect(p95Ms(load, 100)).not.toBeNull();
  });

  test("is never below the true one, and at most a quarter above it", () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 50, max: 2_000 }), (seed, calls) => {
        const dice = diceOf(seed);
        const load = newLoad();
        const all: number[] = [];
        for (let call = 0; call < calls; call += 1) {
          const ms = 20 * Math.exp(dice() * 8);
          all.push(ms);
          observed(load, ms, call * 10);
        }
        const truth = all.sort((a, b) => a - b)[Math.ceil(calls * 0.95) - 1]!;
        const found = p95Ms(load, calls * 10)!;
        expect(found).toBeGreaterThanOrEqual(truth * (1 - 1e-9));
        expect(found).toBeLessThanOrEqual(truth * 1.25 * (1 + 1e-9));
      }),
    );
  });

  test("counts the first few latencies like all others, which are kept one by one until there are more of them", () => {
    for (const calls of [50, 60, 400]) {
      const load = newLoad();
      for (let call = 0; call < 8; call += 1) observed(load, 20_000, call * 20_000);
      expect(load.histogram).toBeNull();
      for (let call = 8; call < calls; call += 1) observed(load, 100, 160_000 + call);
      // Eight in sixty are more than one in twenty, and eight in four hundred are less.
      if (calls < 160) expect(p95Ms(load, 170_000)).toBeGreaterThanOrEqual(20_000);
      else expect(p95Ms(load, 170_000)).toBeLessThan(130);
      // The first of them are forgotten first.
      expect(p95Ms(load, 310_000)).toBe(calls === 50 ? null : p95Ms(load, 170_000));
    }
  });

  test("forgets what is older than five minutes", () => {
    const load = newLoad();
    for (let call = 0; call < 1_000; call += 1) observed(load, 30_000, call);
    for (let call = 0; call < 100; call += 1) observed(load, 100, 310_000 + call);
    expect(p95Ms(load, 311_000)).toBeLessThan(130);
    expect(p95Ms(load, 1_000_000)).toBeNull();
  });

  test("holds any latency, even absurd ones", () => {
    const load = newLoad();
    for (const ms of [0, -5, 1e9, 0.001]) for (let call = 0; call < 20; call += 1) observed(load, ms, 1_000);
    expect(p95Ms(load, 1_000)).toBeGreaterThan(500_000);
  });
});
