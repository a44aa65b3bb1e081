import { secondsMax } from "../../media/audio.ts";
import type { TranscriptUsage } from "./transcript.ts";
import { tokenUsage, type MeteredUsage, nothingCounted } from "../usage.ts";

/** The usage of a transcription, from the upstream's `usage` and the duration of the audio; null if neither is known. */
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

/** Converts token counts with the names of a chat into those of a transcription. */
export function transcriptTokenUsage({ promptTokens, completionTokens }: MeteredUsage): TranscriptUsage | null {
  if (promptTokens === null || completionTokens === null) return null;
  const total = promptTokens + completionTokens;
  return { type: "tokens", input_tokens: promptTokens, output_tokens: completionTokens, total_tokens: total };
}

function seconds(value: unknown): number | null {
  return typeof value === "number" && value >= 0 && value <= secondsMax ? value : null;
}

/**
 * The usage of a transcription, with the length of the upload if the upstream reported no seconds. Upstreams that do not count report zero
 * seconds.
 */
export function meteredLength(usage: MeteredUsage | null, seconds: number | null): MeteredUsage | null {
  if (seconds === null || (usage?.audioSeconds ?? 0) > 0) return usage;
  // An upstream that bills audio tokens has processed at least this much, whatever the file declares.
  const least = (usage?.audioInputTokens ?? 0) / tokensPerSecondMax;
  return { ...(usage ?? nothingCounted), audioSeconds: Math.ceil(Math.max(seconds, least) * 100 - rounding) / 100, estimated: true };
}

/** The error of floating-point multiplication. */
const rounding = 1e-6;
/** Models count ten to seventeen tokens for a second. */
const tokensPerSecondMax = 20;
