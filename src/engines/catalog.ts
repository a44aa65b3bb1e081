import { existsSync } from "node:fs";
import type { LocalModel } from "../channels/channel.ts";
import { installedEngines, type EngineKind } from "./command.ts";

/**
 * Lists the local models: those of this installation, and those that were added to a data directory. The list is empty if
 * the optional package is not installed or cannot run; the gateway works without it.
 */
export async function localModels(): Promise<(dataDir: string) => readonly LocalModel[]> {
  try {
    const { catalog, installed } = await import("../../packages/embedded/src/catalog.ts");
    const { addedModels } = await import("../../packages/embedded/src/addons/installed.ts");
    const engines = installedEngines().filter(runsHere);
    const builtIn = catalog.filter(installed);
    return (dataDir) => [...builtIn, ...addedModels(dataDir)].filter(({ operation }) => engines.includes(operation));
  } catch {
    return () => [];
  }
}

/** Transcription needs a native library, which exists for some platforms only. */
function runsHere(engine: EngineKind): boolean {
  if (engine !== "transcription") return true;
  const folder = import.meta.resolve("onnxruntime-node/package.json").replace("package.json", "");
  return existsSync(new URL(`bin/napi-v6/${process.platform}/${process.arch}`, folder));
}
