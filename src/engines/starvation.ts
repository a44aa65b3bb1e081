import { availableParallelism } from "node:os";
import { parseProcStat, readProcFile, tickMs } from "../files/proc-stat.ts";

/**
 * Measures for how many milliseconds in total the main thread of a process was runnable without a CPU: because of other
 * processes (run delay), or because the hypervisor took it (steal time). 0 if /proc has no such data.
 */
export function makeStarvation(pid: number): () => number {
  return () => queuedMs(readProcFile(`/proc/${pid}/schedstat`)) + stolenMs(readProcFile("/proc/stat"), processors);
}

/** The fields of schedstat: nanoseconds on a CPU, nanoseconds waiting in the run queue, number of time slices. */
export function queuedMs(schedstat: string): number {
  const waitedNs = Number(schedstat.split(" ")[1]);
  return Number.isFinite(waitedNs) ? waitedNs / 1e6 : 0;
}

/** The steal time of each CPU on average: /proc/stat has the sum over all of them. */
export function stolenMs(stat: string, processors: number): number {
  return ((parseProcStat(stat)?.stolenTicks ?? 0) * tickMs) / Math.max(1, processors);
}

const processors = availableParallelism();
