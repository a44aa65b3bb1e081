/**
 * How much a process takes at once out of what several share, to spend it without asking again. A fourth of an even
 * share: large while there is plenty, so that asking is rare, and small towards the end, so that nobody sits on what
 * another needs. At least what is needed now, and never more than `max` on top of that.
 */
export function leaseSize(need: number, remaining: number, processes: number, max: number = Number.MAX_SAFE_INTEGER): number {
  const share = Math.floor(remaining / sharersOf(processes));
  return Math.max(need, Math.min(max, share));
}

/** Into so many parts is divided what is left. */
export function sharersOf(processes: number): number {
  return shares * Math.max(1, processes);
}

const shares = 4;
