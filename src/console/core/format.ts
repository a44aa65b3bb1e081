/** How figures are written. A value that is not known is a dash, never a zero. */
export const unknownValue = "–";

/** Between a number and its unit, where no line may break. */
const space = "\u202f";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(value: number | null | undefined): string {
  return value == null ? unknownValue : whole.format(value);
}

/** Three digits at most: `12.3 k`. */
export function short(value: number | null | undefined): string {
  if (value == null) return unknownValue;
  const size = Math.abs(value);
  if (size < 1000) return trimmed(value, size < 10 && !Number.isInteger(value) ? 1 : 0);
  for (const [unit, name] of units) {
    // 999,950 would be rounded to 1,000 k.
    if (size < unit * 999.5) return `${trimmed(value / unit, size / unit < 99.95 ? 1 : 0)}${space}${name}`;
  }
  return `${whole.format(value / 1e12)}${space}T`;
}

const units = [
  [1e3, "k"],
  [1e6, "M"],
  [1e9, "G"],
  [1e12, "T"],
] as const;

function trimmed(value: number, digits: number): string {
  return value.toFixed(digits).replace(/\.0+$/, "");
}

/** Dollars with as many digits as say something: `$12.30`, `$0.0042`. */
export function money(dollars: number | null | undefined): string {
  if (dollars == null) return unknownValue;
  const size = Math.abs(dollars);
  if (size === 0) return "$0";
  if (size < 0.000_001) return "< $0.000001";
  if (size >= 1000) return `$${whole.format(dollars)}`;
  if (size >= 0.1) return `$${dollars.toFixed(2)}`;
  return `$${Number(dollars.toPrecision(2)).toFixed(Math.min(7, 1 - Math.floor(Math.log10(size))))}`;
}

/** A length of time: `850 ms`, `1.24 s`, `3 min 5 s`, `2 h 10 min`, `4 d`. */
export function duration(ms: number | null | undefined): string {
  if (ms == null) return unknownValue;
  if (ms < 1) return `${trimmed(ms, ms < 0.1 ? 0 : 1)}${space}ms`;
  if (ms < 999.5) return `${Math.round(ms)}${space}ms`;
  if (ms < 9_995) return `${(ms / 1000).toFixed(2)}${space}s`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)}${space}s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return joined(Math.floor(seconds / 60), "min", seconds % 60, "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 48 * 60) return joined(Math.floor(minutes / 60), "h", minutes % 60, "min");
  return `${Math.round(minutes / 60 / 24)}${space}d`;
}

function joined(first: number, unit: string, second: number, smaller: string): string {
  const head = `${first}${space}${unit}`;
  return second === 0 ? head : `${head} ${second}${space}${smaller}`;
}

export function percent(part: number, of: number): string {
  if (of === 0) return unknownValue;
  const share = (100 * part) / of;
  if (share === 0) return `0${space}%`;
  if (share < 0.1) return `< 0.1${space}%`;
  return `${trimmed(share, share < 10 ? 1 : 0)}${space}%`;
}

export function bytes(size: number | null | undefined): string {
  if (size == null) return unknownValue;
  return size < 1000 ? `${size}${space}B` : `${short(size)}B`;
}

/** The change from one figure to another: `+12 %`; null where there is nothing to compare with. */
export function change(now: number, before: number): { readonly text: string; readonly rises: boolean } | null {
  if (before === 0) return null;
  const share = (100 * (now - before)) / before;
  if (Math.abs(share) < 0.5) return { text: "unchanged", rises: false };
  // Beyond that there was next to nothing before, and the figure says nothing.
  if (now / before >= 100) return { text: "more than 100×", rises: true };
  const size = Math.abs(share) >= 1000 ? `${trimmed(now / before, 0)}×` : `${Math.abs(Math.round(share))}${space}%`;
  return { text: share > 0 ? `+${size}` : `−${size}`, rises: share > 0 };
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const dayOfYear = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** A moment, as short as it stays clear: the time today, the date otherwise. */
export function moment(at: string | null | undefined, nowMs: number = Date.now()): string {
  if (at == null) return unknownValue;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return unknownValue;
  const now = new Date(nowMs);
  if (date.toDateString() === now.toDateString()) return clock.format(date);
  if (date.getFullYear() === now.getFullYear()) return `${day.format(date)}, ${clock.format(date).slice(0, 5)}`;
  return dayOfYear.format(date);
}

/** The whole moment, for tooltips. */
export function wholeMoment(at: string): string {
  return `${dayOfYear.format(new Date(at))}, ${clock.format(new Date(at))}`;
}

/** A mark under a chart whose marks are this far apart: a day, or the time of the day. */
export function chartMoment(ms: number, stepMs: number): string {
  const date = new Date(ms);
  const isMidnight = date.getHours() === 0 && date.getMinutes() === 0;
  return stepMs >= 86_400_000 || isMidnight ? day.format(date) : clock.format(date).slice(0, stepMs >= 60_000 ? 5 : 8);
}

/** How long ago, or in how long: `5 min ago`, `in 20 s`. */
export function ago(at: string | null | undefined, nowMs: number = Date.now()): string {
  if (at == null) return "never";
  const ms = nowMs - new Date(at).getTime();
  if (Number.isNaN(ms)) return unknownValue;
  if (Math.abs(ms) < 1000) return "now";
  const text =
    duration(Math.round(Math.abs(ms) / 1000) * 1000)
      .replace(/\.0+(?=\D)/, "")
      .split(" ")[0] ?? "";
  const rough = Math.abs(ms) < 60_000 ? `${Math.round(Math.abs(ms) / 1000)}${space}s` : text;
  return ms > 0 ? `${rough} ago` : `in ${rough}`;
}

/** What the sums of a call are measured in, by its operation. */
export function amount(row: CallFigures): string {
  if (row.audio_seconds !== null && row.audio_seconds > 0) return `${duration(row.audio_seconds * 1000)} of audio`;
  if (row.characters !== null && row.characters > 0) return `${short(row.characters)} characters`;
  if (row.prompt_tokens === null && row.completion_tokens === null) return unknownValue;
  return `${short(row.prompt_tokens ?? 0)} → ${short(row.completion_tokens ?? 0)}`;
}

interface CallFigures {
  readonly prompt_tokens: number | null;
  readonly completion_tokens: number | null;
  readonly audio_seconds: number | null;
  readonly characters: number | null;
}
