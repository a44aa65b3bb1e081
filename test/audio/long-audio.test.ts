import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { wavFile } from "../../packages/embedded/src/split/wav-file.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway, type LogLine } from "../support/gateway.ts";
import { heardTones, saidTones, samplesOf, spokenTones, toneRate } from "../support/heard-tones.ts";
import { bytesOf, cuesIn, eventsIn } from "../support/transcription-world.ts";

// A process starts for each recording, on a machine that may have other work.
setDefaultTimeout(60_000);

const key = "sk-long-audio-of-these-tests";
const speech = { words: 30, toneSeconds: 1.2, gapSeconds: 0.8 };
const recording = wavOf(spokenTones(speech));
const said = saidTones(speech.words);
const onLinux = existsSync("/proc/self/fd");

/** What an upstream of these tests hears, and what it makes of it. */
interface Heard {
  readonly channel: string;
  readonly seconds: number;
  readonly bytes: number;
  readonly format: string;
  readonly firstWord: string;
  readonly headers: Headers;
}

type Act = (heard: Heard, signal: AbortSignal) => Promise<Response | null> | Response | null;

const heard: Heard[] = [];
/** What happens in place of an answer; null: the answer. */
let act: Act = () => null;
let { toneSeconds } = speech;
const answering = { now: 0, most: 0 };

function upstream(channel: string): ReturnType<typeof Bun.serve> {
  return Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 60,
    async fetch(request) {
      const form = await request.formData();
      const bytes = await (form.get("file") as File).bytes();
      const samples = samplesOf(bytes);
      const words = heardTones(samples, toneSeconds);
      const format = (form.get("response_format") as string | null) ?? "json";
      const seconds = samples.length / toneRate;
      const mine: Heard = { channel, seconds, bytes: bytes.length, format, firstWord: words[0]?.word ?? "", headers: request.headers };
      heard.push(mine);
      answering.most = Math.max(answering.most, ++answering.now);
      try {
        const instead = await act(mine, request.signal);
        if (instead !== null) return instead;
      } finally {
        answering.now -= 1;
      }
      const text = words.map(({ word }) => word).join(" ");
      const usage = { type: "duration", seconds: Math.ceil(seconds) };
      if (format === "json") return Response.json({ text, usage });
      const segments = words.map(({ word, start, end }, id) => ({ id, start, end, text: ` ${word}`, seek: 0 }));
      return Response.json({ task: "transcribe", language: "english", duration: seconds, text, segments, words, usage });
    },
  });
}

const first = upstream("first");
const second = upstream("second");
let gateway: Gateway;

beforeAll(async () => {
  const settings = (name: string, port: number, facts: Readonly<Record<string, unknown>>): object => ({
    name,
    base_url: `http://127.0.0.1:${port}/v1`,
    api_key: "sk-of-the-upstream",
    ...facts,
  });
  gateway = await startGateway({
    config: {
      keys: [
        { name: "long", key, long_audio: "split" },
        { name: "short", key: `${key}-short` },
      ],
      server: { audio_limit: "500KiB" },
      channels: [
        settings("first", first.port!, {
          models: ["both", "one"],
          capabilities: { audio_seconds: 15, transcription_formats: ["json", "verbose_json"] },
        }),
        settings("second", second.port!, {
          models: ["both", "plain"],
          forward_headers: ["idempotency-key"],
          capabilities: { audio_limit: "400KiB" },
        }),
      ],
    },
  });
});

afterEach(() => {
  act = () => null;
  ({ toneSeconds } = speech);
  heard.length = 0;
  answering.most = 0;
});

afterAll(async () => {
  await gateway.kill();
  await Promise.all([first.stop(true), second.stop(true)]);
});

