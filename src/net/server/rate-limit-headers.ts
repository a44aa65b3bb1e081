import type { RateLimitStatus } from "../../gateway/admission/limiter.ts";
import type { ClientOutput } from "./client-output.ts";

/**
 * Writes the x-ratelimit headers of the OpenAI API: three for each limit that the key has. Every call of such a key has them, and they
 * differ from call to call, so no strings are made of their figures.
 */
export function putRateLimitLines(output: ClientOutput, status: RateLimitStatus): void {
  if (status.requestsLimit !== null) putLines(output, requestNames, status.requestsLimit, status.requestsRemaining, status.requestsResetMs);
  if (status.tokensLimit !== null) putLines(output, tokenNames, status.tokensLimit, status.tokensRemaining, status.tokensResetMs);
}

function putLines(output: ClientOutput, names: LineNames, limit: number, remaining: number, resetMs: number): void {
  output.put(names.limit);
  output.putNumber(shownAmount(limit));
  output.put(names.remaining);
  output.putNumber(shownAmount(remaining));
  output.put(names.reset);
  putGoDuration(output, resetMs);
}

/** How the lines begin, from the end of the line before. */
interface LineNames {
  readonly limit: Uint8Array;
  readonly remaining: Uint8Array;
  readonly reset: Uint8Array;
}

const requestNames = namesOf("requests");
const tokenNames = namesOf("tokens");

function namesOf(what: string): LineNames {
  const line = (name: string): Uint8Array => Buffer.from(`\r\nx-ratelimit-${name}-${what}: `);
  return { limit: line("limit"), remaining: line("remaining"), reset: line("reset") };
}

function shownAmount(amount: number): number {
  return Math.min(Math.max(0, Math.floor(amount)), Number.MAX_SAFE_INTEGER);
}

/**
 * Writes a duration as Go prints it, which is how the OpenAI API writes `x-ratelimit-reset-…`: `0s`, `12ms`, `1.2s`, `6m0s`, `1h0m0s`.
 * It is rounded up to a millisecond.
 */
export function putGoDuration(output: ClientOutput, ms: number): void {
  const whole = ms > 0 ? Math.min(Math.ceil(ms), Number.MAX_SAFE_INTEGER) : 0;
  if (whole > 0 && whole < secondMs) {
    output.putNumber(whole);
    output.put(millisecondUnit);
    return;
  }
  const hours = Math.floor(whole / hourMs);
  const minutes = Math.floor(whole / minuteMs);
  if (hours > 0) {
    output.putNumber(hours);
    output.put(hourUnit);
  }
  if (minutes > 0) {
    output.putNumber(minutes % 60);
    output.put(minuteUnit);
  }
  output.putNumber(Math.floor((whole % minuteMs) / secondMs));
  putFraction(output, whole % secondMs);
  output.put(secondUnit);
}

/** The milliseconds of a second, without zeros at the end. */
function putFraction(output: ClientOutput, ms: number): void {
  if (ms === 0) return;
  output.put(point);
  if (ms % 100 === 0) output.putNumber(ms / 100);
  else if (ms % 10 === 0) output.putNumber(ms / 10, 2);
  else output.putNumber(ms, 3);
}

const point = Buffer.from(".");
const millisecondUnit = Buffer.from("ms");
const secondUnit = Buffer.from("s");
const minuteUnit = Buffer.from("m");
const hourUnit = Buffer.from("h");
const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
