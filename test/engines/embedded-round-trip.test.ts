// Needs: models, slow. A model hears a text in six formats; embedded-server, clients/audio and readme prove each step, codecs the formats.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { catalog } from "../../packages/embedded/src/catalog.ts";
import { decodeFile } from "../../packages/embedded/src/codecs/decode-file.ts";
import { pcmRate, toPcm } from "../../packages/embedded/src/codecs/pcm.ts";
import { audioFormats, audioTypes, type AudioFormat } from "../../src/media/audio.ts";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { sizedWav } from "../support/speech-world.ts";
import { bytesOf, cuesIn, eventsIn } from "../support/transcription-world.ts";
import { errorRate, shownRate, totalErrors, wordErrors, type WordErrors } from "../support/word-errors.ts";
import { slowed } from "../support/slowed.ts";

// A window of Whisper costs two seconds, and much more on a machine with other work on it.
setDefaultTimeout(120_000);

const key = "sk-round-trip-of-these-tests";
const said =
  "The quick brown fox jumps over the lazy dog. Please send the letter to my brother before Monday morning. " +
  "The old house on the hill has a green door and seven windows. We walked slowly along the river and talked about music.";
const jfkSaid = "And so my fellow Americans ask not what your country can do for you ask what you can do for your country";
const jfk = readFileSync(new URL("../fixtures/audio/jfk.wav", import.meta.url));
const alsa = "/usr/share/sounds/alsa";

let other: Chaos;
let gateway: Gateway;

beforeAll(async () => {
  other = await startChaos({ behaviour: "ok" });
  gateway = await startGateway({
    config: {
      keys: [{ name: "client", key }],
      channels: [
        { name: "here", provider: "embedded" },
        { name: "other", base_url: other.url, api_key: "sk-of-the-upstream", models: ["other"] },
      ],
    },
  });
});

afterAll(async () => {
  await gateway.kill();
  await other.close();
});

