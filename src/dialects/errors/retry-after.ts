import type { ErrorBody } from "./error-body.ts";

/**
 * How long an upstream asks to wait, in any of the ways in which upstreams say it; null if it says nothing usable. What is stated for
 * this response (headers first, then the body) goes before headers that describe limits in general, because those tell when a limit is
 * reset completely, not when there is room again.
 *
 * Dates are compared with the response's own `Date`, so that a wrong clock does no harm. Without it, `wallNowMs` is used; if that is NaN,
 * dates are ignored.
 */
export function retryAfterMs(header: Header, body: ErrorBody | null, wallNowMs: number): number | null {
  const nowMs = responseMs(header, wallNowMs);
  return (
    wait(amount(header("retry-after-ms"))) ??
    retryAfterHeaderMs(header, wallNowMs) ??
    wait(durationMs(body?.details.retryDelay ?? null)) ??
    wait(waitInWords(body?.message ?? "")?.ms ?? null) ??
    wait(resetMs(header, nowMs))
  );
}

/** The same of the header `Retry-After` alone: seconds or a date (https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3), or a duration. */
export function retryAfterHeaderMs(header: Header, wallNowMs: number): number | null {
  const text = header("retry-after");
  const nowMs = responseMs(header, wallNowMs);
  return wait(seconds(text)) ?? wait(difference(httpDateMs(text, nowMs), nowMs)) ?? wait(durationMs(text));
}

function responseMs(header: Header, wallNowMs: number): number {
  return httpDateMs(header("date"), wallNowMs) ?? wallNowMs;
}

type Header = (name: string) => string | null;

/** The longest wait, whatever the upstream says. */
export const waitMaxMs = 3_600_000;

/** A header or a number longer than this is not a time. */
const textMaxChars = 64;
const messageMaxChars = 4096;

/**
 * Headers that say when a limit is reset, each with the one that says how much is left. For an upstream that puts its own name before
 * these, its dialect passes a `header` that adds the name.
 */
const resets: readonly { readonly reset: string; readonly remaining: string }[] = [
  { reset: "x-ratelimit-reset-requests", remaining: "x-ratelimit-remaining-requests" },
  { reset: "x-ratelimit-reset-tokens", remaining: "x-ratelimit-remaining-tokens" },
  { reset: "x-ratelimit-reset-requests-minute", remaining: "x-ratelimit-remaining-requests-minute" },
  { reset: "x-ratelimit-reset-tokens-minute", remaining: "x-ratelimit-remaining-tokens-minute" },
  { reset: "x-ratelimit-reset-requests-day", remaining: "x-ratelimit-remaining-requests-day" },
  { reset: "x-ratelimit-reset-tokens-day", remaining: "x-ratelimit-remaining-tokens-day" },
  { reset: "ratelimit-requests-reset", remaining: "ratelimit-requests-remaining" },
  { reset: "ratelimit-tokens-reset", remaining: "ratelimit-tokens-remaining" },
  { reset: "ratelimit-input-tokens-reset", remaining: "ratelimit-input-tokens-remaining" },
  { reset: "ratelimit-output-tokens-reset", remaining: "ratelimit-output-tokens-remaining" },
  { reset: "x-ratelimit-reset", remaining: "x-ratelimit-remaining" },
  { reset: "ratelimit-reset", remaining: "ratelimit-remaining" },
];

/**
 * These headers come with every answer, so a reset counts only if its limit is used up; the latest of those is the wait. If nothing says
 * what is left, the soonest reset is used, because retrying too early costs only one refusal.
 */
function resetMs(header: Header, nowMs: number): number | null {
  const readings = resets.map((pair) => ({
    waitMs: wait(momentMs(header(pair.reset), nowMs)),
    remaining: amount(header(pair.remaining)),
  }));
  const exhausted = readings.filter((each) => each.remaining === 0).flatMap((each) => each.waitMs ?? []);
  if (exhausted.length > 0) return Math.max(...exhausted);
  if (readings.some((each) => each.remaining !== null)) return null;
  const unknown = readings.flatMap((each) => each.waitMs ?? []).filter((each) => each > 0);
  return unknown.length > 0 ? Math.min(...unknown) : null;
}

/** A reset is a duration, a timestamp, seconds from now, or seconds or milliseconds of the epoch. */
function momentMs(text: string | null, nowMs: number): number | null {
  const number = amount(text);
  if (number === null) return durationMs(text) ?? difference(timestampMs(text), nowMs);
  if (number >= 1e11) return number - nowMs;
  if (number >= 1e9) return number * 1000 - nowMs;
  return number * 1000;
}

/** Accepts a finite number that is not negative, up to the longest wait. */
function wait(ms: number | null): number | null {
  return ms !== null && Number.isFinite(ms) && ms >= 0 ? Math.min(Math.round(ms), waitMaxMs) : null;
}

function seconds(text: string | null): number | null {
  const number = amount(text);
  return number === null ? null : number * 1000;
}

function difference(thenMs: number | null, nowMs: number): number | null {
  return thenMs === null ? null : thenMs - nowMs;
}

/** A plain decimal number, without sign, hexadecimal and the like. */
function amount(text: string | null): number | null {
  const trimmed = bounded(text);
  return /^\d+(?:\.\d*)?(?:e\d{1,3})?$/i.test(trimmed) ? Number(trimmed) : null;
}

