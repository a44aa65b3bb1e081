// Needs: models. A model of this machine speaks.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createOpenAI } from "@ai-sdk/openai";
import { OpenAIClient } from "@langchain/openai";
import { APICallError, generateSpeech, transcribe } from "ai";
import OpenAI, { APIError, BadRequestError, NotFoundError, toFile } from "openai";
import { decodeFile } from "../../packages/embedded/src/codecs/decode-file.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { sizedWav, tone } from "../support/speech-world.ts";
import { bytesOf, cuesIn, eventsIn } from "../support/transcription-world.ts";

setDefaultTimeout(60_000);

const key = "sk-client-of-these-tests";
const jfkPath = fileURLToPath(new URL("../fixtures/audio/jfk.wav", import.meta.url));
const jfk = await readFile(jfkPath);
const [whisper, flite] = ["embedded/whisper-base", "embedded/flite"];

const words = [
  { word: "Hello", start: 0, end: 0.5 },
  { word: "there", start: 0.5, end: 1.25 },
];
const verbose = {
  task: "transcribe",
  language: "english",
  duration: 1.5,
  text: "Hello there",
  segments: [
    {
      id: 0,
      seek: 0,
      start: 0,
      end: 1.25,
      text: " Hello there",
      tokens: [1, 2],
      temperature: 0,
      avg_logprob: -0.2,
      compression_ratio: 1,
      no_speech_prob: 0.01,
    },
  ],
  words,
  usage: { type: "duration", seconds: 2 },
};

/** What the upstream was sent last. */
let sent: { readonly form: FormData | null; readonly body: Readonly<Record<string, unknown>> | null } = { form: null, body: null };
/** The upstream speaks its first piece, and the second when it is told to. */
let goOn = (): void => {};
let upstream: ReturnType<typeof Bun.serve>;
let gateway: Gateway;
let client: OpenAI;

/** Always says the same, in the formats of the OpenAI API that an upstream may have. */
async function answer(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (pathname.endsWith("/speech")) {
    const body = (await request.json()) as Record<string, unknown>;
    sent = { form: null, body };
    return new Response(body["input"] === "slowly" ? slowly() : await spokenTone(body), { headers: { "content-type": "audio/pcm" } });
  }
  const form = await request.formData();
  sent = { form, body: null };
  if (form.get("stream") === "true") {
    const events = [
      { type: "transcript.text.delta", delta: "Hello" },
      { type: "transcript.text.delta", delta: " there" },
      { type: "transcript.text.done", text: "Hello there", usage: verbose.usage },
    ];
    const text = `${events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("")}data: [DONE]\n\n`;
    return new Response(text, { headers: { "content-type": "text/event-stream" } });
  }
  if (form.get("response_format") === "verbose_json") return Response.json(verbose);
  return Response.json({ text: verbose.text, usage: verbose.usage });
}

async function spokenTone(body: Readonly<Record<string, unknown>>): Promise<Blob> {
  expect(body["response_format"]).toBe("pcm");
  return new Blob([new Uint8Array(await tone("pcm", 600))]);
}

function slowly(): ReadableStream<Uint8Array> {
  const resumed = new Promise<void>((resolve) => (goOn = resolve));
  let pieces = 0;
  return new ReadableStream({
    async pull(controller) {
      if (pieces === 2) return controller.close();
      if (pieces === 1) await resumed;
      pieces += 1;
      controller.enqueue(await tone("pcm", 400));
    },
  });
}

beforeAll(async () => {
  upstream = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: answer });
  gateway = await startGateway({
    config: {
      keys: [{ name: "client", key }],
      server: { audio_limit: "1MiB" },
      channels: [
        {
          name: "scripted",
          base_url: `${upstream.url.origin}/v1`,
          api_key: "sk-of-the-upstream",
          models: ["listener", "speaker", "whisper-1", "tts-1"],
          capabilities: { transcription_formats: ["json", "verbose_json"], speech_formats: ["pcm"] },
        },
        { name: "here", provider: "embedded" },
      ],
    },
  });
  client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
});

afterAll(async () => {
  await gateway.kill();
  await upstream.stop(true);
});

async function errorOf(call: PromiseLike<unknown>): Promise<unknown> {
  return call.then(
    () => Promise.reject(new Error("the call succeeded")),
    (error: unknown) => error,
  );
}

