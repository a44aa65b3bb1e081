import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { makeDecoder } from "../../packages/embedded/src/codecs/decode.ts";
import { audioFormats, audioTypes, type AudioFormat } from "../../src/media/audio.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway, type LogLine } from "../support/gateway.ts";
import { joinedSamples } from "../support/signal.ts";
import { sizedWav } from "../support/speech-world.ts";
import { answerOf, chunksOf, heard, numbersIn, story, streamed, tones, ToneVoice } from "../support/tone-voice.ts";

setDefaultTimeout(60_000);

const key = "a-key-for-long-speech-0123456789";
const count = 60;
const text = story(count);
const sequence = Array.from({ length: count }, (_, at) => at % 8);

/** What the tests share that need one channel without further settings. */
let voice: ToneVoice;
let gateway: Gateway;
/** Of each test another one, so that none meets the health of a deployment that another has left. */
let model = "tts";
let tests = 0;

beforeAll(async () => {
  voice = new ToneVoice();
  gateway = await start([channel("one", voice)]);
});

beforeEach(() => {
  voice.spoken.length = 0;
  voice.manner = () => null;
  model = `tts-${(tests += 1)}`;
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await voice[Symbol.asyncDispose]();
});

interface ChannelOptions {
  readonly [option: string]: unknown;
}

function channel(name: string, voice: ToneVoice, options: ChannelOptions = {}): ChannelOptions {
  const capabilities = { operations: ["speech"], speech_limit: 400 };
  return { name, base_url: voice.url, models: "*", long_input: "split", capabilities, ...options };
}

function start(channels: readonly ChannelOptions[], more: Readonly<Record<string, unknown>> = {}): Promise<Gateway> {
  return startGateway({ config: { keys: [{ name: "test", key }], channels, ...more } });
}

function ask(of: Gateway, body: Readonly<Record<string, unknown>> = {}, signal?: AbortSignal): Promise<Response> {
  return fetch(`${of.url}/v1/audio/speech`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify({ model, input: text, voice: "alloy", response_format: "pcm", ...body }),
    ...(signal === undefined ? {} : { signal }),
  });
}

async function decoded(format: AudioFormat, bytes: Uint8Array): Promise<{ samples: Float32Array; sampleRate: number }> {
  const decoder = await makeDecoder(format);
  const pieces = [decoder.push(bytes), decoder.end()];
  decoder.destroy();
  return {
    samples: joinedSamples(pieces.map(({ samples }) => samples)),
    sampleRate: Math.max(...pieces.map(({ sampleRate }) => sampleRate)),
  };
}

async function pcmOf(response: Response): Promise<readonly number[]> {
  const { samples, sampleRate } = await decoded("pcm", await response.bytes());
  return heard(samples, sampleRate);
}

/** How the rest of a body ends: whole, or cut off. */
async function endOf(response: Response): Promise<"whole" | "cut"> {
  try {
    await response.arrayBuffer();
    return "whole";
  } catch {
    return "cut";
  }
}

/** The line of the only call of a test. */
async function onlyLine(of: Gateway): Promise<LogLine> {
  const own = (): readonly LogLine[] => of.accessLines().filter((line) => line["model"] === model);
  await eventually("its line", () => own().length > 0);
  expect(own()).toHaveLength(1);
  return own()[0]!;
}

function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

