import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { join } from "node:path";

/**
 * How much of the memory it may have is used, or would be with some more, from 0 to 1: by the whole container where one sets the limit, because the
 * system ends whoever is in it, else by this process, of the whole machine's.
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

export type MemoryShare = (moreBytes?: number) => number;

export interface MemorySources {
  /** Where the system shows control groups, and which one is ours. */
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

/** Asking takes an open file, and there may be none to be had; then nothing is known. */
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
  /** What the system gives back when it is short: files it has read. Models are mapped files, often gigabytes. */
  readonly reclaimable: readonly string[];
}

/** The limits of all groups around us count; the tightest is met first. */
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

/** From ours up to the root. In a container ours may be shown by a name that only exists outside, and is then the root. */
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
  // The statistics cost the system far more than the sum.
  if (!(allBytes >= limitBytes * closeLookShare)) return allBytes;
  const lines = (text(statistics) ?? "").split("\n").map((line) => line.split(" "));
  const freeableBytes = reclaimable.reduce((sum, name) => {
    const known = bytes(lines.find(([field]) => field === name)?.[1] ?? null);
    return sum + (known > 0 ? known : 0);
  }, 0);
  return Math.max(0, allBytes - freeableBytes);
}

const closeLookShare = 0.8;

/** NaN where there is no number, as in `max`. */
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
