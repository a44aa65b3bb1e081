import { createRequire } from "node:module";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { StoryPart, StoryWishes } from "../chat/stories.ts";
import { watchFor } from "../chat/stop-strings.ts";
import { loadAddon, type LlamaContext, type LlamaModel } from "./llama-binding.ts";

/** A language model that answers a conversation. */
export interface ChatModel {
  /** Tokens of prompt and answer together. */
  readonly contextMax: number;
  /** The conversation's tokens, or `null` when they leave no room for an answer. */
  prompt(messages: readonly ChatTurn[]): readonly number[] | null;
  /**
   * Leaving the loop ends the work. The last part, and only that, has a `finish`. While the prompt is read, parts without
   * text come from time to time, so that the loop can be left then too.
   */
  tell(prompt: readonly number[], wishes: StoryWishes): AsyncGenerator<StoryPart, void>;
  /** Frees the weights. What is being told ends with an error. */
  close(): Promise<void>;
}

export interface ChatTurn {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** Reads `model.gguf` in the folder of an add-on, with the engine beside it. */
export async function loadLlama(directory: string): Promise<ChatModel> {
  const engine = await loadAddon(createRequire(import.meta.url), join(directory, "engine"));
  const model = new engine.AddonModel(join(directory, "model.gguf"), { addonExports: engine, gpuLayers: 0, useMmap: true });
  if (!(await model.init())) throw new Error(`the weights in ${directory} could not be loaded`);
  const contextMax = model.getTrainContextSize();

  async function* tell(prompt: readonly number[], wishes: StoryWishes): AsyncGenerator<StoryPart, void> {
    const context = new engine.AddonContext(model, { contextSize: contextMax, batchSize, sequences: 1, threads });
    const sampler = new engine.AddonSampler(model);
    try {
      if (!(await context.init())) throw new Error("there is no memory for this conversation");
      const characters = new TextDecoder();
      const watch = watchFor(wishes.stop);
      const written: number[] = [];
      const tokensMax = Math.min(wishes.tokensMax, contextMax - prompt.length);
      let scores = 0;
      for (let from = 0; from < prompt.length; from += batchSize) {
        if (from > 0) yield { text: "", tokens: 0, finish: null };
        scores = await feed(context, from, prompt.slice(from, from + batchSize));
      }
      // The sampler begins anew when it is given another seed, and only then.
      const seed = wishes.seed === null ? Math.floor(Math.random() * 2 ** 32) : seedOf(wishes.seed);
      for (let tokens = 1; tokens <= tokensMax; tokens++) {
        sampler.applyConfig(samplerConfig(wishes, seed, written));
        const token = await context.sampleToken(scores, sampler);
        if (token < 0 || model.isEogToken(token)) {
          yield { text: watch.push(characters.decode()).text + watch.end(), tokens: tokens - 1, finish: "stop" };
          return;
        }
        const { text, stopped } = watch.push(characters.decode(bytesOf(model.getTokenString(token), tokens === 1), { stream: true }));
        if (stopped) {
          yield { text, tokens, finish: "stop" };
          return;
        }
        if (tokens === tokensMax) {
          const rest = watch.push(characters.decode());
          yield { text: text + rest.text + watch.end(), tokens, finish: rest.stopped ? "stop" : "length" };
          return;
        }
        yield { text, tokens, finish: null };
        written.push(token);
        scores = await feed(context, prompt.length + tokens - 1, [token]);
      }
    } finally {
      sampler.dispose();
      await context.dispose();
    }
  }

  return { contextMax, prompt: (messages) => promptOf(model, messages, contextMax - 1), tell, close: () => model.dispose() };
}

/**
 * The threads wait for one another at every step, so that one which shares its processor with something else holds up all: on
 * a busy machine of two processors, two threads were five times slower than one.
 */
const threads = Math.min(8, Math.max(1, availableParallelism() - 1));

/** A prompt is read in batches of so many tokens: few enough to take a second or two each on a slow machine. */
const batchSize = 64;

/** Gives the number under which the scores behind the last token are found. */
async function feed(context: LlamaContext, position: number, tokens: readonly number[]): Promise<number> {
  context.initBatch(tokens.length);
  const [scores] = context.addToBatch(0, position, Uint32Array.from(tokens), Uint32Array.of(tokens.length - 1));
  await context.decodeBatch();
  return scores ?? 0;
}

/**
 * The form in which the model was taught: each turn begins with its role in a line of its own and ends with the end mark. What
 * people write is never read for marks, so it cannot end its own turn.
 */
function promptOf(model: LlamaModel, messages: readonly ChatTurn[], tokensMax: number): readonly number[] | null {
  const tokens: number[] = [model.tokenBos()];
  for (const [index, { role, content }] of messages.entries()) {
    // However well it fits the vocabulary, so long a text is too long; splitting it into tokens would be wasted work.
    if (content.length > tokensMax * tokenCharactersMax) return null;
    tokens.push(...model.tokenize(`${index === 0 ? "" : "\n"}<|${role}|>\n${content}`, false), model.tokenEos());
    if (tokens.length > tokensMax) return null;
  }
  tokens.push(...model.tokenize("\n<|assistant|>\n", false));
  return tokens.length > tokensMax ? null : tokens;
}

/** More than an answer can have: all of it is looked at for repetitions. */
const writtenMax = 4096;

/** The longest token of the vocabulary is shorter. */
const tokenCharactersMax = 64;

function samplerConfig(
  { temperature, topP, frequencyPenalty, presencePenalty }: StoryWishes,
  seed: number,
  written: readonly number[],
): object {
  const penalised = (frequencyPenalty !== 0 || presencePenalty !== 0) && written.length > 0;
  return {
    temperature,
    topP,
    seed,
    ...(penalised
      ? {
          repeatPenalty: 1,
          repeatPenaltyTokens: Uint32Array.from(written),
          repeatPenaltyMaxTokens: writtenMax,
          repeatPenaltyFrequencyPenalty: frequencyPenalty,
          repeatPenaltyPresencePenalty: presencePenalty,
        }
      : {}),
  };
}

function seedOf(seed: string): number {
  return Bun.hash.crc32(seed);
}

/** A token's bytes: `▁` stands for a space, and `<0x0A>` for one byte. The very first space is the vocabulary's way to begin a text. */
function bytesOf(token: string, isFirst: boolean): Uint8Array {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(token);
  if (byte !== null) return Uint8Array.of(Number.parseInt(byte[1] ?? "0", 16));
  const text = token.replaceAll("▁", " ");
  return new TextEncoder().encode(isFirst ? text.replace(/^ /, "") : text);
}
