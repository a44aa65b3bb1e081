import { secondsMax } from "../media/audio.ts";

/** The tokens of an answer, as the upstream reported them; null for what it did not report. */
export interface TokenUsage {
  readonly promptTokens: number | null;
  readonly completionTokens: number | null;
  readonly cachedTokens: number | null;
  readonly reasoningTokens: number | null;
  /** Prompt tokens written to a cache, and the audio tokens of the prompt and the completion. Absent if not reported. */
  readonly cacheWriteTokens?: number;
  /** Those of the tokens written to a cache that are kept for an hour, which costs more. */
  readonly cacheWriteHourTokens?: number;
  readonly audioInputTokens?: number;
  readonly audioOutputTokens?: number;
  /** The report was contradictory, with a part larger than its whole, and was corrected. */
  readonly corrected?: true;
}

/** The usage of a call: tokens, and the units of audio. */
export interface MeteredUsage extends TokenUsage {
  /** The transcribed audio. */
  readonly audioSeconds?: number | null;
  /** The seconds are the length of the upload, because the upstream did not report them. */
  readonly estimated?: boolean;
  /** The text of speech. */
  readonly characters?: number | null;
  /** Generated images. */
  readonly images?: number;
  /** Searches of the web that the upstream made for the answer, and those in files that it keeps. Absent if there were none. */
  readonly webSearches?: number;
  readonly fileSearches?: number;
  /** What the call cost, in billionths of a dollar, as the upstream states it; absent where it does not. */
  readonly statedNanos?: number;
  /** The model that served, as the upstream names it: another one than was asked for may cost something else. Absent where it does not say. */
  readonly servedModel?: string;
  /** What other models did for the answer at the upstream's own bidding: each costs what it costs. It is not part of the figures above. */
  readonly advice?: readonly ModelUsage[];
}

export interface ModelUsage {
  readonly model: string;
  readonly usage: MeteredUsage;
}

export const nothingCounted: TokenUsage = { promptTokens: null, completionTokens: null, cachedTokens: null, reasoningTokens: null };

/** More tokens than any answer has: a larger figure is an error of the upstream. */
const tokensMax = 1e9;

/**
 * Reads a `usage` object of the OpenAI API in its variants. In the result, parts are included in their whole: reasoning in the completion,
 * cached tokens in the prompt. An impossible figure is unknown, never zero and never negative. `model` is the one that served, where the
 * upstream gives a name.
 */
export function tokenUsage(value: unknown, model?: unknown): MeteredUsage | null {
  if (typeof value !== "object" || value === null) return null;
  const usage = value as Record<string, unknown>;
  const prompt = usage["prompt_tokens_details"] as Record<string, unknown> | null | undefined;
  const completion = usage["completion_tokens_details"] as Record<string, unknown> | null | undefined;
  const cacheWriteTokens = tokenCount(prompt?.["cache_write_tokens"]);
  const audioInputTokens = tokenCount(prompt?.["audio_tokens"]);
  const audioOutputTokens = tokenCount(completion?.["audio_tokens"]);
  const promptTokens = tokenCount(usage["prompt_tokens"]);
  const completionTokens = tokenCount(usage["completion_tokens"]);
  const cachedTokens = tokenCount(prompt?.["cached_tokens"] ?? usage["prompt_cache_hit_tokens"] ?? usage["cached_tokens"]);
  const reasoningTokens = tokenCount(completion?.["reasoning_tokens"] ?? usage["reasoning_tokens"]);
  const reported: MeteredUsage = isModelName(model)
    ? { promptTokens, completionTokens, cachedTokens, reasoningTokens, servedModel: model }
    : { promptTokens, completionTokens, cachedTokens, reasoningTokens };
  // The usual case: most answers report no more.
  const plain =
    cacheWriteTokens === null && audioInputTokens === null && audioOutputTokens === null
      ? reported
      : {
          ...reported,
          ...(cacheWriteTokens === null ? undefined : { cacheWriteTokens }),
          ...(audioInputTokens === null ? undefined : { audioInputTokens }),
          ...(audioOutputTokens === null ? undefined : { audioOutputTokens }),
        };
  const statedNanos = statedCost(usage);
  return statedNanos === null ? normalised(plain, usage) : { ...normalised(plain, usage), statedNanos };
}

/**
 * Some providers state in each answer what it cost, with everything that is not counted in tokens: in ten-billionths of a dollar, in dollars
 * (and what a provider behind a router charges beside that, where the operator has a key of its own there), or in an object with a total.
 * docs/prices.md names them, with the pages that say so.
 */
