import { adtsHeaderAt } from "./containers/adts.ts";
import { hasTextAt } from "./containers/bytes.ts";
import { id3TagBytes } from "./containers/id3.ts";
import { mpegHeaderAt, type FrameHeader } from "./containers/mpeg-frame.ts";

/** What a file of sound may be, called by the extension that recognizers know it by. */
export type AudioKind = "wav" | "mp3" | "m4a" | "mp4" | "webm" | "mkv" | "ogg" | "flac" | "aac" | "amr" | "aiff" | "caf";

/** What the first bytes of a file say it is, or null where they say nothing. A few hundred bytes are enough for most, 4096 for all. */
export function sniffAudio(head: Uint8Array): AudioKind | null {
  const tagBytes = id3TagBytes(head, 0);
  if (typeof tagBytes === "number") return behindTag(head.subarray(tagBytes));
  for (const [at, word, kind] of marks) if (hasTextAt(head, at, word)) return typeof kind === "string" ? kind : kind(head);
  return frameKind(head);
}

/** The kind that a media type names, or null where it names none. */
export function audioKindOf(mediaType: string): AudioKind | null {
  const [name = ""] = mediaType.split(";", 1);
  return typed.get(name.trim().toLowerCase()) ?? null;
}

const marks: readonly (readonly [at: number, word: string, kind: AudioKind | ((head: Uint8Array) => AudioKind | null)])[] = [
  [0, "ID3", "mp3"],
  [0, "RIFF", waveform],
  [0, "RF64", waveform],
  [0, "RIFX", waveform],
  [0, "OggS", "ogg"],
  [0, "fLaC", "flac"],
  [0, "#!AMR", "amr"],
  [0, "FORM", (head) => (hasTextAt(head, 8, "AIFF") || hasTextAt(head, 8, "AIFC") ? "aiff" : null)],
  [0, "caff", "caf"],
  [4, "ftyp", (head) => (["M4A ", "M4B ", "M4P ", "F4A ", "F4B "].some((brand) => hasTextAt(head, 8, brand)) ? "m4a" : "mp4")],
  [0, "\x1A\x45\xDF\xA3", (head) => (indexOf(head.subarray(0, 256), "matroska") === -1 ? "webm" : "mkv")],
];

const typed: ReadonlyMap<string, AudioKind> = new Map(
  (
    [
      ["wav", "audio/wav audio/x-wav audio/wave audio/vnd.wave audio/x-pn-wav"],
      ["mp3", "audio/mpeg audio/mp3 audio/x-mp3 audio/mpeg3 audio/x-mpeg audio/mpga audio/mpg video/mpeg"],
      ["m4a", "audio/mp4 audio/m4a audio/x-m4a audio/mp4a-latm"],
      ["mp4", "video/mp4 application/mp4"],
      ["webm", "audio/webm video/webm"],
      ["mkv", "audio/x-matroska video/x-matroska"],
      ["ogg", "audio/ogg audio/opus audio/vorbis audio/x-opus+ogg application/ogg video/ogg"],
      ["flac", "audio/flac audio/x-flac"],
      ["aac", "audio/aac audio/aacp audio/x-aac"],
      ["amr", "audio/amr audio/amr-wb"],
      ["aiff", "audio/aiff audio/x-aiff"],
      ["caf", "audio/x-caf"],
    ] as const
  ).flatMap(([kind, types]) => types.split(" ").map((type) => [type, kind] as const)),
);

function waveform(head: Uint8Array): AudioKind | null {
  return hasTextAt(head, 8, "WAVE") ? "wav" : null;
}

/** Such a tag stands before MP3 as a rule, but some programs put it before other formats. It is often larger than the head. */
function behindTag(behind: Uint8Array): AudioKind {
  return hasTextAt(behind, 0, "fLaC") ? "flac" : (frameKind(behind) ?? "mp3");
}

/**
 * Frames that follow one another without any head of the file. Eleven set bits begin each of them, which is too little to
 * go by (text of two bytes a character begins like that), so the next frame must stand where the first one says it does.
 */
function frameKind(head: Uint8Array): AudioKind | null {
  const first = frameAt(head, 0);
  if (first === null) return null;
  if (first.lengthBytes + 4 > head.length) return isLayerOne(first) ? null : first.format;
  return frameAt(head, first.lengthBytes)?.format === first.format ? first.format : null;
}

/** The byte order mark of UTF-16 looks like the header of one, so a lone frame of layer I is not believed. */
function isLayerOne(header: FrameHeader): boolean {
  return header.format === "mp3" && header.layer === 1;
}

function frameAt(head: Uint8Array, at: number): FrameHeader | null {
  const adts = adtsHeaderAt(head, at);
  const header = adts === "no" ? mpegHeaderAt(head, at) : adts;
  return typeof header === "string" ? null : header;
}

function indexOf(bytes: Uint8Array, word: string): number {
  for (let at = 0; at + word.length <= bytes.length; at += 1) if (hasTextAt(bytes, at, word)) return at;
  return -1;
}
