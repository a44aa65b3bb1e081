import { mkdir, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import type { Addon } from "./addon.ts";
import { addonState } from "./installed.ts";
import { addonFolder, workshop } from "./places.ts";

/** Takes an add-on away, and what was fetched of one that is not complete. `false` when there was nothing. */
export async function removeAddon(addon: Addon, dataDir: string): Promise<boolean> {
  if (addonState(addon, dataDir) === "available") return false;
  const folder = workshop(dataDir, addon.name);
  await rm(folder, { recursive: true, force: true });
  const place = addonFolder(dataDir, addon.name);
  const aside = `${folder}.removed`;
  await rm(aside, { recursive: true, force: true });
  await mkdir(dirname(aside), { recursive: true });
  // Out of sight at once, whole: a gateway that starts meanwhile finds all of it or nothing.
  await rename(place, aside).catch(() => rm(place, { recursive: true, force: true }));
  await rm(aside, { recursive: true, force: true });
  return true;
}
