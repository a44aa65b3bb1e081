import type { AudioFormat } from "../../../../src/media/audio.ts";
import { pcmRate } from "./pcm.ts";

export { UndecodableAudio } from "./undecodable.ts";

/** Mono. Where there are no samples yet, the rate may still be unknown: then it is 0. */
export interface Decoded {
  readonly samples: Float32Array;
  readonly sampleRate: number;
}

/**
 * Reads audio as it comes, cut at any byte; its samples do not depend on the cuts, and its rate stays what it first was.
 * It throws `UndecodableAudio` when what came cannot be of its format, at the latest when it ends without any audio.
 */
export interface StreamDecoder {
  push(bytes: Uint8Array): Decoded;
  end(): Decoded;
  destroy(): void;
}

/** Each codec is loaded when it is first asked for. */
export async function makeDecoder(format: AudioFormat): Promise<StreamDecoder> {
  switch (format) {
    case "mp3":
      return (await import("./mp3-decode.ts")).makeMp3Decoder();
    case "opus":
      return (await import("./ogg-decode.ts")).makeOggDecoder(await (await import("./opus-decode.ts")).makeOpusDecoder());
    case "aac":
      return (await import("./aac-decode.ts")).makeAacDecoder();
    case "flac":
      return (await import("./flac-decode.ts")).makeFlacDecoder();
    case "wav":
      return (await import("./wav-decode.ts")).makeWavDecoder();
    case "pcm":
      return makePcmDecoder();
  }
}

function makePcmDecoder(): StreamDecoder {
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
