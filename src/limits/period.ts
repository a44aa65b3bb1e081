import type { BudgetPeriod } from "./limits.ts";

/** The start of the period that contains a moment, in UTC. A week begins on Monday; `total` begins at zero. */
export function periodStartMs(period: BudgetPeriod, wallMs: number): number {
  switch (period) {
    case "hour":
      return wallMs - remainder(wallMs, hourMs);
    case "day":
      return wallMs - remainder(wallMs, dayMs);
    case "week":
      return wallMs - remainder(wallMs - firstMondayMs, weekMs);
    case "month": {
      const date = new Date(wallMs);
      return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1);
    }
    case "total":
      return 0;
  }
}

/** The start of the next period; infinity for `total`. */
export function periodEndMs(period: BudgetPeriod, wallMs: number): number {
  switch (period) {
    case "hour":
      return periodStartMs(period, wallMs) + hourMs;
    case "day":
      return periodStartMs(period, wallMs) + dayMs;
    case "week":
      return periodStartMs(period, wallMs) + weekMs;
    case "month": {
      const date = new Date(wallMs);
      return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
    }
    case "total":
      return Infinity;
  }
}

/** Never negative, so that it also works before 1970. */
function remainder(ms: number, lengthMs: number): number {
  return ((ms % lengthMs) + lengthMs) % lengthMs;
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const weekMs = 7 * dayMs;
/** The fifth of January 1970. */
const firstMondayMs = 4 * dayMs;
