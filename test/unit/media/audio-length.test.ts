import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { MkvOutputFormat, Mp4OutputFormat, WebMOutputFormat } from "mediabunny";
import { createEncoder } from "wasm-media-encoders";
import { audioFacts } from "../../../src/media/length/audio-length.ts";
import { meteredLength } from "../../../src/operations/transcription/transcription-usage.ts";
import type { StoredFile } from "../../../src/media/stored-file.ts";
import { nothingCounted } from "../../../src/operations/usage.ts";
import { filesOf, id3Tag, remux, vorbisOf } from "../../support/audio-files.ts";
import { numRuns } from "../../support/properties.ts";
import { speechLike } from "../../support/signal.ts";
import { bytesOf, stored } from "../../support/transcription-world.ts";
import fc from "fast-check";

// Codecs are work, and the machine may have other work.
setDefaultTimeout(60_000);

const rate = 24_000;
const seconds = 30;
/** Silence first: whoever judges by the beginning alone is far off. */
const spoken = new Float32Array(rate * seconds);
spoken.set(speechLike(rate, 20), rate * 10);

const encode = filesOf(spoken, rate);

const makes: readonly (readonly [name: string, make: () => Promise<Uint8Array>])[] = [
  ["wav", () => encode("wav")],
  ["flac", () => encode("flac")],
  ["flac whose head was written first", async () => withoutTotal(await encode("flac"))],
  ["mp3", () => encode("mp3")],
  ["mp3 of changing rate", mp3OfChangingRate],
  ["mp3 of changing rate that announces nothing", async () => withoutTag(files.get("mp3 of changing rate")!)],
  ["mp3 behind a picture", async () => Buffer.concat([id3Tag(100_000), await encode("mp3")])],
  ["bare AAC", () => encode("aac")],
  ["ogg with opus", () => encode("opus")],
  ["ogg with vorbis", () => vorbisOf(spoken, rate)],
  ["m4a", async () => remux(await encode("aac"), new Mp4OutputFormat())],
  ["m4a with its index in front", async () => remux(await encode("aac"), new Mp4OutputFormat({ fastStart: "in-memory" }))],
  ["mp4 with opus", async () => remux(await encode("opus"), new Mp4OutputFormat())],
  ["webm with opus", async () => remux(await encode("opus"), new WebMOutputFormat())],
  ["mkv with mp3", async () => remux(await encode("mp3"), new MkvOutputFormat())],
];

const files = new Map<string, Uint8Array>();

beforeAll(async () => {
  // Not a buffer, of which a slice is the same memory.
  for (const [name, make] of makes) files.set(name, Uint8Array.from(await make()));
});

describe.each(makes.map(([name]) => name))("%s", (name) => {
  test("says how long it plays", async () => {
    const measured = await audioSeconds(stored(files.get(name)!));
    expect(measured).not.toBeNull();
    expect(Math.abs(measured! - seconds)).toBeLessThanOrEqual(Math.max(0.1, seconds * 0.02));
  });

  test("is read in few and small pieces, whatever is cut off or changed in it", async () => {
    const file = files.get(name)!;
    const change = fc.record({
      keep: fc.integer({ min: 0, max: file.length }),
      noise: fc.array(fc.tuple(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 0, max: 255 })), { maxLength: 8 }),
    });
    await fc.assert(
      fc.asyncProperty(change, async ({ keep, noise }) => {
        const changed = file.slice(0, keep);
        for (const [at, value] of noise) if (at < changed.length) changed[at] = value;
        await expectSane(changed);
      }),
      { numRuns: numRuns(20) },
    );
  });
});

