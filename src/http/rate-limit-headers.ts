import type { Remaining, Standing } from "../gateway/limiter.ts";
import { goDuration } from "../limits/go-duration.ts";

/** How a key stands, in the header lines of the convention: three for each limit that it has. One text, because every call of such a key has it. */
export function rateLimitLines({ requests, tokens }: Standing): string {
  if (tokens === null) return requests === null ? "" : requestLines(requests);
  return requests === null ? tokenLines(tokens) : requestLines(requests) + tokenLines(tokens);
}

function requestLines({ limit, remaining, resetMs }: Remaining): string {
  return `x-ratelimit-limit-requests: ${limit}\r\nx-ratelimit-remaining-requests: ${left(remaining)}\r\nx-ratelimit-reset-requests: ${goDuration(resetMs)}\r\n`;
}

function tokenLines({ limit, remaining, resetMs }: Remaining): string {
  return `x-ratelimit-limit-tokens: ${limit}\r\nx-ratelimit-remaining-tokens: ${left(remaining)}\r\nx-ratelimit-reset-tokens: ${goDuration(resetMs)}\r\n`;
}

function left(remaining: number): number {
  return Math.max(0, Math.floor(remaining));
}
