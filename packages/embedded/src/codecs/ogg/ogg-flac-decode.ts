import type { StreamDecoder } from "../codec.ts";
import { makeFlacDecoder } from "../flac/flac-decode.ts";
import { joinBytes, joinSamples, noBytes } from "../bytes.ts";
import { oggCodecAt, oggFlacHeadBytes } from "../../../../../src/media/containers/ogg-page.ts";
import { makeOggReader } from "./ogg-read.ts";

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
        const begins = serial === null && page.begins && oggCodecAt(page.packets[0] ?? noBytes, 0) === "flac";
        if (begins) serial = page.serial;
        if (page.serial !== serial) continue;
        const plain = joinBytes(page.packets);
        const decoded = flac.push(begins ? plain.subarray(oggFlacHeadBytes) : plain);
        pieces.push(decoded.samples);
        sampleRate = decoded.sampleRate;
      }
      return { samples: joinSamples(pieces), sampleRate };
    },
    end: () => flac.end(),
    destroy: () => flac.destroy(),
  };
}
