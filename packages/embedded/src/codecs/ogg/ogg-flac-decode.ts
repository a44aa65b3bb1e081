import type { StreamDecoder } from "../codec.ts";
import { makeFlacDecoder } from "../flac/flac-decode.ts";
import { joinBytes, joinSamples } from "../bytes.ts";
import { hasTextAt } from "../../../../../src/media/containers/bytes.ts";
import { makeOggReader } from "./ogg-read.ts";

/** In front of the plain stream's own mark, the first packet has this many bytes of Ogg's. */
const mappingBytes = 9;

/** FLAC in Ogg is the plain stream cut into packets. */
export function makeOggFlacDecoder(): StreamDecoder {
  const reader = makeOggReader();
  const flac = makeFlacDecoder();
  let serial: number | null = null;
  return {
    push(bytes) {
      const pieces: Float32Array[] = [];
      let sampleRate = 0;
      for (const page of reader.push(bytes)) {
        const begins = serial === null && page.first && hasTextAt(page.packets[0] ?? new Uint8Array(0), 0, "\x7fFLAC");
        if (begins) serial = page.serial;
        if (page.serial !== serial) continue;
        const plain = joinBytes(page.packets);
        const decoded = flac.push(begins ? plain.subarray(mappingBytes) : plain);
        pieces.push(decoded.samples);
        sampleRate = decoded.sampleRate;
      }
      return { samples: joinSamples(pieces), sampleRate };
    },
    end: () => flac.end(),
    destroy: () => flac.destroy(),
  };
}
