// Needs: models, slow. A model hears a dozen recordings; embedded-server proves that an engine hears and refuses, embedded-whisper-parts how.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodeInWorker } from "../../packages/embedded/src/server/decoding.ts";
import {
  endEngine,
  engineEvents,
  engineRefusal,
  engineSpeechPath,
  onLinux,
  processorMs,
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

function start(engine: string): Promise<EngineProcess> {
  return startEngine(join(directory, `${engine}-${count++}.sock`), engine);
}

describe("the transcription engine", () => {
  const path = "/v1/audio/transcriptions";
  const sentence = "The quick brown fox jumps over the lazy dog.";
  let engine: EngineProcess;
  let wav: Blob;
  let long: Blob;

  beforeAll(async () => {
    const speech = await start("speech");
    const input = `${sentence} ${sentence}`;
    wav = await (await speech.post(engineSpeechPath, { ...spokenLine, voice: "rms", input, response_format: "wav" })).blob();
    // What repeats itself is decoded again and again, so each sentence is another.
    const facts = [
      "a river that runs north",
      "the bridge at the old mill",
      "seven ways to bake bread",
      "how ships find their way",
      "the price of good shoes",
    ];
    const talk = facts.flatMap((fact, index) => [`Now let me tell you about ${fact}.`, `It is number ${index + 1} on my list for today.`]);
    long = await (
      await speech.post(engineSpeechPath, {
        ...spokenLine,
        voice: "rms",
        input: [...talk, ...talk.toReversed()].join(" "),
        response_format: "wav",
      })
    ).blob();
    await endEngine(speech);
    engine = await start("transcription");
  });
  afterAll(() => endEngine(engine));

  const form = (fields: Readonly<Record<string, string | readonly string[]>>, file: Blob | string | null = wav): FormData =>
    transcriptionForm(fields, file);
  const transcribe = (data: FormData, signal?: AbortSignal): Promise<Response> =>
    engine.ask(path, { method: "POST", body: data, ...(signal === undefined ? {} : { signal }) });
  const heard = /quick brown fox jumps over the lazy dog/i;

  test("returns timestamps", async () => {
    const response = await transcribe(
      form({ response_format: "verbose_json", language: "en", "timestamp_granularities[]": ["word", "segment"] }),
    );
    const answer = (await response.json()) as {
      language: string;
      duration: number;
      segments: readonly { id: number; start: number; end: number; text: string }[];
      words: readonly { word: string; start: number; end: number }[];
    };
    expect(answer).toMatchObject({ task: "transcribe", language: "english", text: expect.stringMatching(heard) });
    expect(answer.segments.every(({ start, end }) => start >= 0 && start < end && end <= answer.duration)).toBe(true);
    expect(answer.words.map(({ word }) => word).join(" ")).toMatch(heard);
    const words = (await (
      await transcribe(form({ response_format: "verbose_json", "timestamp_granularities[]": "word" }))
    ).json()) as object;
    expect("segments" in words).toBe(false);
  });

  test("streams deltas that add up to the text", async () => {
    const response = await transcribe(form({ stream: "true" }));
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const text = await response.text();
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
    const all = engineEvents(text) as readonly { type: string; delta?: string; text?: string; usage?: unknown }[];
    const deltas = all.filter(({ type }) => type === "transcript.text.delta");
    expect(deltas.length).toBeGreaterThanOrEqual(1);
    expect(deltas.map(({ delta }) => delta).join("")).toBe(all.at(-1)?.text ?? "");
    expect(all.at(-1)).toMatchObject({ type: "transcript.text.done", text: expect.stringMatching(heard), usage: { type: "duration" } });
  });

  test("translates on its own path", async () => {
    const body = form({ response_format: "verbose_json" });
    const response = await engine.ask("/v1/audio/translations", { method: "POST", body });
    expect(await response.json()).toMatchObject({ task: "translate", text: expect.stringMatching(heard) });
  });

  test("stops at the requested limit, whatever duration the file declares", async () => {
    const ask = (seconds: string): Promise<Response> =>
      engine.ask(path, { method: "POST", body: form({}), headers: { "x-audio-seconds-max": seconds } });
    expect(await engineRefusal(ask("1"))).toEqual({ status: 400, code: "invalid_audio", param: "file" });
    for (const enough of ["60", "nonsense"]) expect((await ask(enough)).status).toBe(200);
  });

  test("stops transcribing when its client leaves", async () => {
    const gone = new AbortController();
    const leaving = transcribe(form({ stream: "true" }, long), gone.signal);
    await (await leaving).body?.getReader().read();
    const beganMs = performance.now();
    const next = transcribe(form({}));
    gone.abort();
    expect((await next).status).toBe(200);
    expect(performance.now() - beganMs).toBeLessThan(slowed(20_000));
  });

  test.skipIf(!onLinux)("answers others while it decodes a slow file, and serves the next when that client leaves", async () => {
    await (await transcribe(form({}))).text();
    const gone = new AbortController();
    const computedMs = processorMs(engine);
    const endless = transcribe(form({}, new Blob([slowMp4()])), gone.signal).catch(() => null);
    await eventually("it is decoded", () => processorMs(engine) - computedMs > 1000, 20_000);
    expect((await engine.ask("/v1/models", { signal: AbortSignal.timeout(10_000) })).status).toBe(200);
    const next = transcribe(form({}));
    gone.abort();
    expect(await endless).toBeNull();
    expect(await (await next).json()).toMatchObject({ text: expect.stringMatching(heard) });
  });

  test.skipIf(!onLinux)("exits when its stdin is closed, even while it is decoding", async () => {
    const other = await start("transcription");
    const body = form({}, new Blob([slowMp4()]));
    // The model is loaded first, which takes time of the processor too.
    expect((await other.ask(path, { method: "POST", body: form({}, new Blob(["text"])) })).status).toBe(400);
    const computedMs = processorMs(other);
    const endless = other.ask(path, { method: "POST", body }).catch(() => null);
    await eventually("it is decoded", () => processorMs(other) - computedMs > 1000, 20_000);
    await other.child.stdin.end();
    // What it decodes takes longer.
    expect(await Promise.race([other.child.exited, Bun.sleep(10_000)])).toBe(0);
    await endless;
  });
});

describe("decoding in a worker", () => {
  test("has a longer time limit for longer audio", async () => {
    const sampleRate = 16_000;
    const samples = await decodeInWorker(silentFlac(48_000, 1200).buffer, {
      sampleRate,
      signal: new AbortController().signal,
      timeoutMs: 10_000,
    });
    expect(samples.length / sampleRate).toBeWithin(1200, 1202);
  });
});
