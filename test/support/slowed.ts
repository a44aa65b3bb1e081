import { processorTimes, readingEveryMs, stolenShare, worstStolenShare } from "../../scripts/test-machine.ts";
import { servingCpuMs, waitedMs } from "./cpu.ts";

/**
 * How many times longer than on a quiet machine things may take in this file, for bounds where time itself is the promise. It is
 * exactly 1 where this process waited little for a processor since the file began and the host took little, so no promise is
 * weaker on a quiet machine. Read when a bound is looked at: what happened before is known by then.
 */
export function slowness(): number {
  return slownessOf({
    ranMs: servingCpuMs(process.pid) ?? 0,
    waitedMs: waitedMs(process.pid) ?? 0,
    stolen: stolenSoFar(),
    startRatio,
  });
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

/** Kept, so that no compiler leaves the work out. */
let burnt = 1;

export interface MachineFacts {
  /** Milliseconds that the main thread of this process has run, and waited although it could have run. */
  readonly ranMs: number;
  readonly waitedMs: number;
  /** The share of all processors that the host took since the file began, or in any five seconds of the last minute, if more. */
  readonly stolen: number;
  /** How long some work took when the file began, compared with what it takes unhindered. */
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

function stolenSoFar(): number {
  const now = processorTimes();
  return Math.max(stolenShare(beganTimes, now), worstStolenShare([...readings, now]));
}

const measurableMs = 50;
const beganTimes = processorTimes();
/** The last minute, a reading each second: a short spike is not seen in the mean over a long file. */
const readings = [beganTimes];
const readingsMax = 60;
setInterval(() => {
  readings.push(processorTimes());
  if (readings.length > readingsMax) readings.shift();
}, readingEveryMs).unref();
const startRatio = measuredRatio(80);

/**
 * Does the same bit of work again and again for some milliseconds: how long it took altogether, compared with what it takes when
 * nobody is in the way. That also shows what a host takes whose kernel charges it to us.
 */
function measuredRatio(forMs: number): number {
  // Until the runtime has compiled it.
  for (let piece = 0; piece < 300; piece += 1) burn();
  const pieces: number[] = [];
  const fromMs = performance.now();
  let endMs = fromMs;
  while (endMs - fromMs < forMs) {
    const beforeMs = endMs;
    burn();
    endMs = performance.now();
    pieces.push(endMs - beforeMs);
  }
  const unhindered = pieces.toSorted((one, other) => one - other)[pieces.length >> 2]!;
  return (endMs - fromMs) / (pieces.length * unhindered);
}

function burn(): void {
  for (let at = 0; at < 10_000; at += 1) burnt = (burnt * 31 + at) | 0;
}
