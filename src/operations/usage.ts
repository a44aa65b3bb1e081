import { secondsMax } from "../media/audio.ts";

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
  /** The report contradicted itself: a part was greater than its whole, and these are the figures we made of it. */
  readonly corrected?: true;
}

/** What a call consumed: tokens, and what audio is counted in. */
export interface MeteredUsage extends TokenUsage {
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

/**
 * Reads a `usage` object of the OpenAI API, in the variants that providers make of it. In what it gives, every figure is part of
 * what it is billed as: reasoning of the completion, cached tokens of the prompt. A figure that cannot be a count is unknown,
 * never zero and never negative.
 */
export function tokenUsage(value: unknown): MeteredUsage | null {
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
    cachedTokens: count(prompt?.["cached_tokens"] ?? usage["prompt_cache_hit_tokens"] ?? usage["cached_tokens"]),
    reasoningTokens: count(completion?.["reasoning_tokens"] ?? usage["reasoning_tokens"]),
  };
  // Every answer passes here, and few report more.
  const plain =
    cacheWriteTokens === null && audioInputTokens === null && audioOutputTokens === null
      ? told
      : {
          ...told,
          ...(cacheWriteTokens === null ? undefined : { cacheWriteTokens }),
          ...(audioInputTokens === null ? undefined : { audioInputTokens }),
          ...(audioOutputTokens === null ? undefined : { audioOutputTokens }),
        };
  return normalised(plain, usage);
}

/** Puts right what a provider counts beside the wholes instead of within them. */
function normalised(told: TokenUsage, usage: Readonly<Record<string, unknown>>): MeteredUsage {
  const heard = usage["prompt_audio_seconds"];
  if (typeof heard === "number" && heard > 0 && heard <= secondsMax) {
    // Sound that is billed by the second: its tokens are in the total and in nothing else, and must not be billed again.
    return { ...withinWholes(told), audioSeconds: heard };
  }
  const citations = count(usage["citation_tokens"]);
  const apart = citations === null ? told : withResearch(told, citations);
  const total = count(usage["total_tokens"]);
  return withinWholes(total === null ? apart : withTotal(apart, total), total);
}

/** Where pages that were read are reported, they are input and the reasoning over them is output, both beside the two wholes. */
function withResearch(told: TokenUsage, citations: number): TokenUsage {
  const { promptTokens, completionTokens, reasoningTokens } = told;
  return {
    ...told,
    promptTokens: promptTokens === null ? null : promptTokens + citations,
    completionTokens: completionTokens === null ? null : completionTokens + (reasoningTokens ?? 0),
  };
}

/** What the total holds beyond prompt and completion is output: reasoning that was left out of the completion. */
function withTotal(told: TokenUsage, total: number): TokenUsage {
  const { promptTokens, completionTokens, cachedTokens } = told;
  if (promptTokens === null) {
    const isWhole = completionTokens !== null && total >= completionTokens;
    return isWhole ? { ...told, promptTokens: total - completionTokens } : told;
  }
  const beyond = total - promptTokens - (completionTokens ?? 0);
  if (completionTokens === null) return beyond < 0 ? told : { ...told, completionTokens: beyond };
  if (beyond <= 0) return told;
  if (cachedTokens !== null && cachedTokens > promptTokens && beyond >= cachedTokens) {
    // Here the prompt leaves out what was in the cache: that much of the difference is input.
    const output = completionTokens + beyond - cachedTokens;
    return { ...told, promptTokens: promptTokens + cachedTokens, completionTokens: output };
  }
  return { ...told, completionTokens: completionTokens + beyond };
}

/** A part greater than its whole is cut to it. Only reasoning without a total to the contrary is taken to stand beside the completion. */
function withinWholes(told: TokenUsage, total: number | null = null): TokenUsage {
  const { promptTokens: prompt, completionTokens: completion } = told;
  const { cachedTokens, reasoningTokens, cacheWriteTokens, audioInputTokens, audioOutputTokens } = told;
  const isApart = total === null && exceeds(reasoningTokens, completion);
  if (
    !isApart &&
    !exceeds(cachedTokens, prompt) &&
    !exceeds(cacheWriteTokens, prompt) &&
    !exceeds(audioInputTokens, prompt) &&
    !exceeds(reasoningTokens, completion) &&
    !exceeds(audioOutputTokens, completion)
  ) {
    return told;
  }
  const output = isApart ? completion! + reasoningTokens! : completion;
  return {
    promptTokens: prompt,
    completionTokens: output,
    cachedTokens: least(cachedTokens, prompt),
    reasoningTokens: least(reasoningTokens, output),
    ...(cacheWriteTokens === undefined ? undefined : { cacheWriteTokens: least(cacheWriteTokens, prompt) }),
    ...(audioInputTokens === undefined ? undefined : { audioInputTokens: least(audioInputTokens, prompt) }),
    ...(audioOutputTokens === undefined ? undefined : { audioOutputTokens: least(audioOutputTokens, output) }),
    corrected: true,
  };
}

function exceeds(part: number | null | undefined, whole: number | null): boolean {
  return part != null && whole !== null && part > whole;
}

function least<Part extends number | null>(part: Part, whole: number | null): Part | number {
  return part === null || whole === null ? part : Math.min(part, whole);
}

function count(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= tokensMax ? value : null;
}
