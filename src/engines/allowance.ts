/** Says yes so many times in a while, so that whoever repeats himself does not fill a log. */
export function makeAllowance(max: number, whileMs: number, nowMs: () => number): () => boolean {
  let sinceMs = -Infinity;
  let used = 0;
  return () => {
    const now = nowMs();
    if (now - sinceMs >= whileMs) {
      sinceMs = now;
      used = 0;
    }
    used++;
    return used <= max;
  };
}
