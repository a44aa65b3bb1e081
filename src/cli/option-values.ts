import { InvalidArgumentError } from "commander";
import { nanosOf } from "../usage/dollars.ts";
import { parsePastMoment, parseMoment } from "../usage/time-text.ts";

/** Parsers for the values of options. What they throw becomes a usage error. */

export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw new InvalidArgumentError(`Give a whole number from ${min} to ${max}.`);
  };
}

/** Billionths of a dollar. */
export function dollars(nanosMax: number): (text: string) => number {
  return (text) => {
    const nanos = nanosOf(text.replace(/^\$/, ""));
    if (nanos !== null && nanos <= nanosMax) return nanos;
    throw new InvalidArgumentError(`Give an amount of dollars, such as 0.15, of at most ${nanosMax / 1e9}.`);
  };
}

export function choice<const T extends string>(values: readonly T[]): (text: string) => T {
  return (text) => {
    const found = values.find((value) => value === text);
    if (found !== undefined) return found;
    throw new InvalidArgumentError(`Give one of ${values.join(", ")}.`);
  };
}

/** Reads several values, separated by commas or given by repeating the option. `before` is false after a `--no-…` option. */
export function several<T>(read: (text: string) => T): (text: string, before: readonly T[] | false | undefined) => readonly T[] {
  return (text, before) => {
    const items = text.split(",").map((item) => item.trim());
    if (items.includes("")) throw new InvalidArgumentError("There is nothing before, after or between the commas: remove the extra one.");
    return [...new Set([...(Array.isArray(before) ? (before as readonly T[]) : []), ...items.map(read)])];
  };
}

/** One line of text, without control characters. */
export function line(charactersMax: number): (text: string) => string {
  return (text) => {
    const trimmed = text.trim();
    if (trimmed !== "" && trimmed.length <= charactersMax && trimmed.isWellFormed() && !/\p{Cc}/u.test(trimmed)) return trimmed;
    throw new InvalidArgumentError(`Give 1 to ${charactersMax} characters, without line breaks and other control characters.`);
  };
}

/** Text of several lines. */
export function prose(charactersMax: number): (text: string) => string {
  return (text) => {
    if (text.length <= charactersMax && text.isWellFormed() && !/[^\P{Cc}\n\r\t]/u.test(text)) return text;
    throw new InvalidArgumentError(`Give at most ${charactersMax} characters, without control characters.`);
  };
}

/** Checks a moment in the past. The text is kept, because `24h` depends on when the command is carried out. */
export function past(text: string): string {
  if (parsePastMoment(text, 0) !== null) return text;
  throw new InvalidArgumentError(
    "Give a date such as 2027-01-31, a time such as 2027-01-31T12:00:00Z, or how long ago, such as 24h or 7d.",
  );
}

/** Reads a day, or a time with its zone, as wall-clock milliseconds. */
export function moment(text: string): number {
  const ms = parseMoment(text);
  if (ms !== null && ms >= 0) return ms;
  throw new InvalidArgumentError("Give a date such as 2027-01-31, or a time such as 2027-01-31T12:00:00Z.");
}

/** A moment in the future: a date, or how long from now. */
export type Future = { readonly kind: "at"; readonly ms: number } | { readonly kind: "in"; readonly ms: number };

export function future(text: string): Future {
  const span = spanMs(text);
  if (span !== null && span > 0) return { kind: "in", ms: span };
  const ms = parseMoment(text);
  if (ms !== null) return { kind: "at", ms };
  throw new InvalidArgumentError("Give a date such as 2027-01-31, a time such as 2027-01-31T12:00:00Z, or how long from now, such as 30d.");
}

export function duration(maxMs: number, maxText: string): (text: string) => number {
  return (text) => {
    const ms = text === "0" ? 0 : spanMs(text);
    if (ms !== null && ms <= maxMs) return ms;
    throw new InvalidArgumentError(`Give a time such as 0, 30m, 24h or 7d, of at most ${maxText}.`);
  };
}

function spanMs(text: string): number | null {
  const span = /^(\d{1,6})([mhdw])$/.exec(text);
  return span === null ? null : Number(span[1]) * (unitMs[span[2] ?? ""] ?? 0);
}

const unitMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000 };
