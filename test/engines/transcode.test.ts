import { afterAll, afterEach, describe, expect, test, setDefaultTimeout } from "bun:test";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { makeDecoder } from "../../packages/embedded/src/codecs/decode.ts";
import { makeEncoder } from "../../packages/embedded/src/codecs/encode.ts";
import { resample } from "../../packages/embedded/src/codecs/resample.ts";
import { makeTranscode, type Transcode } from "../../src/engines/audio/transcode.ts";
import { audioFormats, type AudioFormat, type Transcoder, TranscoderLost } from "../../src/media/audio.ts";
import { joinedSamples, likeness, speechLike } from "../support/signal.ts";
import { eventually } from "../support/eventually.ts";

// Codecs are work, and the machine may have other work.
setDefaultTimeout(60_000);

const seconds = 1.5;
const spoken = speechLike(24_000, seconds);
const codecs = join(import.meta.dir, "../../packages/embedded/src/codecs");
const directory = mkdtempSync(join(tmpdir(), "sluice-transcode-"));
const running: Transcode[] = [];

afterEach(() => {
  for (const transcode of running.splice(0)) transcode.stop();
});
afterAll(() => rmSync(directory, { recursive: true }));

describe("each format is transcoded to each other", () => {
  const pairs = audioFormats.flatMap((from) => audioFormats.map((to) => [from, to] as const));
  const transcode = makeTranscode();
  afterAll(() => transcode.stop());

  test.each(pairs)("%s to %s", async (from, to) => {
    const input = await encoded(from);
    const transcoder = await made(transcode, from, to);
    const pieces: Uint8Array[] = [];
    const step = Math.ceil(input.length / 20);
    let earlyBytes = 0;
    for (let at = 0; at < input.length; at += step) {
      const piece = await transcoder.push(input.subarray(at, at + step));
      if (at + step < input.length) earlyBytes += piece.length;
      pieces.push(piece);
    }
    pieces.push(await transcoder.end());
    expect(earlyBytes).toBeGreaterThan(0);
    await expectSpoken(to, Buffer.concat(pieces));
  });
});

test("many transcoders run in one worker without mixing their data", async () => {
  const transcode = started();
  const outputs = await Promise.all(
    Array.from({ length: 12 }, async (_, index) => {
      const from = audioFormats[index % 6]!;
      const to = audioFormats[(index + 1) % 6]!;
      return { to, bytes: await transcoded(transcode, from, to, await encoded(from)) };
    }),
  );
  for (const { to, bytes } of outputs) await expectSpoken(to, bytes);
});

test("a long push delays neither the gateway nor the short push of another", async () => {
  const transcode = started();
  const long = await made(transcode, "pcm", "opus");
  const short = await made(transcode, "pcm", "wav");
  let longDone = false;
  const pushed = long.push(new Uint8Array(24_000 * 2 * 60)).then((bytes) => {
    longDone = true;
    return bytes;
  });
  let turns = 0;
  const ticking = setInterval(() => turns++, 1);
  await short.push(new Uint8Array(4800));
  expect(longDone).toBe(false);
  await pushed;
  clearInterval(ticking);
  expect(turns).toBeGreaterThan(10);
  long.destroy();
  short.destroy();
});

test("a transcoder with much to do does not starve the others", async () => {
  const transcode = started();
  const greedy = await Promise.all(Array.from({ length: 4 }, () => made(transcode, "pcm", "opus")));
  const other = await made(transcode, "pcm", "wav");
  let over = 0;
  const pushes = greedy.map((one) => one.push(new Uint8Array(24_000 * 2 * 60)).finally(() => over++));
  const settled = Promise.allSettled(pushes);
  for (let count = 0; count < 5; count++) await other.push(new Uint8Array(4800));
  expect(over).toBe(0);
  for (const one of greedy) one.destroy();
  expect((await settled).map(({ status }) => status)).toEqual(Array.from({ length: 4 }, () => "rejected"));
});

test("audio that cannot be decoded fails its own call and no other", async () => {
  const transcode = started();
  const good = await made(transcode, "wav", "pcm");
  const bad = await made(transcode, "flac", "mp3");
  expect(await failureOf(bad.push(new TextEncoder().encode('{"error":"no such voice"}')))).toContain("This is not a FLAC stream.");
  const input = await encoded("wav");
  const bytes = Buffer.concat([await good.push(input), await good.end()]);
  await expectSpoken("pcm", bytes);
  // What failed is gone.
  expect(await failureOf(bad.end())).not.toBe("");
  bad.destroy();
});

test("a destroyed transcoder is gone, and destroying it again does nothing", async () => {
  const transcode = started();
  const transcoder = await made(transcode, "pcm", "mp3");
  transcoder.destroy();
  transcoder.destroy();
  expect(await failureOf(transcoder.push(new Uint8Array(100)))).not.toBe("");
  const ended = await made(transcode, "pcm", "wav");
  await ended.end();
  ended.destroy();
});

