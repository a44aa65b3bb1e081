// Needs: models. It runs the models of this machine.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { catalog } from "../../packages/embedded/src/catalog.ts";
import { UndecodableAudio } from "../../packages/embedded/src/codecs/codec.ts";
import { decodeInWorker } from "../../packages/embedded/src/server/decoding.ts";
import { isRequestError } from "../../packages/embedded/src/server/request-error.ts";
import { makeJobQueue } from "../../packages/embedded/src/server/job-queue.ts";
import { verifiedWeights } from "../../packages/embedded/src/server/verified-weights.ts";
import {
  endEngine,
  engineEvents,
  engineMain,
  engineRefusal,
  engineSpeechPath,
  onLinux,
  spokenLine,
  startEngine,
  transcriptionForm,
  type EngineProcess,
} from "../support/engine-process.ts";
import { eventually } from "../support/eventually.ts";
import { slowMp4, silentFlac } from "../support/hostile-audio.ts";
import { slowed } from "../support/slowed.ts";

// The engines run behind everything else: beside other work they may wait for long.
setDefaultTimeout(120_000);

const directory = mkdtempSync(join(tmpdir(), "engine-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
let count = 0;

function start(engine: string, ...flags: readonly string[]): Promise<EngineProcess> {
  return startEngine(join(directory, `${engine}-${count++}.sock`), engine, ...flags);
}

interface Chunk {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly choices: readonly { readonly delta: { readonly content?: string }; readonly finish_reason: string | null }[];
  readonly usage?: { readonly completion_tokens: number; readonly prompt_tokens: number; readonly total_tokens: number } | null;
}

function peakBytes({ child }: EngineProcess): number {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1]) * 1024;
}

/** Whether this process, with all its threads, has nothing to do. */
async function isAtRest(): Promise<boolean> {
  const before = process.cpuUsage();
  await Bun.sleep(200);
  const { user, system } = process.cpuUsage(before);
  return user + system < 100_000;
}

const chatPath = "/v1/chat/completions";
const story = { model: "stories-15m", messages: [{ role: "user", content: "Once upon a time" }], temperature: 0, max_tokens: 8 };

/** Begun here, judged at the end: the runtime would cut a silent connection after ten seconds, and a long job is silent. */
const patientAnswer = (async (): Promise<string> => {
  const engine = await start("speech");
  const body = JSON.stringify(spokenLine);
  let answer = "";
  const late = await Bun.connect({
    unix: engine.socket,
    socket: {
      data: (_, bytes) => {
        answer += bytes.toString("latin1");
      },
      close: () => {
        answer += "closed";
      },
    },
  });
  late.write(`POST ${engineSpeechPath} HTTP/1.1\r\nhost: engine\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`);
  await Bun.sleep(14_000);
  late.write(body);
  await eventually("the late request is answered", () => answer !== "", 20_000);
  late.terminate();
  await endEngine(engine);
  return answer;
})();

