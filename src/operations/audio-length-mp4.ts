import { longAt, windowAt, windowBytes, type Window } from "./audio-length-bytes.ts";
import type { StoredFile } from "./stored-file.ts";

/** What the movie header says. The box that holds it may stand behind all of the sound. */
export async function mp4Seconds(file: StoredFile): Promise<number | null> {
  let at = 0;
  for (let boxes = 0; boxes < boxesMax && at + 8 <= file.length; boxes++) {
    const box = boxAt(await windowAt(file, at, 16), 0);
    if (box === null) return null;
    const length = box.lengthBytes ?? file.length - at;
    if (box.name === "moov") return movieSeconds(await windowAt(file, at + box.headBytes, Math.min(length - box.headBytes, windowBytes)));
    at += length;
  }
  return null;
}

/** Movies in fragments have no length in their header, and may have one beside the description of the fragments. */
function movieSeconds(movie: Window): number | null {
  const header = childIn(movie, "mvhd");
  if (header === null) return null;
  const isLong = header.bytes[0] === 1;
  if (header.bytes.length < (isLong ? 32 : 20)) return null;
  const ticksPerSecond = header.view.getUint32(isLong ? 20 : 12);
  const ticks = ticksAt(header, isLong ? 24 : 16, isLong) ?? fragmentTicks(movie);
  return ticksPerSecond === 0 || ticks === null ? null : ticks / ticksPerSecond;
}

function fragmentTicks(movie: Window): number | null {
  const fragments = childIn(movie, "mvex");
  const header = fragments === null ? null : childIn(fragments, "mehd");
  if (header === null) return null;
  const isLong = header.bytes[0] === 1;
  return header.bytes.length < (isLong ? 12 : 8) ? null : ticksAt(header, 4, isLong);
}

/** Nothing and the largest number there is both mean that nobody knows. */
function ticksAt({ view }: Window, at: number, isLong: boolean): number | null {
  const ticks = isLong ? longAt(view, at) : view.getUint32(at);
  return ticks === 0 || ticks >= (isLong ? Number.MAX_SAFE_INTEGER : 0xffff_ffff) ? null : ticks;
}

function childIn(parent: Window, name: string): Window | null {
  let at = 0;
  while (at + 8 <= parent.bytes.length) {
    const box = boxAt(parent, at);
    if (box === null) return null;
    const end = at + (box.lengthBytes ?? parent.bytes.length - at);
    if (box.name === name) {
      const bytes = parent.bytes.subarray(at + box.headBytes, end);
      return { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length) };
    }
    at = end;
  }
  return null;
}

interface Box {
  readonly name: string;
  readonly headBytes: number;
  /** Null where it goes on to the end. */
  readonly lengthBytes: number | null;
}

/** Null where no box can be: each is at least as long as its own head, so that whoever walks along them comes to an end. */
function boxAt({ bytes, view }: Window, at: number): Box | null {
  if (at + 8 > bytes.length) return null;
  const short = view.getUint32(at);
  const name = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
  if (short === 0) return { name, headBytes: 8, lengthBytes: null };
  if (short !== 1) return short < 8 ? null : { name, headBytes: 8, lengthBytes: short };
  if (at + 16 > bytes.length) return null;
  const long = longAt(view, at + 8);
  return long < 16 || long > Number.MAX_SAFE_INTEGER ? null : { name, headBytes: 16, lengthBytes: long };
}

/** Files in fragments have many, but what is looked for stands before those. */
const boxesMax = 32;
