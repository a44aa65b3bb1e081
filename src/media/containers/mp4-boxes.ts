import { fourCcAt, uint64At, viewOf } from "./bytes.ts";

/** The head of a box of MP4 or QuickTime (ISO 14496-12, section 4.2). */
export interface BoxHead {
  readonly name: string;
  readonly headBytes: number;
  /** Of the box with its head; null where it goes on to the end. Whatever is beyond 2^53 is not exact. */
  readonly lengthBytes: number | null;
}

/** Null where no box can be: each is at least as long as its own head, so that a walk along them ends. */
export function boxHeadAt(bytes: Uint8Array, at: number): BoxHead | null {
  if (at + 8 > bytes.length) return null;
  const view = viewOf(bytes);
  const short = view.getUint32(at);
  if (short === 1 && at + 16 > bytes.length) return null;
  const headBytes = short === 1 ? 16 : 8;
  const lengthBytes = short === 0 ? null : short === 1 ? uint64At(view, at + 8) : short;
  return lengthBytes !== null && lengthBytes < headBytes ? null : { name: fourCcAt(bytes, at + 4), headBytes, lengthBytes };
}

/** One box: its name, where it begins, and its content as far as it is there. */
export interface Box {
  readonly name: string;
  readonly from: number;
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

/** Box after box: no more than the bytes allow. */
export function* boxesIn(bytes: Uint8Array): Generator<Box> {
  let at = 0;
  for (let head = boxHeadAt(bytes, at); head !== null; head = boxHeadAt(bytes, at)) {
    const end = head.lengthBytes === null ? bytes.length : Math.min(bytes.length, at + head.lengthBytes);
    const content = bytes.subarray(at + head.headBytes, end);
    yield { name: head.name, from: at, bytes: content, view: viewOf(content) };
    at = end;
  }
}

/** The content of the first box under these names, one inside of the other. */
export function boxUnder(parent: Uint8Array, ...path: readonly string[]): Box | null {
  let found: Box | null = null;
  let inside = parent;
  for (const name of path) {
    found = null;
    for (const box of boxesIn(inside)) {
      if (box.name !== name) continue;
      found = box;
      break;
    }
    if (found === null) return null;
    inside = found.bytes;
  }
  return found;
}

/**
 * A table of entries of one size behind a head. How many there are is a matter of the bytes that are there; the number in front
 * of them can only make them fewer.
 */
export interface Table {
  readonly length: number;
  readonly view: DataView;
  /** Where an entry begins. */
  at(index: number): number;
}

export function tableIn(box: Box | null, entryBytes: number, headBytes = 8): Table {
  if (box === null || box.bytes.length < headBytes) return { length: 0, view: new DataView(new ArrayBuffer(0)), at: () => 0 };
  const { bytes, view } = box;
  const length = Math.min(view.getUint32(headBytes - 4), Math.floor((bytes.length - headBytes) / entryBytes));
  return { length, view, at: (index) => headBytes + index * entryBytes };
}

/** How many ticks of its clock a second has, as the header of a movie or of a track's media says; 0 where it does not. */
export function ticksPerSecond(header: Box | null): number {
  const at = header?.bytes[0] === 1 ? 20 : 12;
  return header === null || header.bytes.length < at + 4 ? 0 : header.view.getUint32(at);
}

/** What the boxes of a track say of it. */
export interface Mp4TrackBoxes {
  /** What kind of track it is: `soun`, `vide` and others. */
  readonly handler: string;
  /** The tables that say where its packets are. */
  readonly tables: Uint8Array | null;
  /** How its packets are written: the first description of them, of which more than one is hardly ever seen. */
  readonly entry: Mp4SampleEntry | null;
}

export interface Mp4SampleEntry {
  /** Of the codec. */
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** Null where the track does not say what it is. */
export function trackBoxesIn(track: Uint8Array): Mp4TrackBoxes | null {
  const handler = boxUnder(track, "mdia", "hdlr");
  if (handler === null) return null;
  const tables = boxUnder(track, "mdia", "minf", "stbl")?.bytes ?? null;
  const descriptions = tables === null ? null : boxUnder(tables, "stsd");
  const [entry] = descriptions === null ? [] : boxesIn(descriptions.bytes.subarray(8));
  return { handler: fourCcAt(handler.bytes, 8), tables, entry: entry ?? null };
}

/** What the entry of a track with sound says first, whatever its codec. */
export interface Mp4SoundFormat {
  readonly channels: number;
  /** Of a sample. */
  readonly bits: number;
  readonly sampleRate: number;
}

export const soundEntryHeadBytes = 28;

/** Null where it is cut. */
export function soundFormatIn(entry: Uint8Array): Mp4SoundFormat | null {
  if (entry.length < soundEntryHeadBytes) return null;
  const view = viewOf(entry);
  // The rate has sixteen bits behind the point.
  return { channels: view.getUint16(16), bits: view.getUint16(18), sampleRate: view.getUint32(24) / 65_536 };
}
