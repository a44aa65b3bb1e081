import makeFlac from "@audio/encode-flac";
import type { FixedRateEncoder } from "../codec.ts";
import { joinBytes } from "../bytes.ts";
import { pcmRate } from "../pcm.ts";
import { silencedWithoutHandlers } from "../silenced.ts";

/** What is lossless keeps the rate that it is given, if players know that rate. */
const rates: readonly number[] = [8000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000];

export async function makeFlacEncoder(givenRate: number): Promise<FixedRateEncoder> {
  const sampleRate = rates.includes(givenRate) ? givenRate : pcmRate;
  const flac = await silencedWithoutHandlers(() => makeFlac({ sampleRate, channels: 1, bitDepth: 16, compression: 5 }));
  let begun = false;
  // The library writes its header with the first samples; an empty stream has a header too.
  const begin = (): Uint8Array => {
    if (begun) return new Uint8Array(0);
    begun = true;
    return flac.encode([new Float32Array(0)]);
  };
  let open = true;
  return {
    sampleRate,
    push: (samples) => joinBytes([begin(), flac.encode([samples])]),
    end() {
      open = false;
      return joinBytes([begin(), flac.flush()]);
    },
    destroy() {
      if (open && begun) flac.free();
      open = false;
    },
  };
}
