import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { EmbeddedModel } from "../catalog.ts";
import { modelId, type Addon } from "./addon.ts";
import { fileBytes } from "./files.ts";
import { addons } from "./table.ts";
import { voicesIn } from "../speech/kokoro/kokoro-addon.ts";

/** An added model, and the folder that the paths of its files are relative to. */
export interface AddedModel extends EmbeddedModel {
  readonly directory: string;
}

/** The models that were added to a data directory. Cheap: only the sizes of the weights are checked. */
export function addedModels(dataDir: string, table: readonly Addon[] = addons): readonly AddedModel[] {
  return table.filter((addon) => addonState(addon, dataDir) === "added").map((addon) => addedModel(addon, dataDir));
}

/** `incomplete`: a part of it is there, which `add` continues or replaces. */
export type AddonState = "added" | "incomplete" | "available";

export function addonState(addon: Addon, dataDir: string): AddonState {
  const folder = addonFolder(dataDir, addon.name);
  if (hasManifest(addon, folder) && addon.files.every(({ path, bytes }) => fileBytes(join(folder, path)) === bytes)) return "added";
  return existsSync(folder) || existsSync(stagingFolder(dataDir, addon.name)) ? "incomplete" : "available";
}

/** The last file that is written to the folder of an add-on: it lists the verified files. */
export function manifest(addon: Addon): string {
  const packages = addon.packages.map(({ name, version, integrity }) => ({ name, version, integrity }));
  const files = addon.files.map(({ path, bytes, sha256 }) => ({ path, bytes, sha256 }));
  return `${JSON.stringify({ format: 1, id: modelId(addon), licence: addon.licence, packages, files }, null, 2)}\n`;
}

/** The manifest of another version does not count. */
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

/** The folder of all add-ons of a data directory. */
export function modelsFolder(dataDir: string): string {
  return join(dataDir, "models");
}

/** The final folder of an add-on. It appears at once, by a rename. */
export function addonFolder(dataDir: string, name: string): string {
  return join(modelsFolder(dataDir), name);
}

/** Where an add-on is assembled: on the same file system, so that it can be renamed. It may be deleted at any time. */
export function stagingFolder(dataDir: string, name: string): string {
  return join(modelsFolder(dataDir), ".adding", name);
}

export const manifestName = "manifest.json";
