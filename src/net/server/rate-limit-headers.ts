import type { RateLimitStatus } from "../../gateway/admission/limiter.ts";
import type { ClientOutput } from "./client-output.ts";

/**
 * Writes the x-ratelimit headers of the OpenAI API: three for each limit that the key has. Every call of such a key has them, so the lines
 * that successive calls share, all but the remaining amounts, are kept as bytes until one of them changes, and the amounts never become strings.
 */
export function putRateLimitLines(output: ClientOutput, status: RateLimitStatus): void {
  if (!isCached(status)) rebuild(status);
  output.put(sharedLines);
  if (status.requestsLimit !== null) {
    output.put(remainingRequests);
    output.putNumber(shownAmount(status.requestsRemaining));
  }
  if (status.tokensLimit !== null) {
    output.put(remainingTokens);
    output.putNumber(shownAmount(status.tokensRemaining));
  }
}

const remainingRequests = Buffer.from("\r\nx-ratelimit-remaining-requests: ");
const remainingTokens = Buffer.from("\r\nx-ratelimit-remaining-tokens: ");
/** All lines but those with the remaining amounts. */
let sharedLines = Buffer.alloc(0);
/** The values that `sharedLines` was made of. */
let requestsLimit: number | null = Number.NaN;
let requestsResetMs = 0;
let tokensLimit: number | null = Number.NaN;
let tokensResetMs = 0;

function isCached(status: RateLimitStatus): boolean {
  return (
    requestsLimit === status.requestsLimit &&
    tokensLimit === status.tokensLimit &&
    requestsResetMs === Math.ceil(status.requestsResetMs) &&
    tokensResetMs === Math.ceil(status.tokensResetMs)
  );
}

function rebuild(status: RateLimitStatus): void {
  requestsLimit = status.requestsLimit;
  requestsResetMs = Math.ceil(status.requestsResetMs);
  tokensLimit = status.tokensLimit;
  tokensResetMs = Math.ceil(status.tokensResetMs);
  sharedLines = Buffer.from(`${linesOf("requests", requestsLimit, requestsResetMs)}${linesOf("tokens", tokensLimit, tokensResetMs)}`);
}

function linesOf(what: "requests" | "tokens", limit: number | null, resetMs: number): string {
  return limit === null ? "" : `\r\nx-ratelimit-limit-${what}: ${limit}\r\nx-ratelimit-reset-${what}: ${goDuration(resetMs)}`;
}

function shownAmount(remaining: number): number {
  return Math.min(Math.max(0, Math.floor(remaining)), Number.MAX_SAFE_INTEGER);
}

/**
 * A duration as Go prints it, which is how the OpenAI API writes `x-ratelimit-reset-…`: `0s`, `12ms`, `1.2s`, `6m0s`, `1h0m0s`.
 * It is rounded up to a millisecond.
 */
export function goDuration(ms: number): string {
  const whole = ms > 0 ? Math.min(Math.ceil(ms), Number.MAX_SAFE_INTEGER) : 0;
  if (whole === 0) return "0s";
  if (whole < 1_000) return `${whole}ms`;
  const hours = Math.floor(whole / 3_600_000);
  const minutes = Math.floor(whole / 60_000) % 60;
  const seconds = `${(whole % 60_000) / 1_000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}
