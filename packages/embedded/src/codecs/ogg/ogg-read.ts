import { joinBytes } from "../bytes.ts";
import { UndecodableAudio } from "../codec.ts";

/** The packets that ended in a page. */
export interface OggPage {
  readonly packets: readonly Uint8Array[];
  readonly serial: number;
  /** Where the stream stands behind the last packet; -1 where none ends in the page. */
  readonly granule: number;
  readonly first: boolean;
  readonly last: boolean;
}

export interface OggReader {
  push(bytes: Uint8Array): readonly OggPage[];
}

const packetBytesMax = 1 << 20;
/** Pages are found again behind damage; but what has none for so long is no Ogg. */
const strayBytesMax = 1 << 18;

export function makeOggReader(): OggReader {
  let held = new Uint8Array(0);
  let stray = 0;
  const parts = new Map<number, Uint8Array>();

  /** The next whole page, and where the one after it begins; `null` where there is none yet. */
  const next = (from: number): { readonly page: OggPage; readonly end: number } | { readonly skip: number } | null => {
    const start = findCapture(held, from);
    if (start < 0) return { skip: Math.max(from, held.length - 3) };
    if (start > from) return { skip: start };
    if (held.length < start + 27) return null;
    const count = held[start + 26]!;
    const body = start + 27 + count;
    if (held.length < body) return null;
    let length = 0;
    for (let index = start + 27; index < body; index++) length += held[index]!;
    const end = body + length;
    if (held.length < end) return null;
    const bytes = held.subarray(start, end);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (bytes[4] !== 0 || view.getUint32(22, true) !== oggChecksum(bytes)) return { skip: start + 4 };
    return { page: read(bytes, view, count), end };
  };

  const read = (bytes: Uint8Array, view: DataView, count: number): OggPage => {
    const serial = view.getUint32(14, true);
    const continued = (bytes[5]! & 1) !== 0;
    const packets: Uint8Array[] = [];
    let part = continued ? parts.get(serial) : new Uint8Array(0);
    parts.delete(serial);
    let at = 27 + count;
    for (let index = 0; index < count;) {
      let length = 0;
      let lacing = 255;
      while (index < count && lacing === 255) {
        lacing = bytes[27 + index]!;
        length += lacing;
        index++;
      }
      // A packet whose beginning was lost is passed over.
      const packet = part === undefined ? undefined : joinBytes([part, bytes.slice(at, at + length)]);
      at += length;
      part = new Uint8Array(0);
      if (packet === undefined) continue;
      if (packet.length > packetBytesMax) throw new UndecodableAudio("The Ogg stream has a packet of more than a megabyte.");
      if (lacing < 255) packets.push(packet);
      else if (parts.size < 64) parts.set(serial, packet);
    }
    const granule = Number(view.getBigInt64(6, true));
    return { packets, serial, granule, first: (bytes[5]! & 2) !== 0, last: (bytes[5]! & 4) !== 0 };
  };

  return {
    push(bytes) {
      held = new Uint8Array(joinBytes([held, bytes]));
      const pages: OggPage[] = [];
      let at = 0;
      for (;;) {
        const found = next(at);
        if (found === null) break;
        if ("skip" in found) {
          stray += found.skip - at;
          if (stray > strayBytesMax) throw new UndecodableAudio("This is not an Ogg stream.");
          if (found.skip === at) break;
          at = found.skip;
          continue;
        }
        stray = 0;
        pages.push(found.page);
        at = found.end;
      }
      held = held.slice(at);
      return pages;
    },
  };
}

function findCapture(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(0x4f, from); at >= 0 && at + 4 <= bytes.length; at = bytes.indexOf(0x4f, at + 1)) {
    if (bytes[at + 1] === 0x67 && bytes[at + 2] === 0x67 && bytes[at + 3] === 0x53) return at;
  }
  return -1;
}

/** Ogg's own check of a page: 32 bits, polynomial 04c11db7, nothing reversed, over the page with zeros in the check's place. */
export function oggChecksum(page: Uint8Array): number {
  let sum = 0;
  for (let index = 0; index < page.length; index++) {
    const byte = index >= 22 && index < 26 ? 0 : page[index]!;
    sum = (sum << 8) ^ crcTable[((sum >>> 24) ^ byte) & 0xff]!;
  }
  return sum >>> 0;
}

const crcTable = Int32Array.from({ length: 256 }, (_, index) => {
  let sum = index << 24;
  for (let bit = 0; bit < 8; bit++) sum = (sum << 1) ^ (sum < 0 ? 0x04_c1_1d_b7 : 0);
  return sum;
});
