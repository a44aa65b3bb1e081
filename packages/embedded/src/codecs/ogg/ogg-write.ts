import { oggChecksum, oggHeadBytesMin } from "../../../../../src/media/containers/ogg-page.ts";

/** Writes one logical stream as Ogg pages. */
export interface OggWriter {
  /** A page of whole packets, at most 255 segments in all; `granule` is where the stream stands behind them. */
  page(packets: readonly Uint8Array[], granule: number, end?: boolean): Uint8Array;
}

export function makeOggWriter(serial: number): OggWriter {
  let sequence = 0;
  return {
    page(packets, granule, end = false) {
      const segments = packets.flatMap(({ length }) => [...Array<number>(Math.floor(length / 255)).fill(255), length % 255]);
      if (segments.length > 255) throw new RangeError("the packets do not fit into one page");
      const body = packets.reduce((total, { length }) => total + length, 0);
      const bytes = new Uint8Array(oggHeadBytesMin + segments.length + body);
      const view = new DataView(bytes.buffer);
      bytes.set([0x4f, 0x67, 0x67, 0x53]);
      bytes[5] = (sequence === 0 ? 2 : 0) | (end ? 4 : 0);
      view.setBigUint64(6, BigInt(granule), true);
      view.setUint32(14, serial, true);
      view.setUint32(18, sequence, true);
      bytes[26] = segments.length;
      bytes.set(segments, oggHeadBytesMin);
      let at = oggHeadBytesMin + segments.length;
      for (const packet of packets) {
        bytes.set(packet, at);
        at += packet.length;
      }
      view.setUint32(22, oggChecksum(bytes), true);
      sequence++;
      return bytes;
    },
  };
}
