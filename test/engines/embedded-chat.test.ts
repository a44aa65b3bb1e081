// Needs: models. It loads a chat model.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { catalog, installed, storiesFile, weightsDirectory } from "../../packages/embedded/src/catalog.ts";
import { readCheckpoint } from "../../packages/embedded/src/chat/checkpoint.ts";
import { chooseToken, seededDice } from "../../packages/embedded/src/chat/choose-token.ts";
import { stopStringFilter } from "../../packages/embedded/src/chat/stop-strings.ts";
import { loadStories, type GeneratedPart, type GenerationOptions } from "../../packages/embedded/src/chat/stories.ts";
import { readTokenizer } from "../../packages/embedded/src/chat/tokenizer.ts";
import { makeChatEngine } from "../../packages/embedded/src/server/chat-engine.ts";
import { isRequestError } from "../../packages/embedded/src/server/request-error.ts";

setDefaultTimeout(60_000);

const model = catalog.find(({ operation }) => operation === "chat")!;
const directory = weightsDirectory(model)!;
const stories = await loadStories(directory);
const data = new Uint8Array(await Bun.file(`${directory}/${storiesFile}`).arrayBuffer());
const tokenizer = readTokenizer(readCheckpoint(data).rest, 32_000);

const greedy: GenerationOptions = { temperature: 0, topP: 1, frequencyPenalty: 0, presencePenalty: 0, tokensMax: 24, stop: [], seed: null };

async function generated(
  text: string,
  wishes: Partial<GenerationOptions> = {},
): Promise<{ text: string; last: GeneratedPart; parts: number }> {
  const parts = await Array.fromAsync(stories.generate(stories.prompt(text)!, { ...greedy, ...wishes }));
  expect(parts.slice(0, -1).every(({ finish }) => finish === null)).toBe(true);
  return { text: parts.map((part) => part.text).join(""), last: parts.at(-1)!, parts: parts.length };
}

describe("a story", () => {
  test("at temperature 0 is the known one for these weights, one token at a time", async () => {
    const { text, last, parts } = await generated("Once upon a time");
    expect(text).toBe(", there was a little girl named Lily. She loved to play outside in the sunshine. One day,");
    expect(last).toMatchObject({ tokens: 24, finish: "length" });
    expect(parts).toBe(24);
  });

  test("is the same for the same seed, and another one for another seed", async () => {
    const wishes = { temperature: 1, topP: 0.9, tokensMax: 16 };
    const first = await generated("The cat", { ...wishes, seed: "1" });
    expect((await generated("The cat", { ...wishes, seed: "1" })).text).toBe(first.text);
    expect((await generated("The cat", { ...wishes, seed: "2" })).text).not.toBe(first.text);
  });

  test("ends before a stop string, even if that is split between tokens", async () => {
    const { text, last } = await generated("Once upon a time", { stop: ["named Li", "never"] });
    expect(text).toBe(", there was a little girl ");
    expect(last.finish).toBe("stop");
  });

  test("contains text that only looked like a stop string", async () => {
    const { text, last } = await generated("Once upon a time", { tokensMax: 8, stop: ["girl named Bob"] });
    expect(text).toBe((await generated("Once upon a time", { tokensMax: 8 })).text);
    expect(last.finish).toBe("length");
  });

  test("is rejected if the prompt fills the context", () => {
    expect(stories.prompt("and then ".repeat(300))).toBeNull();
    expect(stories.prompt("x".repeat(10_000_000))).toBeNull();
    expect(stories.prompt("")).toEqual([1]);
  });

  test("yields to the event loop between two tokens", async () => {
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    await generated("Once upon a time", { tokensMax: 12 });
    clearInterval(timer);
    expect(turns).toBeGreaterThan(5);
  });

  test("repeats itself less with a penalty", async () => {
    const text = (await generated("dog dog dog dog", { presencePenalty: 2, frequencyPenalty: 2, tokensMax: 16 })).text;
    expect(text).not.toBe((await generated("dog dog dog dog", { tokensMax: 16 })).text);
  });
});

describe("the tokenizer", () => {
  test("decodes each text that it encoded", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 60 }), (text) => {
        const tokens = tokenizer.encode(text, 10_000)!;
        const bytes = Buffer.concat(tokens.map((token) => tokenizer.decode(token)));
        expect(bytes.toString()).toBe(text === "" ? "" : ` ${text}`);
      }),
    );
  });

  test("finds the pieces that the model was trained with", () => {
    expect(tokenizer.encode("Once upon a time", 100)).toEqual([1, 9038, 2501, 263, 931]);
  });

  test("falls back to bytes, and text that looks like a byte token stays text", () => {
    expect(tokenizer.encode("\u{1F9A6}", 100)!.filter((token) => token >= 3 && token < 259).length).toBeGreaterThanOrEqual(3);
    expect(tokenizer.encode("<0x41>", 100)!.some((token) => token >= 3 && token < 259)).toBe(false);
  });
});

