import { mkdir, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import type { Addon } from "./addon.ts";
import { addonState, addonFolder, stagingFolder } from "./installed.ts";

/** Deletes an add-on, or the staging folder of an incomplete one. Returns `false` if there was neither. */
export async function removeAddon(addon: Addon, dataDir: string): Promise<boolean> {
  if (addonState(addon, dataDir) === "available") return false;
  const folder = stagingFolder(dataDir, addon.name);
  await rm(folder, { recursive: true, force: true });
  const installed = addonFolder(dataDir, addon.name);
  const aside = `${folder}.removed`;
  await rm(aside, { recursive: true, force: true });
  await mkdir(dirname(aside), { recursive: true });
  // Renamed first, so that a gateway that starts meanwhile finds all of it or nothing.
  await rename(installed, aside).catch(() => rm(installed, { recursive: true, force: true }));
  await rm(aside, { recursive: true, force: true });
  return true;
}
