import { readdirSync, readFileSync } from "node:fs";

/** CPU time of a process, its living descendants and the children it has reaped, in microseconds. */
export function cpuMicroseconds(pid: number): number {
  let ticks = 0;
  for (const stat of familyStats(pid)) ticks += stat.ticks;
  return (ticks * 1_000_000) / ticksPerSecond;
}

/** Resident memory of a process and its living descendants, in bytes. */
export function residentBytes(pid: number): number {
  let bytes = 0;
  for (const stat of familyStats(pid)) {
    const kibibytes = /^VmRSS:\s+(\d+) kB$/m.exec(read(`/proc/${stat.pid}/status`))?.[1];
    bytes += Number(kibibytes ?? 0) * 1024;
  }
  return bytes;
}

/** The process and its living descendants; nobody if it has gone. */
export function familyOf(pid: number): number[] {
  return familyStats(pid).map((stat) => stat.pid);
}

/** The kernel reports in units of USER_HZ, which is 100 on every Linux architecture Bun runs on. */
const ticksPerSecond = 100;

interface Stat {
  readonly pid: number;
  readonly parent: number;
  readonly ticks: number;
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
  const text = read(`/proc/${pid}/stat`);
  if (text === "") return null;
  // The command name may hold spaces and parentheses: the fields are counted from the last one.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const field = (index: number) => Number(fields[index] ?? 0);
  return { pid, parent: field(1), ticks: field(11) + field(12) + field(13) + field(14) };
}

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return ""; // The process ended between being listed and being read.
  }
}
