/**
 * How long this process could not act since a moment of `performance.now()`, as far as a timer notices: what clients and upstreams
 * in it were late by is nobody else's delay. On a busy machine, or where an upstream packs bombs, that is most of a second.
 */
export function heldUpMs(sinceMs: number): number {
  return delays.reduce((sum, { atMs, lateMs }) => (atMs >= sinceMs ? sum + lateMs : sum), 0);
}

/** How long of a stretch of time, once it is over: known as soon as the timer has rung again. */
export function heldUpWithinMs(fromMs: number, toMs: number): number {
  const shares = delays.map(({ atMs, lateMs }) => Math.min(atMs, toMs) - Math.max(atMs - lateMs, fromMs));
  return shares.reduce((sum, share) => sum + Math.max(0, share), 0);
}

export const everyMs = 20;
const delaysMax = 4_096;
const delays: { readonly atMs: number; readonly lateMs: number }[] = [];
let dueMs = performance.now() + everyMs;

setInterval(() => {
  const atMs = performance.now();
  const lateMs = atMs - dueMs;
  if (lateMs > everyMs / 2) delays.push({ atMs, lateMs });
  if (delays.length > delaysMax) delays.shift();
  dueMs = atMs + everyMs;
}, everyMs).unref();
