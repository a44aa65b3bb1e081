import { readAiff } from "./aiff-read.ts";
import { readCaf } from "./caf-read.ts";
import { readMatroska } from "./matroska-read.ts";
import { readMp4 } from "./mp4-read.ts";
import { says } from "./packet-decoder.ts";
import type { SoundTrack } from "./sound-track.ts";

/** The first track with sound in a WebM, Matroska, MP4, QuickTime, AIFF or CAF file. Null where there is none. */
export function soundIn(source: Uint8Array): SoundTrack | null {
  if (says(source, 0, "\x1a\x45\xdf\xa3")) return readMatroska(source);
  if (says(source, 0, "FORM")) return readAiff(source);
  return says(source, 0, "caff") ? readCaf(source) : readMp4(source);
}
