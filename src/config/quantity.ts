/** Milliseconds of a duration such as `300ms`, `5s`, `1.5s` or `30m`; null if the text is not a duration. */
export function parseDuration(text: string): number | null {
  return parseQuantity(text, { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 });
}

/** Bytes of a size such as `64MiB` or `25MB`; null if the text is not a size. */
export function parseSize(text: string): number | null {
  return parseQuantity(text, {
    B: 1,
    KB: 1e3,
    MB: 1e6,
    GB: 1e9,
    KiB: 1024,
    MiB: 1024 ** 2,
    GiB: 1024 ** 3,
  });
}

/** The shortest exact form, for messages that name a limit. */
export function durationText(ms: number): string {
  if (ms >= 86_400_000 && ms % 86_400_000 === 0) return `${ms / 86_400_000}d`;
  if (ms >= 60_000 && ms % 60_000 === 0) return `${ms / 60_000}m`;
  return ms >= 1000 && ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}

function parseQuantity(text: string, units: Readonly<Record<string, number>>): number | null {
  const match = /^(\d{1,12}(?:\.\d{1,6})?) ?([A-Za-z]{1,3})$/.exec(text);
  if (match === null) return null;
  const unit = match[2] ?? "";
  const factor = Object.hasOwn(units, unit) ? units[unit] : undefined;
  return factor === undefined ? null : Math.round(Number(match[1]) * factor);
}