describe("a text above the limit", () => {
  test("is spoken in parts and becomes one file in every format", async () => {
    for (const format of audioFormats) {
      voice.spoken.length = 0;
      const response = await ask(gateway, { response_format: format, speed: 1.25, extra: [1] });
      expect(response.status).toBe(200);
      expect(response.headers.get("content-type")).toBe(audioTypes[format]);
      const { samples, sampleRate } = await decoded(format, await response.bytes());
      expect(heard(samples, sampleRate)).toEqual(sequence);
      // Codecs pad their frames; nothing else is longer or shorter than what was spoken.
      expect(samples.length / sampleRate).toBeWithin(count * 0.12, count * 0.12 + 0.15);
      // Some are asked for at the same time, and which of them arrives first is nobody's promise.
      expect(voice.inputs.toSorted((one, other) => text.indexOf(one) - text.indexOf(other)).join("")).toBe(text);
      expect(voice.spoken.length).toBeGreaterThan(5);
      for (const { body, input } of voice.spoken) {
        expect(input.length).toBeLessThanOrEqual(400);
        expect(body).toEqual({ model, input, voice: "alloy", response_format: "pcm", speed: 1.25, extra: [1] });
      }
    }
    const ownLines = () => gateway.accessLines().filter((line) => line["model"] === model);
    await eventually("all lines", () => ownLines().length === audioFormats.length);
  });

  test("is one call in the log, with all that was tried and spoken", async () => {
    const response = await ask(gateway);
    const { length } = await response.bytes();
    const line = await onlyLine(gateway);
    expect(line).toMatchObject({ status: 200, state: "complete", operation: "speech", channel: "one", finish: "stop" });
    expect(line).toMatchObject({ characters: text.length, bytes_out: length, attempts: voice.spoken.length });
    expect(line["first_content_ms"]).toBeGreaterThan(0);
    expect(line["first_content_ms"] as number).toBeLessThanOrEqual(line["total_ms"] as number);
    expect(response.headers.get("x-sluice-channel")).toBe("one");
    expect(response.headers.get("x-sluice-attempts")).toBe("1");
  });

  test("sounds before its second part is spoken, and its next parts are begun before the first is over", async () => {
    const [first, second] = [gate(), gate()];
    voice.manner = (spoken) => {
      if (spoken.turn === 0) return answerOf(spoken, { before: () => first.opened });
      return spoken.turn === 1 ? answerOf(spoken, { before: () => second.opened }) : null;
    };
    const response = await ask(gateway, { response_format: "mp3" });
    const reader = response.body!.getReader();
    const start0 = await reader.read();
    expect(start0.value!.length).toBeGreaterThan(0);
    await eventually("the next are begun", () => voice.spoken.length === 3);
    expect(voice.spoken.map(({ finished }) => finished)).toContain(false);
    expect(voice.spoken[0]!.finished).toBe(false);
    // The third is there before the second, and waits for it.
    await eventually("the third is over", () => voice.spoken[2]!.finished);
    first.open();
    second.open();
    const pieces = [start0.value!];
    for (let next = await reader.read(); !next.done; next = await reader.read()) pieces.push(next.value);
    const { samples, sampleRate } = await decoded("mp3", Buffer.concat(pieces));
    expect(heard(samples, sampleRate)).toEqual(sequence);
  });

  test("is put together from parts that come in a file each", async () => {
    await using voice = new ToneVoice();
    voice.manner = ({ input }) => new Response(sizedWav(tones(numbersIn(input))) as Uint8Array<ArrayBuffer>);
    const capabilities = { operations: ["speech"], speech_limit: 400, speech_formats: ["wav"] };
    await using gateway = await start([channel("one", voice, { capabilities })]);
    const { samples, sampleRate } = await decoded("wav", await (await ask(gateway, { response_format: "wav" })).bytes());
    expect(heard(samples, sampleRate)).toEqual(sequence);
    expect(samples.length).toBe(count * 2_880);
    expect(voice.spoken.every(({ body }) => body["response_format"] === "wav")).toBe(true);
  });

  test("comes as events where they are asked for", async () => {
    const response = await ask(gateway, { response_format: "flac", stream_format: "sse" });
    expect(response.headers.get("content-type")).toStartWith("text/event-stream");
    const events = eventsIn(await response.text());
    expect(events.map(({ type }) => type).slice(-2)).toEqual(["speech.audio.delta", "speech.audio.done"]);
    expect(events.filter(({ type }) => type === "speech.audio.done")).toEqual([
      // Nobody counted, and nothing is made up.
      { type: "speech.audio.done" },
    ]);
    const { samples, sampleRate } = await decoded("flac", audioIn(events));
    expect(heard(samples, sampleRate)).toEqual(sequence);
    expect(voice.spoken[0]!.body).toMatchObject({ stream_format: "sse", response_format: "pcm" });
  });

  test("comes as events from a channel that sends none, which is asked for audio", async () => {
    await using voice = new ToneVoice();
    const capabilities = { operations: ["speech"], speech_limit: 400, speech_events: false };
    await using gateway = await start([channel("one", voice, { capabilities })]);
    const events = eventsIn(await (await ask(gateway, { stream_format: "sse" })).text());
    expect(events.at(-1)).toMatchObject({ type: "speech.audio.done" });
    const { samples } = await decoded("pcm", audioIn(events));
    expect(heard(samples, 24_000)).toEqual(sequence);
    expect(new Set(voice.spoken.map(({ body }) => body["stream_format"]))).toEqual(new Set(["audio"]));
  });

  test("is made of events, too, and their tokens are added up", async () => {
    voice.manner = (spoken) => {
      const audio = Buffer.from(tones(numbersIn(spoken.input))).toString("base64");
      const done = { type: "speech.audio.done", usage: { input_tokens: 7, output_tokens: 20, total_tokens: 27 } };
      const body = `data: ${JSON.stringify({ type: "speech.audio.delta", audio })}\n\ndata: ${JSON.stringify(done)}\n\n`;
      return new Response(body, { headers: { "content-type": "text/event-stream" } });
    };
    const events = eventsIn(await (await ask(gateway, { stream_format: "sse" })).text());
    const { samples } = await decoded("pcm", audioIn(events));
    expect(heard(samples, 24_000)).toEqual(sequence);
    const parts = voice.spoken.length;
    expect(events.at(-1)).toMatchObject({ usage: { input_tokens: 7 * parts, output_tokens: 20 * parts, total_tokens: 27 * parts } });
    expect(await onlyLine(gateway)).toMatchObject({ prompt_tokens: 7 * parts, completion_tokens: 20 * parts, characters: text.length });
  });

  test("is refused unless splitting is on, and above the limit for long ones", async () => {
    await using voice = new ToneVoice();
    await using off = await start([channel("one", voice, { long_input: "off" })]);
    const refused = await ask(off);
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ error: { code: "string_above_max_length", param: "input" } });
    await using on = await start([channel("one", voice)], { server: { speech_limit: 500, long_speech_limit: 2000 } });
    expect((await ask(on)).status).toBe(400);
    expect(voice.spoken).toHaveLength(0);
    expect(await pcmOf(await ask(on, { input: story(40) }))).toEqual(sequence.slice(0, 40));
  });

  test("is split for a key that may, on a channel that does not by itself", async () => {
    await using voice = new ToneVoice();
    await using gateway = await startGateway({
      config: {
        keys: [{ name: "test", key, long_input: "split" }],
        channels: [channel("one", voice, { long_input: "off" })],
        server: { speech_limit: 350 },
      },
    });
    expect(await pcmOf(await ask(gateway))).toEqual(sequence);
    expect(Math.max(...voice.inputs.map(({ length }) => length))).toBeLessThanOrEqual(350);
  });

  test("is spoken on a channel that takes one request at a time", async () => {
    await using voice = new ToneVoice();
    await using gateway = await start([channel("one", voice, { concurrency: 1 })]);
    expect(await pcmOf(await ask(gateway))).toEqual(sequence);
    expect(voice.inputs.join("")).toBe(text);
  });

  test("is spoken by the engine that comes with the gateway", async () => {
    const capabilities = { speech_limit: 250 };
    await using gateway = await start([{ name: "local", provider: "embedded", long_input: "split", capabilities }]);
    const input = "The birch canoe slid on the smooth planks. Glue the sheet to the dark blue background. ".repeat(8).trim();
    const spoken = async (response_format: AudioFormat): Promise<{ samples: Float32Array; sampleRate: number }> => {
      const response = await ask(gateway, { model: "embedded/flite", voice: "slt", input, response_format });
      expect(response.status).toBe(200);
      return decoded(response_format, await response.bytes());
    };
    const [wav, opus] = [await spoken("wav"), await spoken("opus")];
    expect(wav.samples.length / wav.sampleRate).toBeWithin(25, 60);
    expect(opus.samples.length / opus.sampleRate).toBeWithin(
      wav.samples.length / wav.sampleRate - 0.1,
      wav.samples.length / wav.sampleRate + 0.1,
    );
    const steps = wav.samples.slice(1).map((sample, at) => Math.abs(sample - wav.samples[at]!));
    expect(steps.reduce((most, step) => Math.max(most, step), 0)).toBeLessThan(0.5);
    await eventually("both lines", () => gateway.accessLines().length === 2);
    expect(gateway.accessLines()[0]).toMatchObject({ state: "complete", channel: "local", characters: input.length });
    expect(gateway.accessLines()[0]!["attempts"]).toBeGreaterThan(2);
  });
});

