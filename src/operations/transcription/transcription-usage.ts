import { secondsMax } from "../../media/seconds-max.ts";
import type { TranscriptUsage } from "./transcription.ts";
import { tokenUsage, type Metered } from "../usage.ts";

/** What a transcription consumed, from the upstream's `usage` and the duration of the audio; null where neither says. */
export function transcriptionUsage(value: unknown, duration: unknown): Metered | null {
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
export function conventionalUsage({ promptTokens, completionTokens }: Metered): TranscriptUsage | null {
  if (promptTokens === null || completionTokens === null) return null;
  const total = promptTokens + completionTokens;
  return { type: "tokens", input_tokens: promptTokens, output_tokens: completionTokens, total_tokens: total };
}

function seconds(value: unknown): number | null {
  return typeof value === "number" && value >= 0 && value <= secondsMax ? value : null;
}
