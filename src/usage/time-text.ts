/**
 * Reads a moment in the past: a day (its first moment in UTC), a time with its zone, or how long ago it was, such as `24h` or
 * `7d`. Returns wall-clock milliseconds, or null if the text is none of these.
 */
export function parsePastMoment(text: string, nowMs: number): number | null {
  const ago = /^(\d{1,6})([mhdw])$/.exec(text);
  if (ago !== null) return nowMs - Number(ago[1]) * (unitMs[ago[2] ?? ""] ?? 0);
  return parseMoment(text);
}

/** Reads a day or a time with its zone; not a span such as `24h`, whose meaning depends on the clock. */
export function parseMoment(text: string): number | null {
  if (!/^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/.test(text)) return null;
  const ms = Date.parse(text);
  // An engine may roll the 31st of February over into March.
  const dayMs = Date.parse(text.slice(0, 10));
  const isDay = Number.isFinite(dayMs) && new Date(dayMs).toISOString().startsWith(text.slice(0, 10));
  return Number.isFinite(ms) && isDay ? ms : null;
}

const unitMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000 };

/** ISO 8601 in UTC, as the admin API and `--json` write moments. A damaged row may hold a number that is no time. */
export function isoMoment(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString();
}

export function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : isoMoment(ms);
}