describe("a part that fails", () => {
  test("is spoken by another channel, in its place", async () => {
    await using broken = new ToneVoice();
    await using sound = new ToneVoice();
    broken.manner = (spoken) => (spoken.turn === 0 ? null : new Response('{"error":{"message":"no"}}', { status: 500 }));
    await using gateway = await start([channel("a", broken, { tier: 1 }), channel("b", sound, { tier: 2 })]);
    const response = await ask(gateway);
    expect(response.headers.get("x-sluice-channel")).toBe("a");
    expect(await pcmOf(response)).toEqual(sequence);
    expect(sound.spoken.length).toBeGreaterThan(4);
    expect(await onlyLine(gateway)).toMatchObject({ state: "complete", channel: "b" });
  });

  test("is not spoken with another voice", async () => {
    await using broken = new ToneVoice();
    await using other = new ToneVoice();
    broken.manner = (spoken) => (spoken.turn === 0 ? null : new Response('{"error":{"message":"no"}}', { status: 500 }));
    await using gateway = await start([
      channel("a", broken, { tier: 1, voices: { alloy: "anna" } }),
      channel("b", other, { tier: 2, voices: { alloy: "bert" } }),
    ]);
    const response = await ask(gateway);
    expect(response.headers.get("x-sluice-voice")).toBe("anna");
    expect(await endOf(response)).toBe("cut");
    expect(other.spoken).toHaveLength(0);
    expect(await onlyLine(gateway)).toMatchObject({ status: 200, state: "interrupted" });
  });

  test.each([
    ["the channel says so", { message: "too long", code: "string_above_max_length", param: "input" }, 400],
    ["the body is too large", { message: "too long" }, 413],
  ])("because it is too long is divided, and so are those after it: %s", async (_, error, status) => {
    voice.manner = ({ input }) => (input.length > 350 ? Response.json({ error }, { status }) : null);
    expect(await pcmOf(await ask(gateway))).toEqual(sequence);
    expect(await onlyLine(gateway)).toMatchObject({ status: 200, state: "complete" });
    // Those that were begun ahead are refused as well, and none after them.
    expect(voice.inputs.filter(({ length }) => length > 350).length).toBeLessThanOrEqual(3);
  });

  test("first of all is an ordinary failure", async () => {
    voice.manner = () => new Response('{"error":{"message":"bad words","type":"invalid_request_error","code":"nope"}}', { status: 400 });
    const response = await ask(gateway, { response_format: "mp3" });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { message: "bad words" } });
    expect(voice.spoken).toHaveLength(1);
    expect(await onlyLine(gateway)).toMatchObject({ status: 400, state: "failed", attempts: 1, bytes_out: 0 });
    expect(await onlyLine(gateway)).not.toHaveProperty("characters");
  });

  test("without any audio first of all is an ordinary failure, too", async () => {
    voice.manner = () => new Response(new Uint8Array(0), { headers: { "content-type": "audio/pcm" } });
    expect((await ask(gateway)).status).toBe(502);
  });

  test.each([
    ["breaks off", (bytes: Uint8Array) => bytes.subarray(0, bytes.length - 1)],
    ["is empty", (bytes: Uint8Array) => bytes.subarray(0, 0)],
  ])("that %s later cuts the file off, so that it does not look whole", async (_, spoil) => {
    voice.manner = (spoken) => {
      if (!spoken.input.includes("number 40 ")) return null;
      return new Response(spoil(tones(numbersIn(spoken.input))) as Uint8Array<ArrayBuffer>, { headers: { "content-type": "audio/pcm" } });
    };
    expect(await endOf(await ask(gateway, { response_format: "wav" }))).toBe("cut");
    expect(await onlyLine(gateway)).toMatchObject({ status: 200, state: "interrupted", finish: null });
  });

  test("later is told among the events, and no end follows", async () => {
    voice.manner = (spoken) => (spoken.input.includes("number 40 ") ? new Response("{}", { status: 500 }) : null);
    const events = eventsIn(await (await ask(gateway, { stream_format: "sse" })).text());
    expect(events.filter(({ type }) => type === "speech.audio.done")).toHaveLength(0);
    expect(events.at(-1)).toMatchObject({ error: { code: "upstream_stream_interrupted" } });
    const { samples } = await decoded("pcm", audioIn(events));
    const before = heard(samples, 24_000);
    expect(before).toEqual(sequence.slice(0, before.length));
    expect(before.length).toBeGreaterThan(20);
  });

  test("for good ends those that are spoken ahead", async () => {
    const never = gate();
    const first = gate();
    let bad = "";
    voice.manner = (spoken) => {
      if (spoken.turn === 0) return answerOf(spoken, { before: () => first.opened });
      if (spoken.turn === 1) bad = spoken.input;
      return spoken.input === bad ? new Response("{}", { status: 500 }) : answerOf(spoken, { before: () => never.opened });
    };
    const response = await ask(gateway, { response_format: "opus" });
    await eventually("the third is begun", () => voice.spoken.some(({ input }) => input !== bad && input !== voice.inputs[0]));
    first.open();
    expect(await endOf(response)).toBe("cut");
    const ahead = voice.spoken.find(({ input }) => input !== bad && input !== voice.inputs[0])!;
    await eventually("it is given up", () => ahead.aborted);
    const line = await onlyLine(gateway);
    expect(line).toMatchObject({ state: "interrupted", attempts: voice.spoken.length });
    // Only the first part was spoken to its end.
    expect(line["characters"]).toBe(voice.inputs[0]!.length);
    never.open();
  });

  test("before its turn is spoken again, and nobody hears of it", async () => {
    const first = gate();
    voice.manner = (spoken) => {
      if (spoken.turn === 0) return answerOf(spoken, { before: () => first.opened });
      // It gives a beginning and then half a sample less than it should.
      if (spoken.turn === 1) return streamed(spoken, chunksOf(tones(numbersIn(spoken.input)).subarray(1)), "audio/pcm");
      return null;
    };
    const response = await ask(gateway);
    await eventually("it broke", () => voice.spoken[1]?.finished === true);
    first.open();
    expect(await pcmOf(response)).toEqual(sequence);
    expect(voice.inputs.filter((input) => input === voice.inputs[1])).toHaveLength(2);
    expect(await onlyLine(gateway)).toMatchObject({ state: "complete", attempts: voice.spoken.length });
  });
});

