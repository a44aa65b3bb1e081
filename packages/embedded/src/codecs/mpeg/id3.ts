import { joinBytes } from "../bytes.ts";

const headerBytes = 10;

/**
 * Passes over an ID3 tag in front of a stream: it may hold megabytes of pictures, in which a decoder would look for audio.
 * What it gives over all its calls is the stream without the tag.
 */
export function makeId3Skipper(): (bytes: Uint8Array) => Uint8Array {
  let held: Uint8Array | null = new Uint8Array(0);
  let skip = 0;
  return (bytes) => {
    let rest = bytes;
    if (held !== null) {
      held = joinBytes([held, bytes]);
      if (held.length < headerBytes && couldBeTag(held)) return new Uint8Array(0);
      skip = tagBytes(held);
      rest = held;
      held = null;
    }
    const gone = Math.min(skip, rest.length);
    skip -= gone;
    return rest.subarray(gone);
  };
}

/** The length of the tag at the front, with its header; 0 where there is none. */
export function tagBytes(bytes: Uint8Array): number {
  if (bytes.length < headerBytes || !couldBeTag(bytes)) return 0;
  const size = [6, 7, 8, 9].map((at) => bytes[at]!);
  if (size.some((byte) => byte > 127)) return 0;
  const footer = (bytes[5]! & 0x10) === 0 ? 0 : headerBytes;
  return headerBytes + size.reduce((total, byte) => total * 128 + byte, 0) + footer;
}

function couldBeTag(bytes: Uint8Array): boolean {
  return [0x49, 0x44, 0x33].every((byte, index) => index >= bytes.length || bytes[index] === byte);
}
