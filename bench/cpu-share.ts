import { mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A control group that holds one process to a share of a core: a slow core of its own. */
export interface CpuShare {
  /** The process goes back to where all processes are. */
  release(): void;
}

/** Null where no control group can be made, which takes root. */
export function cpuShare(pid: number, share: number): CpuShare | null {
  const quota = Math.round(periodMicros * share);
  for (const { root, settings } of versions) {
    const folder = join(root, `sluice-bench-${pid}`);
    try {
      mkdirSync(folder);
    } catch {
      continue;
    }
    const release = (): void => {
      try {
        writeFileSync(join(root, "cgroup.procs"), String(pid));
      } catch {
        // It has ended.
      }
      rmdirSync(folder);
    };
    try {
      for (const [name, value] of settings(quota)) writeFileSync(join(folder, name), value);
      writeFileSync(join(folder, "cgroup.procs"), String(pid));
      return { release };
    } catch {
      release();
    }
  }
  return null;
}

/** Whoever has used up its share stands still for the rest of a period. With shorter ones, caches are cold each time it goes on. */
const periodMicros = 40_000;

const versions: readonly { readonly root: string; readonly settings: (quota: number) => readonly (readonly [string, string])[] }[] = [
  {
    root: "/sys/fs/cgroup/cpu",
    settings: (quota) => [
      ["cpu.cfs_period_us", String(periodMicros)],
      ["cpu.cfs_quota_us", String(quota)],
    ],
  },
  { root: "/sys/fs/cgroup", settings: (quota) => [["cpu.max", `${quota} ${periodMicros}`]] },
];