describe("the chat engine", () => {
  let engine: EngineProcess;
  beforeAll(async () => {
    engine = await start("chat");
  });
  afterAll(() => endEngine(engine));

  test("returns the whole answer, with real token counts", async () => {
    const response = await engine.post(chatPath, story);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toContain("application/json");
    expect(await response.json()).toEqual({
      id: expect.stringMatching(/^chatcmpl-[0-9a-f]{32}$/),
      object: "chat.completion",
      created: expect.any(Number),
      model: "stories-15m",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: ", there was a little girl named L", refusal: null },
          finish_reason: "length",
          logprobs: null,
        },
      ],
      usage: expect.objectContaining({ prompt_tokens: 5, completion_tokens: 8, total_tokens: 13 }),
    });
  });

  test("streams one chunk per token, in the order of the OpenAI API", async () => {
    const response = await engine.post(chatPath, { ...story, stream: true, stream_options: { include_usage: true } });
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const text = await response.text();
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
    const chunks = engineEvents(text) as readonly Chunk[];
    expect(new Set(chunks.map(({ id, created, model }) => `${id} ${created} ${model}`)).size).toBe(1);
    expect(chunks[0]?.choices).toEqual([
      { index: 0, delta: { role: "assistant", content: "", refusal: null }, finish_reason: null, logprobs: null },
    ] as never);
    const deltas = chunks.slice(1, -2).map((chunk) => chunk.choices[0]?.delta.content);
    expect(deltas.length).toBe(8);
    expect(deltas.join("")).toBe(", there was a little girl named L");
    expect(chunks.at(-2)?.choices).toEqual([{ index: 0, delta: {}, finish_reason: "length", logprobs: null }] as never);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 8, total_tokens: 13 } });
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
  });

  test("sends no usage in a stream that did not ask for it", async () => {
    const chunks = engineEvents(await (await engine.post(chatPath, { ...story, stream: true })).text());
    expect(chunks.some((chunk) => "usage" in (chunk as object))).toBe(false);
  });

  test("stops before a stop string, streamed and whole", async () => {
    const asked = { ...story, stop: [" girl"], max_tokens: 20 };
    const whole = (await (await engine.post(chatPath, asked)).json()) as {
      choices: readonly { message: { content: string }; finish_reason: string }[];
    };
    expect(whole.choices[0]).toMatchObject({ message: { content: ", there was a little" }, finish_reason: "stop" });
    const chunks = engineEvents(await (await engine.post(chatPath, { ...asked, stream: true })).text()) as readonly Chunk[];
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("")).toBe(", there was a little");
  });

  test("continues the last user message, including its parts, and accepts either token limit", async () => {
    const messages = [
      { role: "system", content: "Be brief." },
      { role: "user", content: "What?" },
      { role: "assistant", content: null },
      { role: "user", content: [{ type: "text", text: "Once upon a time" }] },
    ];
    const { max_tokens: _, ...rest } = story;
    const response = await engine.post(chatPath, {
      ...rest,
      model: "embedded/stories-15m",
      messages,
      max_completion_tokens: 3,
      max_tokens: null,
    });
    expect(await response.json()).toMatchObject({ choices: [{ message: { content: ", there was" } }], usage: { completion_tokens: 3 } });
  });

  const user = (content: unknown): object => ({ messages: [{ role: "user", content }] });
  test.each([
    [{ tools: [{ type: "function", function: { name: "f" } }] }, "tools", "unsupported_parameter"],
    [{ response_format: { type: "json_schema", json_schema: {} } }, "response_format", "unsupported_parameter"],
    [{ response_format: { type: "json_object" } }, "response_format", "unsupported_parameter"],
    [{ n: 2 }, "n", "unsupported_parameter"],
    [{ logprobs: true }, "logprobs", "unsupported_parameter"],
    [user([{ type: "image_url", image_url: { url: "data:," } }]), "messages[0].content[0]", "unsupported_parameter"],
    [user([null]), "messages[0].content[0]", "unsupported_parameter"],
    [user(5), "messages[0].content", "invalid_type"],
    [user("and then ".repeat(2000)), "messages", "context_length_exceeded"],
    [user("and then ".repeat(300)), "messages", "context_length_exceeded"],
    [{ messages: [] }, "messages", "invalid_value"],
    [{ messages: null }, "messages", "missing_required_parameter"],
    [{ messages: "hi" }, "messages", "invalid_type"],
    [{ messages: [null] }, "messages[0]", "invalid_type"],
    [{ temperature: 1e308 }, "temperature", "invalid_value"],
    [{ temperature: "hot" }, "temperature", "invalid_type"],
    [{ top_p: -1 }, "top_p", "invalid_value"],
    [{ max_tokens: 0 }, "max_tokens", "integer_below_min_value"],
    [{ max_tokens: 1.5 }, "max_tokens", "invalid_type"],
    [{ max_tokens: -1e300 }, "max_tokens", "integer_below_min_value"],
    [{ stop: ["a", "b", "c", "d", "e"] }, "stop", "invalid_value"],
    [{ stop: "" }, "stop", "invalid_value"],
    [{ stream: "yes" }, "stream", "invalid_type"],
    [{ stream_options: { include_usage: true } }, "stream_options", "invalid_value"],
    [{ model: null }, "model", "missing_required_parameter"],
  ])("refuses %j", async (change, param, code) => {
    expect(await engineRefusal(engine.post(chatPath, { ...story, ...change }))).toEqual({ status: 400, code, param });
  });

  test.each([
    { tools: [] },
    { tool_choice: "none" },
    { response_format: { type: "text" } },
    { n: 1 },
    { max_tokens: 3, seed: -9e15, user: "someone", temperature: null, stop: null },
    { max_tokens: 3, presence_penalty: -2, frequency_penalty: 2, top_p: 0 },
  ])("accepts %j", async (change) => {
    const response = await engine.post(chatPath, { ...story, max_tokens: 2, ...change });
    expect(response.status).toBe(200);
    await response.text();
  });

  test("rejects other models", async () => {
    expect(await engineRefusal(engine.post(chatPath, { ...story, model: "flite" }))).toEqual({
      status: 404,
      code: "model_not_found",
      param: "model",
    });
  });

  test.each(["", "{", "[]", "null", "5", '"text"', "[".repeat(200_000), "\0"])("rejects a body that is not a JSON object", async (body) => {
    expect((await engineRefusal(engine.post(chatPath, body))).status).toBe(400);
  });

  test("answers any JSON with an error or an answer, and keeps running", async () => {
    const value = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constantFrom(null, 0, 1, "", [], {}));
    const body = fc.record(
      { messages: value, stop: value, stream: value, tools: value, response_format: value, n: value, logit_bias: value },
      { requiredKeys: [] },
    );
    await fc.assert(
      fc.asyncProperty(body, async (fields) => {
        const response = await engine.post(chatPath, { ...story, max_tokens: 1, ...fields });
        await response.text();
        expect([200, 400]).toContain(response.status);
      }),
      { numRuns: 60 },
    );
  });

  test("lists its model, and has no other routes", async () => {
    expect(await (await engine.ask("/v1/models")).json()).toMatchObject({
      object: "list",
      data: [{ id: "stories-15m", object: "model", created: 0 }],
    });
    expect((await engineRefusal(engine.ask("/v1/audio/speech", { method: "POST" }))).status).toBe(404);
    expect((await engineRefusal(engine.ask(chatPath))).status).toBe(405);
  });

  test("has a socket that only its owner can use", () => {
    expect(statSync(engine.socket).mode & 0o777).toBe(0o600);
  });

  test("rejects a tenth request while one is served and eight wait, and then serves them all", async () => {
    const running = Array.from({ length: 9 }, () => engine.post(chatPath, { ...story, max_tokens: 6 }));
    let tenth = await engine.post(chatPath, { ...story, max_tokens: 1 });
    // The ninth may not have arrived yet when the tenth does.
    for (let tries = 0; tenth.status !== 429 && tries < 20; tries++) tenth = await engine.post(chatPath, { ...story, max_tokens: 6 });
    expect(tenth.status).toBe(429);
    const waitMs = Number(tenth.headers.get("retry-after-ms"));
    expect(waitMs).toBeWithin(1_000, 60_001);
    expect(tenth.headers.get("retry-after")).toBe(String(Math.ceil(waitMs / 1000)));
    expect(await tenth.json()).toMatchObject({ error: { type: "rate_limit_error", code: "rate_limit_exceeded", param: null } });
    expect((await Promise.all(running)).map(({ status }) => status)).toEqual(Array.from({ length: 9 }, () => 200));
  });

  test("stops the work of clients that leave, running or waiting, and continues with the next", async () => {
    const gone = new AbortController();
    const long = { ...story, max_tokens: 30, stream: true };
    const under = await engine.post(chatPath, long, gone.signal);
    const waiting = Array.from({ length: 7 }, () => engine.post(chatPath, long, gone.signal).catch(() => null));
    const beganMs = performance.now();
    const last = engine.post(chatPath, { ...story, max_tokens: 2 });
    await under.body?.getReader().read();
    gone.abort();
    expect((await last).status).toBe(200);
    await Promise.all(waiting);
    // Eight long stories would take eight times as long as one, and the machine may be twice as fast for that one.
    const tookMs = performance.now() - beganMs;
    const oneMs = performance.now();
    await (await engine.post(chatPath, { ...story, max_tokens: 30 })).text();
    expect(tookMs).toBeLessThan(5 * (performance.now() - oneMs));
  });
});

