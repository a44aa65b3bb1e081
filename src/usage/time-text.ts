/**
 * A moment as people give it: a day (its first moment in UTC), a time with its zone, or how long ago it was, such as `24h` or
 * `7d`. In wall-clock milliseconds; null for what is none.
 */
export function momentFrom(text: string, nowMs: number): number | null {
  const ago = /^(\d{1,6})([mhdw])$/.exec(text);
  if (ago !== null) return nowMs - Number(ago[1]) * (unitMs[ago[2] ?? ""] ?? 0);
  return momentOf(text);
}

/** The same without the spans: what does not move with the clock. */
export function momentOf(text: string): number | null {
  if (!/^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/.test(text)) return null;
  const ms = Date.parse(text);
  // An engine may roll the 31st of February over into March.
  const dayMs = Date.parse(text.slice(0, 10));
  const isDay = Number.isFinite(dayMs) && new Date(dayMs).toISOString().startsWith(text.slice(0, 10));
  return Number.isFinite(ms) && isDay ? ms : null;
}

const unitMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000 };
