import type { AudioFormat } from "../../media/audio.ts";

/** The format to request from a channel that does not support the client's: the one that loses least and is easiest to convert. */
export function formatFor(spoken: readonly AudioFormat[] | null, wanted: AudioFormat): AudioFormat {
  return spoken === null ? wanted : (formatAmong(spoken, wanted) ?? wanted);
}

/** Undefined if there is none at all. */
export function formatAmong<F extends AudioFormat>(spoken: readonly F[], wanted: AudioFormat): F | undefined {
  const own = spoken.find((format) => format === wanted);
  return own ?? spoken.toSorted((one, other) => byLoss.indexOf(one) - byLoss.indexOf(other))[0];
}

const byLoss: readonly AudioFormat[] = ["pcm", "wav", "flac", "mp3", "opus", "aac"];
