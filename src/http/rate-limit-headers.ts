import type { Remaining, Standing } from "../gateway/limiter.ts";
import { goDuration } from "../limits/go-duration.ts";

/** How a key stands, in the headers of the convention: three for each limit that it has. */
export function rateLimitHeaders(standing: Standing | null): readonly (readonly [string, string])[] {
  if (standing === null) return [];
  return [...triple("requests", standing.requests), ...triple("tokens", standing.tokens)];
}

function triple(what: string, of: Remaining | null): readonly (readonly [string, string])[] {
  if (of === null) return [];
  return [
    [`x-ratelimit-limit-${what}`, String(of.limit)],
    [`x-ratelimit-remaining-${what}`, String(Math.max(0, Math.floor(of.remaining)))],
    [`x-ratelimit-reset-${what}`, goDuration(of.resetMs)],
  ];
}