async function apiErrorOf(call: PromiseLike<unknown>): Promise<APIError> {
  const error = await errorOf(call);
  if (error instanceof APIError) return error;
  throw error;
}

/** A call whose line frames those of others: lines are logged in order. Gives its id, once it is logged. */
async function mark(): Promise<string> {
  const file = await toFile(jfk, "jfk.wav");
  const { request_id } = await client.audio.transcriptions.create({ model: "listener", file }).withResponse();
  await gateway.waitForLog((line) => line["event"] === "call" && line["id"] === request_id);
  return request_id ?? "";
}

async function uploaded(): Promise<{ readonly name: string; readonly bytes: Buffer }> {
  const file = sent.form?.get("file");
  if (!(file instanceof File)) throw new Error("the upstream got no file");
  return { name: file.name, bytes: Buffer.from(await file.arrayBuffer()) };
}

/** The samples of any file, in seconds. */
async function secondsIn(bytes: Uint8Array): Promise<number> {
  const { samples, sampleRate } = await decodeFile(bytes);
  return samples.length / sampleRate;
}

describe("the official client, transcribing", () => {
  test.each([
    ["a stream of a file", () => createReadStream(jfkPath), "jfk.wav"],
    ["bytes", () => toFile(jfk, "speech.wav", { type: "audio/wav" }), "speech.wav"],
    ["a response of fetch", () => fetch(new URL("../fixtures/audio/jfk.wav", import.meta.url)), "jfk.wav"],
    ["a file of the platform", () => new File([new Uint8Array(jfk)], "größe.wav"), "größe.wav"],
  ])("sends %s, and all of it arrives", async (_, open, name) => {
    const { text, usage } = await client.audio.transcriptions.create({ model: "listener", file: await open() });
    expect(text).toBe("Hello there");
    expect(usage).toEqual({ type: "duration", seconds: 2 });
    const upload = await uploaded();
    expect(upload.name).toBe(name);
    expect(upload.bytes.equals(jfk)).toBe(true);
    expect(sent.form?.get("model")).toBe("listener");
  });

  test("gets text, srt and vtt as strings", async () => {
    const ask = { model: "listener", file: await toFile(jfk, "jfk.wav") };
    const text: string = await client.audio.transcriptions.create({ ...ask, response_format: "text" });
    expect(text).toBe("Hello there\n");
    const srt: string = await client.audio.transcriptions.create({ ...ask, response_format: "srt" });
    expect(cuesIn(bytesOf(srt), "srt")).toEqual([{ start: 0, end: 1250, text: "Hello there" }]);
    const vtt: string = await client.audio.transcriptions.create({ ...ask, response_format: "vtt" });
    expect(cuesIn(bytesOf(vtt), "vtt")).toEqual([{ start: 0, end: 1250, text: "Hello there" }]);
  });

  test("gets the detailed answer, its words and its segments", async () => {
    const found = await client.audio.transcriptions.create({
      model: "listener",
      file: await toFile(jfk, "jfk.wav"),
      response_format: "verbose_json",
      timestamp_granularities: ["word", "segment"],
    });
    expect(found.language).toBe("english");
    expect(found.duration).toBe(1.5);
    expect(found.words).toEqual(words);
    expect(found.segments?.map(({ start, end, text }) => ({ start, end, text }))).toEqual([{ start: 0, end: 1.25, text: " Hello there" }]);
    expect(sent.form?.getAll("timestamp_granularities[]")).toEqual(["word", "segment"]);
  });

  test("iterates over a stream to its end", async () => {
    const stream = await client.audio.transcriptions.create({ model: "listener", file: await toFile(jfk, "jfk.wav"), stream: true });
    let text = "";
    let done: string | null = null;
    for await (const event of stream) {
      if (event.type === "transcript.text.delta") text += event.delta;
      if (event.type === "transcript.text.done") done = event.text;
    }
    expect({ text, done }).toEqual({ text: "Hello there", done: "Hello there" });
  });

  test("has the request id of the access log", async () => {
    const id = await mark();
    expect(gateway.accessLines().find((line) => line["id"] === id)).toMatchObject({
      operation: "transcription",
      model: "listener",
      status: 200,
    });
  });

  test("translates", async () => {
    const { text } = await client.audio.translations.create({ model: "listener", file: await toFile(jfk, "jfk.wav") });
    expect(text).toBe("Hello there");
  });
});