function post(path: string, body: FormData | object, signal?: AbortSignal, to: Gateway = gateway): Promise<Response> {
  const isForm = body instanceof FormData;
  return fetch(`${to.url}/v1/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, ...(isForm ? {} : { "content-type": "application/json" }) },
    body: isForm ? body : JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
}

function speak(wishes: Readonly<Record<string, unknown>> = {}, to: Gateway = gateway): Promise<Response> {
  return post("audio/speech", { model: "embedded/flite", voice: "rms", input: said, ...wishes }, undefined, to);
}

function form(audio: Uint8Array, name: string, fields: Readonly<Record<string, string>> = {}): FormData {
  const data = new FormData();
  data.append("file", new File([new Uint8Array(audio)], name));
  data.append("model", "embedded/whisper-base");
  for (const [field, value] of Object.entries(fields)) data.append(field, value);
  return data;
}

async function transcript(audio: Uint8Array, name: string, fields: Readonly<Record<string, string>> = {}): Promise<Response> {
  const response = await post("audio/transcriptions", form(audio, name, fields));
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return response;
}

interface Verbose {
  readonly task: string;
  readonly language: string;
  readonly duration: number;
  readonly text: string;
  readonly segments: readonly { readonly start: number; readonly end: number; readonly text: string }[];
  readonly words: readonly { readonly word: string; readonly start: number; readonly end: number }[];
}

interface Refused {
  readonly status: number;
  readonly message: string;
  readonly type: string;
  readonly code: string | null;
  readonly param: string | null;
}

async function refused(asked: Promise<Response>): Promise<Refused> {
  const response = await asked;
  expect(response.headers.get("content-type")).toBe("application/json");
  const { error } = (await response.json()) as { error: Omit<Refused, "status"> };
  return { ...error, status: response.status };
}

/** Times that follow one another and lie inside the audio, none of it empty. */
function expectInside(times: readonly { readonly start: number; readonly end: number }[], duration: number): void {
  expect(times.length).toBeGreaterThan(0);
  let before = 0;
  for (const { start, end } of times) {
    expect(start).toBeGreaterThanOrEqual(before);
    expect(end).toBeGreaterThanOrEqual(start);
    before = start;
  }
  expect(Math.max(...times.map(({ end }) => end))).toBeLessThanOrEqual(duration);
  expect(times.some(({ start, end }) => end > start)).toBe(true);
}

const spoken = new Map<AudioFormat, Uint8Array>();

/** The audio in a format, spoken when it is first needed. */
async function audio(format: AudioFormat): Promise<Uint8Array> {
  const known = spoken.get(format);
  if (known !== undefined) return known;
  const response = await speak({ response_format: format });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  const bytes = await response.bytes();
  spoken.set(format, bytes);
  return bytes;
}

/** As a file that anybody can read: bare samples do not say what they are. */
async function file(format: AudioFormat): Promise<Uint8Array> {
  const bytes = await audio(format);
  return format === "pcm" ? sizedWav(bytes) : bytes;
}

const extensions: { readonly [F in AudioFormat]: string } = { mp3: "mp3", opus: "opus", aac: "aac", flac: "flac", wav: "wav", pcm: "wav" };

async function seconds(format: AudioFormat): Promise<number> {
  const { samples, sampleRate } = await decodeFile(await file(format));
  return samples.length / sampleRate;
}

describe("the models of this machine", () => {
  test("are listed, each with a description", async () => {
    const response = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
    const { data } = (await response.json()) as { data: readonly { id: string; description?: string }[] };
    const described = new Map(data.map(({ id, description }) => [id, description]));
    expect([...described.keys()].toSorted()).toEqual(["embedded/flite", "embedded/stories-15m", "embedded/whisper-base", "other"]);
    expect(described.get("embedded/whisper-base")).toContain("speech in 99 languages to text");
    expect(described.get("embedded/flite")).toContain("English text to speech");
    expect(described.get("embedded/stories-15m")).toContain("story");
  });
});

describe("speech", () => {
  test.each(audioFormats)("in %s has its content type, can be decoded and has a plausible duration", async (format) => {
    const response = await speak({ response_format: format });
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe(audioTypes[format]);
    expect(response.headers.get("x-sluice-channel")).toBe("here");
    spoken.set(format, await response.bytes());
    // Forty-two words, at one to five in a second.
    const duration = await seconds(format);
    expect(duration).toBeGreaterThan(42 / 5);
    expect(duration).toBeLessThan(42);
    expect(Math.abs(duration - (await seconds("pcm")))).toBeLessThan(0.2);
  });

  test("without a format is mp3", async () => {
    const response = await speak({ input: "Hello." });
    expect(response.headers.get("content-type")).toBe("audio/mpeg");
    expect((await decodeFile(await response.bytes())).samples.length).toBeGreaterThan(0);
  });

  test("is sent as events if requested, with the same audio", async () => {
    const response = await speak({ response_format: "pcm", stream_format: "sse" });
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toStartWith("text/event-stream");
    const events = eventsIn(await response.bytes()).map((data) => JSON.parse(data) as { type: string; audio?: string });
    expect(events.at(-1)?.type).toBe("speech.audio.done");
    const deltas = events.slice(0, -1);
    expect(deltas.every(({ type }) => type === "speech.audio.delta")).toBe(true);
    const pieces = deltas.map((event) => Buffer.from(event.audio ?? "", "base64"));
    expect(Buffer.concat(pieces).equals(Buffer.from(await audio("pcm")))).toBe(true);
  });

  test("with an unknown voice uses the default one, and the client is told", async () => {
    const response = await speak({ voice: "alloy", input: "Hello.", response_format: "wav" });
    expect(response.headers.get("x-sluice-voice")).toBe(catalog.flatMap(({ voices }) => voices ?? [])[0] ?? "");
    expect((await decodeFile(await response.bytes())).samples.length).toBeGreaterThan(0);
  });
});

const ffmpeg = Bun.which("ffmpeg") !== null && Bun.which("ffprobe") !== null;
const codecs: { readonly [F in AudioFormat]: string } = {
  mp3: "mp3",
  opus: "opus",
  aac: "aac",
  flac: "flac",
  wav: "pcm_s16le",
  pcm: "pcm_s16le",
};

describe.skipIf(!ffmpeg)("a decoder that is not ours (skipped without ffmpeg and ffprobe)", () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "round-trip-"));
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  async function run(...command: readonly string[]): Promise<Buffer> {
    const child = Bun.spawn([...command], { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
    const [out, problems] = await Promise.all([new Response(child.stdout).bytes(), new Response(child.stderr).text()]);
    if ((await child.exited) !== 0 || problems !== "") throw new Error(`${command[0]}: ${problems}`);
    return Buffer.from(out);
  }

  test.each(audioFormats)("finds one channel of audio in %s, without errors, of the same duration", async (format) => {
    const path = join(directory, `spoken-${format}.${extensions[format]}`);
    await writeFile(path, await file(format));
    const probed = await run("ffprobe", "-v", "error", "-show_entries", "stream=codec_name,channels", "-of", "json", path);
    const { streams } = JSON.parse(probed.toString()) as { streams: readonly unknown[] };
    expect(streams).toEqual([expect.objectContaining({ codec_name: codecs[format], channels: 1 })]);
    const decoded = await run("ffmpeg", "-v", "error", "-i", path, "-f", "s16le", "-ac", "1", "-ar", String(pcmRate), "-");
    expect(Math.abs(decoded.length / 2 / pcmRate - (await seconds("pcm")))).toBeLessThan(0.2);
  });
});

describe("a round trip", () => {
  const heard = new Map<AudioFormat, WordErrors>();

  function hear(format: AudioFormat, text: string): void {
    const found = wordErrors(said, text);
    heard.set(format, found);
    console.log(`word errors by way of ${format}: ${shownRate(found)}`);
  }

  test("through mp3 returns as json", async () => {
    const response = await transcript(await file("mp3"), "spoken.mp3");
    expect(response.headers.get("content-type")).toBe("application/json");
    const { text, usage } = (await response.json()) as { text: string; usage: unknown };
    expect(usage).toEqual({ type: "duration", seconds: Math.ceil(await seconds("mp3")) });
    hear("mp3", text);
  });

  test("through opus returns as text", async () => {
    const response = await transcript(await file("opus"), "spoken.opus", { response_format: "text" });
    expect(response.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    const text = await response.text();
    expect(text).toEndWith("\n");
    expect(text).not.toContain("{");
    hear("opus", text);
  });

  test.each([
    ["aac", "srt"],
    ["flac", "vtt"],
  ] as const)("by %s comes back as %s that can be read, with times inside the audio", async (format, response_format) => {
    const response = await transcript(await file(format), `spoken.${extensions[format]}`, { response_format });
    expect(response.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    const cues = cuesIn(await response.bytes(), response_format);
    expectInside(cues, (await seconds(format)) * 1000);
    hear(format, cues.map(({ text }) => text).join(" "));
  });

  test("through wav returns in detail, with the language and a time for each word", async () => {
    const data = form(await file("wav"), "spoken.wav", { response_format: "verbose_json" });
    for (const granularity of ["word", "segment"]) data.append("timestamp_granularities[]", granularity);
    const response = await post("audio/transcriptions", data);
    expect(response.headers.get("content-type")).toBe("application/json");
    const verbose = (await response.json()) as Verbose;
    const duration = await seconds("wav");
    expect(verbose).toMatchObject({ task: "transcribe", language: "english" });
    expect(Math.abs(verbose.duration - duration)).toBeLessThan(0.05);
    expectInside(verbose.segments, duration);
    expectInside(verbose.words, duration);
    expect(wordErrors(verbose.text, verbose.words.map(({ word }) => word).join(" ")).errors).toBe(0);
    expect(wordErrors(verbose.text, verbose.segments.map(({ text }) => text).join("")).errors).toBe(0);
    hear("wav", verbose.text);
  });

  test("through samples in a client's own wav returns as a stream", async () => {
    const response = await transcript(await file("pcm"), "spoken.wav", { stream: "true", language: "en-GB" });
    expect(response.headers.get("content-type")).toStartWith("text/event-stream");
    const data = eventsIn(await response.bytes());
    expect(data.at(-1)).toBe("[DONE]");
    const events = data.slice(0, -1).map((event) => JSON.parse(event) as { type: string; delta?: string; text?: string });
    expect(events.map(({ type }) => type)).toEqual([...events.slice(1).map(() => "transcript.text.delta"), "transcript.text.done"]);
    expect(events.length).toBeGreaterThan(1);
    const text = events.at(-1)?.text ?? "";
    expect(events.map(({ delta }) => delta ?? "").join("")).toBe(text);
    hear("pcm", text);
  });

  test("keeps at least four of five words, over all formats", () => {
    const all = totalErrors([...heard.values()]);
    console.log(`word errors over all formats: ${shownRate(all)}`);
    expect(heard.size).toBe(audioFormats.length);
    expect(errorRate(all)).toBeLessThanOrEqual(0.2);
  });
});

describe("a recording of a person", () => {
  test("is transcribed, and its language is detected", async () => {
    const response = await transcript(jfk, "jfk.wav", { response_format: "verbose_json" });
    const { text, language, duration } = (await response.json()) as Verbose;
    const found = wordErrors(jfkSaid, text);
    console.log(`word errors of jfk.wav: ${shownRate(found)}`);
    expect(errorRate(found)).toBeLessThanOrEqual(0.1);
    expect(language).toBe("english");
    expect(Math.abs(duration - 11)).toBeLessThan(0.1);
  });

  test("is translated: English stays English, and the answer says what it is", async () => {
    const response = await post("audio/translations", form(jfk, "jfk.wav", { response_format: "verbose_json" }));
    expect(response.status).toBe(200);
    const { task, text } = (await response.json()) as Verbose;
    expect(task).toBe("translate");
    expect(errorRate(wordErrors(jfkSaid, text))).toBeLessThanOrEqual(0.2);
  });

  test.skipIf(!existsSync(alsa))("that tests loudspeakers is transcribed (skipped without alsa-utils)", async () => {
    const names = readdirSync(alsa).filter((name) => /^[A-Z][a-z]+_[A-Z][a-z]+\.wav$/.test(name));
    const prompts = await Promise.all(
      names.map(async (name) => {
        const { samples } = await decodeFile(readFileSync(join(alsa, name)), { sampleRate: pcmRate });
        return Buffer.concat([toPcm(samples), new Uint8Array(pcmRate)]);
      }),
    );
    const prompted = names.map((name) => name.replace(".wav", "").replace("_", " ")).join(" ");
    const response = await transcript(sizedWav(Buffer.concat(prompts)), "prompts.wav", { language: "english" });
    const found = wordErrors(prompted, ((await response.json()) as { text: string }).text.replaceAll("centre", "center"));
    console.log(`word errors of the loudspeaker prompts: ${shownRate(found)}`);
    expect(errorRate(found)).toBeLessThanOrEqual(0.2);
  });
});

const story = { model: "embedded/stories-15m", messages: [{ role: "user", content: "Once upon a time" }], temperature: 0 };

interface Chunk {
  readonly choices: readonly { readonly delta: { readonly content?: string } }[];
}

describe("chat", () => {
  test("returns the same story whole and streamed", async () => {
    const whole = await post("chat/completions", { ...story, max_tokens: 24 });
    expect(whole.status).toBe(200);
    const { choices, usage } = (await whole.json()) as { choices: readonly { message: { content: string } }[]; usage: unknown };
    const text = choices[0]?.message.content ?? "";
    expect(text).toMatch(/^, there was a/);
    expect(usage).toMatchObject({ completion_tokens: 24 });

    const streamed = await post("chat/completions", { ...story, max_tokens: 24, stream: true });
    expect(streamed.headers.get("content-type")).toStartWith("text/event-stream");
    const data = eventsIn(await streamed.bytes());
    expect(data.at(-1)).toBe("[DONE]");
    const pieces = data.slice(0, -1).map((event) => (JSON.parse(event) as Chunk).choices[0]?.delta.content ?? "");
    expect(pieces.join("")).toBe(text);
    expect(pieces.filter((piece) => piece !== "").length).toBeGreaterThan(10);
  });
});

describe("rejected with an error is", () => {
  test.each([
    ["Japanese", "こんにちは、世界。お元気ですか。"],
    ["Russian", "Привет, как у тебя дела?"],
  ])("a text in %s, which the English voice would only mangle", async (_, input) => {
    const error = await refused(speak({ input }));
    expect(error).toMatchObject({ status: 400, type: "invalid_request_error", param: "input", code: "unsupported_language" });
    expect(error.message).toContain("English only");
  });

  test("an instruction, which the voice cannot follow", async () => {
    const error = await refused(speak({ input: "Hello.", instructions: "Whisper." }));
    expect(error).toMatchObject({ status: 400, param: "instructions", code: "unsupported_parameter" });
  });

  test("an unknown language", async () => {
    const error = await refused(post("audio/transcriptions", form(jfk, "jfk.wav", { language: "klingon" })));
    expect(error).toMatchObject({ status: 400, param: "language", code: "invalid_value" });
  });

  test("a chat with the speech model, and speech with the chat model", async () => {
    const chatted = await refused(post("chat/completions", { ...story, model: "embedded/flite" }));
    expect(chatted).toMatchObject({ status: 400, param: "model", code: "unsupported_operation" });
    expect(chatted.message).toContain("embedded/flite");
    expect(await refused(speak({ model: "embedded/stories-15m" }))).toMatchObject({ status: 400, code: "unsupported_operation" });
    expect(await refused(post("audio/transcriptions", modelForm("embedded/flite")))).toMatchObject({ code: "unsupported_operation" });
  });

  test("an unknown model", async () => {
    expect(await refused(speak({ model: "embedded/nobody" }))).toMatchObject({ status: 404, param: "model", code: "model_not_found" });
  });

  test("a text that is sent as a recording", async () => {
    const letter = bytesOf("Dear brother, this is a letter and not a recording. ".repeat(40));
    const error = await refused(post("audio/transcriptions", form(letter, "letter.wav")));
    expect(error).toMatchObject({ status: 400, type: "invalid_request_error", param: "file" });
    expect(error.message).toContain("audio");
  });

  test("a recording that ends before its first sound", async () => {
    const error = await refused(post("audio/transcriptions", form(jfk.subarray(0, 60), "cut.wav")));
    expect(error).toMatchObject({ status: 400, type: "invalid_request_error", param: "file" });
  });
});

function modelForm(model: string): FormData {
  const data = form(jfk, "jfk.wav");
  data.set("model", model);
  return data;
}

/** Some four minutes, in which nothing is said twice in a row: that would make the model hesitate. */
async function longRecording(): Promise<Uint8Array> {
  const { samples } = await decodeFile(jfk, { sampleRate: pcmRate });
  const turn = [await audio("pcm"), toPcm(samples)];
  return sizedWav(Buffer.concat(Array.from({ length: 9 }, () => turn).flat()));
}

function pidOf(engine: string): number {
  const line = gateway.logs.findLast((entry) => entry["event"] === "engine_ready" && entry["engine"] === engine);
  if (line === undefined) throw new Error(`the ${engine} engine was never started`);
  return Number(line["pid"]);
}

const proc = existsSync("/proc/self/stat");

/** What an engine has computed so far. */
function computedTicks(engine: string): number {
  const fields =
    readFileSync(`/proc/${pidOf(engine)}/stat`, "utf8")
      .split(") ")[1]
      ?.split(" ") ?? [];
  return Number(fields[11]) + Number(fields[12]);
}

/** Resolves once an engine has worked for a third of a second. */
async function atWork(engine: string): Promise<void> {
  const before = computedTicks(engine);
  await eventually(`the ${engine} engine works`, () => computedTicks(engine) - before > 33, 20_000);
}

/** A call under way, and whether it is over. */
interface Running {
  readonly outcome: Promise<Response | Error>;
  over: boolean;
  readonly leave: () => void;
}

function running(path: string, body: FormData | object): Running {
  const controller = new AbortController();
  const outcome = post(path, body, controller.signal).catch((error: unknown) => error as Error);
  const call: Running = { outcome, over: false, leave: () => controller.abort() };
  void outcome.then(() => (call.over = true));
  return call;
}

/** Reads a body up to a text, and later the rest of it. */
function reading(response: Response): { until(text: string): Promise<string>; rest(): Promise<string> } {
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  const read = async (enough: (seen: string) => boolean): Promise<{ seen: string; ended: boolean }> => {
    let seen = "";
    while (!enough(seen)) {
      const { done, value } = await reader.read();
      if (done) return { seen, ended: true };
      seen += decoder.decode(value, { stream: true });
    }
    return { seen, ended: false };
  };
  return {
    until: async (text) => {
      const { seen, ended } = await read((so) => so.includes(text));
      if (ended) throw new Error(`the stream ended without ${text}: ${seen}`);
      return seen;
    },
    rest: async () => (await read(() => false)).seen,
  };
}

async function tookMs(act: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await act();
  return performance.now() - startedMs;
}

/** Less than the long recording needs, which is some sixteen times the short one; more than a step of it and the short one. */
async function soon(): Promise<number> {
  aloneMs ??= await tookMs(() => transcript(jfk, "jfk.wav"));
  return aloneMs * 4 + 3_000;
}

let aloneMs: number | null = null;

describe("an engine", () => {
  test.skipIf(!proc)("is free for the next request when a client leaves a long transcription (skipped without /proc)", async () => {
    const patienceMs = await soon();
    const long = running("audio/transcriptions", form(await longRecording(), "long.wav"));
    await atWork("transcription");
    long.leave();
    const nextMs = await tookMs(() => transcript(jfk, "jfk.wav"));
    expect(nextMs).toBeLessThan(slowed(patienceMs));
    expect(await long.outcome).toBeInstanceOf(Error);
  });

  test("is free for the next request when a client leaves a stream", async () => {
    const patienceMs = await soon();
    const controller = new AbortController();
    const response = await post("audio/transcriptions", form(await longRecording(), "long.wav", { stream: "true" }), controller.signal);
    expect(await reading(response).until("transcript.text.delta")).not.toContain("transcript.text.done");
    controller.abort();
    expect(await tookMs(() => transcript(jfk, "jfk.wav"))).toBeLessThan(slowed(patienceMs));
  });

  test.skipIf(!proc)(
    "at work, and another one beside it, do not delay calls that are served elsewhere (skipped without /proc)",
    async () => {
      const listening = running("audio/transcriptions", form(await longRecording(), "long.wav"));
      await atWork("transcription");
      const telling = running("chat/completions", { ...story, max_tokens: 240 });
      await atWork("chat");
      for (let call = 0; call < 10; call += 1) {
        const response = await post("chat/completions", { model: "other", messages: story.messages });
        expect(response.status).toBe(200);
        await response.bytes();
      }
      expect({ listening: listening.over, telling: telling.over }).toEqual({ listening: false, telling: false });
      listening.leave();
      telling.leave();
      await Promise.all([listening.outcome, telling.outcome]);
    },
  );

  test.skipIf(!proc)("that is killed during a call is started again, and no call hangs (skipped without /proc)", async () => {
    const victim = pidOf("transcription");
    const call = running("audio/transcriptions", form(jfk, "jfk.wav"));
    await atWork("transcription");
    process.kill(victim, "SIGKILL");
    const outcome = await Promise.race([call.outcome, Bun.sleep(30_000)]);
    if (!(outcome instanceof Response)) throw new Error(`no answer: ${String(outcome)}`);
    const body = (await outcome.json()) as { text?: string; error?: { message: string } };
    // Tried again, or an error that says so: both are honest.
    if (outcome.status === 200) expect(errorRate(wordErrors(jfkSaid, body.text ?? ""))).toBeLessThanOrEqual(0.1);
    else {
      expect(outcome.status).toBeGreaterThanOrEqual(500);
      expect(body.error?.message).toBeString();
    }
    console.log(`a call whose engine was killed ended with ${outcome.status}`);
    const next = (await (await transcript(jfk, "jfk.wav")).json()) as { text: string };
    expect(errorRate(wordErrors(jfkSaid, next.text))).toBeLessThanOrEqual(0.1);
    expect(pidOf("transcription")).not.toBe(victim);
  });

  test("that is killed during a stream ends it with an error, and the next request is served", async () => {
    const response = await post("chat/completions", { ...story, max_tokens: 240, stream: true });
    const stream = reading(response);
    await stream.until(" was");
    process.kill(pidOf("chat"), "SIGKILL");
    const rest = await Promise.race([stream.rest(), Bun.sleep(20_000).then(() => "it hangs")]);
    expect(rest).toContain('"error"');
    expect(rest).not.toContain('"finish_reason":"length"');
    const next = await post("chat/completions", { ...story, max_tokens: 5 });
    expect(next.status).toBe(200);
  });
});

describe("without a configuration file", () => {
  let home: string;
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), "round-trip-home-"));
  });
  afterAll(() => rm(home, { recursive: true, force: true }));

  function started(env: Readonly<Record<string, string>>): Promise<Gateway> {
    const program = resolve(import.meta.dir, "../../bin/sluice");
    // What the support adds, a file among it, is not passed on.
    const command = ["sh", "-c", 'exec sh "$0" start --listen 127.0.0.1:0', program];
    return startGateway({ config: "", command, env: { HOME: home, SLUICE_KEY: key, ...env } });
  }

  test("the local models are available", async () => {
    await using plain = await started({});
    const response = await speak({ input: "Hello." }, plain);
    expect(response.status).toBe(200);
    expect((await decodeFile(await response.bytes())).samples.length).toBeGreaterThan(0);
  });

  test("they can be disabled", async () => {
    await using plain = await started({ SLUICE_EMBEDDED: "off" });
    const response = await fetch(`${plain.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
    expect(await response.json()).toEqual({ object: "list", data: [] });
    expect(await refused(speak({ input: "Hello." }, plain))).toMatchObject({ status: 404, code: "model_not_found" });
  });
});
