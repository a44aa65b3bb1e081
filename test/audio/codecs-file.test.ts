import { afterAll, describe, expect, test, setDefaultTimeout } from "bun:test";
import fc from "fast-check";
import { MkvOutputFormat, Mp4OutputFormat, WebMOutputFormat } from "mediabunny";
import { decodeFile, fileSecondsMax, UndecodableAudio } from "../../packages/embedded/src/codecs/decode-file.ts";
import { makeEncoder } from "../../packages/embedded/src/codecs/encode.ts";
import { resample } from "../../packages/embedded/src/codecs/resample.ts";
import { DamagedAudio } from "../support/damaged-audio.ts";
import { noise } from "../support/noise.ts";
import { filesOf, id3Tag, remux, vorbisOf } from "../support/audio-files.ts";
import { numRuns } from "../support/properties.ts";
import { likeness, loudness, speechLike } from "../support/signal.ts";

// Codecs are work, and the machine may have other work.
setDefaultTimeout(60_000);

const seconds = 2;
const spoken = speechLike(24_000, seconds);
const ffmpeg = Bun.which("ffmpeg");

const encode = filesOf(spoken, 24_000);
/** One thread for all files, as long as it lives: it takes longer to start than to decode. */
const damagedAudio = new DamagedAudio();
afterAll(() => damagedAudio[Symbol.dispose]());

const files: readonly (readonly [name: string, make: () => Promise<Uint8Array>])[] = [
  ["mp3", () => encode("mp3")],
  ["mp3 with a picture in front", async () => Buffer.concat([id3Tag(300_000), await encode("mp3")])],
  ["mp3 cut out of a stream", async () => (await encode("mp3")).subarray(100)],
  ["bare AAC", () => encode("aac")],
  ["flac", () => encode("flac")],
  ["wav", () => encode("wav")],
  ["ogg with opus", () => encode("opus")],
  ["ogg with vorbis", () => vorbisOf(spoken, 24_000)],
  ["m4a", async () => remux(await encode("aac"), new Mp4OutputFormat())],
  ["m4a with its index in front", async () => remux(await encode("aac"), new Mp4OutputFormat({ fastStart: "in-memory" }))],
  ["mp4 in fragments", async () => remux(await encode("aac"), new Mp4OutputFormat({ fastStart: "fragmented" }))],
  ["mp4 with opus", async () => remux(await encode("opus"), new Mp4OutputFormat())],
  ["mp4 with flac", async () => remux(await encode("flac"), new Mp4OutputFormat())],
  ["webm with opus", async () => remux(await encode("opus"), new WebMOutputFormat())],
  ["webm with vorbis", async () => remux(await vorbisOf(spoken, 24_000), new WebMOutputFormat())],
  ["mkv with AAC", async () => remux(await encode("aac"), new MkvOutputFormat())],
  ["mkv with mp3", async () => remux(await encode("mp3"), new MkvOutputFormat())],
];

describe.each(files)("%s", (_, make) => {
  test("is read, whatever its name", async () => {
    expectSpoken(await decodeFile(await make()));
  });

  test("is read at the rate that is asked for", async () => {
    const decoded = await decodeFile(await make(), { sampleRate: 16_000 });
    expect(decoded.sampleRate).toBe(16_000);
    expectSpoken(decoded);
  });

  test("cut short or damaged is read or refused, and nothing worse", async () => {
    const whole = await make();
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(Math.min(whole.length - 1, 4000)), fc.nat(255)), { maxLength: 12 }),
        fc.oneof(fc.nat(whole.length), fc.constant(whole.length)),
        async (changes, end) => {
          const damaged = whole.slice();
          for (const [at, byte] of changes) damaged[at] = byte;
          expect(["read", "refused", "ended"]).toContain(await damagedAudio.outcome(damaged.subarray(0, end)));
        },
      ),
      { numRuns: numRuns(8) },
    );
  });
});

