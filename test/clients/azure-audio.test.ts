import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import OpenAI, { APIError, toFile } from "openai";
import { decodeFile } from "../../packages/embedded/src/codecs/decode-file.ts";
import type { AudioFormat } from "../../src/media/audio.ts";
import { CommandLine } from "../support/command-line.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { Receipts } from "../support/receipts.ts";
import { sizedWav, tone } from "../support/speech-world.ts";
import { bytesOf, cuesIn } from "../support/transcription-world.ts";

setDefaultTimeout(60_000);

const key = "client-key-0123456789abcdef";
const jfk = await readFile(new URL("../fixtures/audio/jfk.wav", import.meta.url));
const said = "Ask not.";

interface Asked {
  readonly path: string;
  readonly key: string | null;
  readonly body: Buffer;
  readonly headers: Headers;
}

/** What the upstreams were asked, in order. */
const asked: Asked[] = [];
/** What a job is when it is asked for, one after the other; the last one stays. */
let jobs: readonly (object | number)[] = [];
/** How speech is refused; null: it is spoken. */
let refusal: Response | null = null;
let server: ReturnType<typeof Bun.serve>;
let gateway: Gateway;
let receipts: Receipts;
let client: OpenAI;

const queued = { id: "job-1", status: "queued", text: null };
const words = [
  { text: "Ask", start: 100, end: 600, confidence: 0.9, speaker: null },
  { text: "not.", start: 600, end: 1100, confidence: 0.9, speaker: null },
];
const done = { id: "job-1", status: "completed", text: said, language_code: "en", audio_duration: 11, words };
const phrases = [
  { speaker: 0, offsetMilliseconds: 100, durationMilliseconds: 400, text: "Ask", locale: "en-US", confidence: 0.9 },
  { speaker: 1, offsetMilliseconds: 600, durationMilliseconds: 500, text: "not.", locale: "en-US", confidence: 0.9 },
];
const heard = { durationMilliseconds: 11_000, combinedPhrases: [{ text: said }], phrases };

const formats: Readonly<Record<string, AudioFormat>> = {
  "audio-24khz-160kbitrate-mono-mp3": "mp3",
  "ogg-24khz-16bit-mono-opus": "opus",
  "riff-24khz-16bit-mono-pcm": "wav",
  "raw-24khz-16bit-mono-pcm": "pcm",
};

async function respond(request: Request): Promise<Response> {
  const { headers } = request;
  const path = new URL(request.url).pathname;
  const auth = headers.get("authorization") ?? headers.get("ocp-apim-subscription-key");
  asked.push({ path, key: auth, headers, body: Buffer.from(await request.arrayBuffer()) });
  if (path === "/v2/upload") return Response.json({ upload_url: "https://cdn.upstream.test/1" });
  if (path === "/v2/transcript") return Response.json(queued);
  if (path === "/v2/transcript/job-1") {
    const job = jobs[0] ?? done;
    if (jobs.length > 1) jobs = jobs.slice(1);
    return typeof job === "number" ? new Response("", { status: job }) : Response.json(job);
  }
  if (path === "/speechtotext/transcriptions:transcribe") return Response.json(heard);
  if (refusal !== null) return refusal.clone();
  const format = formats[headers.get("x-microsoft-outputformat") ?? ""];
  if (format === undefined) return new Response("", { status: 400 });
  return new Response(new Uint8Array(await tone(format, 600)), { headers: { "content-type": "audio/basic" } });
}

function channels(): readonly object[] {
  const url = `http://127.0.0.1:${server.port}`;
  return [
    { name: "jobs", provider: "assemblyai", base_url: `${url}/v2`, api_key: "jobs-key", models: ["universal-2"] },
    {
      ...{ name: "hasty", provider: "assemblyai", base_url: `${url}/v2`, api_key: "jobs-key", models: { hasty: "universal-2" } },
      timeouts: { total: "1500ms" },
    },
    { name: "speech", provider: "azure-speech", base_url: url, api_key: "speech-key", models: ["ears", "voice"] },
  ];
}

beforeAll(async () => {
  server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: respond });
  gateway = await startGateway({
    config: {
      keys: [{ name: "client", key }],
      channels: channels(),
      prices: [
        { provider: "assemblyai", model: "universal-2", second: 0.001 },
        { provider: "azure-speech", model: "ears", second: 0.002 },
        { provider: "azure-speech", model: "voice", characters: 15 },
      ],
    },
  });
  receipts = await Receipts.open(gateway.directory);
  client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
});

