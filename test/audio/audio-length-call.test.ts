import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { makeEncoder } from "../../packages/embedded/src/codecs/encode.ts";
import { OpenAiTranscriptStream } from "../../src/dialects/openai/transcript-stream.ts";
import { isFailure } from "../../src/operations/failure.ts";
import { startGateway, type Gateway, type LogLine } from "../support/gateway.ts";
import { samplesOf, spokenTones, toneRate } from "../support/heard-tones.ts";
import { bytesOf } from "../support/transcription-world.ts";

// A process starts that cuts the recording, on a machine that may have other work.
setDefaultTimeout(60_000);

const key = "sk-audio-length-of-these-tests";
/** The length of every file that an upstream got, in seconds, and under which name. */
const heard: { readonly channel: string; readonly name: string; readonly seconds: number | null }[] = [];

function upstream(channel: string): ReturnType<typeof Bun.serve> {
  return Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const form = await request.formData();
      const file = form.get("file") as File;
      const bytes = await file.bytes();
      const isWav = new TextDecoder().decode(bytes.subarray(0, 4)) === "RIFF";
      heard.push({ channel, name: file.name, seconds: isWav ? samplesOf(bytes).length / toneRate : null });
      const format = form.get("response_format");
      if (format === "text") return new Response("hello\n", { headers: { "content-type": "text/plain" } });
      if (format === "verbose_json") return Response.json({ text: "hello", language: "en", duration: 61, segments: [] });
      return Response.json({ text: "hello" });
    },
  });
}

const short = upstream("short");
const long = upstream("long");
let gateway: Gateway;
let mp3: Uint8Array;

beforeAll(async () => {
  const encoder = await makeEncoder("mp3", { sampleRate: toneRate });
  mp3 = Uint8Array.from(
    Buffer.concat([encoder.push(spokenTones({ words: 30, toneSeconds: 1.2, gapSeconds: 0.8 })).slice(), encoder.end().slice()]),
  );
  const settings = (name: string, port: number, models: readonly string[], capabilities: object): object => ({
    name,
    base_url: `http://127.0.0.1:${port}/v1`,
    api_key: "sk-of-the-upstream",
    models,
    capabilities,
  });
  gateway = await startGateway({
    config: {
      keys: [
        { name: "whole", key },
        { name: "split", key: `${key}-split`, long_audio: "split" },
      ],
      channels: [
        settings("short", short.port!, ["short", "both"], { audio_seconds: 10 }),
        settings("long", long.port!, ["long", "both"], { audio_seconds: 3600 }),
      ],
    },
  });
});

beforeEach(() => void (heard.length = 0));

afterAll(async () => {
  await gateway.kill();
  await Promise.all([short.stop(true), long.stop(true)]);
});

function transcribe(model: string, fields: Readonly<Record<string, string>> = {}, bearer = key): Promise<Response> {
  const form = new FormData();
  form.append("file", new File([new Uint8Array(mp3)], "minute.mp3"));
  form.append("model", model);
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  const headers = { authorization: `Bearer ${bearer}` };
  return fetch(`${gateway.url}/v1/audio/transcriptions`, { method: "POST", headers, body: form });
}

function accessLine(response: Response): Promise<LogLine> {
  return gateway.waitForLog((line) => line["event"] === "call" && line["id"] === response.headers.get("x-request-id"));
}

test("a minute goes to the channel that takes a minute, every time", async () => {
  for (let count = 0; count < 6; count++) {
    const response = await transcribe("both");
    expect(response.status).toBe(200);
    await response.text();
  }
  expect(heard.map(({ channel }) => channel)).toEqual(Array.from({ length: 6 }, () => "long"));
});

test("a minute that nobody takes is refused with 413 and sent to nobody", async () => {
  const response = await transcribe("short");
  expect(response.status).toBe(413);
  expect(await response.json()).toMatchObject({ error: { message: expect.stringContaining("Maximum audio duration (10 seconds)") } });
  expect(heard).toEqual([]);
});

test("a minute of few bytes is cut for a channel that takes ten seconds, where the key says so", async () => {
  expect(mp3.length).toBeLessThan(1024 * 1024);
  const response = await transcribe("short", {}, `${key}-split`);
  expect(response.status).toBe(200);
  await response.text();
  expect(heard.length).toBeGreaterThanOrEqual(6);
  for (const { seconds } of heard) expect(seconds).toBeWithin(0.01, 10.001);
  // Each part is metered by its own length.
  const sum = heard.reduce((total, { seconds }) => total + seconds!, 0);
  expect(Math.abs(Number((await accessLine(response))["audio_seconds"]) - sum)).toBeLessThanOrEqual(0.01 * heard.length);
});

test.each(["text", "json"])(
  "the access line has the seconds of an upload where the upstream answers %s and says nothing of them",
  async (format) => {
    const response = await transcribe("long", { response_format: format });
    await response.text();
    const line = await accessLine(response);
    expect(Number(line["audio_seconds"])).toBeWithin(59.9, 60.2);
    expect(line).toMatchObject({ status: 200, audio_estimated: true });
  },
);

test("the access line has the upstream's own seconds where it tells them", async () => {
  const response = await transcribe("long", { response_format: "verbose_json" });
  await response.text();
  const line = await accessLine(response);
  expect(line["audio_seconds"]).toBe(61);
  expect(line["audio_estimated"]).toBeUndefined();
});

test("a stream is metered by the length of the upload where it does not say its own", () => {
  const usageOf = (data: object, seconds: number | null): unknown => {
    const text = JSON.stringify(data);
    const emissions = new OpenAiTranscriptStream(seconds).read({ name: "", data: text, frame: bytesOf(`data: ${text}\n\n`) });
    if (isFailure(emissions)) throw new Error(emissions.detail);
    return emissions.find(({ kind }) => kind === "usage");
  };
  const done = { type: "transcript.text.done", text: "hello" };
  expect(usageOf(done, 2.345)).toMatchObject({ frame: null, usage: { audioSeconds: 2.35, estimated: true } });
  expect(usageOf(done, null)).toBeUndefined();
  expect(usageOf({ ...done, usage: { type: "duration", seconds: 3 } }, 2.345)).toMatchObject({ usage: { audioSeconds: 3 } });
});
