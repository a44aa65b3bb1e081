import { sniffAudio, type AudioKind } from "./audio-kind.ts";
import { adtsSeconds, mp3Seconds } from "./audio-length-frames.ts";
import { flacSeconds } from "./audio-length-flac.ts";
import { matroskaSeconds } from "./audio-length-matroska.ts";
import { mp4Seconds } from "./audio-length-mp4.ts";
import { oggSeconds } from "./audio-length-ogg.ts";
import { wavSeconds } from "./audio-length-wav.ts";
import { secondsMax } from "./sound-times.ts";
import type { StoredFile } from "./stored-file.ts";

/**
 * How long a recording is, in seconds, from what its format says of it and without decoding any of it; null where that cannot
 * be told. A few bounded reads, whatever the file says.
 */
export async function audioSeconds(file: StoredFile): Promise<number | null> {
  const kind = sniffAudio(file.head);
  const measure = kind === null ? undefined : measures[kind];
  if (measure === undefined) return null;
  let seconds: number | null;
  try {
    seconds = await measure(file);
  } catch {
    // A disk that fails is told of by whoever needs the file; a length can be done without.
    return null;
  }
  return seconds !== null && seconds > 0 && seconds <= secondsMax ? seconds : null;
}

const measures: { readonly [K in AudioKind]?: (file: StoredFile) => Promise<number | null> } = {
  wav: wavSeconds,
  mp3: mp3Seconds,
  m4a: mp4Seconds,
  mp4: mp4Seconds,
  webm: matroskaSeconds,
  mkv: matroskaSeconds,
  ogg: oggSeconds,
  flac: flacSeconds,
  aac: adtsSeconds,
};
