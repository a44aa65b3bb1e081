import type { Metered } from "../usage.ts";
import { nothingCounted } from "../usage.ts";

/**
 * What a transcription consumed, with the length of the upload where the upstream did not say how much it heard. That it heard
 * nothing at all of a recording is what upstreams say that do not count.
 */
export function meteredLength(usage: Metered | null, seconds: number | null): Metered | null {
  if (seconds === null || (usage?.audioSeconds ?? 0) > 0) return usage;
  // Who bills sound as tokens heard at least so much, whatever the file says.
  const least = (usage?.audioInputTokens ?? 0) / tokensPerSecondMax;
  return { ...(usage ?? nothingCounted), audioSeconds: Math.ceil(Math.max(seconds, least) * 100 - rounding) / 100, estimated: true };
}

/** What numbers lose when they are multiplied is no time. */
const rounding = 1e-6;
/** Models hear ten to seventeen tokens in a second. */
const tokensPerSecondMax = 20;
