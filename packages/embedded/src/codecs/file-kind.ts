import type { StreamDecoder } from "./codec.ts";
import { findMpegFrame } from "./mpeg/mpeg-frames.ts";
import { sniffAudio, type AudioKind } from "../../../../src/media/audio-kind.ts";
import { hasAdtsMark } from "../../../../src/media/containers/adts.ts";
import { hasTextAt } from "../../../../src/media/containers/bytes.ts";
import { oggCodecAt, oggPageAt } from "../../../../src/media/containers/ogg-page.ts";

/** What a file is, by what it holds. A container is taken apart first, the others are decoded as they are. */
export type FileKind = "wav" | "flac" | "opus" | "vorbis" | "ogg-flac" | "aac" | "mp3" | "container";

/** How much of the beginning is looked at: that far, a frame of MP3 is looked for. */
export const openingBytes = 1 << 16;

/** Tells it by the beginning of a file, without any tag in front; `isShort`: nothing follows behind these bytes. */
export function fileKind(opening: Uint8Array, isShort: boolean): FileKind | null {
  const kind = sniffAudio(opening);
  if (kind === "ogg") return oggKind(opening);
  if (kind === "flac" || (kind === "wav" && !hasTextAt(opening, 0, "RIFX"))) return kind;
  if (kind !== null && containers.has(kind)) return "container";
  // Old QuickTime does not say what it is.
  if (["moov", "mdat", "wide", "free", "skip"].some((box) => hasTextAt(opening, 4, box))) return "container";
  if (hasAdtsMark(opening, 0)) return "aac";
  // Files cut out of a stream begin in the middle of a frame.
  return findMpegFrame(opening, isShort) < 0 ? null : "mp3";
}

const containers: ReadonlySet<AudioKind> = new Set<AudioKind>(["m4a", "mp4", "webm", "mkv", "aiff", "caf"]);

function oggKind(bytes: Uint8Array): FileKind | null {
  const page = oggPageAt(bytes, 0);
  const codec = typeof page === "string" ? null : oggCodecAt(bytes, page.headBytes);
  if (codec === "flac") return "ogg-flac";
  return codec === "speex" ? null : codec;
}

/** Only what the kind needs is loaded. */
export async function fileDecoder(kind: Exclude<FileKind, "container">): Promise<StreamDecoder> {
  switch (kind) {
    case "vorbis": {
      const [{ makeOggDecoder }, { makeVorbisDecoder }] = await Promise.all([
        import("./ogg/ogg-decode.ts"),
        import("./ogg/vorbis-decode.ts"),
      ]);
      return makeOggDecoder(await makeVorbisDecoder());
    }
    case "ogg-flac":
      return (await import("./ogg/ogg-flac-decode.ts")).makeOggFlacDecoder();
    default:
      return (await import("./decode.ts")).makeDecoder(kind);
  }
}