describe("what cannot be told", () => {
  test("is null, for anything behind any mark, at a bounded cost", async () => {
    const marks = ["", "ID3", "RIFF\0\0\0\0WAVE", "RF64\0\0\0\0WAVE", "RIFX\0\0\0\0WAVE", "fLaC", "OggS\0", "\0\0\0\u0010ftypM4A "];
    const heads = [
      ...marks.map(bytesOf),
      Uint8Array.of(0x1a, 0x45, 0xdf, 0xa3),
      Uint8Array.of(0xff, 0xfb, 0x90),
      Uint8Array.of(0xff, 0xf1),
    ];
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...heads), fc.uint8Array({ maxLength: 6000 }), async (head, rest) => {
        await expectSane(Uint8Array.from([...head, ...rest]));
      }),
      { numRuns: numRuns(100) },
    );
  });

  test("is null where rates are zero, lengths absurd and boxes endless", async () => {
    const wav = files.get("wav")!;
    expect(await audioSeconds(stored(patched(wav, 24, [0, 0, 0, 0])))).toBeNull();
    const flac = files.get("flac")!;
    expect(await audioSeconds(stored(patched(flac, 18, [0, 0, 0])))).toBeNull();
    const opus = files.get("ogg with opus")!;
    expect(await audioSeconds(stored(opus.slice(0, 10)))).toBeNull();
    const vorbis = files.get("ogg with vorbis")!;
    expect(await audioSeconds(stored(patched(vorbis, 28 + 12, [0, 0, 0, 0])))).toBeNull();
    // Boxes and chunks without a length, or with one that leads beyond all files.
    const box = [...bytesOf("\0\0\0\0ftypM4A ")];
    expect(
      await audioSeconds(stored(Uint8Array.from([0, 0, 0, 12, ...box.slice(4), 0, 0, 0, 1, ...bytesOf("free"), ...repeated(8, 255)]))),
    ).toBeNull();
    const empties = Array.from({ length: 5000 }, () => [0, 0, 0, 8, ...bytesOf("free")]).flat();
    await expectSane(Uint8Array.from([0, 0, 0, 12, ...box.slice(4), ...empties]));
    const chunks = Array.from({ length: 5000 }, () => [...bytesOf("junk"), 0, 0, 0, 0]).flat();
    await expectSane(Uint8Array.from([...bytesOf("RIFF\0\0\0\0WAVE"), ...chunks]));
  });

  test("is null where the disk fails", async () => {
    const file = files.get("ogg with opus")!;
    const failing: StoredFile = { ...stored(file), read: () => Promise.reject(new Error("the disk failed")) };
    expect(await audioSeconds(failing)).toBeNull();
  });
});

test("a WAV that was streamed plays to its end, and one that was cut plays what is left", async () => {
  const wav = files.get("wav")!;
  for (const placeholder of [0, 255])
    expect(await audioSeconds(stored(patched(wav, 40, repeated(4, placeholder))))).toBeCloseTo(seconds, 3);
  expect(await audioSeconds(stored(wav.slice(0, 44 + rate * 2 * 5)))).toBeCloseTo(5, 3);
});

test("a number of frames that does not go with the size of the file is not believed", async () => {
  const file = files.get("mp3 of changing rate")!;
  const tag = tagOf(file);
  for (const count of [1, 0xffff_ffff]) {
    const bytes = [24, 16, 8, 0].map((shift) => (count >>> shift) & 255);
    expect(await audioSeconds(stored(patched(file, tag + 8, bytes)))).toBeWithin(seconds - 0.6, seconds + 0.6);
  }
});

describe("a length that does not go with the bytes is not believed", () => {
  test("by the head of an Ogg file", async () => {
    const file = files.get("ogg with opus")!;
    const last = Buffer.from(file).lastIndexOf("OggS");
    for (const position of [2000, 2 ** 40]) {
      const changed = Buffer.from(file);
      changed.writeBigInt64LE(BigInt(position), last + 6);
      expect(await audioSeconds(stored(changed))).toBeNull();
    }
  });

  test("by the head of a FLAC file, whose last frame says better", async () => {
    const changed = files.get("flac")!.slice();
    changed.set([0, 0, 0, 1], 22);
    expect(await audioSeconds(stored(changed))).toBeCloseTo(seconds, 1);
  });

  test("by the header of an MP4, where its packets are more, or its bytes", async () => {
    for (const [name, expected] of [
      ["m4a", seconds],
      ["mp4 with opus", null],
    ] as const) {
      const changed = Buffer.from(files.get(name)!);
      changed.writeUInt32BE(1, changed.indexOf("mvhd") + 20);
      const measured = await audioSeconds(stored(changed));
      if (expected === null) expect(measured).toBeNull();
      else expect(measured).toBeCloseTo(expected, 0);
    }
    const endless = Buffer.from(files.get("mp4 with opus")!);
    endless.writeUInt32BE(0xffff_fff0, endless.indexOf("mvhd") + 20);
    expect(await audioSeconds(stored(endless))).toBeNull();
  });

  test("by the head of a WebM file", async () => {
    for (const stated of [0.5, 1e12]) {
      const changed = Buffer.from(files.get("webm with opus")!);
      const at = changed.indexOf(Buffer.from("448988", "hex"));
      changed.writeDoubleBE(stated, at + 3);
      expect(await audioSeconds(stored(changed))).toBeNull();
    }
  });

  test("by the first frame of an mp3", async () => {
    const file = files.get("mp3 of changing rate")!;
    const changed = Buffer.from(file);
    const at = tagOf(file) + 8;
    changed.writeUInt32BE(Math.round(changed.readUInt32BE(at) / 4), at);
    expect(await audioSeconds(stored(changed))).toBeWithin(seconds - 0.6, seconds + 0.6);
  });
});

