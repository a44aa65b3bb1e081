import { readFileSync } from "node:fs";

/** What all processors of the machine have done since it started, in ticks. */
export interface ProcessorTimes {
  readonly total: number;
  /** With nothing to do, or waiting for a disk. */
  readonly idle: number;
  /** Taken by the host of a virtual machine while somebody here wanted to run. */
  readonly stolen: number;
}

/** More than this, and a failure may be the host's: the file is run again, alone. */
export const stolenShareMax = 0.1;

/** How often to read, for a share over windows: five readings make a window. */
export const readingEveryMs = 1_000;
const windowReadings = 5;

/** Reads the first line of /proc/stat (proc_stat(5)): user nice system idle iowait irq softirq steal. Null where there is none. */
export function processorTimes(read: () => string = () => readFileSync("/proc/stat", "utf8")): ProcessorTimes | null {
  try {
    const figures = /^cpu +(.*)$/m.exec(read())?.[1]?.split(" ") ?? [];
    const ticks = figures.slice(0, 8).map(Number);
    if (ticks.length < 8) return null;
    return { total: ticks.reduce((sum, count) => sum + count, 0), idle: ticks[3]! + ticks[4]!, stolen: ticks[7]! };
  } catch {
    return null;
  }
}

/** The share of all processors' time, idle time included, that the host took between two readings. */
export function stolenShare(before: ProcessorTimes | null, after: ProcessorTimes | null): number {
  return shareOf("stolen", before, after);
}

/** The share of all processors' time in which they had nothing to do. None where nobody knows. */
export function idleShare(before: ProcessorTimes | null, after: ProcessorTimes | null): number {
  return shareOf("idle", before, after);
}

function shareOf(what: "idle" | "stolen", before: ProcessorTimes | null, after: ProcessorTimes | null): number {
  if (before === null || after === null) return 0;
  const total = after.total - before.total;
  return total <= 0 ? 0 : Math.max(0, after[what] - before[what]) / total;
}

/**
 * The largest share that the host took in any window of five seconds, of readings that are a second apart. A host that takes every
 * processor for two seconds fails a test of 300 ms, and is not seen in the mean over a file of a minute. Fewer readings are one window.
 */
export function worstStolenShare(readings: readonly (ProcessorTimes | null)[]): number {
  const ends = readings.length <= windowReadings ? [readings.length - 1] : Array.from(readings.keys()).slice(windowReadings);
  return Math.max(0, ...ends.map((end) => stolenShare(readings[Math.max(0, end - windowReadings)] ?? null, readings[end] ?? null)));
}
