// Needs: models. The codecs of this machine convert what the upstream speaks.
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import OpenAI, { APIError, toFile } from "openai";
import { decodeFile } from "../../packages/embedded/src/codecs/decode-file.ts";
import { CommandLine } from "../support/command-line.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { sizedWav, tone } from "../support/speech-world.ts";
import { bytesOf, cuesIn } from "../support/transcription-world.ts";

setDefaultTimeout(60_000);

const key = "client-key-0123456789abcdef";
const account = {
  client_email: "robot@project.example",
  private_key: generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs8", format: "pem" }),
};
const jfk = await readFile(fileURLToPath(new URL("../fixtures/audio/jfk.wav", import.meta.url)));
const pcm = await tone("pcm", 600);
const mp3 = await tone("mp3", 600);
const wav = sizedWav(pcm);

interface Asked {
  readonly path: string;
  readonly key: string | null;
  readonly body: Readonly<Record<string, unknown>>;
}

const asked: Asked[] = [];
let upstream: ReturnType<typeof Bun.serve>;
let gateway: Gateway;
let client: OpenAI;

beforeAll(async () => {
  upstream = Bun.serve({ port: 0, hostname: "127.0.0.1", maxRequestBodySize: 1 << 27, fetch: respond });
  gateway = await startGateway({ config: { keys: [{ name: "client", key }], channels: channels() } });
  client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
});

afterAll(async () => {
  await gateway.kill();
  await upstream.stop(true);
});

beforeEach(() => {
  asked.length = 0;
});

function channels(): readonly Readonly<Record<string, unknown>>[] {
  const base = `http://127.0.0.1:${upstream.port}`;
  const cloud = { token_url: `${base}/token`, api_key: Buffer.from(JSON.stringify(account)).toString("base64") };
  return [
    { name: "gemini", provider: "gemini", dialect: "gemini", base_url: `${base}/v1beta`, api_key: "google-key" },
    { name: "voices", provider: "google-tts", base_url: `${base}/tts/v1`, ...cloud, models: ["chirp3-hd", "neural2"] },
    { name: "recognizer", provider: "google-stt", base_url: `${base}/stt/v2/projects/p/locations/us`, ...cloud, models: ["chirp_3"] },
    // The same model at a server that gives times.
    { name: "timed", base_url: `${base}/other`, api_key: "other-key", models: ["gemini-9-pro"], tier: 2 },
  ];
}

async function respond(request: Request): Promise<Response> {
  const { pathname, searchParams } = new URL(request.url);
  if (pathname === "/token") return Response.json({ access_token: "issued-token", expires_in: 3600 });
  if (pathname === "/v1beta/models") return Response.json(pages[searchParams.get("pageToken") ?? ""]);
  if (pathname.startsWith("/other/")) return Response.json(verbose);
  const body = (await request.json()) as Asked["body"];
  asked.push({ path: pathname, key: request.headers.get("x-goog-api-key") ?? request.headers.get("authorization"), body });
  if (pathname.endsWith(":synthesize")) {
    const { audioEncoding } = body["audioConfig"] as { readonly audioEncoding: string };
    return Response.json({ audioContent: (audioEncoding === "MP3" ? mp3 : wav).toBase64() });
  }
  if (pathname.endsWith(":recognize")) return Response.json(recognized);
  if (pathname.endsWith(":streamGenerateContent")) return spoken();
  return Response.json(written);
}

const listed = (name: string): object => ({ name: `models/${name}`, supportedGenerationMethods: ["generateContent"] });
const pages: Readonly<Record<string, object>> = {
  "": { models: [listed("gemini-9-flash"), listed("gemini-9-pro")], nextPageToken: "second/page" },
  "second/page": { models: [listed("gemini-9-flash-tts")] },
};
const verbose = {
  text: "Elsewhere.",
  language: "english",
  duration: 11,
  segments: [{ id: 0, start: 0.5, end: 2, text: " Elsewhere." }],
};
const written = {
  candidates: [{ content: { role: "model", parts: [{ text: "And so my fellow Americans" }] }, finishReason: "STOP" }],
  usageMetadata: {
    promptTokenCount: 400,
    candidatesTokenCount: 6,
    totalTokenCount: 406,
    promptTokensDetails: [{ modality: "AUDIO", tokenCount: 352 }],
  },
};
const recognized = {
  results: [
    {
      alternatives: [
        {
          transcript: "Ask not.",
          words: [
            { word: "Ask", startOffset: "0.500s", endOffset: "0.900s" },
            { word: "not.", startOffset: "0.900s", endOffset: "1.250s" },
          ],
        },
      ],
      languageCode: "en-us",
    },
  ],
  metadata: { totalBilledDuration: "11s" },
};