describe.each(makes.map(([name]) => name))("an upload of %s", (name) => {
  test("that is whole is not taken for one that was cut", async () => {
    expect(await audioFacts(stored(files.get(name)!))).toMatchObject({ isCut: false });
  });

  // Some have their table of contents behind the sound, and some were written before anybody knew how long they would be.
  const isMute = ["m4a", "mp4 with opus", "wav", "flac", "flac whose head was written first"].includes(name);
  test.skipIf(isMute)("that was cut off is known as such, and is as long as what is there", async () => {
    const file = files.get(name)!;
    const sound = name.includes("picture") ? 100_010 : 0;
    // In the middle of a frame, whose lengths are even.
    const facts = await audioFacts(stored(file.slice(0, sound + Math.floor((file.length - sound) * 0.6) - 1)));
    expect(facts.isCut).toBe(true);
    expect(facts.seconds).toBeWithin(seconds * 0.5, seconds * 0.8);
  });
});

test("an upload of WAV or FLAC that was cut off is known as such where its head says how long it was", async () => {
  const wav = Buffer.from(files.get("wav")!);
  wav.writeUInt32LE(wav.length - 44, 40);
  expect(await audioFacts(stored(wav))).toMatchObject({ isCut: false });
  expect(await audioFacts(stored(wav.subarray(0, 44 + rate * 2 * 5)))).toEqual({ isCut: true, seconds: 5 });
  const flac = files.get("flac")!.slice();
  flac.set([0, ...[24, 16, 8, 0].map((shift) => ((rate * seconds) >> shift) & 255)].slice(1), 22);
  expect(await audioFacts(stored(flac))).toMatchObject({ isCut: false });
  const { isCut, seconds: left } = await audioFacts(stored(flac.slice(0, Math.floor(flac.length * 0.6))));
  expect(isCut).toBe(true);
  expect(left).toBeWithin(seconds * 0.3, seconds * 0.9);
});

test("AIFF, CAF and ADPCM say how long they play, and whether they were cut", async () => {
  const folder = new URL("../../fixtures/audio/formats/", import.meta.url);
  for (const name of [
    "pcm.aiff",
    "pcm-24.aiff",
    "ulaw.aifc",
    "ima.aifc",
    "float.aifc",
    "pcm.caf",
    "ima.caf",
    "alac.caf",
    "ima.wav",
    "ms-stereo.wav",
  ]) {
    const file = await Bun.file(new URL(name, folder)).bytes();
    const facts = await audioFacts(stored(file));
    expect(facts.seconds).toBeWithin(0.54, 0.8);
    expect(facts.isCut).toBe(false);
    if (name !== "alac.caf") expect(await audioFacts(stored(file.slice(0, Math.floor(file.length * 0.6))))).toMatchObject({ isCut: true });
  }
});

test.each(["bare AAC", "mp3 of changing rate that announces nothing"])("a long file of %s is judged by samples of it", async (name) => {
  const file = files.get(name)!;
  const times = Math.ceil((3 * 1024 * 1024) / file.length);
  const long = new Uint8Array(file.length * times);
  for (let index = 0; index < times; index++) long.set(file, index * file.length);
  const measured = await audioSeconds(stored(long));
  expect(Math.abs(measured! / (seconds * times) - 1)).toBeLessThan(0.1);
  await expectSane(long);
});

