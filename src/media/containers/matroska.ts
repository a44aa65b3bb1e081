import { hasTextAt, viewOf } from "./bytes.ts";

export const matroskaIds = {
  ebml: 0x1a45dfa3,
  segment: 0x18538067,
  info: 0x1549a966,
  timestampScale: 0x2ad7b1,
  duration: 0x4489,
  tracks: 0x1654ae6b,
  trackEntry: 0xae,
  trackNumber: 0xd7,
  trackType: 0x83,
  codecId: 0x86,
  codecPrivate: 0x63a2,
  audio: 0xe1,
  samplingFrequency: 0xb5,
  channels: 0x9f,
  bitDepth: 0x6264,
  encodings: 0x6d80,
  encoding: 0x6240,
  compression: 0x5034,
  compressionKind: 0x4254,
  compressionSettings: 0x4255,
  encryption: 0x5035,
  cluster: 0x1f43b675,
  blockGroup: 0xa0,
  block: 0xa1,
  simpleBlock: 0xa3,
} as const;

/** The type of a track with sound. */
export const soundTrackType = 2;

/** An element of EBML (RFC 8794), which Matroska and WebM are made of. */
export interface EbmlElement {
  readonly id: number;
  /** Where it says that it ends; 0 where that was not known when it was written. Beyond 2^53 it is not exact, and nothing is that long. */
  readonly announcedEnd: number;
  /** The content, as far as it is there. */
  readonly bytes: Uint8Array;
}

/**
 * Element after element, each at least two bytes long. Those named in `open` are not passed over but entered, so that it does not
 * matter whether their length is known, or true: what is in them comes next.
 */
export function* elementsIn(bytes: Uint8Array, open: ReadonlySet<number> = noneOpen): Generator<EbmlElement> {
  for (let at = 0; at < bytes.length;) {
    const idBytes = numberBytes(bytes[at]);
    const sizeBytes = numberBytes(bytes[at + idBytes]);
    const from = at + idBytes + sizeBytes;
    if (idBytes > 4 || sizeBytes > 8 || from > bytes.length) {
      at = nextCluster(bytes, at + 1);
      continue;
    }
    const id = bigEndian(bytes, at, idBytes);
    const size = numberIn(bytes, at + idBytes, sizeBytes);
    // A size of nothing but ones is not known, which only those can be that are entered.
    const isKnown = size < 2 ** (7 * sizeBytes) - 1;
    const to = open.has(id) ? from : isKnown ? Math.min(bytes.length, from + size) : bytes.length;
    yield { id, announcedEnd: isKnown ? from + size : 0, bytes: bytes.subarray(from, to) };
    at = to;
  }
}

const noneOpen: ReadonlySet<number> = new Set();

/** Behind damage the next cluster is looked for. */
function nextCluster(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(0x1f, from); at >= 0; at = bytes.indexOf(0x1f, at + 1)) {
    if (hasTextAt(bytes, at, "\u001f\u0043\u00b6\u0075")) return at;
  }
  return bytes.length;
}

/** The content of the first element of each kind that is of interest. Behind a cluster there is only sound. */
export function childrenOf(bytes: Uint8Array = noBytes): ReadonlyMap<number, Uint8Array> {
  const found = new Map<number, Uint8Array>();
  for (const { id, bytes: content } of elementsIn(bytes)) {
    if (id === matroskaIds.cluster) break;
    if (wanted.has(id) && !found.has(id)) found.set(id, content);
  }
  return found;
}

const wanted: ReadonlySet<number> = new Set<number>(Object.values(matroskaIds));
const noBytes = new Uint8Array(0);

/** A number whose first bits say how many bytes it has. */
export interface EbmlNumber {
  readonly value: number;
  readonly lengthBytes: number;
}

/** The number at an offset; null where none can be, or where the bytes end before it does. */
export function ebmlNumberAt(bytes: Uint8Array, at: number): EbmlNumber | null {
  const lengthBytes = numberBytes(bytes[at]);
  if (lengthBytes > 8 || at + lengthBytes > bytes.length) return null;
  return { value: numberIn(bytes, at, lengthBytes), lengthBytes };
}

/** By its first byte; nine where there is none. */
function numberBytes(first = 0): number {
  return first === 0 ? 9 : Math.clz32(first) - 23;
}

/** Without the bits that say how long it is. */
function numberIn(bytes: Uint8Array, at: number, length: number): number {
  return (bytes[at]! & (0xff >> length)) * 2 ** (8 * (length - 1)) + bigEndian(bytes, at + 1, length - 1);
}

function bigEndian(bytes: Uint8Array, at: number, length: number): number {
  let value = 0;
  for (let index = at; index < at + length; index++) value = value * 256 + bytes[index]!;
  return value;
}

/** The content of an element as a whole number; 0 where there is none. */
export function unsignedIn(content: Uint8Array = noBytes): number {
  return bigEndian(content, 0, Math.min(8, content.length));
}

/** Null where it is of no length that such numbers have. */
export function floatIn(content: Uint8Array = noBytes): number | null {
  if (content.length === 4) return viewOf(content).getFloat32(0);
  return content.length === 8 ? viewOf(content).getFloat64(0) : null;
}

/** A name: text that may be padded with zeros. */
export function textIn(content: Uint8Array = noBytes): string {
  return new TextDecoder("latin1").decode(content.subarray(0, 64)).replace(/\0.*$/su, "");
}
