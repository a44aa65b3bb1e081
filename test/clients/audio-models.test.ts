// Needs: models, slow. A model hears a recording twice; clients/audio proves what clients make of it, readme that a model hears.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createOpenAI } from "@ai-sdk/openai";
import { transcribe } from "ai";
import OpenAI from "openai";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { errorRate, wordErrors } from "../support/word-errors.ts";

setDefaultTimeout(60_000);

const key = "a-key-of-a-client-0123456789abcdef";
const whisper = "embedded/whisper-base";
const jfk = join(import.meta.dir, "../fixtures/audio/jfk.wav");
const said = "And so my fellow Americans ask not what your country can do for you ask what you can do for your country";
let gateway: Gateway;

beforeAll(async () => {
  gateway = await startGateway({
    config: { keys: [{ name: "client", key }], channels: [{ name: "here", provider: "embedded" }] },
  });
});

afterAll(() => gateway.kill());

test("the AI SDK transcribes with the models of this machine", async () => {
  const provider = createOpenAI({ apiKey: key, baseURL: `${gateway.url}/v1` });
  const { text, durationInSeconds } = await transcribe({ model: provider.transcription(whisper), audio: await readFile(jfk) });
  expect(errorRate(wordErrors(said, text))).toBeLessThanOrEqual(0.1);
  expect(durationInSeconds).toBeGreaterThanOrEqual(11);
});

test("the official client, transcribing, is understood by the models of this machine, streamed", async () => {
  const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  const stream = await client.audio.transcriptions.create({ model: whisper, file: createReadStream(jfk), stream: true });
  let text = "";
  let done = "";
  for await (const event of stream) {
    if (event.type === "transcript.text.delta") text += event.delta;
    if (event.type === "transcript.text.done") done = event.text;
  }
  expect(text).toBe(done);
  expect(errorRate(wordErrors(said, text))).toBeLessThanOrEqual(0.1);
});
