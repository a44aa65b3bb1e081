import { longAt, says, windowAt, windowBytes, type Window } from "./audio-length-bytes.ts";
import { oggPageAt } from "./ogg-page.ts";
import type { StoredFile } from "./stored-file.ts";

/** Where the last page says that it ends, by the clock that the first page tells of. */
export async function oggSeconds(file: StoredFile): Promise<number | null> {
  const start = await windowAt(file, 0, windowBytes);
  const page = oggPageAt(start.bytes, 0);
  if (typeof page === "string") return null;
  const clock = clockIn(start, page.headBytes);
  if (clock === null || clock.rate === 0) return null;
  // No page is longer than this.
  const end = file.length <= windowBytes ? start : await windowAt(file, file.length - windowBytes, windowBytes);
  const position = lastPosition(end, start.view.getUint32(serialAt, true));
  return position === null ? null : (position - clock.skipped) / clock.rate;
}

interface Clock {
  readonly rate: number;
  /** Samples at the beginning that are not played. */
  readonly skipped: number;
}

function clockIn({ bytes, view }: Window, at: number): Clock | null {
  if (at + firstPacketBytesMin > bytes.length) return null;
  if (says(bytes, at, "OpusHead")) return { rate: 48_000, skipped: view.getUint16(at + 10, true) };
  if (says(bytes, at, "\u0001vorbis")) return { rate: view.getUint32(at + 12, true), skipped: 0 };
  if (says(bytes, at, "\u007FFLAC") && at + 31 <= bytes.length) return { rate: view.getUint32(at + 27) >>> 12, skipped: 0 };
  if (says(bytes, at, "Speex   ") && at + 40 <= bytes.length) return { rate: view.getUint32(at + 36, true), skipped: 0 };
  return null;
}

/** Of the last page of this stream that has one: a page on which no packet ends has none. */
function lastPosition({ bytes, view }: Window, serial: number): number | null {
  for (let at = bytes.length - pageHeadBytes; at >= 0; at--) {
    if (bytes[at] !== 0x4f || !says(bytes, at, "OggS\0") || view.getUint32(at + serialAt, true) !== serial) continue;
    const position = longAt(view, at + 6, true);
    if (position < 2 ** 63) return position;
  }
  return null;
}

const serialAt = 14;
const pageHeadBytes = 27;
const firstPacketBytesMin = 19;
