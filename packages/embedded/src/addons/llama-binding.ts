import { join } from "node:path";

/** What we use of the engine's native interface. It belongs to one pinned version, so it cannot change under us. */
export interface LlamaAddon {
  readonly AddonModel: new (path: string, options: object) => LlamaModel;
  readonly AddonContext: new (model: LlamaModel, options: object) => LlamaContext;
  readonly AddonSampler: new (model: LlamaModel) => LlamaSampler;
  markLoaded(): boolean;
  setLogger(write: (level: number, message: string) => void): void;
  setLoggerLogLevel(level: number): void;
  /** Finds the library for this processor, in the given folder. */
  loadBackends(folder?: string): void;
  /** `undefined` as long as there is no library to compute with. */
  getGpuType(): string | false | undefined;
  init(): Promise<void>;
}

export interface LlamaModel {
  init(): Promise<boolean>;
  dispose(): Promise<void>;
  getTrainContextSize(): number;
  tokenBos(): number;
  tokenEos(): number;
  tokenize(text: string, readsMarks: boolean): Uint32Array;
  getTokenString(token: number): string;
  isEogToken(token: number): boolean;
}

export interface LlamaContext {
  init(): Promise<boolean>;
  dispose(): Promise<void>;
  initBatch(tokens: number): void;
  addToBatch(sequence: number, position: number, tokens: Uint32Array, wantedScores: Uint32Array): Uint32Array;
  decodeBatch(): Promise<void>;
  /** Below 0 when there is none. */
  sampleToken(scores: number, sampler: LlamaSampler): Promise<number>;
}

export interface LlamaSampler {
  applyConfig(config: object): void;
  dispose(): void;
}

let loaded: Promise<LlamaAddon> | null = null;

/** Once for a process: the library keeps what it knows of the machine for itself. */
export function loadAddon(require: NodeJS.Require, folder: string): Promise<LlamaAddon> {
  loaded ??= begin(require, folder).catch((error: unknown) => {
    loaded = null;
    throw error;
  });
  return loaded;
}

async function begin(require: NodeJS.Require, folder: string): Promise<LlamaAddon> {
  const addon = require(join(folder, "llama-addon.node")) as LlamaAddon;
  addon.markLoaded();
  addon.setLogger((level, message) => {
    if (level <= errorLevel) process.stderr.write(`${message.trim()}\n`);
  });
  addon.setLoggerLogLevel(errorLevel);
  addon.loadBackends(folder);
  if (addon.getGpuType() === undefined) throw new Error(`no library in ${folder} runs on this processor`);
  await addon.init();
  return addon;
}

/** Of the library's levels: what is worse than this is fatal. */
const errorLevel = 2;
