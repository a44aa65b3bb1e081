import { readFileSync } from "node:fs";

/** The CPU time of the whole machine since it started, summed over its processors. */
export interface MachineCpuTime {
  readonly busyTicks: number;
  /** Time that the host of a virtual machine gave to others. */
  readonly stolenTicks: number;
}

/** The unit of /proc/stat, USER_HZ: 1/100 s on most architectures (proc(5)), among them x64 and arm64. */
export const tickMs = 10;

/**
 * Parses the first line of /proc/stat, `cpu user nice system idle iowait irq softirq steal …` (proc(5)). Null on a system
 * without it.
 */
export function parseProcStat(stat: string): MachineCpuTime | null {
  const figures = /^cpu +(\d+) (\d+) (\d+) \d+ \d+ (\d+) (\d+) (\d+)/.exec(stat);
  if (figures === null) return null;
  const [user = 0, nice = 0, system = 0, irq = 0, softirq = 0, stolenTicks = 0] = figures.slice(1).map(Number);
  return { busyTicks: user + nice + system + irq + softirq, stolenTicks };
}

/** The text of a file under /proc; empty where there is no such file. */
export function readProcFile(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
