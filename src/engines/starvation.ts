import { availableParallelism } from "node:os";
import { parseProcStat, readProcFile, tickMs } from "../files/proc-stat.ts";

/**
 * Tells for how many milliseconds, in all, the main thread of a process was ready to run and got no processor: because others
 * had it, or because the host of a virtual machine had taken it away. 0 where the system does not tell.
 */
export function makeStarvation(pid: number): () => number {
  return () => queuedMs(readProcFile(`/proc/${pid}/schedstat`)) + stolenMs(readProcFile("/proc/stat"), processors);
}

/** The fields of schedstat: nanoseconds on a CPU, nanoseconds waiting in the run queue, number of time slices. */
export function queuedMs(schedstat: string): number {
  const waited = Number(schedstat.split(" ")[1]);
  return Number.isFinite(waited) ? waited / 1e6 : 0;
}

/** The steal time of each CPU on average: /proc/stat has the sum over all of them. */
export function stolenMs(stat: string, processors: number): number {
  return ((parseProcStat(stat)?.stolenTicks ?? 0) * tickMs) / Math.max(1, processors);
}

const processors = availableParallelism();
