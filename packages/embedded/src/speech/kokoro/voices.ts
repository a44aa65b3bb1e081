import { basename } from "node:path";
import type { WeightFile } from "../../catalog.ts";

/** In the model's folder: a file for each voice. */
export const voicesFolder = "voices";

/** The voices a model brings as files, in the order of its table: the usual one first. None where voices are no files. */
export function voicesIn(files: readonly WeightFile[]): readonly string[] {
  return files.flatMap(({ path }) => (path.startsWith(`${voicesFolder}/`) ? [basename(path, ".bin")] : []));
}

export type Accent = "american" | "british";

/** By the letter that a voice's name begins with. */
export function accentOf(voice: string): Accent {
  return voice.startsWith("b") ? "british" : "american";
}
