import { flacEnd } from "./flac.ts";
import { framesEnd } from "./frames.ts";
import type { AudioFormat } from "../audio.ts";
import { oggHeadBytesMin, oggPageAt } from "../containers/ogg-page.ts";
import { wavData } from "../containers/wav.ts";

/** Watches audio go by, to say at its end whether it is all there. Only what can be proved short is called so. */
export interface AudioEnd {
  /** Takes the next bytes, and says what is wrong if they cannot belong to the format. */
  push(bytes: Uint8Array): string | null;
  /** Why the audio is not whole, if it ends here. */
  short(): string | null;
}

/** For audio that was recognised by its first bytes; they are pushed like all others. */
export function audioEnd(format: AudioFormat, head: Uint8Array): AudioEnd {
  switch (format) {
    case "wav":
      return wavEnd(head);
    case "opus":
      return oggEnd();
    case "pcm":
      return samplesEnd();
    case "mp3":
    case "aac":
      return framesEnd(format);
    case "flac":
      return flacEnd(head);
  }
}

function wavEnd(head: Uint8Array): AudioEnd {
  const data = wavData(head);
  const wholeBytes = data === "more" || "wrong" in data || data.lengthBytes === null ? 0 : data.start + data.lengthBytes;
  let length = 0;
  return {
    push: (bytes) => {
      length += bytes.length;
      return null;
    },
    short: () => (length < wholeBytes ? `the WAV ends after ${length} of ${wholeBytes} bytes` : null),
  };
}

function samplesEnd(): AudioEnd {
  let length = 0;
  return {
    push: (bytes) => {
      length += bytes.length;
      return null;
    },
    short: () => (length % 2 === 0 ? null : "the samples end inside of one"),
  };
}

/** Walks from page to page. The last one of a whole stream says that it is the last. */
function oggEnd(): AudioEnd {
  let head = new Uint8Array(0);
  let contentLeft = 0;
  let ends = false;

  function takeHead(bytes: Uint8Array, from: number): number | null {
    const known = head.length;
    const joined = new Uint8Array(Math.min(known + bytes.length - from, headBytesMax));
    joined.set(head);
    joined.set(bytes.subarray(from, from + joined.length - known), known);
    const page = oggPageAt(joined, 0);
    if (page === "no") return null;
    if (page === "more") {
      head = joined;
      return bytes.length;
    }
    head = new Uint8Array(0);
    contentLeft = page.contentBytes;
    ({ ends } = page);
    return from + page.headBytes - known;
  }

  return {
    push: (bytes) => {
      let at = 0;
      while (at < bytes.length) {
        const passed = Math.min(contentLeft, bytes.length - at);
        contentLeft -= passed;
        at += passed;
        if (at === bytes.length) break;
        const next = takeHead(bytes, at);
        if (next === null) return "the Ogg stream is broken";
        at = next;
      }
      return null;
    },
    short: () => (ends && contentLeft === 0 && head.length === 0 ? null : "the Ogg stream ends before its last page"),
  };
}

const headBytesMax = oggHeadBytesMin + 255;
