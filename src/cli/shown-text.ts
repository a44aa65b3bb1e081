import { dollarsOf, nanosOf } from "../usage/dollars.ts";

/**
 * Escapes text from the store or the command line for a terminal: characters that would move the cursor, change colours, be
 * invisible or change the reading direction.
 */
export function shown(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}

/** JSON that is safe for a terminal: such characters are written as JSON escapes, so a parser gets the same text back. */
export function json(value: unknown): string {
  return safeJson(JSON.stringify(value, null, 2));
}

/** The same for JSON that is already text. */
export function safeJson(text: string): string {
  return text.replace(/[\u007f-\u009f\p{Cf}\u2028\u2029]/gu, (character) =>
    [...Array(character.length).keys()].map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""),
  );
}

/**
 * A moment in the local time zone, such as `2027-01-31T14:05+09:00`. The days of budgets, usage and expiries are those of UTC, so that the
 * zone has to be said; and options take what is shown.
 */
export function localMinute(ms: number): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  const two = (number: number): string => String(number).padStart(2, "0");
  const day = `${String(date.getFullYear()).padStart(4, "0")}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const east = -date.getTimezoneOffset();
  const [hours, minutes] = [Math.floor(Math.abs(east) / 60), Math.abs(east) % 60];
  const zone = east === 0 ? "Z" : `${east < 0 ? "-" : "+"}${two(hours)}:${two(minutes)}`;
  return `${day}T${two(date.getHours())}:${two(date.getMinutes())}${zone}`;
}

/** The same of a moment as the admin API writes it. One that a damaged row holds is shown as it is. */
export function isoMinute(moment: string): string {
  const ms = Date.parse(moment);
  return Number.isNaN(ms) ? moment : localMinute(ms);
}

/** Dollars with at most six decimals. A smaller amount is not shown as zero. */
export function money(nanos: number): string {
  if (nanos !== 0 && Math.abs(nanos) < microNanos / 2) return "<0.000001";
  return dollarsOf(Math.round(nanos / microNanos) * microNanos);
}

const microNanos = 1_000;

/** The same of an amount as the admin API writes it. */
export function dollars(amount: number): string {
  return money(nanosOf(amount) ?? 0);
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
