import { availableParallelism } from "node:os";
import { parseProcStat, readProcFile, tickMs } from "../files/proc-stat.ts";

/**
 * Tells for how many milliseconds, in all, the main thread of a process was ready to run and got no processor: because others
 * had it, or because the host of a virtual machine had taken it away. 0 where the system does not tell.
 */
export function makeStarvation(pid: number): () => number {
  return () => queuedMs(readProcFile(`/proc/${pid}/schedstat`)) + stolenMs(readProcFile("/proc/stat"), processors);
}

/** Of the three figures: nanoseconds on a processor, nanoseconds waiting for one, number of time slices. */
export function queuedMs(schedstat: string): number {
  const waited = Number(schedstat.split(" ")[1]);
  return Number.isFinite(waited) ? waited / 1e6 : 0;
}

/** The time that the host took away from each processor, on average: the system only tells the sum over all of them. */
export function stolenMs(stat: string, processors: number): number {
  return ((parseProcStat(stat)?.stolenTicks ?? 0) * tickMs) / Math.max(1, processors);
}

const processors = availableParallelism();
