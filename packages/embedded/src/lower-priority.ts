import { setPriority } from "node:os";

/**
 * Lets calls go before the work of this process. SLUICE_ENGINE_NICENESS says by how much, from 0 to 19: on a machine where others
 * keep the processors busy at normal priority, a model that is far below them gets next to nothing.
 */
export function lowerPriority(wanted = process.env["SLUICE_ENGINE_NICENESS"] ?? ""): void {
  const niceness = /^\d+$/.test(wanted) && Number(wanted) <= nicenessMax ? Number(wanted) : nicenessDefault;
  try {
    setPriority(niceness);
  } catch {
    // It is a courtesy; where it is not allowed, the work is done all the same.
  }
}

const nicenessDefault = 10;
const nicenessMax = 19;