describe("what is metered", () => {
  test("is what the upstream says, and else the length of the upload, rounded up and marked", () => {
    const stated = { ...nothingCounted, audioSeconds: 3 };
    expect(meteredLength(stated, 4)).toBe(stated);
    expect(meteredLength(null, null)).toBeNull();
    // Servers that count nothing say so.
    expect(meteredLength({ ...nothingCounted, audioSeconds: 0 }, 4)).toMatchObject({ audioSeconds: 4, estimated: true });
    expect(meteredLength(null, 4.001)).toEqual({ ...nothingCounted, audioSeconds: 4.01, estimated: true });
    expect(meteredLength(null, 1.1)).toMatchObject({ audioSeconds: 1.1 });
    // Six hundred tokens of sound are half a minute at least, whatever the file says.
    expect(meteredLength({ ...nothingCounted, audioInputTokens: 600 }, 1.1)).toMatchObject({ audioSeconds: 30 });
    expect(meteredLength({ ...nothingCounted, promptTokens: 7, audioSeconds: null }, 2)).toMatchObject({
      promptTokens: 7,
      audioSeconds: 2,
    });
  });
});

const audioSeconds = async (file: StoredFile): Promise<number | null> => (await audioFacts(file)).seconds;

/** A length or none, from few reads of bounded size. */
async function expectSane(bytes: Uint8Array): Promise<void> {
  const reads: number[] = [];
  const file = stored(bytes);
  const measured = await audioSeconds({
    ...file,
    read(from, length) {
      reads.push(length);
      return file.read(from, length);
    },
  });
  expect(measured === null || (measured > 0 && measured <= 36_000_000)).toBe(true);
  expect(reads.length).toBeLessThanOrEqual(40);
  expect(Math.max(0, ...reads)).toBeLessThanOrEqual(64 * 1024);
  expect(reads.reduce((sum, length) => sum + length, 0)).toBeLessThanOrEqual(18 * 64 * 1024);
}

function patched(bytes: Uint8Array, at: number, values: readonly number[]): Uint8Array {
  const copy = bytes.slice();
  copy.set(values, at);
  return copy;
}

function repeated(count: number, value: number): readonly number[] {
  return Array.from({ length: count }, () => value);
}

async function mp3OfChangingRate(): Promise<Uint8Array> {
  const wasm = Buffer.from(await Bun.file(new URL(import.meta.resolve("wasm-media-encoders/wasm/mp3"))).arrayBuffer());
  const encoder = await createEncoder("audio/mpeg", await WebAssembly.compile(wasm));
  encoder.configure({ sampleRate: 24_000, channels: 1, vbrQuality: 4 });
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < spoken.length; at += rate) pieces.push(encoder.encode([spoken.subarray(at, at + rate)]).slice());
  const frames = Buffer.concat([...pieces, encoder.finalize().slice()]);
  return Uint8Array.from(Buffer.concat([announcing(frames), frames]));
}

/** A first frame as encoders put it in front once they know how many follow: MPEG 2, 24 kHz, mono, 64 kbit/s. */
function announcing(frames: Uint8Array): Uint8Array {
  const frame = new Uint8Array(192);
  frame.set([0xff, 0xf3, 0x84, 0xc4]);
  frame.set(bytesOf("Xing"), 13);
  let count = 0;
  for (let at = 0; at + 4 <= frames.length; count++) {
    const kilobits = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160][frames[at + 2]! >> 4]!;
    at += Math.floor((72_000 * kilobits) / 24_000) + ((frames[at + 2]! >> 1) & 1);
  }
  frame.set([0, 0, 0, 1, 0, 0, count >> 8, count & 255], 17);
  return frame;
}

function tagOf(file: Uint8Array): number {
  const at = Buffer.from(file).indexOf("Xing");
  if (at < 0) throw new Error("it announces nothing");
  return at;
}

function withoutTag(file: Uint8Array): Uint8Array {
  return file.slice(192);
}

function withoutTotal(file: Uint8Array): Uint8Array {
  return patched(patched(file, 21, [file[21]! & 0xf0]), 22, [0, 0, 0, 0]);
}
