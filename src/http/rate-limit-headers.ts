import type { Remaining, Standing } from "../gateway/limiter.ts";
import { goDuration } from "../limits/go-duration.ts";

/** How a key stands, in the header lines of the convention: three for each limit that it has. One text, because every call of such a key has it. */
export function rateLimitLines({ requests, tokens }: Standing): string {
  return linesOf("requests", requests) + linesOf("tokens", tokens);
}

function linesOf(what: "requests" | "tokens", of: Remaining | null): string {
  if (of === null) return "";
  const left = Math.max(0, Math.floor(of.remaining));
  return `x-ratelimit-limit-${what}: ${of.limit}\r\nx-ratelimit-remaining-${what}: ${left}\r\nx-ratelimit-reset-${what}: ${goDuration(of.resetMs)}\r\n`;
}
