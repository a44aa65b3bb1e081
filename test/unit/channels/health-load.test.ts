import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { startCall, endCall, latencyMs, newLoad, recordLatency, p95Ms } from "../../../src/channels/load.ts";
import { diceOf } from "../../support/plan-world.ts";

describe("the load of a deployment", () => {
  test("calls that begin and end leave nothing in flight, and none ends that never began", () => {
    const load = newLoad();
    startCall(load);
    startCall(load);
    expect(load.inFlight).toBe(2);
    endCall(load);
    endCall(load);
    expect(load.inFlight).toBe(0);
    expect(() => endCall(load)).toThrow();
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
          for (const { ms, gapMs } of samples) recordLatency(load, ms, (nowMs += gapMs), true);
          const all = samples.map(({ ms }) => ms);
          expect(latencyMs(load, nowMs)).toBeGreaterThanOrEqual(Math.min(...all) * (1 - 1e-9));
          expect(latencyMs(load, nowMs)).toBeLessThanOrEqual(Math.max(...all) * (1 + 1e-9));
        },
      ),
    );
  });

  test("it follows a deployment that slows down within half a minute, and one outlier does not carry it away", () => {
    const load = newLoad();
    for (let nowMs = 0; nowMs < 60_000; nowMs += 100) recordLatency(load, 500, nowMs, true);
    recordLatency(load, 60_000, 60_000, true);
    expect(latencyMs(load, 60_000)).toBeLessThan(2_000);
    for (let nowMs = 60_100; nowMs < 90_000; nowMs += 100) recordLatency(load, 3_000, nowMs, true);
    expect(latencyMs(load, 90_000)).toBeGreaterThan(2_700);
  });

  test("it fades when nobody renews it, so that a deployment which was slow once is tried again", () => {
    const load = newLoad();
    recordLatency(load, 8_000, 0, true);
    expect(latencyMs(load, 30_000)).toBeLessThan(4_500);
    expect(latencyMs(load, 300_000)).toBeLessThan(50);
  });
});

describe("the 95th percentile", () => {
  test("is unknown below twenty calls", () => {
    const load = newLoad();
    for (let call = 0; call < 19; call += 1) recordLatency(load, 100, call, true);
    expect(p95Ms(load, true)).toBeNull();
    recordLatency(load, 100, 20, true);
    expect(p95Ms(load, true)).not.toBeNull();
    expect(p95Ms(undefined, true)).toBeNull();
  });

  test("is never below the true one, and at most a quarter above it", () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 20, max: 256 }), (seed, calls) => {
        const dice = diceOf(seed);
        const load = newLoad();
        const all: number[] = [];
        for (let call = 0; call < calls; call += 1) {
          const ms = 20 * Math.exp(dice() * 8);
          all.push(ms);
          recordLatency(load, ms, call * 10, true);
        }
        const truth = all.sort((a, b) => a - b)[Math.ceil(calls * 0.95) - 1]!;
        const found = p95Ms(load, true)!;
        expect(found).toBeGreaterThanOrEqual(truth * (1 - 1e-9));
        expect(found).toBeLessThanOrEqual(truth * 1.25 * (1 + 1e-9));
      }),
    );
  });

  test("of streams is not that of whole answers", () => {
    const load = newLoad();
    for (let call = 0; call < 20; call += 1) recordLatency(load, 300, call, true);
    expect(p95Ms(load, false)).toBeNull();
    for (let call = 0; call < 20; call += 1) recordLatency(load, 20_000, call, false);
    expect(p95Ms(load, true)).toBeLessThan(400);
    expect(p95Ms(load, false)).toBeGreaterThanOrEqual(20_000);
  });

  test("follows the deployment: some hundreds of calls, or some hours, and what was is forgotten", () => {
    const load = newLoad();
    for (let call = 0; call < 1_000; call += 1) recordLatency(load, 30_000, call, true);
    for (let call = 0; call < 1_200; call += 1) recordLatency(load, 100, 1_000 + call, true);
    expect(p95Ms(load, true)).toBeLessThan(130);

    const quiet = newLoad();
    for (let call = 0; call < 30; call += 1) recordLatency(quiet, 30_000, call, true);
    for (let hour = 1; hour <= 12; hour += 1) for (let call = 0; call < 3; call += 1) recordLatency(quiet, 100, hour * 3_600_000, true);
    expect(p95Ms(quiet, true)).toBeLessThan(130);
    // A day later nothing of it holds.
    recordLatency(quiet, 100, 40 * 3_600_000, true);
    expect(p95Ms(quiet, true)).toBeNull();
  });

  test("holds any latency, even absurd ones, and any number of them", () => {
    const load = newLoad();
    for (const ms of [0, -5, 1e9, 0.001]) for (let call = 0; call < 20; call += 1) recordLatency(load, ms, 1_000, true);
    expect(p95Ms(load, true)).toBeGreaterThan(500_000);
    for (let call = 0; call < 100_000; call += 1) recordLatency(load, 1e9, 1_000, true);
    expect(p95Ms(load, true)).toBeGreaterThan(500_000);
  });
});
