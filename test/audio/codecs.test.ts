import { describe, expect, test, setDefaultTimeout } from "bun:test";
import { UndecodableAudio, type DecodedAudio } from "../../packages/embedded/src/codecs/codec.ts";
import { join } from "node:path";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import fc from "fast-check";
import { makeDecoder } from "../../packages/embedded/src/codecs/decode.ts";
import { makeEncoder } from "../../packages/embedded/src/codecs/encode.ts";
import { resample } from "../../packages/embedded/src/codecs/resample.ts";
import { audioFormats, type AudioFormat } from "../../src/media/audio.ts";
import { noise } from "../support/noise.ts";
import { numRuns } from "../support/properties.ts";
import { joinedSamples, likeness, loudness, speechLike } from "../support/signal.ts";

// Codecs are work, and the machine may have other work.
setDefaultTimeout(60_000);

const seconds = 3;
const durationMsMax = 60;
const ffmpeg = Bun.which("ffmpeg");
const ffprobe = Bun.which("ffprobe");
const compressed = audioFormats.filter((format) => format !== "pcm");

describe.each(audioFormats.map((format) => [format]))("%s", (format) => {
  test.each([24_000, 16_000, 44_100, 48_000, 22_050])("holds what was put into it at %i Hz", async (sampleRate) => {
    const samples = speechLike(sampleRate, seconds);
    const { bytes } = await encode(format, samples, sampleRate);
    const decoded = await decode(format, [bytes]);
    expectSame(samples, sampleRate, decoded);
  });

  test("comes out while the samples still go in", async () => {
    const { bytes, firstAt, largest } = await encode(format, speechLike(24_000, seconds), 24_000);
    // The first bytes are there within a tenth of a second of audio, and no later piece is more than a second's share.
    expect(firstAt).toBeLessThanOrEqual(24_000 / 10);
    expect(largest).toBeLessThan(bytes.length / seconds);
  });

  test("plays before it is whole", async () => {
    const { bytes } = await encode(format, speechLike(24_000, seconds), 24_000);
    const decoder = await makeDecoder(format);
    const { samples, sampleRate } = decoder.push(bytes.subarray(0, bytes.length / 2));
    decoder.destroy();
    expect(samples.length / sampleRate).toBeGreaterThan(0.6);
  });

  test("reads the same however it is cut", async () => {
    const { bytes } = await encode(format, speechLike(24_000, 1), 24_000);
    const whole = await decode(format, [bytes]);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 0, max: bytes.length }), { maxLength: 60 }), async (places) => {
        const cuts = [0, ...places.toSorted((a, b) => a - b), bytes.length];
        const pieces = cuts.slice(1).map((end, index) => bytes.subarray(cuts[index], end));
        const decoded = await decode(format, pieces);
        expect(decoded.sampleRate).toBe(whole.sampleRate);
        expect(Buffer.from(decoded.samples.buffer).equals(Buffer.from(whole.samples.buffer))).toBe(true);
      }),
      { numRuns: 12 },
    );
    const byByte = await decode(
      format,
      Array.from(bytes.subarray(0, 6000), (byte) => Uint8Array.of(byte)),
      { cutShort: true },
    );
    const together = await decode(format, [bytes.subarray(0, 6000)], { cutShort: true });
    expect(byByte.samples).toEqual(together.samples);
  });

  test("of no samples at all is still what it says", async () => {
    const { bytes } = await encode(format, new Float32Array(0), 24_000);
    const { samples, sampleRate } = await decode(format, [bytes]);
    expect(samples.length / sampleRate).toBeLessThanOrEqual(durationMsMax / 1000);
  });

  test("bears samples that are too loud, and none at all in the middle of others", async () => {
    const samples = speechLike(24_000, 1).map((sample, index) => (index % 1000 === 0 ? Number.NaN : sample * 4));
    const { bytes } = await encode(format, samples, 24_000);
    const decoded = await decode(format, [bytes]);
    expect(decoded.samples.every((sample) => Math.abs(sample) < 4)).toBe(true);
    expect(decoded.samples.length / decoded.sampleRate).toBeGreaterThan(0.9);
  });

  test("can be given up at any time", async () => {
    const encoder = await makeEncoder(format, { sampleRate: 24_000 });
    encoder.push(speechLike(24_000, 0.5));
    encoder.destroy();
    encoder.destroy();
    const decoder = await makeDecoder(format);
    decoder.destroy();
    decoder.destroy();
    expect((await encode(format, speechLike(24_000, 0.5), 24_000)).bytes.length).toBeGreaterThan(0);
  });

  test("is made many times over without growing", async () => {
    const samples = speechLike(24_000, 0.2);
    const round = async (): Promise<void> => {
      const { bytes } = await encode(format, samples, 24_000);
      await decode(format, [bytes]);
    };
    for (let index = 0; index < 10; index++) await round();
    Bun.gc(true);
    const before = process.memoryUsage().rss;
    const rounds = numRuns(20);
    for (let index = 0; index < rounds; index++) await round();
    Bun.gc(true);
    expect(process.memoryUsage().rss - before).toBeLessThan(rounds * 3 * 1024 * 1024);
  });
});

