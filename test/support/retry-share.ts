import type { Receipt } from "../../src/usage/receipt.ts";

/**
 * Where the retries of one model were more than its budget allows: a fifth of the first attempts of ten seconds, and three a second.
 * Null where they never were. The gateway counts in whole seconds, so a first attempt may count for one more.
 */
export function overspentRetries(receipts: readonly Receipt[]): string | null {
  for (const [model, own] of Map.groupBy(receipts, (receipt) => receipt.model)) {
    const firsts: number[] = [];
    const retries: number[] = [];
    for (const { startedMs, attempts } of own) {
      for (const [at, { afterMs }] of attempts.entries()) (at === 0 ? firsts : retries).push(startedMs + afterMs);
    }
    for (const nowMs of retries) {
      const made = countIn(retries, nowMs - spanMs, nowMs);
      const granted = share * countIn(firsts, nowMs - spanMs - slotMs, nowMs + clockMs) + (floorPerSecond * spanMs) / 1_000;
      if (made > granted) return `${made} retries for ${model} within ${spanMs} ms, where ${Math.floor(granted)} are granted`;
    }
  }
  return null;
}

const spanMs = 10_000;
const slotMs = 1_000;
/** Starts are rounded to the millisecond, twice. */
const clockMs = 2;
const share = 0.2;
const floorPerSecond = 3;

function countIn(times: readonly number[], after: number, until: number): number {
  return times.reduce((count, time) => (time > after && time <= until ? count + 1 : count), 0);
}
