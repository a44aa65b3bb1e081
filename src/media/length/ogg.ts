import { lossyBytesPerSecond, plainBytesPerSecond, type Length } from "./bounds.ts";
import { windowAt, windowBytes, type ByteWindow } from "./bytes.ts";
import { hasTextAt, uint64At } from "../containers/bytes.ts";
import { oggPageAt } from "../containers/ogg-page.ts";
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
  const position = lastPosition(end, start.view.getUint32(serialAt, true));
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
  if (hasTextAt(bytes, at, "OpusHead")) {
    return { rate: 48_000, skipped: view.getUint16(at + 10, true), bytesPerSecondMax: lossy(bytes[at + 9]!) };
  }
  if (hasTextAt(bytes, at, "\u0001vorbis")) {
    return { rate: view.getUint32(at + 12, true), skipped: 0, bytesPerSecondMax: lossy(bytes[at + 11]!) };
  }
  if (hasTextAt(bytes, at, "\u007FFLAC") && at + 31 <= bytes.length) {
    return { rate: view.getUint32(at + 27) >>> 12, skipped: 0, bytesPerSecondMax: plainBytesPerSecond };
  }
  if (hasTextAt(bytes, at, "Speex   ") && at + 40 <= bytes.length) {
    return { rate: view.getUint32(at + 36, true), skipped: 0, bytesPerSecondMax: lossyBytesPerSecond };
  }
  return null;
}

/** Of the last page of this stream that has one: a page on which no packet ends has none. */
function lastPosition({ bytes, view }: ByteWindow, serial: number): number | null {
  for (let at = bytes.length - pageHeadBytes; at >= 0; at--) {
    if (bytes[at] !== 0x4f || !hasTextAt(bytes, at, "OggS\0") || view.getUint32(at + serialAt, true) !== serial) continue;
    const position = uint64At(view, at + 6, true);
    if (position < 2 ** 63) return position;
  }
  return null;
}

/** Whether the last page goes on behind the end of the file. */
function isLastCut({ bytes }: ByteWindow): boolean {
  for (let at = bytes.length - 4; at >= 0; at--) {
    if (bytes[at] !== 0x4f || !hasTextAt(bytes, at, "OggS")) continue;
    const segments = bytes[at + pageHeadBytes - 1];
    if (segments === undefined || at + pageHeadBytes + segments > bytes.length) return true;
    const table = bytes.subarray(at + pageHeadBytes, at + pageHeadBytes + segments);
    return table.reduce((sum, length) => sum + length, at + pageHeadBytes + segments) > bytes.length;
  }
  return false;
}

const serialAt = 14;
const pageHeadBytes = 27;
const firstPacketBytesMin = 19;
