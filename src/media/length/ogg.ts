import { lossyBytesPerSecond, plainBytesPerSecond, type Length } from "./bounds.ts";
import { windowAt, windowBytes, type ByteWindow } from "./bytes.ts";
import { hasTextAt } from "../containers/bytes.ts";
import { flacBlockHeadBytes, flacMarkBytes, flacStreamInfoAt } from "../containers/flac-metadata.ts";
import { oggCodecAt, oggFlacHeadBytes, oggGranuleAt, oggHeadBytesMin, oggMark, oggPageAt, oggSerialAt } from "../containers/ogg-page.ts";
import type { StoredFile } from "../stored-file.ts";

/** Where the last page says that it ends, by the clock that the first page tells of. */
export async function oggLength(file: StoredFile): Promise<Length | null> {
  const start = await windowAt(file, 0, windowBytes);
  const page = oggPageAt(start.bytes, 0);
  if (typeof page === "string") return null;
  const clock = clockIn(start, page.headBytes);
  if (clock === null || clock.rate === 0) return null;
  // No page is longer than this.
  const end = file.length <= windowBytes ? start : await windowAt(file, file.length - windowBytes, windowBytes);
  const position = lastPosition(end, page.serial);
  if (position === null) return null;
  return {
    seconds: (position - clock.skipped) / clock.rate,
    soundBytes: file.length,
    bytesPerSecondMax: clock.bytesPerSecondMax,
    isCut: isLastCut(end),
  };
}

interface OggClock {
  readonly rate: number;
  /** Samples at the beginning that are not played. */
  readonly skipped: number;
  readonly bytesPerSecondMax: number;
}

function clockIn({ bytes, view }: ByteWindow, at: number): OggClock | null {
  if (at + firstPacketBytesMin > bytes.length) return null;
  const lossy = (channels: number): number => Math.max(1, channels) * lossyBytesPerSecond;
  switch (oggCodecAt(bytes, at)) {
    case "opus":
      return { rate: 48_000, skipped: view.getUint16(at + 10, true), bytesPerSecondMax: lossy(bytes[at + 9]!) };
    case "vorbis":
      return { rate: view.getUint32(at + 12, true), skipped: 0, bytesPerSecondMax: lossy(bytes[at + 11]!) };
    case "flac": {
      const info = flacStreamInfoAt(bytes, at + oggFlacHeadBytes + flacMarkBytes + flacBlockHeadBytes);
      return info === "more" ? null : { rate: info.sampleRate, skipped: 0, bytesPerSecondMax: plainBytesPerSecond };
    }
    case "speex":
      if (at + 40 > bytes.length) return null;
      return { rate: view.getUint32(at + 36, true), skipped: 0, bytesPerSecondMax: lossyBytesPerSecond };
    case null:
      return null;
  }
}

/** Of the last page of this stream that has one: a page on which no packet ends has none. */
function lastPosition({ bytes }: ByteWindow, serial: number): number | null {
  for (let at = bytes.length - oggHeadBytesMin; at >= 0; at--) {
    if (bytes[at] !== 0x4f || !hasTextAt(bytes, at, oggMark) || oggSerialAt(bytes, at) !== serial) continue;
    const position = oggGranuleAt(bytes, at);
    if (position >= 0) return position;
  }
  return null;
}

/** Whether the last page goes on behind the end of the file. */
function isLastCut({ bytes }: ByteWindow): boolean {
  for (let at = bytes.length - 4; at >= 0; at--) {
    const page = bytes[at] === 0x4f && hasTextAt(bytes, at, "OggS") ? oggPageAt(bytes, at) : "no";
    if (page === "more") return true;
    if (page !== "no") return at + page.headBytes + page.contentBytes > bytes.length;
  }
  return false;
}

const firstPacketBytesMin = 19;