describe("the official client, speaking", () => {
  const ask = { model: flite, voice: "rms", input: "Hello from this machine." };

  test.each(["mp3", "opus", "aac", "flac", "wav"] as const)("gets a whole file of %s", async (response_format) => {
    const response = await client.audio.speech.create({ ...ask, response_format });
    const seconds = await secondsIn(new Uint8Array(await response.arrayBuffer()));
    expect(seconds).toBeGreaterThan(0.8);
    expect(seconds).toBeLessThan(4);
  });

  test("gets PCM at the rate of the OpenAI API", async () => {
    const response = await client.audio.speech.create({ ...ask, response_format: "pcm" });
    const samples = Buffer.from(await response.arrayBuffer());
    expect(samples.length % 2).toBe(0);
    expect(await secondsIn(sizedWav(samples))).toBeCloseTo(samples.length / 48_000, 3);
  });

  test.each(["pcm", "mp3"] as const)("reads the first %s while the upstream still speaks", async (response_format) => {
    const response = await client.audio.speech.create({ model: "speaker", voice: "any", input: "slowly", response_format });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const first = await reader.read();
    expect(first.value?.length).toBeGreaterThan(0);
    goOn();
    const pieces = [first.value!];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      pieces.push(value);
    }
    const whole = Buffer.concat(pieces);
    expect(Math.abs((await secondsIn(response_format === "pcm" ? sizedWav(whole) : whole)) - 0.8)).toBeLessThan(0.15);
  });

  test.each(["speaker", flite])("gets events from %s, which only sends bytes", async (model) => {
    const response = await client.audio.speech.create({ ...ask, model, response_format: "wav", stream_format: "sse" });
    expect(response.headers.get("content-type")).toStartWith("text/event-stream");
    const events = eventsIn(new Uint8Array(await response.arrayBuffer())).map(
      (data) => JSON.parse(data) as { type: string; audio?: string },
    );
    expect(events.at(-1)?.type).toBe("speech.audio.done");
    const audio = Buffer.concat(events.slice(0, -1).map((event) => Buffer.from(event.audio ?? "", "base64")));
    expect(await secondsIn(audio)).toBeGreaterThan(0.5);
  });

  test("reaches the upstream with fields the library does not know", async () => {
    await client.audio.speech.create({ ...ask, model: "speaker", instructions: "Slowly.", ...{ cfg: 3 } });
    expect(sent.body).toMatchObject({ instructions: "Slowly.", cfg: 3, voice: "rms", response_format: "pcm" });
  });
});

describe("the official client's errors", () => {
  test("a language that is none is a bad request, which names the field", async () => {
    const error = await apiErrorOf(
      client.audio.transcriptions.create({ model: whisper, file: await toFile(jfk, "jfk.wav"), language: "klingon" }),
    );
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error).toMatchObject({ status: 400, param: "language", code: "invalid_value", type: "invalid_request_error" });
    expect(error.requestID).toBeString();
  });

  test("a text in Japanese for an English voice is a bad request", async () => {
    const error = await apiErrorOf(client.audio.speech.create({ model: flite, voice: "rms", input: "こんにちは、世界。" }));
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error).toMatchObject({ param: "input", code: "unsupported_language" });
    expect(error.message).toContain("English only");
  });

  test("a file beyond the limit is refused with 413, which says what the limit is", async () => {
    const file = await toFile(sizedWav(new Uint8Array(2 * 1024 * 1024)), "large.wav");
    const error = await apiErrorOf(client.audio.transcriptions.create({ model: "listener", file }));
    expect(error.status).toBe(413);
    expect(error.message).toMatch(/1 MiB|1048576|1,048,576/);
  });

  test("a model that is not there is not found", async () => {
    const error = await apiErrorOf(client.audio.transcriptions.create({ model: "nobody", file: await toFile(jfk, "jfk.wav") }));
    expect(error).toBeInstanceOf(NotFoundError);
    expect(error).toMatchObject({ param: "model", code: "model_not_found" });
    expect(await apiErrorOf(client.audio.speech.create({ model: "nobody", voice: "rms", input: "Hello." }))).toBeInstanceOf(NotFoundError);
  });
});

