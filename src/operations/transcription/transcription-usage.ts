import { secondsMax } from "../../media/audio.ts";
import type { TranscriptUsage } from "./transcript.ts";
import { tokenUsage, type MeteredUsage, nothingCounted } from "../usage.ts";

/** What a transcription consumed, from the upstream's `usage` and the duration of the audio; null where neither says. */
export function transcriptionUsage(value: unknown, duration: unknown): MeteredUsage | null {
  const usage = typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
  const audioSeconds = seconds(usage["seconds"]) ?? seconds(usage["prompt_audio_seconds"]) ?? seconds(duration);
  const tokens = tokenUsage({
    prompt_tokens: usage["input_tokens"] ?? usage["prompt_tokens"],
    completion_tokens: usage["output_tokens"] ?? usage["completion_tokens"],
    prompt_tokens_details: usage["input_token_details"] ?? usage["prompt_tokens_details"],
    total_tokens: usage["total_tokens"],
    prompt_audio_seconds: usage["prompt_audio_seconds"],
  });
  if (tokens === null || (tokens.promptTokens === null && tokens.completionTokens === null && audioSeconds === null)) return null;
  return { ...tokens, audioSeconds };
}

/** A report of tokens under the names of this operation, where an upstream reports them under those of a chat. */
export function transcriptTokenUsage({ promptTokens, completionTokens }: MeteredUsage): TranscriptUsage | null {
  if (promptTokens === null || completionTokens === null) return null;
  const total = promptTokens + completionTokens;
  return { type: "tokens", input_tokens: promptTokens, output_tokens: completionTokens, total_tokens: total };
}

function seconds(value: unknown): number | null {
  return typeof value === "number" && value >= 0 && value <= secondsMax ? value : null;
}

/**
 * What a transcription consumed, with the length of the upload where the upstream did not say how much it heard. That it heard
 * nothing at all of a recording is what upstreams say that do not count.
 */
export function meteredLength(usage: MeteredUsage | null, seconds: number | null): MeteredUsage | null {
  if (seconds === null || (usage?.audioSeconds ?? 0) > 0) return usage;
  // Who bills sound as tokens heard at least so much, whatever the file says.
  const least = (usage?.audioInputTokens ?? 0) / tokensPerSecondMax;
  return { ...(usage ?? nothingCounted), audioSeconds: Math.ceil(Math.max(seconds, least) * 100 - rounding) / 100, estimated: true };
}

/** What numbers lose when they are multiplied is no time. */
const rounding = 1e-6;
/** Models hear ten to seventeen tokens in a second. */
const tokensPerSecondMax = 20;
