import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

/**
 * Tells for how many milliseconds, in all, the main thread of a process was ready to run and got no processor: because others
 * had it, or because the host of a virtual machine had taken it away. 0 where the system does not tell.
 */
export function makeStarvation(pid: number): () => number {
  return () => queuedMs(text(`/proc/${pid}/schedstat`)) + stolenMs(text("/proc/stat"), processors);
}

/** Of the three figures: nanoseconds on a processor, nanoseconds waiting for one, number of time slices. */
export function queuedMs(schedstat: string): number {
  const waited = Number(schedstat.split(" ")[1]);
  return Number.isFinite(waited) ? waited / 1e6 : 0;
}

/** The eighth figure of the first line, in hundredths of a second, is the sum over all processors. */
export function stolenMs(stat: string, processors: number): number {
  const stolen = Number(/^cpu +(?:\d+ ){7}(\d+)/.exec(stat)?.[1] ?? 0);
  return (stolen * 10) / Math.max(1, processors);
}

function text(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

const processors = availableParallelism();
