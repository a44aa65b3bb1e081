import { readFileSync } from "node:fs";

/**
 * Time on a processor that the serving thread of a process has had, in milliseconds: what others do on the machine does not count.
 * Null where the system does not tell.
 */
export function servingCpuMs(pid: number): number | null {
  return scheduled(pid)?.[0] ?? null;
}

/** How long it could have run and was not let, because others did. */
export function waitedMs(pid: number): number | null {
  return scheduled(pid)?.[1] ?? null;
}

function scheduled(pid: number): readonly number[] | null {
  try {
    const [ran, waited] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ");
    return [Number(ran) / 1e6, Number(waited) / 1e6];
  } catch {
    return null;
  }
}

/** The least that an act takes of it, over several times: what happens beside it is not its cost. */
export async function leastCpuMs(pid: number, times: number, act: () => Promise<unknown>): Promise<number> {
  const costs: number[] = [];
  for (let time = 0; time < times; time += 1) {
    const before = servingCpuMs(pid) ?? 0;
    await act();
    costs.push((servingCpuMs(pid) ?? 0) - before);
  }
  return Math.min(...costs);
}
