import { joinBytes } from "../bytes.ts";
import { id3TagBytes } from "../../../../../src/media/containers/id3.ts";

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
      const tagBytes = id3TagBytes(held, 0);
      if (tagBytes === "more") return new Uint8Array(0);
      skip = tagBytes === "no" ? 0 : tagBytes;
      rest = held;
      held = null;
    }
    const gone = Math.min(skip, rest.length);
    skip -= gone;
    return rest.subarray(gone);
  };
}
