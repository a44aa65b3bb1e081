import type { Remaining, Standing } from "../gateway/limiter.ts";
import { goDuration } from "../limits/go-duration.ts";
import type { HeadSink } from "./http-answer.ts";

/**
 * How a key stands, in the header lines of the convention: three for each limit that it has, each beginning with the end of the
 * line before. Every call of such a key has them, so what the calls of a moment have in common is made once: all but what remains.
 */
export function putStanding(out: HeadSink, standing: Standing): void {
  const { requests, tokens } = standing;
  if (!isCommonTo(standing)) make(standing);
  out.put(common);
  if (requests !== null) {
    out.put(remainingRequests);
    out.putNumber(left(requests));
  }
  if (tokens !== null) {
    out.put(remainingTokens);
    out.putNumber(left(tokens));
  }
}

let common: Uint8Array = new Uint8Array(0);
/** What it was made of. */
let requestsLimit = Number.NaN;
let requestsResetMs = 0;
let tokensLimit = Number.NaN;
let tokensResetMs = 0;

function isCommonTo({ requests, tokens }: Standing): boolean {
  if (requests === null ? requestsLimit !== none : requestsLimit !== requests.limit || requestsResetMs !== Math.ceil(requests.resetMs))
    return false;
  return tokens === null ? tokensLimit === none : tokensLimit === tokens.limit && tokensResetMs === Math.ceil(tokens.resetMs);
}

function make({ requests, tokens }: Standing): void {
  requestsLimit = requests?.limit ?? none;
  requestsResetMs = Math.ceil(requests?.resetMs ?? 0);
  tokensLimit = tokens?.limit ?? none;
  tokensResetMs = Math.ceil(tokens?.resetMs ?? 0);
  common = Buffer.from(linesOf("requests", requests) + linesOf("tokens", tokens));
}

function linesOf(what: "requests" | "tokens", of: Remaining | null): string {
  return of === null ? "" : `\r\nx-ratelimit-limit-${what}: ${of.limit}\r\nx-ratelimit-reset-${what}: ${goDuration(of.resetMs)}`;
}

function left({ remaining }: Remaining): number {
  return Math.min(Math.max(0, Math.floor(remaining)), Number.MAX_SAFE_INTEGER);
}

const none = -1;
const remainingRequests = Buffer.from("\r\nx-ratelimit-remaining-requests: ");
const remainingTokens = Buffer.from("\r\nx-ratelimit-remaining-tokens: ");
