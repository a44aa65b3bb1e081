// Needs: models, slow. A model hears a recording; clients/audio proves what the AI SDK makes of transcripts, and that a model hears.
import { expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createOpenAI } from "@ai-sdk/openai";
import { transcribe } from "ai";
import { startGateway } from "../support/gateway.ts";
import { errorRate, wordErrors } from "../support/word-errors.ts";

setDefaultTimeout(60_000);

test("the AI SDK transcribes with the models of this machine", async () => {
  const key = "a-key-of-a-client-0123456789abcdef";
  await using gateway = await startGateway({
    config: { keys: [{ name: "client", key }], channels: [{ name: "here", provider: "embedded" }] },
  });
  const provider = createOpenAI({ apiKey: key, baseURL: `${gateway.url}/v1` });
  const audio = await readFile(join(import.meta.dir, "../fixtures/audio/jfk.wav"));
  const { text, durationInSeconds } = await transcribe({ model: provider.transcription("embedded/whisper-base"), audio });
  const said = "And so my fellow Americans ask not what your country can do for you ask what you can do for your country";
  expect(errorRate(wordErrors(said, text))).toBeLessThanOrEqual(0.1);
  expect(durationInSeconds).toBeGreaterThanOrEqual(11);
});
