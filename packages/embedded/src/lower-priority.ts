import { setPriority } from "node:os";

/**
 * Lowers the priority of this process, so that calls of the gateway come first. SLUICE_ENGINE_NICENESS sets the niceness, from 0 to 19:
 * on a machine that others keep busy at normal priority, a model with a high niceness gets almost no CPU.
 */
export function lowerPriority(wanted = process.env["SLUICE_ENGINE_NICENESS"] ?? ""): void {
  const niceness = /^\d+$/.test(wanted) && Number(wanted) <= nicenessMax ? Number(wanted) : nicenessDefault;
  try {
    setPriority(niceness);
  } catch {
    // Without permission the work is done at normal priority.
  }
}

const nicenessDefault = 10;
const nicenessMax = 19;
