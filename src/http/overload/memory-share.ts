import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { join } from "node:path";

/**
 * The used share of the available memory, from 0 to 1, optionally with some more. If a container sets the limit, the whole
 * container counts, because the OOM killer ends any process in it; else this process, in proportion to the memory of the
 * machine.
 */
export function memoryShareOf(surroundings: MemorySources = here): MemoryShare {
  const { totalBytes, rssBytes } = surroundings;
  const group = tightest(surroundings);
  if (group === null || group.limitBytes >= totalBytes) return (moreBytes = 0) => (rssBytes() + moreBytes) / totalBytes;
  return (moreBytes = 0) => {
    const share = (usedBytes(group) + moreBytes) / group.limitBytes;
    return Number.isFinite(share) ? share : (rssBytes() + moreBytes) / group.limitBytes;
  };
}

/** How much memory there is for this process: that of the machine, or less if a container limits it. */
export function memoryLimitBytes(surroundings: MemorySources = here): number {
  return Math.min(surroundings.totalBytes, tightest(surroundings)?.limitBytes ?? Number.POSITIVE_INFINITY);
}

export type MemoryShare = (moreBytes?: number) => number;

export interface MemorySources {
  /** Where the system mounts control groups, and the file that names ours (cgroups(7)). */
  readonly groups: string;
  readonly ours: string;
  readonly totalBytes: number;
  readonly rssBytes: () => number;
}

const here: MemorySources = {
  groups: "/sys/fs/cgroup",
  ours: "/proc/self/cgroup",
  totalBytes: totalmem(),
  rssBytes: ownBytes,
};

/** Reading it takes a file descriptor, and there may be none left; then nothing is known. */
function ownBytes(): number {
  try {
    return process.memoryUsage.rss();
  } catch {
    return 0;
  }
}

interface MemoryCgroup {
  readonly limitBytes: number;
  readonly current: string;
  readonly statistics: string;
  /** File cache, which the system drops when memory is short. Models are mapped files, often gigabytes. */
  readonly reclaimable: readonly string[];
}

/** The limits of all enclosing groups apply; the tightest is reached first. */
function tightest({ groups, ours }: MemorySources): MemoryCgroup | null {
  const lines = (text(ours) ?? "").split("\n").map((line) => line.split(":"));
  const second = lines.find(([number, controllers]) => number === "0" && controllers === "")?.[2];
  const first = lines.find(([, controllers]) => controllers?.split(",").includes("memory") === true)?.[2];
  const found = [
    ...folders(groups, second).map((folder) => group(folder, "memory.max", "memory.current", ["inactive_file", "active_file"])),
    ...folders(join(groups, "memory"), first).map((folder) =>
      group(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", ["total_inactive_file", "total_active_file"]),
    ),
  ];
  return found.reduce((best, one) => (one !== null && (best === null || one.limitBytes < best.limitBytes) ? one : best), null);
}

/** From our group up to the root. Inside a container, the path may only exist outside; then the root is ours. */
function folders(root: string, path: string | undefined): readonly string[] {
  if (path === undefined) return [];
  const parts = path.split("/").filter((part) => part !== "" && part !== "..");
  return Array.from({ length: parts.length + 1 }, (_, length) => join(root, ...parts.slice(0, length)));
}

function group(folder: string, limit: string, current: string, reclaimable: readonly string[]): MemoryCgroup | null {
  const limitBytes = bytes(text(join(folder, limit)));
  if (!(limitBytes > 0)) return null;
  return { limitBytes, current: join(folder, current), statistics: join(folder, "memory.stat"), reclaimable };
}

function usedBytes({ limitBytes, current, statistics, reclaimable }: MemoryCgroup): number {
  const allBytes = bytes(text(current));
  // Reading the statistics costs the system far more than reading the sum.
  if (!(allBytes >= limitBytes * closeLookShare)) return allBytes;
  const lines = (text(statistics) ?? "").split("\n").map((line) => line.split(" "));
  const freeableBytes = reclaimable.reduce((sum, name) => {
    const known = bytes(lines.find(([field]) => field === name)?.[1] ?? null);
    return sum + (known > 0 ? known : 0);
  }, 0);
  return Math.max(0, allBytes - freeableBytes);
}

const closeLookShare = 0.8;

/** NaN if there is no number, as in `max`. */
function bytes(text: string | null): number {
  return text !== null && /^\s*\d+\s*$/.test(text) ? Number(text) : Number.NaN;
}

function text(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}