describe("a wav file", () => {
  const kinds: readonly (readonly [name: string, options: WavOptions])[] = [
    ["8 bit", { bits: 8, code: 1 }],
    ["16 bit", { bits: 16, code: 1 }],
    ["24 bit", { bits: 24, code: 1 }],
    ["32 bit", { bits: 32, code: 1 }],
    ["float", { bits: 32, code: 3 }],
    ["double", { bits: 64, code: 3 }],
    ["extensible 24 bit", { bits: 24, code: 1, extensible: true }],
    ["extensible float", { bits: 32, code: 3, extensible: true }],
    ["stereo", { bits: 16, code: 1, channels: 2 }],
    ["six channels", { bits: 24, code: 1, channels: 6 }],
    ["44.1 kHz", { bits: 16, code: 1, sampleRate: 44_100 }],
    ["8 kHz", { bits: 16, code: 1, sampleRate: 8000 }],
    ["with odd chunks in front", { bits: 16, code: 1, chunks: [7, 0, 1, 5000] }],
    ["with the greatest size", { bits: 16, code: 1, size: 0xff_ff_ff_ff }],
    ["with no size", { bits: 16, code: 1, size: 0 }],
    ["with chunks behind", { bits: 16, code: 1, tail: 999 }],
  ];

  test.each(kinds)("is read: %s", async (_, options) => {
    const sampleRate = options.sampleRate ?? 24_000;
    const samples = speechLike(sampleRate, 1);
    const decoded = await decodeFile(wav(samples, { ...options, sampleRate }));
    expect(decoded.sampleRate).toBe(sampleRate);
    expect(decoded.samples.length).toBe(samples.length);
    const error = Math.max(...decoded.samples.map((sample, index) => Math.abs(sample - samples[index]!)));
    expect(error).toBeLessThan(options.bits === 8 ? 0.01 : 1e-4);
  });

  const wrong: readonly (readonly [name: string, options: WavOptions])[] = [
    ["of an unknown code", { bits: 16, code: 85 }],
    ["of 12 bit in three bytes and no channels", { bits: 24, code: 1, channels: 0 }],
    ["at no rate", { bits: 16, code: 1, sampleRate: 0 }],
    ["at a rate beyond all", { bits: 16, code: 1, sampleRate: 4_000_000_000 }],
  ];

  test.each(wrong)("is refused: %s", async (_, options) => {
    await expect(decodeFile(wav(new Float32Array(100), options))).rejects.toBeInstanceOf(UndecodableAudio);
  });
});

describe("a file that is no audio", () => {
  const others: readonly (readonly [name: string, bytes: Uint8Array])[] = [
    ["nothing", new Uint8Array(0)],
    ["text", new TextEncoder().encode("This is not audio. ".repeat(5000))],
    ["zeros", new Uint8Array(200_000)],
    ["noise", noise(60_000)],
    ["a picture", Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), noise(60_000)])],
    ["an ogg mark and noise", Buffer.concat([Buffer.from("OggS"), noise(60_000)])],
    ["an mp4 mark and noise", Buffer.concat([Buffer.from("\0\0\0\x18ftypM4A ", "latin1"), noise(60_000)])],
    ["a webm mark and noise", Buffer.concat([Buffer.from([0x1a, 0x45, 0xdf, 0xa3]), noise(60_000)])],
    ["a flac mark and noise", Buffer.concat([Buffer.from("fLaC"), noise(60_000)])],
    ["a wav mark and noise", Buffer.concat([Buffer.from("RIFF\0\0\0\0WAVE", "latin1"), noise(60_000)])],
    ["a tag and nothing behind it", id3Tag(1000)],
    ["a tag that is longer than the file", id3Tag(1000).subarray(0, 500)],
  ];

  test.each(others)("is refused: %s", async (_, bytes) => {
    const error = await decodeFile(bytes).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(UndecodableAudio);
    expect((error as Error).message).toMatch(/^[A-Z].*\.$/);
  });
});

test("a file that is too long is refused while it is read, and silence packed small is as long as it is", async () => {
  const encoder = await makeEncoder("flac", { sampleRate: 48_000 });
  const bytes = Buffer.concat([encoder.push(new Float32Array(48_000 * 60)).slice(), encoder.end().slice()]);
  const refused = await decodeFile(bytes, { secondsMax: 20 }).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(UndecodableAudio);
  expect((refused as Error).message).toContain("too long");
  expect((await decodeFile(bytes, { secondsMax: 60 })).samples.length).toBe(48_000 * 60);
  expect(fileSecondsMax).toBe(2 * 60 * 60);
});

/** As loud in both as it was in one. */
const stereo = ["-af", "pan=stereo|c0=c0|c1=c0"];

