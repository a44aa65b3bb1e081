import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import OpenAI, { APIError } from "openai";
import { decodeFile } from "../../packages/embedded/src/codecs/decode-file.ts";
import { recognise } from "../../src/media/audio-sniff.ts";
import { audioFormats, audioTypes, type AudioFormat } from "../../src/media/audio.ts";
import { CommandLine } from "../support/command-line.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { Receipts } from "../support/receipts.ts";
import { startScripted, type Scripted, type ScriptedRequest } from "../support/scripted-upstream.ts";
import { sizedWav, tone } from "../support/speech-world.ts";

setDefaultTimeout(60_000);

const key = "a-client-of-speech-providers-0123456789";
const toneMs = 400;
let upstream: Scripted;
let gateway: Gateway;
let client: OpenAI;

/** What each provider would be asked, and the format in which it would answer. */
function formatIn({ path, body }: ScriptedRequest): AudioFormat {
  const query = new URL(path, "http://x").searchParams;
  const output = body["output_format"] as { readonly container?: string } | undefined;
  const named = query.get("output_format")?.split("_")[0] ?? output?.container ?? query.get("container") ?? query.get("encoding");
  const formats: Readonly<Record<string, AudioFormat>> = { raw: "pcm", none: "pcm", ogg: "opus" };
  return formats[named ?? ""] ?? (named as AudioFormat);
}

async function speak(request: ScriptedRequest): Promise<Response> {
  if (request.path.includes("/listen")) {
    return Response.json({ metadata: { duration: 1 }, results: { channels: [{ alternatives: [{ transcript: "Test." }] }] } });
  }
  const format = formatIn(request);
  return new Response(new Uint8Array(await tone(format, toneMs)), {
    headers: { "content-type": audioTypes[format], "dg-char-count": "7" },
  });
}

const channels = (url: string) => [
  { name: "dg", provider: "deepgram", base_url: `${url}/dg`, api_key: "dg-key", models: ["nova-3", "aura-2"], long_input: "split" },
  { name: "el", provider: "elevenlabs", base_url: `${url}/el`, api_key: "el-key", models: ["eleven_flash_v2_5"] },
  { name: "ca", provider: "cartesia", base_url: `${url}/ca`, api_key: "ca-key", models: ["sonic-3.5"] },
  { name: "first", provider: "elevenlabs", base_url: `${url}/first`, api_key: "el-key", models: { both: "eleven_v3" } },
  { name: "second", provider: "cartesia", base_url: `${url}/second`, api_key: "ca-key", models: { both: "sonic-3" }, tier: 2 },
];

beforeAll(async () => {
  upstream = await startScripted(speak);
  gateway = await startGateway({
    config: {
      keys: [{ name: "client", key }],
      channels: channels(upstream.url),
      prices: [{ model: "*", characters: "30" }],
    },
  });
  client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
});

beforeEach(() => {
  upstream.requests.length = 0;
});

afterAll(async () => {
  await gateway.kill();
  await upstream.close();
});

function speech(fields: Readonly<Record<string, unknown>>): Promise<Response> {
  return client.audio.speech.create({ model: "aura-2", voice: "alloy", input: "Hello.", ...fields }).asResponse();
}

async function secondsOf(format: AudioFormat, bytes: Uint8Array): Promise<number> {
  const { samples, sampleRate } = await decodeFile(format === "pcm" ? sizedWav(bytes) : bytes);
  return samples.length / sampleRate;
}

const providers = [
  { model: "aura-2", path: /^\/v1\/dg\/speak\?model=aura-2-asteria-en/, auth: ["authorization", "Token dg-key"] },
  { model: "eleven_flash_v2_5", path: /^\/v1\/el\/text-to-speech\/SAz9YHcvj6GT2YYXdXww\/stream\?/, auth: ["xi-api-key", "el-key"] },
  { model: "sonic-3.5", path: /^\/v1\/ca\/tts\/bytes$/, auth: ["authorization", "Bearer ca-key"] },
] as const;

