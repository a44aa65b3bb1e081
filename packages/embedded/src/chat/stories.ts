import { join } from "node:path";
import { storiesFile } from "../catalog.ts";
import { readCheckpoint } from "./checkpoint.ts";
import { chooseToken, seededDice, type Sampling } from "./choose-token.ts";
import { stopStringFilter } from "./stop-strings.ts";
import { beginMark, endMark, readTokenizer } from "./tokenizer.ts";
import { makeTransformer } from "./transformer.ts";

/** A language model that continues any text as a children's story. */
export interface StoryModel {
  /** The context size: tokens of the prompt and the answer together. */
  readonly contextMax: number;
  /** The tokens of the prompt, or `null` if they leave no room for an answer. */
  prompt(text: string): readonly number[] | null;
  /** Generates the continuation. Leaving the loop stops the work. Only the last part has a `finish`. */
  generate(prompt: readonly number[], options: GenerationOptions): AsyncGenerator<GeneratedPart, void>;
}

export interface GenerationOptions extends Sampling {
  readonly tokensMax: number;
  readonly stop: readonly string[];
  /** The same seed, prompt and options give the same text. `null` for a random seed. */
  readonly seed: string | null;
}

export interface GeneratedPart {
  /** May be empty: a token can be a part of a character, or of a possible stop string. */
  readonly text: string;
  /** The number of tokens of the answer so far. */
  readonly tokens: number;
  readonly finish: "stop" | "length" | null;
}

/** Loads the weights and the vocabulary, which follows them. */
export async function loadStories(directory: string): Promise<StoryModel> {
  const { checkpoint, rest } = readCheckpoint(new Uint8Array(await Bun.file(join(directory, storiesFile)).arrayBuffer()));
  const tokenizer = readTokenizer(rest, checkpoint.shape.vocabulary);
  const contextMax = checkpoint.shape.context;

  async function* generate(prompt: readonly number[], options: GenerationOptions): AsyncGenerator<GeneratedPart, void> {
    const transformer = makeTransformer(checkpoint);
    const dice = options.seed === null ? Math.random : seededDice(options.seed);
    const characters = new TextDecoder();
    const stopFilter = stopStringFilter(options.stop);
    const counts = new Map<number, number>();
    const tokensMax = Math.min(options.tokensMax, contextMax - prompt.length);
    for (const token of prompt) {
      transformer.feed(token);
      await yieldToEventLoop();
    }
    for (let tokens = 1; tokens <= tokensMax; tokens++) {
      const token = chooseToken(transformer.scores(), options, counts, dice);
      if (token === endMark || token === beginMark) {
        yield { text: stopFilter.push(characters.decode()).text + stopFilter.end(), tokens: tokens - 1, finish: "stop" };
        return;
      }
      const { text, stopped } = stopFilter.push(characters.decode(tokenizer.decode(token), { stream: true }));
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
      counts.set(token, (counts.get(token) ?? 0) + 1);
      transformer.feed(token);
      await yieldToEventLoop();
    }
  }

  return { contextMax, prompt: (text) => tokenizer.encode(text, contextMax - 1), generate };
}

/** Yields to the event loop, because computing a token takes long: other requests and a client's departure must be noticed. */
function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
