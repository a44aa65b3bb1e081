import type { FixedRateEncoder } from "../codec.ts";
import { joinBytes } from "../bytes.ts";
import { pcmRate, toPcm } from "../pcm.ts";

export function makePcmEncoder(): FixedRateEncoder {
  return { sampleRate: pcmRate, push: toPcm, end: () => new Uint8Array(0), destroy() {} };
}

/** A stream cannot go back to write its length, so both sizes say "until the end", as other services' streams do. */
export function makeWavEncoder(): FixedRateEncoder {
  let begun = false;
  const begin = (): Uint8Array => {
    if (begun) return new Uint8Array(0);
    begun = true;
    return header();
  };
  return {
    sampleRate: pcmRate,
    push: (samples) => joinBytes([begin(), toPcm(samples)]),
    end: begin,
    destroy() {},
  };
}

function header(): Uint8Array {
  const bytes = new Uint8Array(44);
  const view = new DataView(bytes.buffer);
  const write = (at: number, text: string): void => bytes.set(new TextEncoder().encode(text), at);
  write(0, "RIFF");
  view.setUint32(4, 0xff_ff_ff_ff, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, pcmRate, true);
  view.setUint32(28, pcmRate * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  write(36, "data");
  view.setUint32(40, 0xff_ff_ff_ff, true);
  return bytes;
}
