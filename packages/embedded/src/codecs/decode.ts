import type { AudioFormat } from "../../../../src/media/audio.ts";
import { makePcmDecoder } from "./pcm.ts";
import type { StreamDecoder } from "./codec.ts";

/** Each codec is loaded when it is first asked for. */
export async function makeDecoder(format: AudioFormat): Promise<StreamDecoder> {
  switch (format) {
    case "mp3":
      return (await import("./mpeg/mp3-decode.ts")).makeMp3Decoder();
    case "opus":
      return (await import("./ogg/ogg-decode.ts")).makeOggDecoder(await (await import("./ogg/opus-decode.ts")).makeOpusDecoder());
    case "aac":
      return (await import("./aac/aac-decode.ts")).makeAacDecoder();
    case "flac":
      return (await import("./flac/flac-decode.ts")).makeFlacDecoder();
    case "wav":
      return (await import("./wav/wav-decode.ts")).makeWavDecoder();
    case "pcm":
      return makePcmDecoder();
  }
}
