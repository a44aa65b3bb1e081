import { join } from "node:path";

/** The part of the native interface that we use. It belongs to one pinned version, so that it cannot change. */
export interface LlamaAddon {
  readonly AddonModel: new (path: string, options: object) => LlamaModel;
  readonly AddonContext: new (model: LlamaModel, options: object) => LlamaContext;
  readonly AddonSampler: new (model: LlamaModel) => LlamaSampler;
  markLoaded(): boolean;
  setLogger(write: (level: number, message: string) => void): void;
  setLoggerLogLevel(level: number): void;
  /** Loads the library for this CPU from the given folder. */
  loadBackends(folder?: string): void;
  /** `undefined` until a backend is loaded. */
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
  /** Negative if there is none. */
  sampleToken(scores: number, sampler: LlamaSampler): Promise<number>;
}

export interface LlamaSampler {
  applyConfig(config: object): void;
  dispose(): void;
}

let loaded: Promise<LlamaAddon> | null = null;

/** Once per process, because the library has global state. */
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

/** A level of the library's log; lower levels are fatal errors. */
const errorLevel = 2;