describe("the speech engine", () => {
  let engine: EngineProcess;
  beforeAll(async () => {
    engine = await start("speech");
  });
  afterAll(() => endEngine(engine));

  test("returns raw PCM", async () => {
    const response = await engine.post(engineSpeechPath, spokenLine);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("audio/pcm");
    const samples = new Int16Array(await response.arrayBuffer());
    expect(samples.length / 24_000).toBeGreaterThan(0.5);
    expect(samples.length / 24_000).toBeLessThan(3);
    expect(Math.max(...samples)).toBeGreaterThan(2000);
  });

  test("returns wav with the same samples", async () => {
    const wav = Buffer.from(await (await engine.post(engineSpeechPath, { ...spokenLine, response_format: "wav" })).arrayBuffer());
    const pcm = Buffer.from(await (await engine.post(engineSpeechPath, spokenLine)).arrayBuffer());
    expect(wav.toString("latin1", 0, 4)).toBe("RIFF");
    expect(wav.readUInt32LE(24)).toBe(24_000);
    expect(wav.subarray(44).equals(pcm)).toBe(true);
  });

  test("sends the first sentence before it computes the last", async () => {
    const input = "This is one of many sentences that are spoken. ".repeat(10);
    const beganMs = performance.now();
    const response = await engine.post(engineSpeechPath, { ...spokenLine, voice: "slt", input });
    const reader = response.body!.getReader();
    await reader.read();
    const firstMs = performance.now() - beganMs;
    let pieces = 0;
    while (!(await reader.read()).done) pieces++;
    expect(pieces).toBeGreaterThan(3);
    expect(firstMs).toBeLessThan((performance.now() - beganMs) / 2);
  });

  test.each([
    [{ voice: "alloy" }, "voice", "invalid_value"],
    [{ voice: { id: "x" } }, "voice", "invalid_value"],
    [{ voice: null }, "voice", "missing_required_parameter"],
    [{ input: null }, "input", "missing_required_parameter"],
    [{ input: 5 }, "input", "invalid_type"],
    [{ input: "a".repeat(1_000_001) }, "input", "string_above_max_length"],
    [{ input: "…" }, "input", "invalid_value"],
    [{ input: "Привет" }, "input", "unsupported_language"],
    [{ input: "Das ist nicht gut und ich weiß es." }, "input", "unsupported_language"],
    [{ response_format: "mp3" }, "response_format", "unsupported_value"],
    [{ response_format: null }, "response_format", "unsupported_value"],
    [{ speed: 0.2 }, "speed", "invalid_value"],
    [{ speed: 1e308 }, "speed", "invalid_value"],
    [{ speed: "fast" }, "speed", "invalid_type"],
    [{ instructions: "Whisper." }, "instructions", "unsupported_parameter"],
    [{ stream_format: "sse" }, "stream_format", "unsupported_parameter"],
  ])("refuses %j", async (change, param, code) => {
    expect(await engineRefusal(engine.post(engineSpeechPath, { ...spokenLine, ...change }))).toEqual({ status: 400, code, param });
  });

  test("does not let a client that does not read delay the others", async () => {
    const body = JSON.stringify({ ...spokenLine, input: "This is one of many sentences that are spoken. ".repeat(40), speed: 0.25 });
    let heard = 0;
    const deaf = await Bun.connect({
      unix: engine.socket,
      socket: {
        data(socket, bytes) {
          heard += bytes.length;
          socket.pause();
        },
      },
    });
    deaf.write(`POST ${engineSpeechPath} HTTP/1.1\r\nhost: engine\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    await eventually("the deaf client is being served", () => heard > 0);
    expect((await engine.post(engineSpeechPath, spokenLine)).status).toBe(200);
    deaf.terminate();
  });
});

describe("the transcription engine", () => {
  const path = "/v1/audio/transcriptions";
  const sentence = "The quick brown fox jumps over the lazy dog.";
  let engine: EngineProcess;
  let wav: Blob;

  beforeAll(async () => {
    const speech = await start("speech");
    const input = `${sentence} ${sentence}`;
    wav = await (await speech.post(engineSpeechPath, { ...spokenLine, voice: "rms", input, response_format: "wav" })).blob();
    await endEngine(speech);
    engine = await start("transcription");
  });
  afterAll(() => endEngine(engine));

  const form = (fields: Readonly<Record<string, string | readonly string[]>>, file: Blob | string | null = wav): FormData =>
    transcriptionForm(fields, file);
  const transcribe = (data: FormData | string, signal?: AbortSignal): Promise<Response> =>
    engine.ask(path, { method: "POST", body: data, ...(signal === undefined ? {} : { signal }) });
  const heard = /quick brown fox jumps over the lazy dog/i;

  interface Transcribed {
    readonly status: number;
    readonly answer: { readonly text: string; readonly usage: { readonly type: string; readonly seconds: number } };
  }
  let transcribed: Promise<Transcribed> | null = null;
  /** Made once: the model takes seconds for it. */
  const spokenTranscript = (): Promise<Transcribed> => {
    const make = async (): Promise<Transcribed> => {
      const response = await transcribe(form({}));
      return { status: response.status, answer: (await response.json()) as Transcribed["answer"] };
    };
    return (transcribed ??= make());
  };

  test("transcribes what the speech engine spoke", async () => {
    const { status, answer } = await spokenTranscript();
    expect(status).toBe(200);
    expect(answer.text).toMatch(heard);
    expect(answer.usage.type).toBe("duration");
    expect(answer.usage.seconds).toBeGreaterThanOrEqual(4);
  });

  test.each([
    [{ language: "klingon" }, "language", "invalid_value"],
    [{ response_format: "srt" }, "response_format", "unsupported_value"],
    [{ temperature: "warm" }, "temperature", "invalid_value"],
    [{ temperature: "1e999" }, "temperature", "invalid_value"],
    [{ "timestamp_granularities[]": "syllable", response_format: "verbose_json" }, "timestamp_granularities", "invalid_value"],
    [{ "timestamp_granularities[]": "word" }, "timestamp_granularities", "invalid_value"],
    [{ stream: "perhaps" }, "stream", "invalid_type"],
    [{ model: "" }, "model", "missing_required_parameter"],
  ])("refuses %j", async (fields, param, code) => {
    expect(await engineRefusal(transcribe(form(fields)))).toEqual({ status: 400, code, param });
  });

  test("rejects what is not audio, not a file or not a form, and says so", async () => {
    const noise = new Blob([Uint8Array.from({ length: 5000 }, (_, index) => (index * 7919) % 251)]);
    expect(await engineRefusal(transcribe(form({}, new Blob(["this is a text"]))))).toEqual({
      status: 400,
      code: "invalid_audio",
      param: "file",
    });
    expect(await engineRefusal(transcribe(form({}, noise)))).toMatchObject({ status: 400, param: "file" });
    expect(await engineRefusal(transcribe(form({}, new Blob([]))))).toMatchObject({ status: 400, param: "file" });
    expect(await engineRefusal(transcribe(form({}, wav.slice(0, 1000))))).toEqual({ status: 400, code: "audio_too_short", param: "file" });
    expect(await engineRefusal(transcribe(form({}, null)))).toEqual({ status: 400, code: "missing_required_parameter", param: "file" });
    expect(await engineRefusal(transcribe(form({}, "text")))).toEqual({ status: 400, code: "invalid_type", param: "file" });
    expect((await engineRefusal(transcribe("not a form"))).status).toBe(400);
    expect(await engineRefusal(transcribe(form({ model: "whisper-huge" })))).toEqual({
      status: 404,
      code: "model_not_found",
      param: "model",
    });
    for (const broken of ["--x", "--x\r\n\r\n--x--", '--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nabc']) {
      const headers = { "content-type": "multipart/form-data; boundary=x" };
      expect((await engineRefusal(engine.ask(path, { method: "POST", body: broken, headers }))).status).toBe(400);
    }
  });

  test.skipIf(!onLinux)("rejects hours packed into a few bytes, at once and without using the memory for them", async () => {
    // Afterwards it has all the memory that it needs for a usual request.
    await spokenTranscript();
    writeFileSync(`/proc/${engine.child.pid}/clear_refs`, "5");
    const before = peakBytes(engine);
    const beganMs = performance.now();
    const hours = silentFlac(1000, 7 * 3600);
    expect(hours.length).toBeLessThan(5100);
    expect(await engineRefusal(transcribe(form({}, new Blob([hours]))))).toEqual({ status: 400, code: "invalid_audio", param: "file" });
    expect(performance.now() - beganMs).toBeLessThan(slowed(5000));
    expect(peakBytes(engine) - before).toBeLessThan(460e6);
  });
});

describe("decoding in a worker", () => {
  const sampleRate = 16_000;
  const stay = new AbortController().signal;

  test("stops at a time limit, and says so", async () => {
    const outcome = await decodeInWorker(slowMp4().buffer, { sampleRate, signal: stay, timeoutMs: 300 }).catch((error: unknown) => error);
    expect(outcome).toBeInstanceOf(UndecodableAudio);
    expect((outcome as Error).message).toContain("takes too long");
  });

  test("stops at a memory limit, and says so", async () => {
    const outcome = await decodeInWorker(slowMp4().buffer, { sampleRate, signal: stay, growthBytesMax: 1 }).catch(
      (error: unknown) => error,
    );
    expect(outcome).toBeInstanceOf(UndecodableAudio);
    expect((outcome as Error).message).toContain("too much memory");
    await eventually("the thread is gone", isAtRest);
  });

  test("stops at the given duration, whatever the file declares", async () => {
    const file = silentFlac(48_000, 1200);
    const outcome = await decodeInWorker(file.buffer, { sampleRate, signal: stay, secondsMax: 20 }).catch((error: unknown) => error);
    expect(outcome).toBeInstanceOf(UndecodableAudio);
    expect((outcome as Error).message).toContain("it may last 20 seconds");
  });

  test("stops at once when it is aborted", async () => {
    const gone = new AbortController();
    const decoding = decodeInWorker(silentFlac(96_000, 7000).buffer, { sampleRate, signal: gone.signal }).catch((error: unknown) => error);
    await Bun.sleep(300);
    const beganMs = performance.now();
    gone.abort(new Error("left"));
    expect(await decoding).toEqual(new Error("left"));
    expect(performance.now() - beganMs).toBeLessThan(slowed(500));
    await eventually("the thread is gone", isAtRest);
    await expect(decodeInWorker(slowMp4().buffer, { sampleRate, signal: gone.signal })).rejects.toThrow("left");
  });
});

describe("an engine process", () => {
  test("exits and deletes its socket when its stdin is closed", async () => {
    const engine = await start("chat");
    expect(existsSync(engine.socket)).toBe(true);
    await engine.child.stdin.end();
    expect(await engine.child.exited).toBe(0);
    expect(existsSync(engine.socket)).toBe(false);
    expect(await new Response(engine.child.stderr).text()).toBe("");
  });

  test("does so in the middle of its work", async () => {
    const engine = await start("chat");
    const response = await engine.post(chatPath, { ...story, max_tokens: 250, stream: true });
    const reader = response.body!.getReader();
    await reader.read();
    await engine.child.stdin.end();
    expect(await engine.child.exited).toBe(0);
    await reader.cancel().catch(() => {});
  });

  test("exits when it is idle, but not while it works", async () => {
    const engine = await start("chat", "--idle-seconds", "0.3");
    const response = await engine.post(chatPath, { ...story, max_tokens: 30 });
    expect(await response.json()).toMatchObject({ usage: { completion_tokens: 30 } });
    expect(await engine.child.exited).toBe(0);
    expect(existsSync(engine.socket)).toBe(false);
  });

  test("exits on SIGTERM", async () => {
    const engine = await start("speech");
    engine.child.kill("SIGTERM");
    expect(await engine.child.exited).toBe(0);
    expect(existsSync(engine.socket)).toBe(false);
  });

  test("does not exit on a Ctrl-C that is meant for the gateway", async () => {
    const engine = await start("speech");
    engine.child.kill("SIGINT");
    expect((await engine.ask("/v1/models")).status).toBe(200);
    await endEngine(engine);
  });

  test("replaces the socket of a killed engine, and deletes no other file", async () => {
    const first = await start("speech");
    first.child.kill("SIGKILL");
    await first.child.exited;
    expect(existsSync(first.socket)).toBe(true);
    count--;
    const second = await start("speech");
    expect(second.socket).toBe(first.socket);
    await endEngine(second);
    const file = join(directory, "precious");
    writeFileSync(file, "kept");
    const third = Bun.spawn([process.execPath, engineMain, "--engine", "speech", "--socket", file], {
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
    });
    expect(await third.exited).not.toBe(0);
    expect(await Bun.file(file).text()).toBe("kept");
  });

  test.each([
    [["--engine", "nothing", "--socket", "x"]],
    [["--engine", "chat"]],
    [["--engine", "chat", "--socket", "x", "--idle-seconds", "never"]],
    [["--engine", "chat", "--socket", "x", "--idle-seconds", "0"]],
    [["--enigne", "chat"]],
  ])("says what is wrong with %j", async (flags) => {
    const child = Bun.spawn([process.execPath, engineMain, ...flags], { stdin: "pipe", stdout: "pipe", stderr: "pipe" });
    expect(await child.exited).toBe(64);
    expect(JSON.parse(await new Response(child.stderr).text())).toMatchObject({ event: "failed" });
  });

  test("keeps a connection that is silent for long", async () => {
    expect(await patientAnswer).toStartWith("HTTP/1.1 200");
  });

  test("runs at a lower priority than the gateway", async () => {
    const engine = await start("speech");
    const stat = await Bun.file(`/proc/${engine.child.pid}/stat`).text();
    expect(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[16]).toBe(process.env["SLUICE_ENGINE_NICENESS"] ?? "10");
    await endEngine(engine);
  });
});

describe("queued jobs", () => {
  const stay = new AbortController().signal;

  test("run one at a time, in order, and those whose client left are skipped", async () => {
    const jobs = makeJobQueue(3);
    const leaving = new AbortController();
    const order: number[] = [];
    const first = await jobs.reserve()!.start(stay);
    const second = jobs
      .reserve()!
      .start(leaving.signal)
      .then(
        () => order.push(-2),
        () => order.push(2),
      );
    const [third, fourth] = [3, 4].map((number) =>
      jobs
        .reserve()!
        .start(stay)
        .then((done) => {
          order.push(number);
          return done;
        }),
    );
    expect(jobs.reserve()).toBeNull();
    leaving.abort();
    await second;
    const slot = jobs.reserve();
    expect(slot).not.toBeNull();
    slot!.release();
    first();
    first();
    const endThird = await third!;
    expect(order).toEqual([2, 3]);
    endThird();
    (await fourth!)();
    expect(order).toEqual([2, 3, 4]);
    expect(jobs.reserve()!.start(AbortSignal.abort())).rejects.toThrow();
    expect(await jobs.reserve()!.start(stay)).toBeFunction();
  });

  test("are queued before a request is read: a request with a slot is not rejected after its upload", async () => {
    const jobs = makeJobQueue(2);
    // None is at work yet: one of the three will be.
    const slots = [jobs.reserve()!, jobs.reserve()!, jobs.reserve()!];
    expect(jobs.reserve()).toBeNull();
    const [first, ...others] = slots.map((slot) => slot.start(stay));
    expect(jobs.reserve()).toBeNull();
    (await first!)();
    for (const other of others) (await other)();
    const [one, another] = [jobs.reserve()!, jobs.reserve()!];
    one.release();
    one.release();
    expect([jobs.reserve() === null, jobs.reserve() === null, jobs.reserve() === null]).toEqual([false, false, true]);
    another.release();
    expect(jobs.reserve()).not.toBeNull();
  });

  test("estimate when a slot is free from the duration of earlier jobs, at most a minute", async () => {
    let nowMs = 0;
    const jobs = makeJobQueue(1, () => nowMs);
    const work = async (ms: number): Promise<void> => {
      const end = await jobs.reserve()!.start(stay);
      nowMs += ms;
      end();
    };
    for (let job = 0; job < 20; job++) await work(12_000);
    await jobs.reserve()!.start(stay);
    expect(jobs.retryAfterMs()).toBe(12_000);
    nowMs += 9_000;
    expect(jobs.retryAfterMs()).toBe(3_000);
    nowMs += 2_500;
    expect(jobs.retryAfterMs()).toBe(1_000);
    // It takes longer than the others did.
    nowMs += 8_500;
    expect(jobs.retryAfterMs()).toBe(20_000);
    nowMs += 500_000;
    expect(jobs.retryAfterMs()).toBe(60_000);
  });
});

describe("weights", () => {
  const [model] = catalog.filter(({ operation }) => operation === "speech");

  test("with the known hashes are used", async () => {
    expect(typeof (await verifiedWeights(model!))).toBe("string");
  });

  test.each([
    ["another hash", { ...model!, files: [{ ...model!.files[0]!, sha256: "0".repeat(64) }] }],
    ["no such file", { ...model!, files: [{ path: "none", bytes: 1, sha256: "" }] }],
    ["no such package", { ...model!, package: "no-such-package" }],
  ])("are refused, in words that name the model: %s", async (_, wrong) => {
    const found = await verifiedWeights(wrong);
    if (typeof found === "string" || !isRequestError(found)) throw new Error("it was not refused");
    expect(found).toMatchObject({ status: 503, code: "engine_unavailable" });
    expect(found.message).toContain("embedded/flite");
  });
});
