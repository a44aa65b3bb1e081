import { viewOf } from "./bytes.ts";

/** The head of an element of EBML (RFC 8794), which Matroska and WebM are made of. */
export interface EbmlElement {
  readonly id: number;
  /** Where its content begins. */
  readonly from: number;
  /** Of the content; null where it was not known when it was written. Beyond 2^53 it is not exact, and nothing is that long. */
  readonly lengthBytes: number | null;
}

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

/** The element at an offset, which is at least two bytes long; null where none can be, or where the bytes end before its head does. */
export function elementAt(bytes: Uint8Array, at: number): EbmlElement | null {
  const idBytes = numberBytes(bytes[at]);
  const sizeBytes = numberBytes(bytes[at + idBytes]);
  const from = at + idBytes + sizeBytes;
  if (idBytes > 4 || sizeBytes > 8 || from > bytes.length) return null;
  const length = numberIn(bytes, at + idBytes, sizeBytes);
  // A size of nothing but ones is not known.
  return { id: bigEndian(bytes, at, idBytes), from, lengthBytes: length >= 2 ** (7 * sizeBytes) - 1 ? null : length };
}

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
export function unsignedIn(content: Uint8Array): number {
  return bigEndian(content, 0, Math.min(8, content.length));
}

/** Null where it is of no length that such numbers have. */
export function floatIn(content: Uint8Array): number | null {
  if (content.length === 4) return viewOf(content).getFloat32(0);
  return content.length === 8 ? viewOf(content).getFloat64(0) : null;
}

/** A name: text that may be padded with zeros. */
export function textIn(content: Uint8Array): string {
  return new TextDecoder("latin1").decode(content.subarray(0, 64)).replace(/\0.*$/su, "");
}
