import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { BudgetPeriod } from "../../../src/limits/limits.ts";
import { periodEndMs, periodStartMs } from "../../../src/limits/period.ts";

const at = (text: string): number => Date.parse(text);
const recurring: readonly BudgetPeriod[] = ["hour", "day", "week", "month"];

describe("periods of a budget", () => {
  test.each([
    ["hour", "2026-01-31T14:59:59.999Z", "2026-01-31T14:00:00Z", "2026-01-31T15:00:00Z"],
    ["day", "2026-01-31T14:59:59Z", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"],
    ["week", "2026-02-01T23:59:59Z", "2026-01-26T00:00:00Z", "2026-02-02T00:00:00Z"],
    ["week", "2026-02-02T00:00:00Z", "2026-02-02T00:00:00Z", "2026-02-09T00:00:00Z"],
    ["month", "2026-02-28T23:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"],
    ["month", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"],
    ["month", "2026-12-31T23:59:59.999Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"],
  ] as const)("the %s of %s begins at %s and ends at %s", (period, wall, start, end) => {
    expect(periodStartMs(period, at(wall))).toBe(at(start));
    expect(periodEndMs(period, at(wall))).toBe(at(end));
  });

  test("one without end begins with time", () => {
    expect(periodStartMs("total", at("2026-01-31T00:00:00Z"))).toBe(0);
    expect(periodEndMs("total", at("2026-01-31T00:00:00Z"))).toBe(Infinity);
  });

  test("hold every moment exactly once: they touch, and each begins with itself", () => {
    const wall = fc.integer({ min: at("1970-01-01T00:00:00Z"), max: at("2100-01-01T00:00:00Z") });
    fc.assert(
      fc.property(wall, fc.constantFrom(...recurring), (wallMs, period) => {
        const start = periodStartMs(period, wallMs);
        const end = periodEndMs(period, wallMs);
        expect(start <= wallMs && wallMs < end).toBe(true);
        expect(periodStartMs(period, start)).toBe(start);
        expect(periodStartMs(period, end)).toBe(end);
        expect(periodStartMs(period, end - 1)).toBe(start);
        if (period === "week") expect(new Date(start).getUTCDay()).toBe(1);
      }),
      { numRuns: 500 },
    );
  });
});