afterAll(async () => {
  await receipts[Symbol.asyncDispose]();
  await gateway.kill();
  await server.stop(true);
});

beforeEach(() => {
  asked.length = 0;
  jobs = [];
  refusal = null;
});

function pathsAsked(): readonly string[] {
  return asked.map(({ path }) => path);
}

async function errorOf(call: PromiseLike<unknown>): Promise<APIError> {
  const error = await call.then(
    () => new Error("the call succeeded"),
    (cause: unknown) => cause,
  );
  if (error instanceof APIError) return error;
  throw error;
}

async function recording(): Promise<File> {
  return toFile(jfk, "jfk.wav", { type: "audio/wav" });
}

describe("a channel whose transcriptions are jobs", () => {
  test("uploads the recording, creates the job, waits for it, and answers as any other", async () => {
    jobs = [queued, { ...queued, status: "processing" }, done];
    const { data, response, request_id } = await client.audio.transcriptions
      .create({
        model: "universal-2",
        file: await recording(),
        response_format: "verbose_json",
        timestamp_granularities: ["word", "segment"],
        temperature: 0.2,
      })
      .withResponse();
    expect(data).toMatchObject({ text: said, language: "english", duration: 11, words: [{ word: "Ask", start: 0.1, end: 0.6 }, {}] });
    expect(response.headers.get("x-sluice-dropped-params")).toBe("temperature");
    const poll = "/v2/transcript/job-1";
    expect(pathsAsked()).toEqual(["/v2/upload", "/v2/transcript", poll, poll, poll]);
    expect(asked[0]!.body.equals(jfk)).toBe(true);
    expect(JSON.parse(asked[1]!.body.toString())).toEqual({
      audio_url: "https://cdn.upstream.test/1",
      speech_models: ["universal-2"],
      language_detection: true,
    });
    expect(new Set(asked.map((each) => each.key))).toEqual(new Set(["jobs-key"]));
    expect(await receipts.of(request_id)).toMatchObject({ delivered: { audioSeconds: 11 }, billedNanos: 11e6, costUncertain: false });
  });

  test("survives an upstream that cannot be asked for a moment, without a second job", async () => {
    jobs = [503, done];
    const srt: string = await client.audio.transcriptions.create({
      model: "universal-2",
      file: await recording(),
      response_format: "srt",
    });
    expect(cuesIn(bytesOf(srt), "srt")).toEqual([{ start: 100, end: 1100, text: said }]);
    expect(pathsAsked().filter((path) => path === "/v2/transcript")).toHaveLength(1);
  });

  test("says why a job failed", async () => {
    jobs = [{ ...queued, status: "error", error: "Transcoding failed. File does not appear to contain audio." }];
    const error = await errorOf(client.audio.transcriptions.create({ model: "universal-2", file: await recording() }));
    expect([error.status, error.message]).toEqual([400, expect.stringContaining("does not appear to contain audio")]);
  });

  test("is not waited for longer than the channel allows", async () => {
    jobs = [{ ...queued, status: "processing" }];
    const error = await errorOf(client.audio.transcriptions.create({ model: "hasty", file: await recording() }));
    expect(error.status).toBe(504);
    const line = await gateway.waitForLog(({ event, model }) => event === "call" && model === "hasty");
    expect(line).toMatchObject({ error: "timed_out", attempts: 1 });
  });

  test("is not asked any more when the client has left", async () => {
    jobs = [{ ...queued, status: "processing" }];
    const polls = (): number => pathsAsked().filter((path) => path === "/v2/transcript/job-1").length;
    const aborter = new AbortController();
    const call = client.audio.transcriptions.create({ model: "universal-2", file: await recording() }, { signal: aborter.signal });
    const left = call.catch(() => null);
    await eventually("a first poll", () => polls() > 0);
    aborter.abort();
    await left;
    await gateway.waitForLog(({ event, error }) => event === "call" && error === "client_gone");
    // Another job takes longer than the next poll would have.
    asked.length = 0;
    jobs = [queued, queued, done];
    await client.audio.transcriptions.create({ model: "universal-2", file: await recording() });
    expect(pathsAsked().slice(0, 2)).toEqual(["/v2/upload", "/v2/transcript"]);
    expect(polls()).toBe(3);
  });
});

