import type { AudioFormat } from "../../media/audio.ts";

/** The format to request from a channel that does not support the client's: the one that loses least and is easiest to convert. */
export function formatFor(spoken: readonly AudioFormat[] | null, wanted: AudioFormat): AudioFormat {
  if (spoken === null || spoken.includes(wanted)) return wanted;
  return byLoss.find((format) => spoken.includes(format)) ?? wanted;
}

const byLoss: readonly AudioFormat[] = ["pcm", "wav", "flac", "mp3", "opus", "aac"];
