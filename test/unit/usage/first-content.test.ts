import { describe, expect, test } from "bun:test";
import { firstContentBoundsMs, firstContentBucket, firstContentTimes, quantile } from "../../../src/usage/first-content.ts";

describe("a quantile", () => {
  test.each([
    [[0, 0, 0], 0.5, null],
    [[10, 0, 0], 0.5, 0.05],
    [[5, 5, 0], 0.5, 0.1],
    [[5, 5, 0], 0.75, 0.55],
    [[0, 0, 9], 0.5, 1],
  ])("of %p at %p is %p", (buckets, share, value) => {
    const found = quantile([0.1, 1], buckets, share);
    if (value === null) expect(found).toBeNull();
    else expect(found).toBeCloseTo(value, 10);
  });
});

describe("times to first content", () => {
  test("fall into the first bucket whose bound is not below them", () => {
    for (const [at, bound] of firstContentBoundsMs.entries()) {
      expect([firstContentBucket(bound), firstContentBucket(bound + 1)]).toEqual([at, at + 1]);
    }
    expect([firstContentBucket(0), firstContentBucket(Infinity)]).toEqual([0, firstContentBoundsMs.length]);
  });

  test("are told by their quantiles, which the buckets hide by less than a factor of two", () => {
    const times = Array.from({ length: 1_000 }, (_, at) => 20 + at * 7);
    const buckets = [...firstContentBoundsMs, Infinity].map(() => 0);
    for (const ms of times) buckets[firstContentBucket(ms)]! += 1;
    const { p50_ms, p95_ms, p99_ms, streams } = firstContentTimes(firstContentBoundsMs, buckets)!;
    expect(streams).toBe(1_000);
    for (const [found, at] of [
      [p50_ms, 500],
      [p95_ms, 950],
      [p99_ms, 990],
    ] as const) {
      expect(found / times[at]!).toBeGreaterThan(0.5);
      expect(found / times[at]!).toBeLessThan(2);
    }
    expect(firstContentTimes(firstContentBoundsMs, [])).toBeNull();
  });
});