function statedCost(usage: Readonly<Record<string, unknown>>): number | null {
  const { cost, cost_in_usd_ticks: ticks } = usage;
  if (ticks !== undefined) return typeof ticks === "number" ? nanosOf(ticks / 1e10) : null;
  if (typeof cost === "number") {
    const details = usage["cost_details"] as Readonly<Record<string, unknown>> | null | undefined;
    const passed = usage["is_byok"] === true ? details?.["upstream_inference_cost"] : 0;
    return typeof passed === "number" ? nanosOf(cost + passed) : null;
  }
  const total = (cost as { readonly total_cost?: unknown } | null | undefined)?.total_cost;
  return typeof total === "number" ? nanosOf(total) : null;
}

/** Null for what no call costs. */
function nanosOf(dollars: number): number | null {
  return dollars >= 0 && dollars <= statedDollarsMax ? Math.round(dollars * 1e9) : null;
}

const statedDollarsMax = 10_000;

/** The usage with what the upstream searched for the answer. */
export function withSearches<Usage extends MeteredUsage | null>(usage: Usage, web: number, files = 0): Usage | MeteredUsage {
  if (usage === null || (web === 0 && files === 0)) return usage;
  return { ...usage, ...(web === 0 ? undefined : { webSearches: web }), ...(files === 0 ? undefined : { fileSearches: files }) };
}

/** Adds parts to their wholes that a provider counts separately. */
function normalised(reported: TokenUsage, usage: Readonly<Record<string, unknown>>): MeteredUsage {
  const audioSeconds = usage["prompt_audio_seconds"];
  if (typeof audioSeconds === "number" && audioSeconds > 0 && audioSeconds <= secondsMax) {
    // Audio that is billed by the second: its tokens are only in the total, and must not be billed again.
    return { ...withinWholes(reported), audioSeconds };
  }
  const citations = tokenCount(usage["citation_tokens"]);
  const apart = citations === null ? reported : withResearch(reported, citations);
  const total = tokenCount(usage["total_tokens"]);
  return withinWholes(total === null ? apart : withTotal(apart, total), total);
}

/** With citation tokens, those are input and reasoning is output, both in addition to the two wholes. */
function withResearch(reported: TokenUsage, citations: number): TokenUsage {
  const { promptTokens, completionTokens, reasoningTokens } = reported;
  return {
    ...reported,
    promptTokens: promptTokens === null ? null : promptTokens + citations,
    completionTokens: completionTokens === null ? null : completionTokens + (reasoningTokens ?? 0),
  };
}

/** What the total has beyond prompt and completion is output: reasoning that the completion does not include. */
function withTotal(reported: TokenUsage, total: number): TokenUsage {
  const { promptTokens, completionTokens, cachedTokens } = reported;
  if (promptTokens === null) {
    const isWhole = completionTokens !== null && total >= completionTokens;
    return isWhole ? { ...reported, promptTokens: total - completionTokens } : reported;
  }
  const beyond = total - promptTokens - (completionTokens ?? 0);
  if (completionTokens === null) return beyond < 0 ? reported : { ...reported, completionTokens: beyond };
  if (beyond <= 0) return reported;
  if (cachedTokens !== null && cachedTokens > promptTokens && beyond >= cachedTokens) {
    // The prompt does not include cached tokens here: that part of the difference is input.
    const output = completionTokens + beyond - cachedTokens;
    return { ...reported, promptTokens: promptTokens + cachedTokens, completionTokens: output };
  }
  return { ...reported, completionTokens: completionTokens + beyond };
}

/** Limits a part to its whole. Only reasoning, if no total contradicts, is taken as additional to the completion. */
function withinWholes(reported: TokenUsage, total: number | null = null): TokenUsage {
  const { promptTokens: prompt, completionTokens: completion } = reported;
  const { cachedTokens, reasoningTokens, cacheWriteTokens, audioInputTokens, audioOutputTokens } = reported;
  const isApart = total === null && exceeds(reasoningTokens, completion);
  if (
    !isApart &&
    !exceeds(cachedTokens, prompt) &&
    !exceeds(cacheWriteTokens, prompt) &&
    !exceeds(audioInputTokens, prompt) &&
    !exceeds(reasoningTokens, completion) &&
    !exceeds(audioOutputTokens, completion)
  ) {
    return reported;
  }
  const output = isApart ? completion! + reasoningTokens! : completion;
  return {
    ...reported,
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

/** The usage with the model that served, where the upstream gives a name. */
export function servedBy(usage: MeteredUsage | null, model: unknown): MeteredUsage | null {
  return usage === null || !isModelName(model) ? usage : { ...usage, servedModel: model };
}

function isModelName(model: unknown): model is string {
  return typeof model === "string" && model !== "" && model.length <= modelNameMax;
}

/** Longer than any name of a model. */
export const modelNameMax = 256;

/** A number of tokens that an upstream reports; null for anything else. */
export function tokenCount(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= tokensMax ? value : null;
}