describe.each(providers)("speech of $model", ({ model, path, auth: [header, secret] }) => {
  test.each(audioFormats)("comes as %s, whatever the provider has", async (response_format) => {
    const response = await speech({ model, response_format });
    expect(response.headers.get("content-type")).toBe(audioTypes[response_format]);
    const bytes = new Uint8Array(await response.arrayBuffer());
    expect(recognise(bytes, { ended: true, bare: response_format === "pcm" })).toBe(response_format);
    expect(Math.abs((await secondsOf(response_format, bytes)) - toneMs / 1000)).toBeLessThan(0.15);
    expect(upstream.requests).toHaveLength(1);
    expect(upstream.requests[0]?.path).toMatch(path);
    expect(upstream.requests[0]?.headers.get(header)).toBe(secret);
  });

  test("comes as events for a client that wants those, and says what was dropped and whose voice it is", async () => {
    const response = await speech({ model, stream_format: "sse", instructions: "Calmly.", speed: 4 });
    expect(response.headers.get("x-sluice-dropped-params")?.split(", ").toSorted()).toEqual(["instructions", "speed"]);
    expect(response.headers.get("x-sluice-voice")).not.toBeNull();
    expect(await response.text()).toMatch(/^data: \{"type":"speech.audio.delta"[^]*data: \{"type":"speech.audio.done"[^\n]*\n\n$/);
  });

  test("of a voice that the provider does not have is the client's mistake, and the next call is served", async () => {
    const body = { detail: { status: "voice_not_found", message: "This voice was not found." } };
    upstream.next(() => Response.json(body, { status: 404 }));
    const error: unknown = await speech({ model, voice: "nobody" }).catch((cause: unknown) => cause);
    if (!(error instanceof APIError)) throw error;
    expect({ status: error.status, param: error.param, message: error.message }).toMatchObject({ status: 400, param: "voice" });
    expect(error.message).toContain("This voice was not found.");
    expect((await speech({ model })).status).toBe(200);
  });
});

test("a model that only transcribes is refused before the provider is asked", async () => {
  const error: unknown = await speech({ model: "nova-3" }).catch((cause: unknown) => cause);
  expect(error).toMatchObject({ status: 400, code: "unsupported_operation", param: "model" });
  expect(upstream.requests).toEqual([]);
});

test("audio is relayed as it comes", async () => {
  let goOn = (): void => {};
  const resumed = new Promise<void>((resolve) => (goOn = resolve));
  const piece = await tone("pcm", toneMs);
  upstream.next(() => {
    let pieces = 0;
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        if (pieces === 2) return controller.close();
        if (pieces === 1) await resumed;
        pieces += 1;
        controller.enqueue(piece);
      },
    });
    return new Response(body, { headers: { "content-type": "audio/pcm" } });
  });
  const response = await speech({ model: "eleven_flash_v2_5", response_format: "pcm" });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  expect((await reader.read()).value?.length).toBeGreaterThan(0);
  goOn();
  for (let done = false; !done;) ({ done } = await reader.read());
});

test("a text that is longer than the provider takes is spoken in parts, whose lengths fit", async () => {
  const input = "One sentence of this text has forty letters. ".repeat(80);
  const response = await speech({ input, response_format: "mp3", instructions: "Calmly." });
  const bytes = new Uint8Array(await response.arrayBuffer());
  expect(recognise(bytes, { ended: true, bare: false })).toBe("mp3");
  expect(response.headers.get("x-sluice-dropped-params")).toBe("instructions");
  const texts = upstream.bodies.map(({ text }) => String(text));
  expect(texts.length).toBeGreaterThan(1);
  for (const text of texts) expect(text.length).toBeLessThanOrEqual(2000);
  expect(texts.join("").replaceAll(/\s/g, "")).toBe(input.replaceAll(/\s/g, ""));
});

test("an account that is used up gives way to the next provider, with a voice of its own for the same name", async () => {
  upstream.next(() => Response.json({ detail: { status: "quota_exceeded", message: "0 credits remaining." } }, { status: 401 }));
  const response = await speech({ model: "both" });
  expect(response.headers.get("x-sluice-channel")).toBe("second");
  expect(response.headers.get("x-sluice-voice")).toBe("f786b574-daa5-4673-aa0c-cbe3e8534c02");
  expect(upstream.requests.map(({ path }) => path.split("/")[2])).toEqual(["first", "second"]);
  await response.arrayBuffer();
});

test.each([
  ["aura-2", 7],
  ["sonic-3.5", 6],
])("a call of %s is billed by the characters that the provider states, or else by those of the text", async (model, characters) => {
  const response = await speech({ model });
  await response.arrayBuffer();
  await using receipts = await Receipts.open(gateway.directory);
  const receipt = await receipts.of(response.headers.get("x-request-id"));
  expect(receipt.delivered.characters).toBe(characters);
  expect(receipt.billedNanos).toBe(characters * 30_000);
});

test("the voices of a provider are listed by the names that clients may use", async () => {
  const response = await fetch(`${gateway.url}/v1/audio/voices?model=aura-2`, { headers: { authorization: `Bearer ${key}` } });
  const { voices } = (await response.json()) as { readonly voices: readonly { readonly id: string }[] };
  expect(voices.map(({ id }) => id)).toEqual(expect.arrayContaining(["alloy", "thalia", "celeste-es"]));
  const models = await fetch(`${gateway.url}/v1/audio/models`, { headers: { authorization: `Bearer ${key}` } });
  const listed = ((await models.json()) as { readonly models: readonly { readonly id: string }[] }).models.map(({ id }) => id);
  expect(listed.toSorted()).toEqual(["aura-2", "both", "eleven_flash_v2_5", "sonic-3.5"]);
});

test("sluice channels test tries each operation with a model that is for it", async () => {
  const cli = new CommandLine({ channels: channels(upstream.url) });
  const { code, out, err } = await cli.run(["channels", "test", "dg", "--config", cli.config, "--json"]);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  const { calls } = JSON.parse(out) as { readonly calls: readonly Readonly<Record<string, unknown>>[] };
  expect(calls.map(({ operation, model, ok }) => [operation, model, ok])).toEqual([
    ["speech", "aura-2", true],
    ["transcription", "nova-3", true],
  ]);
});
