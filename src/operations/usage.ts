/** What an answer consumed, as the upstream reported it. `null` where it did not say. */
export interface TokenUsage {
  readonly promptTokens: number | null;
  readonly completionTokens: number | null;
  readonly cachedTokens: number | null;
  readonly reasoningTokens: number | null;
  /** Of the prompt, what was put into a cache; of the prompt and of the completion, what was sound. Absent where it did not say. */
  readonly cacheWriteTokens?: number;
  readonly audioInputTokens?: number;
  readonly audioOutputTokens?: number;
}

/** What a call consumed: tokens, and what audio is counted in. */
export interface Metered extends TokenUsage {
  /** Of the audio that was transcribed. */
  readonly audioSeconds?: number | null;
  /** The seconds are the length of the upload: the upstream did not say how much it heard. */
  readonly estimated?: boolean;
  /** Of the text that was spoken. */
  readonly characters?: number | null;
}

export const nothingCounted: TokenUsage = { promptTokens: null, completionTokens: null, cachedTokens: null, reasoningTokens: null };

/** More tokens than any answer holds: a figure above it is a fault of the upstream, not a count. */
const tokensMax = 1e9;

/** Reads a `usage` object of the convention. A figure that cannot be a count is unknown, never zero and never negative. */
export function tokenUsage(value: unknown): TokenUsage | null {
  if (typeof value !== "object" || value === null) return null;
  const usage = value as Record<string, unknown>;
  const prompt = usage["prompt_tokens_details"] as Record<string, unknown> | null | undefined;
  const completion = usage["completion_tokens_details"] as Record<string, unknown> | null | undefined;
  const cacheWriteTokens = count(prompt?.["cache_write_tokens"]);
  const audioInputTokens = count(prompt?.["audio_tokens"]);
  const audioOutputTokens = count(completion?.["audio_tokens"]);
  const told: TokenUsage = {
    promptTokens: count(usage["prompt_tokens"]),
    completionTokens: count(usage["completion_tokens"]),
    cachedTokens: count(prompt?.["cached_tokens"] ?? usage["prompt_cache_hit_tokens"]),
    reasoningTokens: count(completion?.["reasoning_tokens"] ?? usage["reasoning_tokens"]),
  };
  // Every answer comes by here, and few have more to tell.
  if (cacheWriteTokens === null && audioInputTokens === null && audioOutputTokens === null) return told;
  return {
    ...told,
    ...(cacheWriteTokens === null ? undefined : { cacheWriteTokens }),
    ...(audioInputTokens === null ? undefined : { audioInputTokens }),
    ...(audioOutputTokens === null ? undefined : { audioOutputTokens }),
  };
}

function count(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= tokensMax ? value : null;
}
