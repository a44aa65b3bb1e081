import { boxUnder, boxesIn, tableIn, ticksPerSecond, trackBoxesIn, type Box } from "../../../../../src/media/containers/mp4-boxes.ts";
import { uint64At } from "../../../../../src/media/containers/bytes.ts";
import { mp4Coding } from "./mp4-audio-entry.ts";
import { blockFrames, type SampleFormat } from "../wav/sample-formats.ts";
import { FileSlicer, type TrackCoding, type DemuxedTrack } from "../containers/demuxed-track.ts";

/** The first sound of an MP4 or QuickTime file, be it in one piece or in fragments. Null where there is none. */
export function readMp4(source: Uint8Array): DemuxedTrack | null {
  const movie = boxUnder(source, "moov");
  const track = movie === null ? null : soundTrack(movie);
  if (movie === null || track === null) return null;
  const packets = function* (): Generator<Uint8Array> {
    const slicer = new FileSlicer(source);
    yield* tabledPackets(track, slicer);
    yield* fragmentPackets(source, movie, track, slicer);
  };
  const { leadSeconds, playSeconds } = track.edit;
  // Whoever writes in fragments does not know the length when it writes the edit.
  const isWhole = boxUnder(movie.bytes, "mvex") === null;
  return {
    coding: track.coding,
    leadSeconds,
    playSeconds: isWhole ? playSeconds : Infinity,
    packets: { [Symbol.iterator]: packets },
  };
}

interface Mp4Track {
  readonly id: number;
  readonly coding: TrackCoding;
  readonly edit: { readonly leadSeconds: number; readonly playSeconds: number };
  /** The boxes that say where the packets are. */
  readonly tables: Uint8Array;
}

function soundTrack(movie: Box): Mp4Track | null {
  for (const { name, bytes } of boxesIn(movie.bytes)) {
    if (name !== "trak") continue;
    const boxes = trackBoxesIn(bytes);
    if (boxes === null || boxes.handler !== "soun" || boxes.tables === null || boxes.entry === null) continue;
    return { id: trackId(bytes), coding: mp4Coding(boxes.entry), edit: editOf(movie, bytes), tables: boxes.tables };
  }
  return null;
}

function trackId(track: Uint8Array): number {
  const header = boxUnder(track, "tkhd");
  const at = header?.bytes[0] === 1 ? 20 : 12;
  return header === null || header.bytes.length < at + 4 ? 0 : header.view.getUint32(at);
}

/** The first edit that plays anything: players leave out what is before and behind it. */
function editOf(movie: Box, track: Uint8Array): Mp4Track["edit"] {
  const none = { leadSeconds: 0, playSeconds: Infinity };
  const box = boxUnder(track, "edts", "elst");
  const mediaTicks = ticksPerSecond(boxUnder(track, "mdia", "mdhd"));
  const movieTicks = ticksPerSecond(boxUnder(movie.bytes, "mvhd"));
  const isLong = box?.bytes[0] === 1;
  const edits = tableIn(box, isLong ? 20 : 12);
  const played: { readonly start: number; readonly length: number }[] = [];
  for (let index = 0; index < edits.length && played.length < 2; index++) {
    const at = edits.at(index);
    const start = isLong ? edits.view.getInt32(at + 8) * 2 ** 32 + edits.view.getUint32(at + 12) : edits.view.getInt32(at + 4);
    if (start >= 0) played.push({ start, length: isLong ? uint64At(edits.view, at) : edits.view.getUint32(at) });
  }
  const [first] = played;
  if (first === undefined || mediaTicks === 0) return none;
  // Several edits put pieces together; a length of nothing is that of a file in fragments.
  const isOne = played.length === 1 && first.length > 0 && movieTicks > 0;
  return { leadSeconds: first.start / mediaTicks, playSeconds: isOne ? first.length / movieTicks : Infinity };
}

function* tabledPackets({ coding, tables }: Mp4Track, slicer: FileSlicer): Generator<Uint8Array> {
  const runs = tableIn(boxUnder(tables, "stsc"), 12);
  const long = boxUnder(tables, "co64");
  const chunks = tableIn(long ?? boxUnder(tables, "stco"), long === null ? 4 : 8);
  const sizes = sizesIn(tables);
  let run = 0;
  let sample = 0;
  for (let chunk = 0; chunk < chunks.length && sample < sizes.length; chunk++) {
    while (run + 1 < runs.length && runs.view.getUint32(runs.at(run + 1)) <= chunk + 1) run++;
    const claimed = run < runs.length ? runs.view.getUint32(runs.at(run) + 4) : 0;
    const count = Math.min(claimed, sizes.length - sample);
    const at = chunks.at(chunk);
    let from = long === null ? chunks.view.getUint32(at) : uint64At(chunks.view, at);
    if (coding.codec === "samples") {
      // Here each moment of sound is a sample of its own, so a chunk is taken as a whole.
      const bytes = slicer.sliceAvailable(from, chunkBytes(coding.format, count, sizes));
      if (bytes !== null) yield bytes;
      sample += count;
      continue;
    }
    for (const end = sample + count; sample < end; sample++) {
      const size = sizes.at(sample);
      if (size === 0) continue;
      const bytes = slicer.slice(from, size);
      if (bytes === null) break;
      yield bytes;
      from += size;
    }
  }
}

/** QuickTime writes that samples are one byte long, and means one moment of sound. */
function chunkBytes(format: SampleFormat, count: number, { same }: Sizes): number {
  return same > 1 ? count * same : Math.ceil(count / blockFrames(format)) * format.blockBytes;
}