describe.each(compressed.map((format) => [format]))("what is no %s", (format) => {
  const rubbish: readonly (readonly [what: string, bytes: Uint8Array])[] = [
    ["text", new TextEncoder().encode('{"error":{"message":"no such voice"}}'.repeat(400))],
    ["zeros", new Uint8Array(100_000)],
    ["noise", noise(300_000)],
    ["nothing", new Uint8Array(0)],
    ["a single byte", Uint8Array.of(0xff)],
  ];

  test.each(rubbish)("is an error: %s", async (_, bytes) => {
    expect(await failureOf(decode(format, [bytes]))).toBeInstanceOf(UndecodableAudio);
  });

  test("damaged, is either read or an error, and never the end of others", async () => {
    const { bytes } = await encode(format, speechLike(24_000, 1), 24_000);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(bytes.length - 1), fc.nat(255)), { minLength: 1, maxLength: 40 }),
        fc.nat(bytes.length),
        async (changes, end) => {
          const damaged = bytes.slice();
          for (const [at, byte] of changes) damaged[at] = byte;
          const outcome = await decode(format, [damaged.subarray(0, end)]).catch((error: unknown) => error);
          if (outcome instanceof Error) expect(outcome).toBeInstanceOf(UndecodableAudio);
          else expect((outcome as DecodedAudio).samples.length).toBeLessThan(48_000 * 60);
        },
      ),
      { numRuns: 40 },
    );
    expectSame(speechLike(24_000, 1), 24_000, await decode(format, [bytes]));
  });
});

describe("many at a time", () => {
  test.each(audioFormats.map((format) => [format]))("do not disturb one another (%s)", async (format) => {
    const samples = speechLike(24_000, 0.5);
    const encoders = await Promise.all(Array.from({ length: numRuns(10) }, () => makeEncoder(format, { sampleRate: 24_000 })));
    const pieces = encoders.map((): Uint8Array[] => []);
    for (let at = 0; at < samples.length; at += 2400) {
      encoders.forEach((encoder, index) => pieces[index]!.push(encoder.push(samples.subarray(at, at + 2400)).slice()));
    }
    encoders.forEach((encoder, index) => pieces[index]!.push(encoder.end().slice()));
    for (const encoder of encoders) encoder.destroy();
    expectSame(samples, 24_000, await decode(format, pieces[0]!));
    expectSame(samples, 24_000, await decode(format, pieces.at(-1)!));
  });
});

test("the codecs leave no handlers on the process and say nothing", async () => {
  const script = `
    import { makeEncoder } from ${JSON.stringify(join(import.meta.dir, "../../packages/embedded/src/codecs/encode.ts"))};
    import { makeDecoder } from ${JSON.stringify(join(import.meta.dir, "../../packages/embedded/src/codecs/decode.ts"))};
    const handlers = () => ["uncaughtException", "unhandledRejection", "exit", "SIGINT", "SIGTERM"].map((event) => process.listenerCount(event)).join();
    const mangled = (bytes) => bytes.map((byte, index) => (index > 200 && index % 23 === 0 ? byte ^ noise[index % noise.length] : byte));
    const before = handlers();
    const noise = crypto.getRandomValues(new Uint8Array(60_000));
    for (const format of ${JSON.stringify(audioFormats)}) {
      const encoder = await makeEncoder(format, { sampleRate: 24_000 });
      const bytes = encoder.push(new Float32Array(48_000).fill(0.1)).slice();
      encoder.end();
      for (const input of [bytes, noise, Buffer.concat([bytes, noise, bytes]), mangled(bytes)]) {
        const decoder = await makeDecoder(format);
        try { decoder.push(input); decoder.end(); } catch {}
        decoder.destroy();
      }
    }
    if (handlers() !== before) throw new Error("handlers: " + before + " became " + handlers());
  `;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "pipe" });
  const [out, error, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  expect({ out, error, code }).toEqual({ out: "", error: "", code: 0 });
});

