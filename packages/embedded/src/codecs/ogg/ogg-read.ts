import { joinBytes } from "../bytes.ts";
import { UndecodableAudio } from "../codec.ts";
import { hasTextAt } from "../../../../../src/media/containers/bytes.ts";
import { oggChecksum, oggHeadBytesMin, oggPageAt, type OggPage } from "../../../../../src/media/containers/ogg-page.ts";

/** A page with the packets that ended in it. */
export interface ReadOggPage extends OggPage {
  readonly packets: readonly Uint8Array[];
}

export interface OggReader {
  push(bytes: Uint8Array): readonly ReadOggPage[];
}

const packetBytesMax = 1 << 20;
/** Pages are found again behind damage; but what has none for so long is no Ogg. */
const strayBytesMax = 1 << 18;

export function makeOggReader(): OggReader {
  let held = new Uint8Array(0);
  let stray = 0;
  const parts = new Map<number, Uint8Array>();

  /** The next whole page, and where the one after it begins; `null` where there is none yet. */
  const next = (from: number): { readonly page: ReadOggPage; readonly end: number } | { readonly skip: number } | null => {
    const start = findCapture(held, from);
    if (start < 0) return { skip: Math.max(from, held.length - 3) };
    if (start > from) return { skip: start };
    const page = oggPageAt(held, start);
    if (page === "more") return null;
    if (page === "no") return { skip: start + captureBytes };
    const end = start + page.headBytes + page.contentBytes;
    if (held.length < end) return null;
    const bytes = held.subarray(start, end);
    if (page.checksum !== oggChecksum(bytes)) return { skip: start + captureBytes };
    return { page: { ...page, packets: packetsOf(page, bytes) }, end };
  };

  const packetsOf = ({ headBytes, continues, serial }: OggPage, bytes: Uint8Array): readonly Uint8Array[] => {
    const packets: Uint8Array[] = [];
    let part = continues ? parts.get(serial) : new Uint8Array(0);
    parts.delete(serial);
    let at = headBytes;
    for (let index = oggHeadBytesMin; index < headBytes;) {
      let length = 0;
      let lacing = 255;
      while (index < headBytes && lacing === 255) {
        lacing = bytes[index]!;
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
    return packets;
  };

  return {
    push(bytes) {
      held = new Uint8Array(joinBytes([held, bytes]));
      const pages: ReadOggPage[] = [];
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
  for (let at = bytes.indexOf(0x4f, from); at >= 0; at = bytes.indexOf(0x4f, at + 1)) if (hasTextAt(bytes, at, "OggS")) return at;
  return -1;
}

const captureBytes = 4;
