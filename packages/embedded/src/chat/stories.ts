import { join } from "node:path";
import { readCheckpoint } from "./checkpoint.ts";
import { chooseToken, seededDice, type Sampling } from "./choose-token.ts";
import { watchFor } from "./stop-strings.ts";
import { beginMark, endMark, readTokenizer } from "./tokenizer.ts";
import { makeTransformer } from "./transformer.ts";

/** A language model that continues a text as a story for children, whatever the text is. */
export interface StoryTeller {
  /** Tokens of prompt and answer together. */
  readonly contextMax: number;
  /** The prompt's tokens, or `null` when they leave no room for an answer. */
  prompt(text: string): readonly number[] | null;
  /** Leaving the loop ends the work. The last part, and only that, has a `finish`. */
  tell(prompt: readonly number[], wishes: StoryWishes): AsyncGenerator<StoryPart, void>;
}

export interface StoryWishes extends Sampling {
  readonly tokensMax: number;
  readonly stop: readonly string[];
  /** The same seed, prompt and wishes tell the same story. `null`: another each time. */
  readonly seed: string | null;
}

export interface StoryPart {
  /** May be empty: a token can be a part of a character, or of what might be a stop string. */
  readonly text: string;
  /** Tokens of the answer so far. */
  readonly tokens: number;
  readonly finish: "stop" | "length" | null;
}

/** The checkpoint ends and the vocabulary begins here, in the one file of the package. */
const checkpointBytes = 60_816_028;

/** Reads the weights from the package's folder. */
export async function loadStories(directory: string): Promise<StoryTeller> {
  const bytes = new Uint8Array(await Bun.file(join(directory, "dist/llama2.data")).arrayBuffer());
  const checkpoint = readCheckpoint(bytes.subarray(0, checkpointBytes));
  const tokenizer = readTokenizer(bytes.subarray(checkpointBytes), checkpoint.shape.vocabulary);
  const contextMax = checkpoint.shape.context;

  async function* tell(prompt: readonly number[], wishes: StoryWishes): AsyncGenerator<StoryPart, void> {
    const transformer = makeTransformer(checkpoint);
    const dice = wishes.seed === null ? Math.random : seededDice(wishes.seed);
    const characters = new TextDecoder();
    const watch = watchFor(wishes.stop);
    const written = new Map<number, number>();
    const tokensMax = Math.min(wishes.tokensMax, contextMax - prompt.length);
    for (const token of prompt) {
      transformer.feed(token);
      await others();
    }
    for (let tokens = 1; tokens <= tokensMax; tokens++) {
      const token = chooseToken(transformer.scores(), wishes, written, dice);
      if (token === endMark || token === beginMark) {
        yield { text: watch.push(characters.decode()).text + watch.end(), tokens: tokens - 1, finish: "stop" };
        return;
      }
      const { text, stopped } = watch.push(characters.decode(tokenizer.decode(token), { stream: true }));
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
      written.set(token, (written.get(token) ?? 0) + 1);
      transformer.feed(token);
      await others();
    }
  }

  return { contextMax, prompt: (text) => tokenizer.encode(text, contextMax - 1), tell };
}

/** Lets other requests, and a client's leaving, be seen: a token is a long computation. */
function others(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