function spoken(): Response {
  const event = (audio: Uint8Array, more: object = {}): string => {
    const inlineData = { mimeType: "audio/L16;codec=pcm;rate=24000", data: audio.toBase64() };
    return `data: ${JSON.stringify({ candidates: [{ content: { parts: [{ inlineData }] }, ...more }], usageMetadata })}\r\n\r\n`;
  };
  const usageMetadata = { promptTokenCount: 12, candidatesTokenCount: 15, totalTokenCount: 27 };
  return new Response(event(pcm.subarray(0, 9001)) + event(pcm.subarray(9001), { finishReason: "STOP" }), {
    headers: { "content-type": "text/event-stream" },
  });
}

async function secondsIn(bytes: Uint8Array): Promise<number> {
  const { samples, sampleRate } = await decodeFile(bytes);
  return samples.length / sampleRate;
}

async function refusal(call: PromiseLike<unknown>): Promise<APIError> {
  const error: unknown = await call.then(
    () => null,
    (cause: unknown) => cause,
  );
  if (error instanceof APIError) return error;
  throw new Error(`not refused: ${String(error)}`);
}

describe("a channel of Gemini", () => {
  const ask = { model: "gemini-9-flash-tts", voice: "alloy", input: "Hello." };

  test.each(["mp3", "opus", "aac", "flac", "wav"] as const)("speaks %s, though it has only samples", async (response_format) => {
    const response = await client.audio.speech.create({ ...ask, response_format });
    const seconds = await secondsIn(new Uint8Array(await response.arrayBuffer()));
    expect(seconds).toBeGreaterThan(0.55);
    expect(seconds).toBeLessThan(0.8);
  });

  test("speaks its own samples, with a voice in place of one that it does not have, and says what it left out", async () => {
    const response = await client.audio.speech.create({ ...ask, response_format: "pcm", instructions: "Calmly.", speed: 2 });
    expect(Buffer.from(await response.arrayBuffer()).equals(pcm)).toBe(true);
    expect(response.headers.get("x-sluice-voice")).toBe("Kore");
    expect(response.headers.get("x-sluice-dropped-params")).toBe("speed");
    expect(asked).toMatchObject([
      {
        path: "/v1beta/models/gemini-9-flash-tts:streamGenerateContent",
        key: "google-key",
        body: { generationConfig: { responseModalities: ["AUDIO"] } },
      },
    ]);
    expect(JSON.stringify(asked[0]?.body)).toContain("Calmly.");
  });

  test("reports the tokens of its speech at the end of events", async () => {
    const response = await client.audio.speech.create({ ...ask, response_format: "pcm", stream_format: "sse" });
    const events = (await response.text()).trim().split("\n\n");
    expect(JSON.parse(events.at(-1)?.slice("data: ".length) ?? "")).toEqual({
      type: "speech.audio.done",
      usage: { input_tokens: 12, output_tokens: 15, total_tokens: 27 },
    });
  });

  test("writes down a recording, all of which it gets", async () => {
    const file = await toFile(jfk, "jfk.wav");
    const { text, usage } = await client.audio.transcriptions.create({ model: "gemini-9-flash", file, language: "en" });
    expect(text).toBe("And so my fellow Americans");
    expect(usage).toMatchObject({ type: "tokens", input_tokens: 400, output_tokens: 6 });
    expect(asked[0]?.body).toMatchObject({
      contents: [{ parts: [{ inlineData: { mimeType: "audio/wav", data: jfk.toString("base64") } }, { text: expect.any(String) }] }],
    });
  });

  test("leaves times to a channel that has them, and where there is none, says so", async () => {
    const file = await toFile(jfk, "jfk.wav");
    const srt: string = await client.audio.transcriptions.create({ model: "gemini-9-pro", file, response_format: "srt" });
    expect(cuesIn(bytesOf(srt), "srt")).toEqual([{ start: 500, end: 2000, text: "Elsewhere." }]);
    const error = await refusal(client.audio.transcriptions.create({ model: "gemini-9-flash", file, response_format: "vtt" }));
    expect(error).toMatchObject({ status: 400, code: "unsupported_value", param: "response_format" });
    expect(asked).toEqual([]);
  });

  test("does with each model what that can do, and lists its voices", async () => {
    const list = async (path: string): Promise<unknown> =>
      (await fetch(`${gateway.url}${path}`, { headers: { authorization: `Bearer ${key}` } })).json();
    expect(JSON.stringify(await list("/v1/audio/models"))).not.toContain('gemini-9-flash"');
    expect(JSON.stringify(await list("/v1/audio/voices?model=gemini-9-flash-tts"))).toContain('"Zubenelgenubi"');
    const error = await refusal(client.audio.speech.create({ ...ask, model: "gemini-9-flash" }));
    expect(error).toMatchObject({ status: 400, code: "unsupported_operation" });
  });

  test("passes on what a client of its own API asks of a model that speaks", async () => {
    const body = { contents: [{ parts: [{ text: "Hello." }] }], generationConfig: { responseModalities: ["AUDIO"] } };
    const path = "/v1beta/models/gemini-9-flash-tts:generateContent";
    const response = await fetch(`${gateway.url}${path}`, {
      method: "POST",
      headers: { "x-goog-api-key": key },
      body: JSON.stringify(body),
    });
    expect(await response.json()).toEqual(written);
    expect(asked).toMatchObject([{ path, body }]);
    const chat = client.chat.completions.create({ model: "gemini-9-flash-tts", messages: [{ role: "user", content: "Hello." }] });
    expect(await refusal(chat)).toMatchObject({ status: 400, code: "unsupported_operation" });
  });
});

