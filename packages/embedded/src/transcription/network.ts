import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { InferenceSession, Tensor } from "onnxruntime-node";
import { melBins, windowFrames } from "./mel.ts";
import { decoderFile, encoderFile } from "./weights.ts";

/** The two graphs of Whisper: the encoder hears a window, the decoder continues a text. */
export interface Network {
  encode(features: Float32Array): Promise<Tensor>;
  /** Reads a whole text at once, each token seeing those before it. */
  read(heard: Tensor, tokens: readonly number[]): Promise<Reading>;
  /** The scores after one more token. They are overwritten by the next step of the same desk. */
  step(heard: Tensor, memory: Memory, token: number, desk: Desk): Promise<{ readonly scores: Float32Array; readonly memory: Memory }>;
  /** How much each token looks at each 20 ms of sound, for the given layers: tensors of [1, heads, tokens, 1500]. */
  attend(heard: Tensor, tokens: readonly number[], layers: readonly number[]): Promise<ReadonlyMap<number, Tensor>>;
  desk(): Desk;
  close(): Promise<void>;
}

export interface Reading {
  /** Scores of the next token, for each position. */
  readonly scores: (position: number) => Float32Array;
  readonly memory: Memory;
}

/** What the decoder keeps of the tokens read so far: keys and values of the text, and those of the sound, which never change. */
export interface Memory {
  readonly length: number;
  readonly text: Readonly<Record<string, Tensor>>;
  readonly sound: Readonly<Record<string, Tensor>>;
}

/**
 * Room for the growing keys and values, used in turns: a step reads one side and writes the other. Without it every token leaves
 * megabytes behind that wait for the garbage collector, which does not see them.
 */
export interface Desk {
  readonly sides: readonly [ReadonlyMap<string, Float32Array>, ReadonlyMap<string, Float32Array>];
  readonly scores: Tensor;
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
  const encoder = await InferenceSession.create(join(directory, encoderFile), sessionOptions(threads, {}));
  const decoder = await InferenceSession.create(join(directory, decoderFile), sessionOptions(threads, decoderSettings));
  const heads = model.decoder_attention_heads;
  const width = model.d_model / heads;
  const layers = Array.from({ length: model.decoder_layers }, (_, layer) => layer);
  const textKeys = layers.flatMap((layer) => [`${layer}.decoder.key`, `${layer}.decoder.value`]);
  const soundKeys = layers.flatMap((layer) => [`${layer}.encoder.key`, `${layer}.encoder.value`]);
  const yes = new Tensor("bool", [true], [1]);
  const no = new Tensor("bool", [false], [1]);
  const nothing = new Tensor("float32", new Float32Array(0), [1, heads, 0, width]);
  const noMemory = Object.fromEntries([...textKeys, ...soundKeys].map((key) => [past(key), nothing]));

  async function encode(features: Float32Array): Promise<Tensor> {
    const input = new Tensor("float32", features, [1, melBins, windowFrames]);
    return output(await encoder.run({ input_features: input }, ["last_hidden_state"]), "last_hidden_state");
  }

  function freshly(heard: Tensor, tokens: readonly number[]): Record<string, Tensor> {
    return { ...noMemory, input_ids: ids(tokens), encoder_hidden_states: heard, use_cache_branch: no };
  }

  async function read(heard: Tensor, tokens: readonly number[]): Promise<Reading> {
    const outputs = await decoder.run(freshly(heard, tokens), ["logits", ...[...textKeys, ...soundKeys].map(present)]);
    const scores = output(outputs, "logits").data as Float32Array;
    const kept = (keys: readonly string[]): Record<string, Tensor> =>
      Object.fromEntries(keys.map((key) => [past(key), output(outputs, present(key))]));
    return {
      scores: (position) => scores.subarray(position * model.vocab_size, (position + 1) * model.vocab_size),
      memory: { length: tokens.length, text: kept(textKeys), sound: kept(soundKeys) },
    };
  }

  async function step(heard: Tensor, memory: Memory, token: number, desk: Desk): ReturnType<Network["step"]> {
    const length = memory.length + 1;
    const side = desk.sides[length % 2]!;
    const text = Object.fromEntries(
      textKeys.map((key) => [key, new Tensor("float32", side.get(key)!.subarray(0, heads * length * width), [1, heads, length, width])]),
    );
    await decoder.run(
      { ...memory.text, ...memory.sound, input_ids: ids([token]), encoder_hidden_states: heard, use_cache_branch: yes },
      { logits: desk.scores, ...Object.fromEntries(textKeys.map((key) => [present(key), text[key]!])) },
    );
    return {
      scores: desk.scores.data as Float32Array,
      memory: { length, text: Object.fromEntries(textKeys.map((key) => [past(key), text[key]!])), sound: memory.sound },
    };
  }

  async function attend(heard: Tensor, tokens: readonly number[], wanted: readonly number[]): Promise<ReadonlyMap<number, Tensor>> {
    const name = (layer: number): string => `cross_attentions.${layer}`;
    const outputs = await decoder.run(freshly(heard, tokens), wanted.map(name));
    return new Map(wanted.map((layer) => [layer, output(outputs, name(layer))]));
  }

  function desk(): Desk {
    const side = (): ReadonlyMap<string, Float32Array> =>
      new Map(textKeys.map((key) => [key, new Float32Array(heads * model.max_target_positions * width)]));
    return { sides: [side(), side()], scores: new Tensor("float32", new Float32Array(model.vocab_size), [1, 1, model.vocab_size]) };
  }

  async function close(): Promise<void> {
    await encoder.release();
    await decoder.release();
  }

  return { encode, read, step, attend, desk, close };
}

/**
 * The arena never gives memory back: the encoder's attention over 1500 positions would hold half a gigabyte for ever, for a gain of a
 * fifth in time. So both graphs allocate as they go. Threads that wait sleep rather than spin, since they share the machine with the
 * gateway.
 */
function sessionOptions(threads: number, settings: Readonly<Record<string, string>>): InferenceSession.SessionOptions {
  return {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    enableCpuMemArena: false,
    extra: { session: { ...settings, "intra_op.allow_spinning": "0" } },
  };
}

/**
 * The output layer's weights are stored in 8 bit and would be unpacked to floats (106 MB) for every single token, which takes longer
 * than all the rest; this makes the runtime unpack them once, when it loads. Packing them once more for the matrix product would
 * hold another copy and gains nothing for one row.
 */
const decoderSettings = { disable_quant_qdq: "1", disable_prepacking: "1" };

const past = (key: string): string => `past_key_values.${key}`;
const present = (key: string): string => `present.${key}`;

function ids(tokens: readonly number[]): Tensor {
  return new Tensor("int64", BigInt64Array.from(tokens, BigInt), [1, tokens.length]);
}

function output(outputs: InferenceSession.OnnxValueMapType, name: string): Tensor {
  const found = outputs[name];
  if (found === undefined) throw new Error(`The graph gave no ${name}.`);
  return found;
}