describe("sampling a token", () => {
  const plain = { temperature: 1, topP: 1, frequencyPenalty: 0, presencePenalty: 0 };

  test("chooses among the most likely tokens with the requested share", () => {
    const scores = (): Float32Array => Float32Array.from([1, 0.4, 0.2, 0.01].map(Math.log));
    const dice = seededDice("x");
    const chosen = new Set(Array.from({ length: 300 }, () => chooseToken(scores(), { ...plain, topP: 0.8 }, new Map(), dice)));
    expect(chosen).toEqual(new Set([0, 1]));
    expect(chooseToken(scores(), { ...plain, topP: 0 }, new Map(), dice)).toBe(0);
  });

  test("follows the probabilities", () => {
    const dice = seededDice("y");
    const ones = Array.from({ length: 4000 }, () => chooseToken(Float32Array.from([Math.log(3), 0]), plain, new Map(), dice)).filter(
      (token) => token === 0,
    );
    expect(ones.length / 4000).toBeCloseTo(0.75, 1);
  });

  test("always returns one of the tokens", () => {
    const scores = fc.array(fc.float({ min: -50, max: 50, noNaN: true }), { minLength: 2, maxLength: 40 });
    const unit = fc.double({ min: 0, max: 0.999, noNaN: true });
    fc.assert(
      fc.property(scores, unit, unit, fc.double({ min: 0, max: 2, noNaN: true }), (list, cast, topP, temperature) => {
        const token = chooseToken(Float32Array.from(list), { ...plain, topP, temperature }, new Map([[0, 2]]), () => cast);
        expect(token).toBeGreaterThanOrEqual(0);
        expect(token).toBeLessThan(list.length);
      }),
    );
  });
});

test("stop strings are found however the text is split", () => {
  const letters = fc.string({ unit: fc.constantFrom(..."ab"), maxLength: 40 });
  const stops = fc.array(fc.string({ unit: fc.constantFrom(..."ab"), minLength: 1, maxLength: 5 }), { maxLength: 4 });
  fc.assert(
    fc.property(letters, stops, fc.integer({ min: 1, max: 5 }), (text, list, step) => {
      const watch = stopStringFilter(list);
      let shown = "";
      let stopped = false;
      for (let at = 0; at < text.length && !stopped; at += step) {
        const next = watch.push(text.slice(at, at + step));
        shown += next.text;
        stopped = next.stopped;
      }
      if (!stopped) shown += watch.end();
      const ends = list.map((stop) => text.indexOf(stop)).filter((index) => index >= 0);
      expect(stopped).toBe(ends.length > 0);
      // A longer string that began earlier may end in a later piece than a shorter one: whichever is complete first counts.
      if (ends.length === 0) expect(shown).toBe(text);
      else if (list.length === 1) expect(shown).toBe(text.slice(0, ends[0]));
      else expect(text.startsWith(shown)).toBe(true);
    }),
  );
});

describe("an invalid checkpoint", () => {
  test.each([
    ["cut short", data.slice(0, 10_000)],
    ["empty of sense", new Uint8Array(1000)],
    ["of random bytes", Uint8Array.from({ length: 1000 }, (_, index) => (index * 37) & 255)],
  ])("%s is thrown out", (_, bytes) => {
    expect(() => readCheckpoint(bytes)).toThrow();
  });
});

describe("the catalogue", () => {
  test("has models of each operation, all installed here, with unique names", () => {
    expect(new Set(catalog.map(({ operation }) => operation))).toEqual(new Set(["chat", "transcription", "speech"]));
    expect(catalog.filter((entry) => !installed(entry)).map(({ id }) => id)).toEqual([]);
    expect(new Set(catalog.flatMap(({ id, upstream }) => [id, upstream])).size).toBe(catalog.length * 2);
    for (const { id, upstream } of catalog) expect(id).toBe(`embedded/${upstream}`);
  });

  test("reports a model as not installed if its package or a file is missing or has another size", () => {
    expect(installed({ ...model, package: "no-such-package" })).toBe(false);
    expect(installed({ ...model, files: [{ path: "dist/none", bytes: 1, sha256: "" }] })).toBe(false);
    expect(installed({ ...model, files: [{ path: storiesFile, bytes: 1, sha256: "" }] })).toBe(false);
  });
});

describe("a request for a story", () => {
  const engine = makeChatEngine(() => [model]);
  function read(wish: object): Promise<unknown> {
    const body = JSON.stringify({ model: model.upstream, messages: [{ role: "user", content: "Once" }], ...wish });
    return engine.routes.get("/v1/chat/completions")!(new Request("http://engine/", { method: "POST", body }));
  }

  test.each([
    ["logprobs", { logprobs: true }],
    ["logprobs", { logprobs: 5 }],
    ["top_logprobs", { top_logprobs: 3 }],
    ["logit_bias", { logit_bias: { "50256": -100 } }],
  ])("is refused for %s, which would change the answer: %j", async (param, wish) => {
    expect(await read(wish)).toMatchObject({ status: 400, code: "unsupported_parameter", param });
  });

  test.each([{ logprobs: false }, { logprobs: null }, { top_logprobs: 0 }, { logit_bias: {} }, { top_k: 40 }, { min_p: 0.05 }])(
    "is taken with %j",
    async (wish) => {
      const order = await read(wish);
      expect(isRequestError(order as never)).toBe(false);
    },
  );
});
