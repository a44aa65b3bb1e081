import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { EmbeddedModel } from "../catalog.ts";
import { modelId, type Addon } from "./addon.ts";
import { fileBytes } from "./file-hash.ts";
import { addonFolder, manifestName, workshop } from "./places.ts";
import { addons } from "./table.ts";
import { voicesIn } from "../speech/kokoro/voices.ts";

/** A model that was added, and the folder that the paths of its files start from. */
export interface AddedModel extends EmbeddedModel {
  readonly directory: string;
}

/** The models that were added to a data directory. Cheap: of the weights nothing is read but their sizes. */
export function addedModels(dataDir: string, table: readonly Addon[] = addons): readonly AddedModel[] {
  return table.filter((addon) => addonState(addon, dataDir) === "added").map((addon) => addedModel(addon, dataDir));
}

/** `incomplete`: something of it is there, which adding it goes on with or replaces. */
export type AddonState = "added" | "incomplete" | "available";

export function addonState(addon: Addon, dataDir: string): AddonState {
  const folder = addonFolder(dataDir, addon.name);
  if (hasManifest(addon, folder) && addon.files.every(({ path, bytes }) => fileBytes(join(folder, path)) === bytes)) return "added";
  return existsSync(folder) || existsSync(workshop(dataDir, addon.name)) ? "incomplete" : "available";
}

/** What is written last into the folder of an add-on: the files that were found to be right. */
export function manifest(addon: Addon): string {
  const packages = addon.packages.map(({ name, version, integrity }) => ({ name, version, integrity }));
  const files = addon.files.map(({ path, bytes, sha256 }) => ({ path, bytes, sha256 }));
  return `${JSON.stringify({ format: 1, id: modelId(addon), licence: addon.licence, packages, files }, null, 2)}\n`;
}

/** One of another version of the add-on is as good as none. */
function hasManifest(addon: Addon, folder: string): boolean {
  const expected = manifest(addon);
  const path = join(folder, manifestName);
  try {
    return fileBytes(path) === Buffer.byteLength(expected) && readFileSync(path, "utf8") === expected;
  } catch {
    return false;
  }
}

function addedModel(addon: Addon, dataDir: string): AddedModel {
  const { name, operation, description, licence, packages, files } = addon;
  const voices = operation === "speech" ? voicesIn(files) : [];
  return {
    id: modelId(addon),
    upstream: name,
    operation,
    description,
    package: packages[0]?.name ?? "",
    files: files.map(({ path, bytes, sha256 }) => ({ path, bytes, sha256 })),
    licence,
    ...(voices.length === 0 ? undefined : { voices }),
    directory: resolve(addonFolder(dataDir, name)),
  };
}