interface Wishes {
  readonly file?: Uint8Array;
  readonly model?: string;
  readonly fields?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

function transcribe({ file = recording, model = "both", fields = {}, headers = {}, signal }: Wishes = {}): Promise<Response> {
  const form = new FormData();
  form.append("file", new File([new Uint8Array(file)], "long.wav"));
  form.append("model", model);
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  return fetch(`${gateway.url}/v1/audio/transcriptions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, ...headers },
    body: form,
    ...(signal === undefined ? {} : { signal }),
  });
}

function accessLine(response: Response): Promise<LogLine> {
  return gateway.waitForLog((line) => line["event"] === "call" && line["id"] === response.headers.get("x-request-id"));
}

function wavOf(samples: Float32Array): Uint8Array {
  return wavFile(
    Int16Array.from(samples, (sample) => Math.round(sample * 32_767)),
    toneRate,
  );
}

interface Timed {
  readonly start: number;
  readonly end: number;
}

/** Word n begins at second 2n. */
function expectTimes(items: readonly Timed[]): void {
  expect(items).toHaveLength(speech.words);
  items.forEach(({ start, end }, index) => {
    expect(Math.abs(start - index * 2)).toBeLessThan(0.1);
    expect(Math.abs(end - start - speech.toneSeconds)).toBeLessThan(0.1);
  });
}

describe("a long recording", () => {
  test("is transcribed in parts that every channel takes, and comes back as one", async () => {
    const response = await transcribe();
    expect(await response.json()).toEqual({ text: said, usage: { type: "duration", seconds: expect.any(Number) } });
    expect(response.status).toBe(200);
    expect(heard.length).toBeGreaterThanOrEqual(5);
    // The one takes 15 seconds, the other 400 KiB; the less of both, for every part may go to either.
    for (const { seconds, bytes } of heard) {
      expect(seconds).toBeLessThanOrEqual((400 * 1024) / 32_000);
      expect(bytes).toBeLessThanOrEqual(400 * 1024);
    }
    expect(heard.reduce((sum, { seconds }) => sum + seconds, 0)).toBeCloseTo(60, 3);
  });

  test("is one call in the log, with its parts told on the way and nothing of what was said", async () => {
    const response = await transcribe({ model: "one" });
    await response.text();
    const line = await accessLine(response);
    expect(line).toMatchObject({ status: 200, state: "complete", channel: "first", attempts: heard.length, bytes_in: expect.any(Number) });
    expect(Number(line["audio_seconds"])).toBeGreaterThanOrEqual(60);
    const parts = gateway.logs.filter((each) => each["event"] === "part" && each["id"] === response.headers.get("x-request-id"));
    expect(parts.map((each) => Number(each["part"])).toSorted((a, b) => a - b)).toEqual(heard.map((_, index) => index + 1));
    expect(parts.reduce((sum, each) => sum + Number(each["seconds"]), 0)).toBeCloseTo(60, 3);
    expect(gateway.text).not.toContain("tone1");
  });

  test("has the times of the recording in verbose_json", async () => {
    const response = await transcribe({ model: "one", fields: { response_format: "verbose_json" } });
    const answer = (await response.json()) as {
      readonly segments: readonly (Timed & { readonly id: number })[];
      readonly duration: number;
      readonly text: string;
    };
    expect(answer).toMatchObject({ task: "transcribe", language: "english", duration: 60, text: said });
    expectTimes(answer.segments);
    expect(answer.segments.map(({ id }) => id)).toEqual(answer.segments.map((_, index) => index));
  });

  test("has the times of words where they are asked for", async () => {
    const response = await transcribe({ model: "one", fields: { response_format: "verbose_json", "timestamp_granularities[]": "word" } });
    const answer = (await response.json()) as { readonly words: readonly Timed[]; readonly segments?: unknown };
    expectTimes(answer.words);
    expect(answer.segments).toBeUndefined();
  });

  test("comes as subtitles", async () => {
    const response = await transcribe({ model: "one", fields: { response_format: "srt" } });
    const cues = cuesIn(new Uint8Array(await response.arrayBuffer()), "srt");
    expectTimes(cues.map(({ start, end }) => ({ start: start / 1000, end: end / 1000 })));
    expect(heard.every(({ format }) => format === "verbose_json")).toBe(true);
  });

  test("comes as text", async () => {
    const response = await transcribe({ model: "plain", fields: { response_format: "text" } });
    expect(await response.text()).toBe(`${said}\n`);
    expect(heard.every(({ format }) => format === "json")).toBe(true);
  });

  test.each([1, 0.5, 0.4])("without any silence, in words of %p seconds, loses nothing and says nothing twice", async (seconds) => {
    toneSeconds = seconds;
    const gapless = { words: Math.round(40 / seconds), toneSeconds, gapSeconds: 0 };
    const response = await transcribe({ file: wavOf(spokenTones(gapless)), model: "one", fields: { response_format: "verbose_json" } });
    const { text, segments } = (await response.json()) as { readonly text: string; readonly segments: readonly Timed[] };
    expect(text).toBe(saidTones(gapless.words));
    expect(segments.every(({ start }, index) => start >= (segments[index - 1]?.end ?? 0) - 0.001)).toBe(true);
    expect(heard.reduce((sum, { seconds }) => sum + seconds, 0)).toBeCloseTo(40 + 2 * (heard.length - 1), 3);
  });

  test("is asked for at most four parts at a time, and each is a request of its own", async () => {
    act = async () => {
      await eventually("company", () => answering.now >= 4 || heard.length >= 5);
      return null;
    };
    const response = await transcribe({ model: "plain", headers: { "idempotency-key": "once" } });
    expect(await response.json()).toMatchObject({ text: said });
    expect(answering.most).toBe(4);
    expect(new Set(heard.map(({ headers }) => headers.get("idempotency-key"))).size).toBe(heard.length);
  });

  test("is finished by another channel where one fails", async () => {
    // Who is asked first is a matter of chance, and of who was quicker before: that one fails.
    let failing: string | null = null;
    act = ({ channel }) => {
      failing ??= channel;
      return channel === failing ? Response.json({ error: { message: "down" } }, { status: 500 }) : null;
    };
    const response = await transcribe();
    expect(await response.json()).toMatchObject({ text: said });
    const other = failing === "first" ? "second" : "first";
    expect(await accessLine(response)).toMatchObject({ status: 200, state: "complete", channel: other, attempts: heard.length });
    expect(new Set(heard.map(({ channel }) => channel)).size).toBe(2);
  });

  test("fails as a whole where one part does, with its failure and no part left running", async () => {
    act = async ({ firstWord }, signal) => {
      if (firstWord === "tone0")
        return Response.json(
          { error: { message: "This is not speech.", type: "invalid_request_error", code: "no_speech" } },
          { status: 400 },
        );
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return null;
    };
    const response = await transcribe({ model: "plain" });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { message: "This is not speech.", code: "no_speech" } });
    expect(await accessLine(response)).toMatchObject({ status: 400, state: "failed", error: "invalid_request" });
    await eventually("all parts are given up", () => answering.now === 0);
    await nothingLeft();
  });
});

describe("a stream of a long recording", () => {
  const fields = { stream: "true" };

  test("has a delta for each part, in order, though they finish in another", async () => {
    // Those before the last answer only when the last one has.
    act = async ({ firstWord }) => {
      const mine = Number(firstWord.slice(4));
      await eventually("a later part", () => done.some((other) => other > mine) || mine >= 18);
      done.push(mine);
      return null;
    };
    const done: number[] = [];
    const response = await transcribe({ model: "plain", fields });
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const events = eventsIn(new Uint8Array(await response.arrayBuffer()));
    expect(events.at(-1)).toBe("[DONE]");
    const read = events
      .slice(0, -1)
      .map((data) => JSON.parse(data) as { readonly type: string; readonly delta?: string; readonly text?: string });
    expect(read.map(({ type }) => type)).toEqual([...heard.map(() => "transcript.text.delta"), "transcript.text.done"]);
    expect(read.map(({ delta }) => delta ?? "").join("")).toBe(said);
    expect(read.at(-1)).toMatchObject({ text: said, usage: { type: "duration" } });
    expect(done).not.toEqual(done.toSorted((a, b) => a - b));
    expect(await accessLine(response)).toMatchObject({ status: 200, state: "complete", stream: true });
  });

  test("begins while later parts are still being heard", async () => {
    let release = (): void => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    act = async ({ firstWord }) => {
      if (firstWord !== "tone0") await held;
      return null;
    };
    const response = await transcribe({ model: "plain", fields });
    const reader = response.body!.getReader();
    const { value } = await reader.read();
    expect(new TextDecoder().decode(value)).toContain('"delta":"tone0');
    release();
    while (!(await reader.read()).done);
  });

  test("tells a failure in the stream once it has begun", async () => {
    act = ({ firstWord }) =>
      firstWord === "tone0"
        ? null
        : Response.json({ error: { message: "This is not speech.", type: "invalid_request_error" } }, { status: 400 });
    // The first part must be told before the second fails: they are asked for together.
    const before = act;
    let goOn = (): void => {};
    const first = new Promise<void>((resolve) => (goOn = resolve));
    act = async (one, signal) => {
      if (one.firstWord !== "tone0") await first;
      return before(one, signal);
    };
    const response = await transcribe({ model: "plain", fields });
    const reader = response.body!.getReader();
    let text = new TextDecoder().decode((await reader.read()).value);
    expect(text).toContain('"delta":"tone0');
    goOn();
    for (let next = await reader.read(); !next.done; next = await reader.read()) text += new TextDecoder().decode(next.value);
    expect(text).toContain("This is not speech.");
    expect(text).not.toContain("transcript.text.done");
    expect(await accessLine(response)).toMatchObject({ status: 200, state: "interrupted", error: "invalid_request" });
    await nothingLeft();
  });
});

describe("a client that leaves", () => {
  test.each([false, true])("ends the process and every part at once (stream: %p)", async (stream) => {
    act = async ({ firstWord }, signal) => {
      if (stream && firstWord === "tone0") return null;
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return null;
    };
    const leaving = new AbortController();
    const before = gateway.accessLines().length;
    const asked = transcribe({ model: "plain", fields: { stream: String(stream) }, signal: leaving.signal });
    asked.catch(() => {});
    if (stream) await (await asked).body!.getReader().read();
    await eventually("parts are under way", () => answering.now >= 3);
    leaving.abort();
    await eventually("every part is given up", () => answering.now === 0);
    await nothingLeft();
    await eventually("a line of the log", () => gateway.accessLines().length > before);
    expect(gateway.accessLines().at(-1)).toMatchObject({ state: "abandoned", error: "client_gone" });
  });
});

describe("what cannot be cut", () => {
  test("is refused as what it is: not audio", async () => {
    const file = Buffer.concat([bytesOf("RIFF\u0024\u0000\u0000\u0000WAVE"), new Uint8Array(600 * 1024).fill(7)]);
    const response = await transcribe({ file });
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { readonly error: { readonly message: string; readonly param: string } };
    expect(error.message).toContain("could not be cut into parts");
    expect(error.param).toBe("file");
    expect(heard).toEqual([]);
    expect(await accessLine(response)).toMatchObject({ status: 400, state: "failed", attempts: 0 });
    await nothingLeft();
  });

  test("is refused as too large where the key may not", async () => {
    const response = await transcribe({ headers: { authorization: `Bearer ${key}-short` } });
    expect(response.status).toBe(413);
    expect(heard).toEqual([]);
  });
});

/** Neither a process nor a file without a name. */
async function nothingLeft(): Promise<void> {
  if (!onLinux) return;
  await eventually("no process cuts", () => childrenOf(gateway.pid) === 0);
  await eventually("no file is open", () => unnamedOf(gateway.pid) === 0);
}

function childrenOf(parent: number): number {
  return readdirSync("/proc").filter((name) => {
    try {
      return / \S (\d+)/.exec(readFileSync(`/proc/${name}/stat`, "utf8").replace(/^.*\)/, ""))?.[1] === String(parent);
    } catch {
      return false;
    }
  }).length;
}

function unnamedOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).filter((name) => {
    try {
      return /sluice-.*deleted/.test(readlinkSync(`/proc/${pid}/fd/${name}`));
    } catch {
      return false;
    }
  }).length;
}