test("a worker that dies fails its calls, and the next call gets a new one", async () => {
  const marker = join(directory, "died-once");
  const worker = workerFile(
    "mortal.ts",
    `import { existsSync, writeFileSync } from "node:fs";
     self.addEventListener("message", ({ data }) => {
       if (data.type !== "push" || existsSync(${JSON.stringify(marker)})) return;
       writeFileSync(${JSON.stringify(marker)}, "");
       process.exit(1);
     });
     import ${JSON.stringify(join(codecs, "worker.ts"))};`,
  );
  const transcode = started({ worker });
  const one = await made(transcode, "pcm", "wav");
  const other = await made(transcode, "pcm", "flac");
  const failures = await Promise.all([one.push(new Uint8Array(9600)), other.end()].map((call) => call.catch((error: unknown) => error)));
  expect(failures[0]).toBeInstanceOf(TranscoderLost);
  expect(await failureOf(other.push(new Uint8Array(10)))).not.toBe("");
  await expectSpoken("wav", await transcoded(transcode, "pcm", "wav", await encoded("pcm")));
});

test("a worker that does not answer is terminated", async () => {
  const worker = workerFile("deaf.ts", "self.addEventListener('message', () => { for (;;); });");
  const transcode = started({ worker, stepMsMax: 200 });
  const cause = await transcode.make("pcm", "wav").catch((error: unknown) => error);
  expect(cause).toBeInstanceOf(TranscoderLost);
  expect(String(cause)).toContain("more than 200 ms");
});

test("a worker that is busy with other calls is not considered stuck, however long a call waits", async () => {
  const worker = workerFile(
    "busy.ts",
    `self.addEventListener("message", ({ data: { call, type } }) => {
       if (type === "destroy") return;
       const alive = setInterval(() => self.postMessage({ type: "alive" }), 20);
       setTimeout(() => {
         clearInterval(alive);
         self.postMessage({ call, type: "done", bytes: new Uint8Array(0), more: false });
       }, 1500);
     });`,
  );
  const transcode = started({ worker, stepMsMax: 700 });
  (await made(transcode, "pcm", "wav")).destroy();
});

describe("hours of silence in a few bytes", () => {
  test("are returned in small steps, and only on demand", async () => {
    const transcode = started();
    const transcoder = await made(transcode, "flac", "wav");
    const blocks = 20;
    let piece = await transcoder.push(silentFlac(blocks));
    let length = 0;
    let steps = 0;
    for (; piece.length > 0; piece = await transcoder.push(new Uint8Array(0))) {
      expect(piece.length).toBeLessThanOrEqual(256 * 1024 + 2 * 24_000);
      length += piece.length;
      steps++;
    }
    length += (await transcoder.end()).length;
    expect(length).toBe(44 + blocks * silentBlock * 2);
    expect(steps).toBeGreaterThan(8);
  });

  test("cost no more than their real duration, and are rejected with the reason", async () => {
    const transcode = started();
    const transcoder = await made(transcode, "flac", "wav");
    const hours = silentFlac(4000);
    expect(hours.length).toBeLessThan(65_000);
    let cause: unknown = null;
    let length = 0;
    for (let given = hours; cause === null; given = new Uint8Array(0)) {
      const piece = await transcoder.push(given).catch((error: unknown) => (cause = error));
      if (piece instanceof Uint8Array) length += piece.length;
    }
    expect(cause).toMatchObject({ message: expect.stringContaining("too long for its bytes") });
    expect(cause).not.toBeInstanceOf(TranscoderLost);
    expect(length).toBeLessThan(48_000 * (60 + 2000 * 0.65));
  });

  const silentBlock = 65_535;

  /** Blocks of the greatest size, each a single number. */
  function silentFlac(blocks: number): Uint8Array {
    const facts = Buffer.alloc(42);
    facts.write("fLaC", "latin1");
    facts.set([0x80, 0, 0, 34, 0xff, 0xff, 0xff, 0xff], 4);
    facts.set([24_000 >> 12, (24_000 >> 4) & 0xff, ((24_000 & 15) << 4) | 0, 0xf0], 18);
    const frames = Array.from({ length: blocks }, (_, number) => {
      const numbered =
        number < 0x80
          ? [number]
          : number < 0x800
            ? [0xc0 | (number >> 6), 0x80 | (number & 63)]
            : [0xe0 | (number >> 12), 0x80 | ((number >> 6) & 63), 0x80 | (number & 63)];
      const head = [0xff, 0xf8, 0x70, 0x08, ...numbered, (silentBlock - 1) >> 8, (silentBlock - 1) & 0xff];
      const frame = [...head, remainder(head, 8, 0x07), 0, 0, 0];
      const sum = remainder(frame, 16, 0x8005);
      return Buffer.from([...frame, sum >> 8, sum & 0xff]);
    });
    return new Uint8Array(Buffer.concat([facts, ...frames]));
  }

  function remainder(bytes: readonly number[], width: number, divisor: number): number {
    const top = 2 ** (width - 1);
    let rest = 0;
    for (const byte of bytes) {
      rest ^= byte << (width - 8);
      for (let bit = 0; bit < 8; bit++) rest = ((rest << 1) ^ ((rest & top) === 0 ? 0 : divisor)) & (top * 2 - 1);
    }
    return rest;
  }
});

