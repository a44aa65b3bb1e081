import type { Standing } from "../../gateway/admission/limiter.ts";
import { goDuration } from "../../limits/go-duration.ts";
import type { HeadSink } from "./http-response.ts";

/**
 * How a key stands, in the header lines of the convention: three for each limit that it has, each beginning with the end of the
 * line before. Every call of such a key has them, so what the calls of a moment have in common is made once: all but what remains.
 */
export function putStanding(out: HeadSink, standing: Standing): void {
  if (!isCommonTo(standing)) make(standing);
  out.put(common);
  if (standing.requestsLimit !== null) out.putNumber(left(standing.requestsRemaining));
  if (standing.tokensLimit === null) return;
  if (standing.requestsLimit !== null) out.put(remainingTokens);
  out.putNumber(left(standing.tokensRemaining));
}

/** All lines but those of what remains, and the beginning of the first of these. */
let common: Uint8Array = new Uint8Array(0);
/** What it was made of. */
let requestsLimit: number | null = Number.NaN;
let requestsResetMs = 0;
let tokensLimit: number | null = Number.NaN;
let tokensResetMs = 0;

function isCommonTo(standing: Standing): boolean {
  return (
    requestsLimit === standing.requestsLimit &&
    tokensLimit === standing.tokensLimit &&
    requestsResetMs === Math.ceil(standing.requestsResetMs) &&
    tokensResetMs === Math.ceil(standing.tokensResetMs)
  );
}

function make(standing: Standing): void {
  requestsLimit = standing.requestsLimit;
  requestsResetMs = Math.ceil(standing.requestsResetMs);
  tokensLimit = standing.tokensLimit;
  tokensResetMs = Math.ceil(standing.tokensResetMs);
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