describe.skipIf(ffmpeg === null)("a file that another program wrote", () => {
  const kinds: readonly (readonly [name: string, extension: string, options: readonly string[]])[] = [
    ["stereo mp3 at 44.1 kHz", "mp3", ["-ar", "44100", ...stereo, "-c:a", "libmp3lame"]],
    ["mpeg layer 2", "mp2", ["-ar", "44100", "-c:a", "mp2"]],
    ["stereo m4a", "m4a", ["-ar", "44100", ...stereo, "-c:a", "aac"]],
    ["stereo webm with opus", "webm", [...stereo, "-c:a", "libopus"]],
    ["webm with vorbis", "webm", ["-ar", "44100", ...stereo, "-c:a", "libvorbis"]],
    ["ogg with stereo opus", "ogg", [...stereo, "-c:a", "libopus"]],
    ["ogg with vorbis", "ogg", ["-ar", "22050", "-c:a", "libvorbis"]],
    ["ogg with flac", "oga", ["-c:a", "flac"]],
    ["24 bit flac of the highest compression", "flac", [...stereo, "-sample_fmt", "s32", "-compression_level", "12", "-c:a", "flac"]],
    ["flac of the lowest compression", "flac", ["-compression_level", "0", "-c:a", "flac"]],
  ];

  test.each(kinds)("is read: %s", async (_, extension, options) => {
    const path = `${process.env["TMPDIR"] ?? "/tmp"}/sluice-codecs-${crypto.randomUUID()}.${extension}`;
    const command = [ffmpeg!, "-v", "error", "-f", "f32le", "-ar", "24000", "-ac", "1", "-i", "-", ...options, path];
    const made = Bun.spawnSync(command, { stdin: new Uint8Array(spoken.buffer), timeout: 55_000 });
    expect(made.stderr.toString()).toBe("");
    const file = Bun.file(path);
    const bytes = new Uint8Array(await file.arrayBuffer());
    await file.delete();
    expectSpoken(await decodeFile(bytes));
  });
});

function expectSpoken({ samples, sampleRate }: { readonly samples: Float32Array; readonly sampleRate: number }): void {
  const actual = resample(samples, sampleRate, 24_000);
  expect(Math.abs(actual.length / 24_000 - seconds)).toBeLessThanOrEqual(0.1);
  const { correlation } = likeness(spoken, actual, 2000);
  expect(correlation).toBeGreaterThan(0.98);
  expect(loudness(actual) / loudness(spoken)).toBeWithin(0.9, 1.05);
}

interface WavOptions {
  readonly bits: 8 | 16 | 24 | 32 | 64;
  readonly code: number;
  readonly extensible?: boolean;
  readonly channels?: number;
  readonly sampleRate?: number;
  /** Sizes of chunks between the header and the audio. */
  readonly chunks?: readonly number[];
  readonly size?: number;
  readonly tail?: number;
}

function wav(
  samples: Float32Array,
  { bits, code, extensible = false, channels = 1, sampleRate = 24_000, ...rest }: WavOptions,
): Uint8Array {
  const sampleBytes = bits / 8;
  const audio = Buffer.alloc(samples.length * channels * sampleBytes);
  samples.forEach((sample, index) => {
    for (let channel = 0; channel < channels; channel++) {
      // Channels differ, and are on average what they should be.
      const value = sample + (channels > 1 ? (channel - (channels - 1) / 2) * 0.05 : 0);
      write(audio, (index * channels + channel) * sampleBytes, value, bits, code);
    }
  });
  const format = Buffer.alloc(extensible ? 40 : 16);
  format.writeUInt16LE(extensible ? 0xff_fe : code, 0);
  format.writeUInt16LE(channels, 2);
  format.writeUInt32LE(sampleRate, 4);
  format.writeUInt32LE((sampleRate * channels * sampleBytes) % 2 ** 32, 8);
  format.writeUInt16LE(channels * sampleBytes, 12);
  format.writeUInt16LE(bits, 14);
  if (extensible) {
    format.writeUInt16LE(22, 16);
    format.writeUInt16LE(bits, 18);
    format.writeUInt16LE(code, 24);
  }
  const between = (rest.chunks ?? []).map((size) => chunk("junk", Buffer.alloc(size, 0x64)));
  const behind = rest.tail === undefined ? [] : [chunk("LIST", Buffer.alloc(rest.tail, 0x7f))];
  const body = [Buffer.from("WAVE"), chunk("fmt ", format), ...between, chunk("data", audio, rest.size), ...behind];
  return Uint8Array.from(chunk("RIFF", Buffer.concat(body)));
}

function chunk(name: string, body: Buffer, size = body.length): Buffer {
  const head = Buffer.alloc(8);
  head.write(name, "latin1");
  head.writeUInt32LE(size, 4);
  return Buffer.concat([head, body, Buffer.alloc(body.length % 2)]);
}

function write(buffer: Buffer, at: number, value: number, bits: number, code: number): void {
  if (code === 3) {
    if (bits === 64) buffer.writeDoubleLE(value, at);
    else buffer.writeFloatLE(value, at);
  } else if (bits === 8) {
    buffer.writeUInt8(Math.round(value * 127) + 128, at);
  } else {
    buffer.writeIntLE(Math.round(value * (2 ** (bits - 1) - 1)), at, bits / 8);
  }
}
