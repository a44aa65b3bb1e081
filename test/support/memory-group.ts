import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "./eventually.ts";
import { product } from "./product.ts";

/** A control group with a limit on memory: whoever in it takes more is killed by the system. */
export interface MemoryGroup extends AsyncDisposable {
  /** Starts the product in it. */
  readonly command: readonly string[];
  usedBytes(): number;
}

/** The reason where none can be made, which is for root. */
export function makeMemoryGroup(limitBytes: number): MemoryGroup | { readonly skipped: string } {
  for (const { root, limit, used } of versions) {
    const folder = join(root, `sluice-test-${process.pid}`);
    try {
      mkdirSync(folder);
    } catch {
      continue;
    }
    const remove = (): boolean => {
      try {
        rmdirSync(folder);
        return true;
      } catch {
        return false;
      }
    };
    try {
      writeFileSync(join(folder, limit), String(limitBytes));
    } catch {
      remove();
      continue;
    }
    return {
      command: ["sh", "-c", `echo $$ > ${folder}/cgroup.procs && exec sh "$0" "$@"`, product],
      usedBytes: () => Number(readFileSync(join(folder, used), "utf8")),
      // The system lets go of the dead a moment after they died.
      [Symbol.asyncDispose]: () => eventually("the group is empty", remove),
    };
  }
  return { skipped: "no control group with a limit on memory can be made here" };
}

const versions = [
  { root: "/sys/fs/cgroup/memory", limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes" },
  { root: "/sys/fs/cgroup", limit: "memory.max", used: "memory.current" },
];
