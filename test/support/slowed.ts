// Bears company: it measures how busy the machine is, which is what company changes.
import { readFileSync } from "node:fs";
import { processorTimes, stolenShare } from "../../scripts/test-machine.ts";

/**
 * How many times longer than on a quiet machine things may take in this file, for bounds where time itself is the promise. It is
 * exactly 1 where this process waited little for a processor since the file began and the host took little, so no promise is
 * weaker on a quiet machine. Read when a bound is looked at: what happened before is known by then.
 */
export function slowness(): number {
  return slownessOf({ ...threadTimes(), stolen: stolenShare(beganTimes, processorTimes()), startRatio });
}

/** A bound on time, in milliseconds, as much longer as the machine is slower. */
export function slowed(ms: number): number {
  return ms * slowness();
}

/**
 * A time that is given to the product or to an upstream as a setting, in milliseconds: the shortest that a quiet machine bears.
 * Known when the file begins, so it depends on nothing but how busy the machine was then.
 */
export function slowedSettingMs(ms: number): number {
  return Math.round(ms * (startRatio < quietMax ? 1 : Math.min(2 * startRatio, 8)));
}

export interface MachineFacts {
  /** Milliseconds that the main thread of this process has run, and waited although it could have run. */
  readonly ranMs: number;
  readonly waitedMs: number;
  /** The share of all processors that the host took since the file began. */
  readonly stolen: number;
  /** How long a bit of work took when the file began, compared with the processor's time that it used. */
  readonly startRatio: number;
}

/** Delays come in bursts, many times their mean: a slow machine gets a bound with room. */
const room = 4;
/** A file's own processes make it wait a little as well. */
const quietMax = 1.5;
const stolenQuietMax = 0.05;

export function slownessOf({ ranMs, waitedMs, stolen, startRatio }: MachineFacts): number {
  const contention = Math.max(startRatio, ranMs < measurableMs ? 1 : (ranMs + waitedMs) / ranMs);
  if (contention < quietMax && stolen < stolenQuietMax) return 1;
  return (Math.max(1, contention) / (1 - Math.min(stolen, 0.9))) * room;
}

const measurableMs = 50;
const beganTimes = processorTimes();
const startRatio = measuredRatio(40);

/** Busy for some milliseconds of processor time; the clock tells how long that took. */
function measuredRatio(burnMs: number): number {
  const fromMs = performance.now();
  const before = process.cpuUsage();
  for (;;) {
    const used = process.cpuUsage(before);
    const usedMs = (used.user + used.system) / 1_000;
    // Other threads of this process count as used as well; the clock bounds the wait.
    if (usedMs >= burnMs || performance.now() - fromMs > 100 * burnMs) return (performance.now() - fromMs) / Math.max(usedMs, 1);
  }
}

/** From /proc/self/schedstat: nanoseconds on a processor, and in a queue for one. Zero where the system does not tell. */
function threadTimes(): { readonly ranMs: number; readonly waitedMs: number } {
  try {
    const [ran, waited] = readFileSync("/proc/self/schedstat", "utf8").split(" ");
    return { ranMs: Number(ran) / 1e6, waitedMs: Number(waited) / 1e6 };
  } catch {
    return { ranMs: 0, waitedMs: 0 };
  }
}
