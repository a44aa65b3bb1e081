import { streamedWavHead } from "../../media/containers/wav.ts";
import type { AudioConversion } from "./audio-track.ts";

/**
 * Bare samples of another rate than that of the OpenAI API are read as a WAV, whose head states the rate: `head` goes before them. From
 * there on they are converted like any other format.
 */
export function withSampleRate(conversion: AudioConversion): { readonly conversion: AudioConversion; readonly head: Uint8Array | null } {
  const { asked, sampleRate = usualRate } = conversion;
  if (asked !== "pcm" || sampleRate === usualRate) return { conversion, head: null };
  return { conversion: { ...conversion, asked: "wav" }, head: streamedWavHead(sampleRate) };
}

const usualRate = 24_000;
