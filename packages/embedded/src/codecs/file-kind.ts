import type { StreamDecoder } from "./decode.ts";
import { findMpegFrame } from "./mpeg-frames.ts";
import { says } from "./packet-decoder.ts";

/** What a file is, by what it holds. A container is taken apart first, the others are decoded as they are. */
export type FileKind = "wav" | "flac" | "opus" | "vorbis" | "ogg-flac" | "aac" | "mp3" | "container";

/** How much of the beginning is looked at: that far, a frame of MP3 is looked for. */
export const openingBytes = 1 << 16;

/** Tells it by the beginning of a file, without any tag in front; `isShort`: nothing follows behind these bytes. */
export function fileKind(opening: Uint8Array, isShort: boolean): FileKind | null {
  if ((says(opening, 0, "RIFF") || says(opening, 0, "RF64")) && says(opening, 8, "WAVE")) return "wav";
  if (says(opening, 0, "fLaC")) return "flac";
  if (says(opening, 0, "OggS")) return oggKind(opening);
  if (says(opening, 0, "\x1a\x45\xdf\xa3") || says(opening, 0, "caff")) return "container";
  if (says(opening, 0, "FORM") && (says(opening, 8, "AIFF") || says(opening, 8, "AIFC"))) return "container";
  if (["ftyp", "moov", "mdat", "wide", "free", "skip"].some((box) => says(opening, 4, box))) return "container";
  if (opening[0] === 0xff && (opening[1]! & 0xf6) === 0xf0) return "aac";
  // Files cut out of a stream begin in the middle of a frame.
  return findMpegFrame(opening, isShort) < 0 ? null : "mp3";
}

function oggKind(bytes: Uint8Array): FileKind | null {
  const at = 27 + (bytes[26] ?? 0);
  if (says(bytes, at, "OpusHead")) return "opus";
  if (says(bytes, at, "\x01vorbis")) return "vorbis";
  return says(bytes, at, "\x7fFLAC") ? "ogg-flac" : null;
}

/** Only what the kind needs is loaded. */
export async function fileDecoder(kind: Exclude<FileKind, "container">): Promise<StreamDecoder> {
  switch (kind) {
    case "vorbis": {
      const [{ makeOggDecoder }, { makeVorbisDecoder }] = await Promise.all([import("./ogg-decode.ts"), import("./vorbis-decode.ts")]);
      return makeOggDecoder(await makeVorbisDecoder());
    }
    case "ogg-flac":
      return (await import("./ogg-flac-decode.ts")).makeOggFlacDecoder();
    default:
      return (await import("./decode.ts")).makeDecoder(kind);
  }
}
