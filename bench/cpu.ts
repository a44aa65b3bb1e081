import { readdirSync, readFileSync, writeFileSync } from "node:fs";

/** CPU time of a process, its living descendants and the children it has reaped, in microseconds. */
export function cpuMicroseconds(pid: number): number {
  let ticks = 0;
  for (const stat of familyStats(pid)) ticks += stat.ticks;
  return (ticks * 1_000_000) / ticksPerSecond;
}

/** CPU time of a process' first thread alone, which is the one that serves calls, in microseconds. */
export function mainThreadMicroseconds(pid: number): number {
  return ((statIn(`/proc/${pid}/task/${pid}/stat`, pid)?.ownTicks ?? 0) * 1_000_000) / ticksPerSecond;
}

/**
 * The same of the threads that the process and its descendants have now, to the nanosecond: the kernel's other count has steps of ten
 * milliseconds, which is a per cent of a second's work.
 */
export function threadMicroseconds(pid: number): ThreadTimes {
  const threads = new Set<string>();
  let all = 0;
  let main = 0;
  for (const member of familyOf(pid)) {
    for (const task of tasksOf(member)) {
      const micros = Number(read(`/proc/${member}/task/${task}/schedstat`).split(" ", 1)[0]) / 1000;
      threads.add(task);
      all += micros;
      if (member === pid && task === String(pid)) main = micros;
    }
  }
  return { all, main, threads };
}

export interface ThreadTimes {
  readonly all: number;
  readonly main: number;
  /** Whose time it is: that of a thread which has ended is in no later sum. */
  readonly threads: ReadonlySet<string>;
}

function tasksOf(pid: number): readonly string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return []; // The process ended between being listed and being read.
  }
}

/** Resident memory of a process and its living descendants, in bytes. */
export function residentBytes(pid: number): number {
  return statusBytes(pid, "VmRSS");
}

/** The most resident memory each of them has ever had, or has had since the last `forgetPeak`. */
export function peakBytes(pid: number): number {
  return statusBytes(pid, "VmHWM");
}

/** From here on the kernel counts the peak anew. */
export function forgetPeak(pid: number): void {
  for (const member of familyOf(pid)) writeFileSync(`/proc/${member}/clear_refs`, "5");
}

/** The member of a family whose command line holds these words, one after another; null if there is none. */
export function memberWith(pid: number, words: readonly string[]): number | null {
  const wanted = `\0${words.join("\0")}\0`;
  return familyOf(pid).find((member) => `\0${read(`/proc/${member}/cmdline`)}`.includes(wanted)) ?? null;
}

/** The process and its living descendants; nobody if it has gone. */
export function familyOf(pid: number): number[] {
  return familyStats(pid).map((stat) => stat.pid);
}

/** The kernel reports in units of USER_HZ, which is 100 on every Linux architecture Bun runs on. */
const ticksPerSecond = 100;

function statusBytes(pid: number, field: "VmRSS" | "VmHWM"): number {
  const line = new RegExp(`^${field}:\\s+(\\d+) kB$`, "m");
  let bytes = 0;
  for (const member of familyOf(pid)) bytes += Number(line.exec(read(`/proc/${member}/status`))?.[1] ?? 0) * 1024;
  return bytes;
}

interface Stat {
  readonly pid: number;
  readonly parent: number;
  readonly ticks: number;
  /** Without the children it has reaped. */
  readonly ownTicks: number;
}

function familyStats(pid: number): Stat[] {
  const everyone = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => statOf(Number(name)) ?? []);
  const family = everyone.filter((stat) => stat.pid === pid);
  for (const member of family) family.push(...everyone.filter((stat) => stat.parent === member.pid));
  return family;
}

function statOf(pid: number): Stat | null {
  return statIn(`/proc/${pid}/stat`, pid);
}

function statIn(path: string, pid: number): Stat | null {
  const text = read(path);
  if (text === "") return null;
  // The command name may hold spaces and parentheses: the fields are counted from the last one.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const field = (index: number) => Number(fields[index] ?? 0);
  const ownTicks = field(11) + field(12);
  return { pid, parent: field(1), ticks: ownTicks + field(13) + field(14), ownTicks };
}

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return ""; // The process ended between being listed and being read.
  }
}