interface Sizes {
  readonly length: number;
  /** Where all have one. */
  readonly same: number;
  at(index: number): number;
}

/** How long each packet is: all the same, or one by one in 32 or in fewer bits. */
function sizesIn(tables: Uint8Array): Sizes {
  const box = boxUnder(tables, "stsz");
  if (box !== null && box.bytes.length >= 12) {
    const same = box.view.getUint32(4);
    if (same !== 0) return { length: box.view.getUint32(8), same, at: () => same };
    const table = tableIn(box, 4, 12);
    return { length: table.length, same: 0, at: (index) => table.view.getUint32(table.at(index)) };
  }
  const short = boxUnder(tables, "stz2");
  const bits = short?.bytes[7] ?? 0;
  if (short === null || ![4, 8, 16].includes(bits)) return { length: 0, same: 0, at: () => 0 };
  const table = tableIn(short, bits / 8, 12);
  const { bytes, view } = short;
  if (bits === 16) return { length: table.length, same: 0, at: (index) => view.getUint16(12 + index * 2) };
  if (bits === 8) return { length: table.length, same: 0, at: (index) => bytes[12 + index]! };
  return {
    length: table.length,
    same: 0,
    at: (index) => (index % 2 === 0 ? bytes[12 + index / 2]! >> 4 : bytes[12 + (index - 1) / 2]! & 15),
  };
}

/** The packets of a file that was written while it was recorded: each fragment says of its own. */
function* fragmentPackets(source: Uint8Array, movie: Box, { id, coding }: Mp4Track, slicer: FileSlicer): Generator<Uint8Array> {
  const usual = usualSize(movie, id);
  for (const fragment of boxesIn(source)) {
    if (fragment.name !== "moof") continue;
    for (const { name, bytes } of boxesIn(fragment.bytes)) {
      const head = name === "traf" ? fragmentHead(bytes, usual) : null;
      if (head?.id === id) yield* runPackets(bytes, head.base ?? fragment.from, head.size, coding, slicer);
    }
  }
}

function* runPackets(fragment: Uint8Array, base: number, usual: number, coding: TrackCoding, slicer: FileSlicer): Generator<Uint8Array> {
  let from = base;
  for (const box of boxesIn(fragment)) {
    if (box.name !== "trun" || box.bytes.length < 8) continue;
    const { offset, sizes } = runOf(box, usual, coding);
    if (offset !== null) from = base + offset;
    for (const size of sizes) {
      if (size === 0) continue;
      const packet = coding.codec === "samples" ? slicer.sliceAvailable(from, size) : slicer.slice(from, size);
      // Each packet takes some of the file's bytes, so a lie about their number ends here.
      if (packet === null) break;
      yield packet;
      from += size;
    }
  }
}

function usualSize(movie: Box, id: number): number {
  const usual = boxUnder(movie.bytes, "mvex");
  for (const { name, bytes, view } of usual === null ? [] : boxesIn(usual.bytes)) {
    if (name === "trex" && bytes.length >= 24 && view.getUint32(4) === id) return view.getUint32(16);
  }
  return 0;
}

function fragmentHead(
  bytes: Uint8Array,
  usual: number,
): { readonly id: number; readonly base: number | null; readonly size: number } | null {
  const box = boxUnder(bytes, "tfhd");
  if (box === null || box.bytes.length < 8) return null;
  const { view } = box;
  const flags = view.getUint32(0) & 0xff_ffff;
  let at = 8;
  const next = (flag: number, length: number): number | null => {
    if ((flags & flag) === 0) return null;
    at += length;
    return at <= box.bytes.length ? at - length : null;
  };
  const baseAt = next(1, 8);
  next(2, 4);
  next(8, 4);
  const sizeAt = next(0x10, 4);
  return {
    id: view.getUint32(4),
    base: baseAt === null ? null : uint64At(view, baseAt),
    size: sizeAt === null ? usual : view.getUint32(sizeAt),
  };
}

/** Where a run begins, and how long its packets are. Those that are all of one length are as many as it says, which may be a lie. */
function runOf(
  { bytes, view }: Box,
  usual: number,
  coding: TrackCoding,
): { readonly offset: number | null; readonly sizes: Iterable<number> } {
  const flags = view.getUint32(0) & 0xff_ffff;
  const offset = (flags & 1) !== 0 && bytes.length >= 12 ? view.getInt32(8) : null;
  const headBytes = 8 + ((flags & 1) === 0 ? 0 : 4) + ((flags & 4) === 0 ? 0 : 4);
  const entryBytes = [0x100, 0x200, 0x400, 0x800].filter((flag) => (flags & flag) !== 0).length * 4;
  const claimed = view.getUint32(4);
  if ((flags & 0x200) === 0) return { offset, sizes: equalSizes(claimed, usual, coding) };
  const count = Math.min(claimed, Math.floor(Math.max(0, bytes.length - headBytes) / entryBytes));
  const sizeAt = headBytes + ((flags & 0x100) === 0 ? 0 : 4);
  const sizes = function* (): Generator<number> {
    for (let index = 0; index < count; index++) yield view.getUint32(sizeAt + index * entryBytes);
  };
  return { offset, sizes: { [Symbol.iterator]: sizes } };
}

function* equalSizes(count: number, size: number, coding: TrackCoding): Generator<number> {
  if (coding.codec === "samples") return yield count * size;
  if (size > 0) for (let index = 0; index < count; index++) yield size;
}
