import type { AudioEnd } from "./audio-end.ts";
import { id3TagBytes } from "../containers/id3.ts";
import { frameHeaderAt } from "../containers/mpeg-frame.ts";

/**
 * Walks from frame to frame by what their headers say; an end inside of one is no end. Between frames and behind them
 * anything may stand: tags, padding, frames that do not tell their length. It is searched for the next frame a little, and a
 * frame found like that proves nothing before another follows where it ends.
 */
export function framesEnd(format: "mp3" | "aac"): AudioEnd {
  let head = new Uint8Array(0);
  let contentLeft = 0;
  /** Of the frames that were walked through; what is found by a search must look like them. */
  let signature: number | null = null;
  let proved = true;
  let searching = false;
  let misses = 0;

  /** The bytes that are gone for sure, from the front of these; 0 where more are needed. */
  function step(bytes: Uint8Array): number {
    if (misses > missesMax) return bytes.length;
    const tagBytes = searching ? "no" : id3TagBytes(bytes, 0);
    const found = tagBytes === "no" ? frameHeaderAt(bytes, 0) : tagBytes;
    if (found === "more") return 0;
    if (typeof found === "number") {
      contentLeft = found;
      proved = false;
      return 0;
    }
    if (found === "no" || found.format !== format || (searching && found.signature !== signature)) {
      if (bytes[0] === 0xff) misses++;
      searching = true;
      proved = false;
      const next = bytes.indexOf(0xff, 1);
      return next === -1 ? bytes.length : next;
    }
    // The first frames were looked at when the format was recognised.
    if (!searching) misses = 0;
    proved = !searching;
    searching = false;
    signature = found.signature;
    contentLeft = found.lengthBytes;
    return 0;
  }

  return {
    push(bytes) {
      let rest = bytes;
      if (head.length > 0) {
        rest = new Uint8Array(head.length + bytes.length);
        rest.set(head);
        rest.set(bytes, head.length);
        head = new Uint8Array(0);
      }
      while (rest.length > 0) {
        const passed = contentLeft > 0 ? Math.min(contentLeft, rest.length) : step(rest);
        if (contentLeft > 0) contentLeft -= passed;
        else if (passed === 0) {
          head = rest.slice();
          break;
        }
        rest = rest.subarray(passed);
      }
      return null;
    },
    short() {
      if (contentLeft > 0) return proved ? `the audio ends ${contentLeft} bytes before its last frame does` : null;
      return head[0] === 0xff && !searching ? "the audio ends inside of the header of a frame" : null;
    },
  };
}

/** Places that could begin a frame and do not. */
const missesMax = 256;
