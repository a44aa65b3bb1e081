import type { LocalModel } from "../channels/channel.ts";
import { installedEngines } from "./command.ts";

/**
 * Lists the local models: those of this installation, and those that were added to a data directory. The list is empty if
 * the optional packages are not installed; the gateway works without it.
 */
export async function localModels(): Promise<(dataDir: string) => readonly LocalModel[]> {
  try {
    const { catalog, installed } = await import("../../packages/embedded/src/catalog.ts");
    const { addedModels } = await import("../../packages/embedded/src/addons/installed.ts");
    const engines = installedEngines();
    const builtIn = catalog.filter(installed);
    return (dataDir) => [...builtIn, ...addedModels(dataDir)].filter(({ operation }) => engines.includes(operation));
  } catch {
    return () => [];
  }
}