test("a worker that cannot start is an error", async () => {
  const worker = workerFile("broken.ts", "throw new Error('broken');");
  const transcode = started({ worker, stepMsMax: 5000 });
  expect(await failureOf(transcode.make("pcm", "wav"))).toContain("worker ended");
});

test("the worker ends when it is idle for a while, and starts again on the next use", async () => {
  const log = join(directory, "starts");
  writeFileSync(log, "");
  const worker = workerFile(
    "counted.ts",
    `import { appendFileSync } from "node:fs";
     appendFileSync(${JSON.stringify(log)}, "start\\n");
     import ${JSON.stringify(join(codecs, "worker.ts"))};`,
  );
  const starts = async (): Promise<number> => (await Bun.file(log).text()).split("\n").length - 1;
  const transcode = started({ worker, idleMs: 150 });
  const held = await made(transcode, "pcm", "wav");
  await transcoded(transcode, "pcm", "wav", new Uint8Array(100));
  await Bun.sleep(400);
  // It has one in it still.
  await held.push(new Uint8Array(100));
  await held.end();
  expect(await starts()).toBe(1);
  await eventually("the worker starts again", async () => {
    await Bun.sleep(300);
    await transcoded(transcode, "pcm", "wav", new Uint8Array(100));
    return (await starts()) > 1;
  });
});

test("stop fails the calls that are running", async () => {
  const transcode = started();
  const transcoder = await made(transcode, "pcm", "opus");
  const pushed = transcoder.push(new Uint8Array(24_000 * 2 * 30)).catch((error: unknown) => error);
  transcode.stop();
  expect(await pushed).toBeInstanceOf(Error);
});

describe("without installed codecs", () => {
  test("there are no transcoders: no files", async () => {
    expect(await started({ worker: pathToFileURL(join(directory, "absent.ts")) }).make("mp3", "wav")).toBeNull();
  });

  test("there are none for the pairs whose packages are missing", async () => {
    const lonely = join(directory, "lonely/packages/embedded/src/codecs");
    cpSync(codecs, lonely, { recursive: true });
    const transcode = started({ worker: pathToFileURL(join(lonely, "worker.ts")) });
    for (const format of ["mp3", "opus", "aac", "flac"] as const) expect(await transcode.make("pcm", format)).toBeNull();
    for (const format of ["mp3", "opus", "aac"] as const) expect(await transcode.make(format, "pcm")).toBeNull();
    // These need no package.
    await expectSpoken("wav", await transcoded(transcode, "pcm", "wav", await encoded("pcm")));
  });
});

function started(options: Parameters<typeof makeTranscode>[0] = {}): Transcode {
  const transcode = makeTranscode(options);
  running.push(transcode);
  return transcode;
}

async function made(transcode: Transcode, from: AudioFormat, to: AudioFormat): Promise<Transcoder> {
  const transcoder = await transcode.make(from, to);
  if (transcoder === null) throw new Error("the codecs are not installed");
  return transcoder;
}

async function transcoded(transcode: Transcode, from: AudioFormat, to: AudioFormat, input: Uint8Array): Promise<Uint8Array> {
  const transcoder = await made(transcode, from, to);
  return Buffer.concat([await transcoder.push(input), await transcoder.end()]);
}

const inputs = new Map<AudioFormat, Uint8Array>();

async function encoded(format: AudioFormat): Promise<Uint8Array> {
  const known = inputs.get(format);
  if (known !== undefined) return known;
  const encoder = await makeEncoder(format, { sampleRate: 24_000 });
  const bytes = Uint8Array.from(Buffer.concat([encoder.push(spoken).slice(), encoder.end().slice()]));
  inputs.set(format, bytes);
  return bytes;
}

async function expectSpoken(format: AudioFormat, bytes: Uint8Array): Promise<void> {
  const decoder = await makeDecoder(format);
  const decoded = [decoder.push(bytes), decoder.end()];
  decoder.destroy();
  const actual = resample(joinedSamples(decoded.map(({ samples }) => samples)), decoded[0]!.sampleRate, 24_000);
  // Two lossy formats in a row each add their delay.
  expect(Math.abs(actual.length / 24_000 - seconds)).toBeLessThan(0.12);
  expect(likeness(spoken, actual, 3000).correlation).toBeGreaterThan(0.97);
}

/** Why it failed; empty where it did not. (The test runner's own `rejects` waits without hearing the worker.) */
function failureOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "",
    (error: unknown) => String(error),
  );
}

function workerFile(name: string, code: string): URL {
  const path = join(directory, name);
  writeFileSync(path, code);
  return pathToFileURL(path);
}
