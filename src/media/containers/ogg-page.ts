import { hasTextAt, matchText } from "./bytes.ts";

/** The head of an Ogg page (RFC 3533, section 6): what it says of the page, and the table of its segments. */
export interface OggPage {
  /** Of the head alone: the content begins behind it. */
  readonly headBytes: number;
  readonly contentBytes: number;
  /** Its first packet began on an earlier page. */
  readonly continues: boolean;
  readonly begins: boolean;
  readonly ends: boolean;
  readonly serial: number;
  /** Where the stream stands behind the last packet that ends on the page; -1 where none does. */
  readonly granule: number;
  readonly checksum: number;
}

export const oggHeadBytesMin = 27;

/** The head of the page at an offset; `more` where its bytes have not all come, `no` where no page begins. */
export function oggPageAt(bytes: Uint8Array, at: number): OggPage | "more" | "no" {
  const mark = matchText(bytes, at, oggMark);
  if (mark !== "yes") return mark;
  const segments = bytes[at + oggHeadBytesMin - 1];
  if (segments === undefined || bytes.length - at < oggHeadBytesMin + segments) return "more";
  let contentBytes = 0;
  for (let index = 0; index < segments; index++) contentBytes += bytes[at + oggHeadBytesMin + index]!;
  const flags = bytes[at + 5]!;
  return {
    headBytes: oggHeadBytesMin + segments,
    contentBytes,
    continues: (flags & 1) !== 0,
    begins: (flags & 2) !== 0,
    ends: (flags & 4) !== 0,
    serial: oggSerialAt(bytes, at),
    granule: oggGranuleAt(bytes, at),
    checksum: uint32At(bytes, at + checksumAt),
  };
}

/** With the one version there is. */
export const oggMark = "OggS\0";

/** For pages of which only the beginning is there, the bytes of which the caller has counted. */
export function oggSerialAt(bytes: Uint8Array, page: number): number {
  return uint32At(bytes, page + 14);
}

export function oggGranuleAt(bytes: Uint8Array, page: number): number {
  return (uint32At(bytes, page + 10) | 0) * 2 ** 32 + uint32At(bytes, page + 6);
}

function uint32At(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0;
}

export type OggCodec = "opus" | "vorbis" | "flac" | "speex";

/** By the first packet of a stream, which begins at this offset. */
export function oggCodecAt(bytes: Uint8Array, at: number): OggCodec | null {
  if (hasTextAt(bytes, at, "OpusHead")) return "opus";
  if (hasTextAt(bytes, at, "\u0001vorbis")) return "vorbis";
  if (hasTextAt(bytes, at, "\u007FFLAC")) return "flac";
  return hasTextAt(bytes, at, "Speex   ") ? "speex" : null;
}

/** How many bytes the first packet of FLAC has in front of the plain stream's own mark. */
export const oggFlacHeadBytes = 9;

const checksumAt = 22;

/** Of a whole page: 32 bits, polynomial 04c11db7, nothing reversed, with zeros in the place of the checksum itself. */
export function oggChecksum(page: Uint8Array): number {
  let sum = 0;
  for (let index = 0; index < page.length; index++) {
    const byte = index >= checksumAt && index < checksumAt + 4 ? 0 : page[index]!;
    sum = (sum << 8) ^ checksums[((sum >>> 24) ^ byte) & 0xff]!;
  }
  return sum >>> 0;
}

const checksums = Int32Array.from({ length: 256 }, (_, index) => {
  let sum = index << 24;
  for (let bit = 0; bit < 8; bit++) sum = (sum << 1) ^ (sum < 0 ? 0x04_c1_1d_b7 : 0);
  return sum;
});
