import type { StreamDecoder } from "./codec.ts";

/** The rate of the bare format, and of what we write as wav. */
export const pcmRate = 24_000;

/** Signed 16 bit little-endian; what lies beyond full scale is held there. */
export function toPcm(samples: Float32Array): Uint8Array {
  const bytes = new Uint8Array(samples.length * 2);
  const view = new DataView(bytes.buffer);
  for (let index = 0; index < samples.length; index++) view.setInt16(index * 2, toInteger(samples[index]!), true);
  return bytes;
}

export function toInteger(sample: number): number {
  const scaled = Math.round(sample * 32_767);
  // What is no number becomes silence.
  return scaled > 32_767 ? 32_767 : scaled < -32_768 ? -32_768 : scaled || 0;
}

export function makePcmDecoder(): StreamDecoder {
  let odd = new Uint8Array(0);
  return {
    push(bytes) {
      const all = new Uint8Array(odd.length + bytes.length);
      all.set(odd);
      all.set(bytes, odd.length);
      const count = all.length >> 1;
      const view = new DataView(all.buffer);
      const samples = new Float32Array(count);
      for (let index = 0; index < count; index++) samples[index] = view.getInt16(index * 2, true) / 32_768;
      odd = all.slice(count * 2);
      return { samples, sampleRate: pcmRate };
    },
    end: () => ({ samples: new Float32Array(0), sampleRate: pcmRate }),
    destroy() {},
  };
}