describe("a channel with fast transcription and SSML", () => {
  test("transcribes, and tells speakers apart", async () => {
    const response = await client.audio.transcriptions
      .create({ model: "ears", file: await recording(), response_format: "diarized_json", language: "en", prompt: "dropped" })
      .asResponse();
    expect(response.headers.get("x-sluice-dropped-params")).toBe("prompt");
    expect(await response.json()).toMatchObject({ text: said, segments: [{ speaker: "A" }, { speaker: "B", start: 0.6, end: 1.1 }] });
    const [request] = asked;
    expect([request?.path, request?.key]).toEqual(["/speechtotext/transcriptions:transcribe", "speech-key"]);
    const sent = request!.body.toString("latin1");
    expect(sent).toContain('{"profanityFilterMode":"None","locales":["en-US"],"diarization":{"enabled":true}}');
    expect(request!.body.includes(jfk)).toBe(true);
    const receipt = await receipts.of(response.headers.get("x-request-id"));
    expect(receipt).toMatchObject({ delivered: { audioSeconds: 11 }, billedNanos: 22e6 });
  });

  test.each(["mp3", "opus", "aac", "flac", "wav", "pcm"] as const)("speaks in %s", async (response_format) => {
    const response = await client.audio.speech.create({ model: "voice", voice: "alloy", input: "Hello.", response_format });
    const bytes = new Uint8Array(await response.arrayBuffer());
    const { samples, sampleRate } = await decodeFile(response_format === "pcm" ? sizedWav(bytes) : bytes);
    expect(samples.length / sampleRate).toBeGreaterThan(0.55);
    expect(samples.length / sampleRate).toBeLessThan(0.75);
    expect(response.headers.get("x-sluice-voice")).toBe("en-US-AvaMultilingualNeural");
  });

  test("speaks what the client wrote and nothing else, and bills its characters", async () => {
    const input = '</voice><voice name="x">5 < 6 & "so" \u0000\u0007 on 你好';
    const response = await client.audio.speech.create({
      model: "voice",
      voice: "en-GB-SoniaNeural",
      input,
      instructions: "Calmly.",
      response_format: "pcm",
    });
    await response.arrayBuffer();
    expect(response.headers.get("x-sluice-dropped-params")).toBe("instructions");
    expect(response.headers.get("x-sluice-voice")).toBeNull();
    expect(asked[0]!.body.toString()).toBe(
      '<speak version="1.0" xmlns="http://www.w3.org/2001/10/synthesis" xml:lang="en-GB"><voice name="en-GB-SoniaNeural">' +
        "&lt;/voice&gt;&lt;voice name=&quot;x&quot;&gt;5 &lt; 6 &amp; &quot;so&quot;    on 你好</voice></speak>",
    );
    expect(asked[0]).toMatchObject({ path: "/tts/cognitiveservices/v1", key: "speech-key" });
    expect(asked[0]!.headers.get("user-agent")).toBe("sluice");
    const characters = [...input].length + 2;
    const receipt = await receipts.of(response.headers.get("x-request-id"));
    expect(receipt).toMatchObject({ delivered: { characters }, billedNanos: characters * 15_000 });
  });

  test("says that a voice is unknown, whether the gateway or the upstream finds it out", async () => {
    const unknown = await errorOf(client.audio.speech.create({ model: "voice", voice: "somebody", input: "Hello." }));
    expect([unknown.status, unknown.param, asked.length]).toEqual([400, "voice", 0]);
    const reset = "upstream connect error or disconnect/reset before headers. reset reason: protocol error";
    refusal = new Response(reset, { status: 502 });
    const refused = await errorOf(client.audio.speech.create({ model: "voice", voice: "en-US-NobodyNeural", input: "Hello." }));
    expect([refused.status, refused.param, refused.message]).toEqual([400, "voice", expect.stringContaining("voice")]);
  });
});

test("both channels can be tested from the command line", async () => {
  jobs = [{ ...queued, status: "error", error: "language_detection cannot be performed on files with no spoken audio." }];
  const cli = new CommandLine({ channels: channels() });
  const outcomes = [];
  for (const name of ["jobs", "speech"]) {
    const { out } = await cli.run(["channels", "test", name, "--config", cli.config, "--json"]);
    const { calls } = JSON.parse(out) as { calls: { operation: string; ok: boolean; outcome: string }[] };
    outcomes.push(...calls.map(({ operation, ok, outcome }) => [name, operation, ok, outcome]));
  }
  expect(outcomes).toEqual([
    ["jobs", "transcription", true, "an empty text"],
    // What it speaks, it is given to transcribe.
    ["speech", "speech", true, expect.stringMatching(/^\d+ bytes of audio$/)],
    ["speech", "transcription", true, `"${said}"`],
  ]);
});