describe("channels of Google Cloud", () => {
  test("speak what they have as it is, and the rest through the codecs, with a token", async () => {
    const ask = { model: "chirp3-hd", voice: "de-DE-Chirp3-HD-Puck", input: "Hallo." };
    const response = await client.audio.speech.create(ask);
    expect(Buffer.from(await response.arrayBuffer()).equals(mp3)).toBe(true);
    expect(asked).toMatchObject([
      { path: "/tts/v1/text:synthesize", key: "Bearer issued-token", body: { voice: { languageCode: "de-DE" } } },
    ]);
    const flac = await client.audio.speech.create({ ...ask, response_format: "flac" });
    expect(await secondsIn(new Uint8Array(await flac.arrayBuffer()))).toBeCloseTo(0.6, 1);
    const bare = await client.audio.speech.create({ ...ask, response_format: "pcm" });
    expect(Buffer.from(await bare.arrayBuffer()).equals(pcm)).toBe(true);
  });

  test("refuse a voice of another price", async () => {
    const error = await refusal(client.audio.speech.create({ model: "neural2", voice: "en-US-Studio-O", input: "Hello." }));
    expect(error).toMatchObject({ status: 400, param: "voice" });
    expect(asked).toEqual([]);
  });

  test("make subtitles of the times of words", async () => {
    const file = await toFile(jfk, "jfk.wav");
    const srt: string = await client.audio.transcriptions.create({ model: "chirp_3", file, response_format: "srt" });
    expect(cuesIn(bytesOf(srt), "srt")).toEqual([{ start: 500, end: 1250, text: "Ask not." }]);
    expect(asked).toMatchObject([{ path: "/stt/v2/projects/p/locations/us/recognizers/_:recognize", key: "Bearer issued-token" }]);
  });

  test("are not sent a recording that is too long for them", async () => {
    const file = await toFile(sizedWav(new Uint8Array(48_000 * 61)), "long.wav");
    const error = await refusal(client.audio.transcriptions.create({ model: "chirp_3", file }));
    expect(error).toMatchObject({ status: 413 });
    expect(asked).toEqual([]);
  });
});

test("sluice channels test makes one call for each operation of a channel of Gemini", async () => {
  const cli = new CommandLine({ channels: channels() });
  const { code, out } = await cli.run(["channels", "test", "gemini", "--config", cli.config, "--json"]);
  const { calls } = JSON.parse(out) as {
    readonly calls: readonly { readonly operation: string; readonly ok: boolean; readonly model: string }[];
  };
  expect({ code, calls: calls.map(({ operation, ok, model }) => [operation, ok, model]) }).toEqual({
    code: 0,
    calls: [
      ["chat", true, "gemini-9-flash"],
      ["speech", true, "gemini-9-flash-tts"],
      ["transcription", true, "gemini-9-flash"],
    ],
  });
});
