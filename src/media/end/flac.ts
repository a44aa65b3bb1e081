import type { AudioEnd } from "./audio-end.ts";
import { flacHeaderAt, type FlacHeader } from "../containers/flac-frame.ts";
import { flacBody } from "../containers/flac-metadata.ts";

/**
 * Where the stream says how many samples it has, the headers of its frames tell how far it got. A frame does not say how
 * long it is, so the headers are searched for; what only looks like one hardly has the right checksum and the right number.
 */
export function flacEnd(head: Uint8Array): AudioEnd {
  const body = flacBody(head);
  const { start, totalSamples } = typeof body === "string" ? { start: 0, totalSamples: 0 } : body;
  let toSkip = start;
  let tail = new Uint8Array(0);
  let fixedSamples = 0;
  let samples = 0;
  /** Frames that do not begin at the beginning prove nothing. */
  let counts = totalSamples > 0;

  function take({ number, blockSamples, varies }: FlacHeader): void {
    if (fixedSamples === 0) {
      fixedSamples = blockSamples;
      counts &&= number === 0;
    }
    const from = varies ? number : number * fixedSamples;
    if (from >= samples && from <= samples + gapBlocksMax * fixedSamples) samples = from + blockSamples;
  }

  function search(bytes: Uint8Array): void {
    for (let at = bytes.indexOf(0xff); at !== -1; at = bytes.indexOf(0xff, at + 1)) {
      const found = flacHeaderAt(bytes, at);
      if (found === "more") {
        tail = bytes.slice(at);
        return;
      }
      if (found !== "no") take(found);
    }
  }

  return {
    push(bytes) {
      if (!counts || samples >= totalSamples) return null;
      const skipped = Math.min(toSkip, bytes.length);
      toSkip -= skipped;
      let rest = bytes.subarray(skipped);
      if (tail.length > 0) {
        rest = new Uint8Array(tail.length + bytes.length);
        rest.set(tail);
        rest.set(bytes, tail.length);
        tail = new Uint8Array(0);
      }
      search(rest);
      return null;
    },
    short: () => (counts && samples < totalSamples ? `the FLAC ends after ${samples} of ${totalSamples} samples` : null),
  };
}

/** A frame that is damaged is not missed. */
const gapBlocksMax = 16;
