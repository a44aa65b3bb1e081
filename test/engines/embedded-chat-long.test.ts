// Needs: models, slow. It tells a story of two hundred words; embedded-chat proves where shorter ones end.
import { expect, setDefaultTimeout, test } from "bun:test";
import { catalog, weightsDirectory } from "../../packages/embedded/src/catalog.ts";
import { loadStories, type GeneratedPart } from "../../packages/embedded/src/chat/stories.ts";

setDefaultTimeout(60_000);

const model = catalog.find(({ operation }) => operation === "chat")!;
const stories = await loadStories(weightsDirectory(model)!);

async function lastPart(text: string, tokensMax: number): Promise<GeneratedPart> {
  const wishes = { temperature: 0, topP: 1, frequencyPenalty: 0, presencePenalty: 0, tokensMax, stop: [], seed: null };
  const parts = await Array.fromAsync(stories.generate(stories.prompt(text)!, wishes));
  expect(parts.slice(0, -1).every(({ finish }) => finish === null)).toBe(true);
  return parts.at(-1)!;
}

test("a story ends by itself, or where the context does", async () => {
  const last = await lastPart("Once upon a time", Infinity);
  const prompt = stories.prompt("Once upon a time")!.length;
  expect(last.tokens).toBe(last.finish === "length" ? 256 - prompt : last.tokens);
  expect(last.tokens).toBeLessThanOrEqual(256 - prompt);
  expect(last.tokens).toBeGreaterThan(100);
  const long = "and then ".repeat(120);
  expect((await lastPart(long, 500)).tokens).toBeLessThanOrEqual(256 - stories.prompt(long)!.length);
});