// @ai-sdk/openai-compatible has no audio; @ai-sdk/openai speaks to any base URL.
describe("the AI SDK", () => {
  const provider = (): ReturnType<typeof createOpenAI> => createOpenAI({ apiKey: key, baseURL: `${gateway.url}/v1` });

  test("transcribes, with segments, the language and the length", async () => {
    const found = await transcribe({ model: provider().transcription("whisper-1"), audio: jfk });
    expect(found).toMatchObject({ text: "Hello there", language: "en", durationInSeconds: 1.5 });
    expect(found.segments).toEqual([{ text: " Hello there", startSecond: 0, endSecond: 1.25 }]);
    expect(found.warnings).toEqual([]);
    expect((await uploaded()).bytes.equals(jfk)).toBe(true);
  });

  test("tells what language was heard when it asks for details of a model it does not know", async () => {
    const found = await transcribe({
      model: provider().transcription("listener"),
      audio: jfk,
      providerOptions: { openai: { responseFormat: "verbose_json", timestampGranularities: ["word"] } },
    });
    expect(found.language).toBe("en");
    expect(sent.form?.getAll("timestamp_granularities[]")).toEqual(["word"]);
  });

  test.each(["mp3", "wav", "opus"])("speaks %s, and knows what it got", async (outputFormat) => {
    const { audio, warnings } = await generateSpeech({
      model: provider().speech(flite),
      text: "Hello from this machine.",
      voice: "rms",
      outputFormat,
    });
    expect(warnings).toEqual([]);
    expect(audio.uint8Array.length).toBeGreaterThan(1000);
    expect(await secondsIn(audio.uint8Array)).toBeGreaterThan(0.8);
    expect(audio.mediaType).toStartWith("audio/");
  });

  test("speaks without a voice of its own choice", async () => {
    const { audio } = await generateSpeech({ model: provider().speech("tts-1"), text: "Hello." });
    expect(await secondsIn(audio.uint8Array)).toBeGreaterThan(0.5);
    expect(sent.body?.["voice"]).toBe("alloy");
  });

  test("raises what was refused, and does not try again", async () => {
    const before = await mark();
    const error = await errorOf(generateSpeech({ model: provider().speech(flite), text: "Привет, как дела?", voice: "rms" }));
    if (!APICallError.isInstance(error)) throw error;
    expect(error).toMatchObject({ statusCode: 400, isRetryable: false });
    expect(error.message).toContain("English only");
    const after = await mark();
    const ids = gateway.accessLines().map((line) => line["id"]);
    expect(ids.slice(ids.indexOf(before) + 1, ids.indexOf(after))).toEqual([error.responseHeaders?.["x-request-id"]]);
  });
});

/** LangChain's loader of recordings, in a package that is only there after `npm run test:langchain`. */
async function whisperLoader(): Promise<WhisperLoader | null> {
  try {
    const entry = Bun.resolveSync("@langchain/community/document_loaders/fs/openai_whisper_audio", join(import.meta.dir, "../langchain"));
    return ((await import(entry)) as { OpenAIWhisperAudio: WhisperLoader }).OpenAIWhisperAudio;
  } catch {
    return null;
  }
}

type WhisperLoader = new (
  file: string | Blob,
  fields: { readonly clientOptions: object; readonly transcriptionCreateParams?: object },
) => { load(): Promise<readonly { readonly pageContent: string }[]> };

const Loader = await whisperLoader();

describe("LangChain", () => {
  const options = (): { apiKey: string; baseURL: string; maxRetries: number } => ({
    apiKey: key,
    baseURL: `${gateway.url}/v1`,
    maxRetries: 0,
  });

  // Its loader names a file by its whole path, and a blob by its media type.
  test.each([jfkPath, "audio/wav"])("sends a recording under the name %s, which is still audio", async (name) => {
    const { text } = await new OpenAIClient(options()).audio.transcriptions.create({
      model: "listener",
      file: await toFile(jfk, name),
    });
    expect(text).toBe("Hello there");
    expect((await uploaded()).bytes.equals(jfk)).toBe(true);
  });

  test.skipIf(Loader === null).each(["path", "blob"])(
    "loads a recording by its %s (skipped without npm run test:langchain)",
    async (by) => {
      if (Loader === null) throw new Error("not installed");
      const source = by === "path" ? jfkPath : new Blob([new Uint8Array(jfk)], { type: "audio/wav" });
      const [document] = await new Loader(source, { clientOptions: options() }).load();
      expect(document?.pageContent).toBe("Hello there");
      expect((await uploaded()).bytes.equals(jfk)).toBe(true);
    },
  );
});
