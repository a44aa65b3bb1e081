import type { RateLimitStatus } from "../../gateway/admission/limiter.ts";
import { goDuration } from "../../limits/go-duration.ts";
import type { HeadSink } from "./http-response.ts";

/**
 * Writes the x-ratelimit headers of the OpenAI API: three for each limit that the key has. Every call of such a key has them, so
 * the lines that successive calls share, all but the remaining amounts, are made once.
 */
export function putRateLimitHeaders(out: HeadSink, rateLimitStatus: RateLimitStatus): void {
  if (!isCommonTo(rateLimitStatus)) make(rateLimitStatus);
  out.put(common);
  if (rateLimitStatus.requestsLimit !== null) out.putNumber(left(rateLimitStatus.requestsRemaining));
  if (rateLimitStatus.tokensLimit === null) return;
  if (rateLimitStatus.requestsLimit !== null) out.put(remainingTokens);
  out.putNumber(left(rateLimitStatus.tokensRemaining));
}

/** All lines but those with the remaining amounts, and the beginning of the first of these. */
let common: Uint8Array = new Uint8Array(0);
/** The values that `common` was made of. */
let requestsLimit: number | null = Number.NaN;
let requestsResetMs = 0;
let tokensLimit: number | null = Number.NaN;
let tokensResetMs = 0;

function isCommonTo(rateLimitStatus: RateLimitStatus): boolean {
  return (
    requestsLimit === rateLimitStatus.requestsLimit &&
    tokensLimit === rateLimitStatus.tokensLimit &&
    requestsResetMs === Math.ceil(rateLimitStatus.requestsResetMs) &&
    tokensResetMs === Math.ceil(rateLimitStatus.tokensResetMs)
  );
}

function make(rateLimitStatus: RateLimitStatus): void {
  requestsLimit = rateLimitStatus.requestsLimit;
  requestsResetMs = Math.ceil(rateLimitStatus.requestsResetMs);
  tokensLimit = rateLimitStatus.tokensLimit;
  tokensResetMs = Math.ceil(rateLimitStatus.tokensResetMs);
  const lines = `${linesOf("requests", requestsLimit, requestsResetMs)}${linesOf("tokens", tokensLimit, tokensResetMs)}`;
  const first = requestsLimit === null && tokensLimit === null ? nothing : requestsLimit === null ? remainingTokens : remainingRequests;
  common = Buffer.concat([Buffer.from(lines), first]);
}

function linesOf(what: "requests" | "tokens", limit: number | null, resetMs: number): string {
  return limit === null ? "" : `\r\nx-ratelimit-limit-${what}: ${limit}\r\nx-ratelimit-reset-${what}: ${goDuration(resetMs)}`;
}

function left(remaining: number): number {
  return Math.min(Math.max(0, Math.floor(remaining)), Number.MAX_SAFE_INTEGER);
}

const nothing = Buffer.alloc(0);
const remainingRequests = Buffer.from("\r\nx-ratelimit-remaining-requests: ");
const remainingTokens = Buffer.from("\r\nx-ratelimit-remaining-tokens: ");