describe("a client", () => {
  test("that leaves ends every part at once", async () => {
    const never = gate();
    voice.manner = (spoken) =>
      spoken.turn < 2 ? answerOf(spoken, { before: () => never.opened }) : never.opened.then(() => new Response());
    const leave = new AbortController();
    const response = await ask(gateway, { response_format: "mp3" }, leave.signal);
    await response.body!.getReader().read();
    await eventually("three are under way", () => voice.spoken.length === 3);
    leave.abort();
    await eventually("all are given up", () => voice.spoken.every(({ aborted }) => aborted));
    expect(await onlyLine(gateway)).toMatchObject({ state: "abandoned", attempts: 3 });
    expect(voice.spoken).toHaveLength(3);
    never.open();
  });

  test("that leaves before the first sound ends the call, too", async () => {
    const never = gate();
    voice.manner = () => never.opened.then(() => new Response());
    const leave = new AbortController();
    const answering = ask(gateway, {}, leave.signal).catch(() => null);
    await eventually("it is asked", () => voice.spoken.length === 1);
    leave.abort();
    await answering;
    await eventually("it is given up", () => voice.spoken[0]!.aborted);
    expect(await onlyLine(gateway)).toMatchObject({ state: "abandoned", attempts: 1 });
    never.open();
  });

  test("that waits for a part makes no other one be read without bound", async () => {
    const first = gate();
    const wholeBytes = 64 * 1024 * 1024;
    voice.manner = (spoken) => {
      if (spoken.turn === 0) return answerOf(spoken, { before: () => first.opened });
      return spoken.turn === 1 ? streamed(spoken, endless(wholeBytes), "audio/pcm") : null;
    };
    const leave = new AbortController();
    const response = await ask(gateway, {}, leave.signal);
    let lastBytes = -1;
    let still = 0;
    await eventually("it is read no further", async () => {
      const { sentBytes = 0 } = voice.spoken[1] ?? {};
      still = sentBytes === lastBytes && sentBytes > 0 ? still + 1 : 0;
      lastBytes = sentBytes;
      await Bun.sleep(200);
      return still === 4;
    });
    // What is held, and what the sockets between hold.
    expect(lastBytes).toBeGreaterThan(3 * 1024 * 1024);
    expect(lastBytes).toBeLessThan(24 * 1024 * 1024);
    leave.abort();
    await endOf(response);
    await eventually("all are given up", () => voice.spoken[1]!.aborted);
    first.open();
  });
});

async function* endless(bytes: number): AsyncGenerator<Uint8Array, void, undefined> {
  const chunk = new Uint8Array(64 * 1024).fill(17);
  for (let sent = 0; sent < bytes; sent += chunk.length) {
    await Promise.resolve();
    yield chunk;
  }
}

interface SpeechEvent {
  readonly type?: string;
  readonly audio?: string;
  readonly usage?: unknown;
  readonly error?: unknown;
}

function eventsIn(sent: string): readonly SpeechEvent[] {
  return sent.split("\n\n").flatMap((frame) => (frame.startsWith("data: ") ? [JSON.parse(frame.slice(6)) as SpeechEvent] : []));
}

function audioIn(events: readonly SpeechEvent[]): Uint8Array {
  return Buffer.concat(events.flatMap(({ audio }) => (audio === undefined ? [] : [Buffer.from(audio, "base64")])));
}