describe.skipIf(ffmpeg === null || ffprobe === null)("to a program that no one here wrote", () => {
  const names = { mp3: "mp3", opus: "opus", aac: "aac", flac: "flac", wav: "pcm_s16le" } as const;

  test.each(compressed.map((format) => [format]))("%s is what it says, as long as it should be, and sounds so", async (format) => {
    const samples = speechLike(24_000, seconds);
    const { bytes } = await encode(format, samples, 24_000);
    const directory = mkdtempSync(join(tmpdir(), "sluice-codecs-"));
    try {
      const file = join(directory, `speech.${format === "opus" ? "ogg" : format}`);
      await Bun.write(file, bytes);
      const entries = ["-show_entries", "stream=codec_name,channels", "-of", "csv=p=0"];
      const probed = Bun.spawnSync([ffprobe!, "-v", "error", ...entries, file], { timeout: 55_000 });
      expect(probed.stderr.toString()).toBe("");
      expect(probed.stdout.toString().trim()).toBe(`${names[format]},1`);
      const played = Bun.spawnSync([ffmpeg!, "-v", "error", "-i", file, "-f", "f32le", "-ar", "24000", "-ac", "1", "-"], {
        timeout: 55_000,
      });
      expect(played.stderr.toString()).toBe("");
      expectSame(samples, 24_000, { samples: new Float32Array(Uint8Array.from(played.stdout).buffer), sampleRate: 24_000 });
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});

async function encode(
  format: AudioFormat,
  samples: Float32Array,
  sampleRate: number,
): Promise<{ readonly bytes: Uint8Array; readonly firstAt: number; readonly largest: number }> {
  const encoder = await makeEncoder(format, { sampleRate });
  const pieces: Uint8Array[] = [];
  let firstAt = Infinity;
  const step = sampleRate / 50;
  for (let at = 0; at < samples.length; at += step) {
    const piece = encoder.push(samples.subarray(at, at + step)).slice();
    if (piece.length > 0) firstAt = Math.min(firstAt, at + step);
    pieces.push(piece);
  }
  pieces.push(encoder.end().slice());
  encoder.destroy();
  return { bytes: new Uint8Array(Buffer.concat(pieces)), firstAt, largest: Math.max(...pieces.map(({ length }) => length)) };
}

async function decode(format: AudioFormat, pieces: readonly Uint8Array[], { cutShort = false } = {}): Promise<DecodedAudio> {
  const decoder = await makeDecoder(format);
  try {
    const decoded = pieces.map((piece) => decoder.push(piece));
    if (!cutShort) decoded.push(decoder.end());
    const sampleRate = decoded.findLast((piece) => piece.sampleRate > 0)?.sampleRate ?? 0;
    return { samples: joinedSamples(decoded.map((piece) => piece.samples)), sampleRate };
  } finally {
    decoder.destroy();
  }
}

function expectSame(samples: Float32Array, sampleRate: number, decoded: DecodedAudio): void {
  const actual = resample(decoded.samples, decoded.sampleRate, sampleRate);
  expect((Math.abs(actual.length - samples.length) / sampleRate) * 1000).toBeLessThanOrEqual(durationMsMax);
  const { correlation, lag } = likeness(samples, actual, Math.round((sampleRate * durationMsMax) / 1000));
  expect(correlation).toBeGreaterThan(0.98);
  const heard = actual.subarray(lag, lag + samples.length);
  // LAME turns everything down by a twentieth.
  expect(loudness(heard) / loudness(samples)).toBeWithin(0.94, 1.05);
}

function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => null,
    (error: unknown) => error,
  );
}
