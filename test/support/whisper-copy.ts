import { copyFileSync, linkSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Addon } from "../../packages/embedded/src/addons/addon.ts";
import { fileBytes, fileHash } from "../../packages/embedded/src/addons/files.ts";
import { manifest, addonFolder, manifestName } from "../../packages/embedded/src/addons/installed.ts";
import { catalog, weightsDirectory } from "../../packages/embedded/src/catalog.ts";

/** The weights of Whisper that are built in, laid out as if they had been added under another name. */
export async function addWhisperCopy(dataDir: string, name: string): Promise<Addon> {
  const base = catalog.find(({ upstream }) => upstream === "whisper-base")!;
  const from = dirname(join(weightsDirectory(base)!, base.files.find(({ path }) => basename(path) === "tokenizer.json")!.path));
  const paths = [
    "onnx/encoder_model_quantized.onnx",
    "onnx/decoder_model_merged_quantized.onnx",
    "tokenizer.json",
    "config.json",
    "generation_config.json",
  ];
  const files = await Promise.all(
    paths.map(async (path) => {
      const to = join(addonFolder(dataDir, name), path);
      mkdirSync(dirname(to), { recursive: true });
      place(join(from, path), to);
      return { path, bytes: fileBytes(to), sha256: (await fileHash(to, "sha256", "hex")) ?? "", pieces: [] };
    }),
  );
  const packages = [{ name: "copied", version: "1.0.0", integrity: "", bytes: 1 }];
  const addon: Addon = {
    name,
    operation: "transcription",
    description: "A copy.",
    licence: base.licence,
    platforms: null,
    packages,
    files,
  };
  writeFileSync(join(addonFolder(dataDir, name), manifestName), manifest(addon));
  return addon;
}

function place(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    // They lie on different disks.
    copyFileSync(from, to);
  }
}