function bounded(text: string | null): string {
  return text === null || text.length > textMaxChars ? "" : text.trim();
}

const units: readonly { readonly ms: number; readonly names: string }[] = [
  { ms: 1e-6, names: "ns" },
  { ms: 1e-3, names: "us µs μs" },
  { ms: 1, names: "ms millisecond milliseconds" },
  { ms: 1_000, names: "s sec secs second seconds" },
  { ms: 60_000, names: "m min mins minute minutes" },
  { ms: 3_600_000, names: "h hr hrs hour hours" },
  { ms: 86_400_000, names: "d day days" },
];

const unitsMs: ReadonlyMap<string, number> = new Map(units.flatMap(({ ms, names }) => names.split(" ").map((name) => [name, ms] as const)));

/** `12ms`, `1.2s`, `6m0s`, `1h2m3s`: the whole text must be a duration. */
function durationMs(text: string | null): number | null {
  const trimmed = bounded(text).toLowerCase();
  const found = leadingDuration(trimmed);
  return found !== null && found.end === trimmed.length ? found.ms : null;
}

/** The duration at the beginning of a text: `20s`, `1m3.2s`, `6 seconds`, `1 minute and 5 seconds`. */
function leadingDuration(text: string): { readonly ms: number; readonly end: number } | null {
  const part = /(?:,? and |,? )?(\d{1,12}(?:\.\d{1,12})?) ?([a-zµμ]{1,12})/y;
  let ms = 0;
  let end = 0;
  for (let match = part.exec(text); match !== null; match = part.exec(text)) {
    const unitMs = unitsMs.get(match[2] ?? "");
    if (unitMs === undefined) break;
    ms += Number(match[1]) * unitMs;
    end = part.lastIndex;
  }
  return end === 0 ? null : { ms, end };
}

/** The wait that a message asks for, with its words, which may be an echo of the request. */
export function waitInWords(message: string): { readonly ms: number; readonly words: readonly string[] } | null {
  const asked = /(?:try again|retry|retrying) (?:in|after) (?=\d)/g;
  const text = message.slice(0, messageMaxChars).toLowerCase();
  const [words] = asked.exec(text) ?? [];
  if (words === undefined) return null;
  const rest = text.slice(asked.lastIndex, asked.lastIndex + textMaxChars);
  const duration = leadingDuration(rest);
  return duration === null ? null : { ms: duration.ms, words: [words, rest.slice(0, duration.end)] };
}

const months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/** The three forms of https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7, which a recipient must all accept. */
const httpDates: readonly RegExp[] = [
  /^[a-z]{3}, (?<day>\d\d) (?<month>[a-z]{3}) (?<year>\d{4}) (?<time>\d\d:\d\d:\d\d) gmt$/,
  /^[a-z]{6,9}, (?<day>\d\d)-(?<month>[a-z]{3})-(?<year>\d\d) (?<time>\d\d:\d\d:\d\d) gmt$/,
  /^[a-z]{3} (?<month>[a-z]{3}) (?<day>[ \d]\d) (?<time>\d\d:\d\d:\d\d) (?<year>\d{4})$/,
];

function httpDateMs(text: string | null, nowMs: number): number | null {
  const date = bounded(text).toLowerCase();
  for (const form of httpDates) {
    const { day = "", month = "", year = "", time = "" } = form.exec(date)?.groups ?? {};
    if (time !== "") return utcMs(fullYear(year, nowMs), months.indexOf(month), Number(day), time);
  }
  return null;
}

/** A year of two digits that would be more than fifty years ahead is in the past, by the same section. */
function fullYear(digits: string, nowMs: number): number {
  if (digits.length === 4) return Number(digits);
  const thisYear = Number.isFinite(nowMs) ? Math.floor(1970 + nowMs / 31_556_952_000) : 2000;
  const year = thisYear - (thisYear % 100) + Number(digits);
  return year > thisYear + 50 ? year - 100 : year;
}

/** https://www.rfc-editor.org/rfc/rfc3339#section-5.6 */
function timestampMs(text: string | null): number | null {
  const form = /^(\d{4})-(\d\d)-(\d\d)[t ](\d\d:\d\d:\d\d)(\.\d{1,9})?(?:z|([+-])(\d\d):(\d\d))$/;
  const match = form.exec(bounded(text).toLowerCase());
  if (match === null) return null;
  const [, year, month, day, time = "", fraction = "0", sign, hours = "0", minutes = "0"] = match;
  const ms = utcMs(Number(year), Number(month) - 1, Number(day), time);
  const offsetMs = (Number(hours) * 60 + Number(minutes)) * 60_000;
  return ms === null ? null : ms + Number(fraction) * 1000 - (sign === "-" ? -offsetMs : offsetMs);
}

function utcMs(year: number, month: number, day: number, time: string): number | null {
  const [hour = 99, minute = 99, second = 99] = time.split(":").map(Number);
  const isReal = month >= 0 && month <= 11 && day >= 1 && day <= 31 && hour <= 23 && minute <= 59 && second <= 60;
  return isReal ? Date.UTC(year, month, day, hour, minute, second) : null;
}
