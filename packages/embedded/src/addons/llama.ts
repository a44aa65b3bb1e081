import { createRequire } from "node:module";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { GeneratedPart, GenerationOptions } from "../chat/stories.ts";
import { stopStringFilter } from "../chat/stop-strings.ts";
import { loadAddon, type LlamaContext, type LlamaModel } from "./llama-binding.ts";

/** A language model that answers a conversation. */
export interface ChatModel {
  /** The context size: tokens of the prompt and the answer together. */
  readonly contextMax: number;
  /** The tokens of the conversation, or `null` if they leave no room for an answer. */
  prompt(messages: readonly ChatTurn[]): readonly number[] | null;
  /**
   * Generates the answer. Leaving the loop stops the work. Only the last part has a `finish`. While the prompt is processed, parts
   * without text are yielded from time to time, so that the loop can be left then as well.
   */
  generate(prompt: readonly number[], options: GenerationOptions): AsyncGenerator<GeneratedPart, void>;
  /** Frees the weights. Running generations end with an error. */
  close(): Promise<void>;
}

export interface ChatTurn {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** Loads `model.gguf` from the folder of an add-on, with the engine beside it. */
export async function loadLlama(directory: string): Promise<ChatModel> {
  const engine = await loadAddon(createRequire(import.meta.url), join(directory, "engine"));
  const model = new engine.AddonModel(join(directory, "model.gguf"), { addonExports: engine, gpuLayers: 0, useMmap: true });
  if (!(await model.init())) throw new Error(`the weights in ${directory} could not be loaded`);
  const contextMax = model.getTrainContextSize();

  async function* generate(prompt: readonly number[], options: GenerationOptions): AsyncGenerator<GeneratedPart, void> {
    const context = new engine.AddonContext(model, { contextSize: contextMax, batchSize, sequences: 1, threads });
    const sampler = new engine.AddonSampler(model);
    try {
      if (!(await context.init())) throw new Error("there is no memory for this conversation");
      const characters = new TextDecoder();
      const stopFilter = stopStringFilter(options.stop);
      const generated: number[] = [];
      const tokensMax = Math.min(options.tokensMax, contextMax - prompt.length);
      let scores = 0;
      for (let from = 0; from < prompt.length; from += batchSize) {
        if (from > 0) yield { text: "", tokens: 0, finish: null };
        scores = await feed(context, from, prompt.slice(from, from + batchSize));
      }
      // The sampler restarts only when its seed changes.
      const seed = options.seed === null ? Math.floor(Math.random() * 2 ** 32) : seedOf(options.seed);
      for (let tokens = 1; tokens <= tokensMax; tokens++) {
        sampler.applyConfig(samplerConfig(options, seed, generated));
        const token = await context.sampleToken(scores, sampler);
        if (token < 0 || model.isEogToken(token)) {
          yield { text: stopFilter.push(characters.decode()).text + stopFilter.end(), tokens: tokens - 1, finish: "stop" };
          return;
        }
        const { text, stopped } = stopFilter.push(characters.decode(bytesOf(model.getTokenString(token), tokens === 1), { stream: true }));
        if (stopped) {
          yield { text, tokens, finish: "stop" };
          return;
        }
        if (tokens === tokensMax) {
          const rest = stopFilter.push(characters.decode());
          yield { text: text + rest.text + stopFilter.end(), tokens, finish: rest.stopped ? "stop" : "length" };
          return;
        }
        yield { text, tokens, finish: null };
        generated.push(token);
        scores = await feed(context, prompt.length + tokens - 1, [token]);
      }
    } finally {
      sampler.dispose();
      await context.dispose();
    }
  }

  return { contextMax, prompt: (messages) => promptOf(model, messages, contextMax - 1), generate, close: () => model.dispose() };
}

/**
 * The threads wait for each other at every step, so that one thread that shares its CPU slows down all: on a busy machine with two
 * CPUs, two threads were five times slower than one.
 */
const threads = Math.min(8, Math.max(1, availableParallelism() - 1));

/** The batch size for prompts: small enough to take only a second or two on a slow machine. */
const batchSize = 64;

/** Returns the index of the scores after the last token. */
async function feed(context: LlamaContext, position: number, tokens: readonly number[]): Promise<number> {
  context.initBatch(tokens.length);
  const [scores] = context.addToBatch(0, position, Uint32Array.from(tokens), Uint32Array.of(tokens.length - 1));
  await context.decodeBatch();
  return scores ?? 0;
}

/**
 * The chat template of the model: each turn begins with its role on a line of its own and ends with the end-of-sequence token. Special
 * tokens are not parsed in the content, so that a message cannot end its own turn.
 */
function promptOf(model: LlamaModel, messages: readonly ChatTurn[], tokensMax: number): readonly number[] | null {
  const tokens: number[] = [model.tokenBos()];
  for (const [index, { role, content }] of messages.entries()) {
    // A text this long cannot fit, whatever its tokens are. Tokenizing it would be wasted work.
    if (content.length > tokensMax * tokenCharactersMax) return null;
    tokens.push(...model.tokenize(`${index === 0 ? "" : "\n"}<|${role}|>\n${content}`, false), model.tokenEos());
    if (tokens.length > tokensMax) return null;
  }
  tokens.push(...model.tokenize("\n<|assistant|>\n", false));
  return tokens.length > tokensMax ? null : tokens;
}

/** Longer than any answer, so that the penalties apply to all of it. */
const penaltyTokensMax = 4096;

/** Longer than any token of the vocabulary. */
const tokenCharactersMax = 64;

function samplerConfig(
  { temperature, topP, frequencyPenalty, presencePenalty }: GenerationOptions,
  seed: number,
  generated: readonly number[],
): object {
  const penalised = (frequencyPenalty !== 0 || presencePenalty !== 0) && generated.length > 0;
  return {
    temperature,
    topP,
    seed,
    ...(penalised
      ? {
          repeatPenalty: 1,
          repeatPenaltyTokens: Uint32Array.from(generated),
          repeatPenaltyMaxTokens: penaltyTokensMax,
          repeatPenaltyFrequencyPenalty: frequencyPenalty,
          repeatPenaltyPresencePenalty: presencePenalty,
        }
      : {}),
  };
}

function seedOf(seed: string): number {
  return Bun.hash.crc32(seed);
}

/** The bytes of a token: `▁` is a space, and `<0x0A>` a single byte. The vocabulary puts a space before the first word of a text. */
function bytesOf(token: string, isFirst: boolean): Uint8Array {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(token);
  if (byte !== null) return Uint8Array.of(Number.parseInt(byte[1] ?? "0", 16));
  const text = token.replaceAll("▁", " ");
  return new TextEncoder().encode(isFirst ? text.replace(/^ /, "") : text);
}
