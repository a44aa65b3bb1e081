import { sniffAudio, type AudioKind } from "../audio-kind.ts";
import { plausibleSeconds, type Length } from "./bounds.ts";
import { aiffLength, cafLength } from "./apple.ts";
import { adtsLength, mp3Length } from "./frames.ts";
import { flacLength } from "./flac.ts";
import { matroskaLength } from "./matroska.ts";
import { mp4Length } from "./mp4.ts";
import { oggLength } from "./ogg.ts";
import { wavLength } from "./wav.ts";
import { secondsMax } from "../audio.ts";
import type { StoredFile } from "../stored-file.ts";

/** What the format of a recording says of it. */
export interface AudioFacts {
  /** How long it is, in seconds; null where that cannot be told, or does not go with its bytes. */
  readonly seconds: number | null;
  /** It ends before what it says is in it. */
  readonly isCut: boolean;
}

/** Without decoding any of it: a few bounded reads, whatever the file says. */
export async function audioFacts(file: StoredFile): Promise<AudioFacts> {
  const length = await measured(file);
  if (length === null) return unknown;
  const seconds = plausibleSeconds(length);
  return { seconds: seconds !== null && seconds > 0 && seconds <= secondsMax ? seconds : null, isCut: length.isCut };
}

const unknown: AudioFacts = { seconds: null, isCut: false };

async function measured(file: StoredFile): Promise<Length | null> {
  const kind = sniffAudio(file.head);
  const measure = kind === null ? undefined : measures[kind];
  try {
    return (await measure?.(file)) ?? null;
  } catch {
    // A failing disk is reported when the file is sent; a length can be done without.
    return null;
  }
}

const measures: { readonly [K in AudioKind]?: (file: StoredFile) => Promise<Length | null> } = {
  wav: wavLength,
  mp3: mp3Length,
  m4a: mp4Length,
  mp4: mp4Length,
  webm: matroskaLength,
  mkv: matroskaLength,
  ogg: oggLength,
  flac: flacLength,
  aac: adtsLength,
  aiff: aiffLength,
  caf: cafLength,
};
