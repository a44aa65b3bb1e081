import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { audioEnd } from "../../../src/media/end/audio-end.ts";
import { lookAheadBytesMax, recognise, type Recognised } from "../../../src/media/audio-sniff.ts";
import { audioFormats, type AudioFormat } from "../../../src/media/audio.ts";
import { frameHeaderAt } from "../../../src/media/containers/mpeg-frame.ts";
import { sizedWav, tone } from "../../support/speech-world.ts";

// Real encoders are loaded first; no clock is judged here.
setDefaultTimeout(60_000);

const real = new Map<AudioFormat, Uint8Array>();
const flacMs = 1500;
let flac: Uint8Array;

beforeAll(async () => {
  flac = await tone("flac", flacMs);
  for (const format of audioFormats) real.set(format, await tone(format));
});

/** As if it had been asked for the format, unless told otherwise. */
function seen(bytes: Uint8Array | string, bare = false, ended = true): Recognised {
  return recognise(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes, { ended, bare });
}

function id3(length: number): Uint8Array {
  const size = [21, 14, 7, 0].map((shift) => (length >> shift) & 0x7f);
  return new Uint8Array(Buffer.concat([Buffer.from("ID3\x04\x00\x00", "latin1"), Buffer.from(size), Buffer.alloc(length)]));
}

describe("audio", () => {
  test.each(audioFormats)("of the format %s is recognised whatever was asked for, bare samples only where they were", (format) => {
    const bytes = real.get(format)!;
    expect(bytes.length).toBeGreaterThan(200);
    expect(seen(bytes, true)).toBe(format);
    if (format === "pcm") expect(seen(bytes)).toHaveProperty("wrong");
    else expect(seen(bytes)).toBe(format);
  });

  test.each(audioFormats)("of the format %s is never taken for anything else on the way, and what it is stays so", (format) => {
    const bytes = real.get(format)!;
    let known: Recognised = "more";
    for (let length = 1; length <= bytes.length; length++) {
      const now = seen(bytes.subarray(0, length), format === "pcm", false);
      if (now !== "more" && now !== format) throw new Error(`${length} bytes are called ${JSON.stringify(now)}`);
      if (known === format && now !== format) throw new Error(`${length} bytes are not known any more`);
      known = now;
    }
    expect(known).toBe(format);
  });

  test.each(audioFormats)("of the format %s that ends before its first frame is no audio", (format) => {
    const bytes = real.get(format)!;
    if (format === "pcm") return expect(seen(bytes.subarray(0, 1), true)).toHaveProperty("wrong");
    for (let length = 0; length < bytes.length; length++) {
      const head = bytes.subarray(0, length);
      if (seen(head, false, false) === format) break;
      // One whole frame and nothing behind it: the end itself tells, but only in formats that are nothing but frames.
      const isWhole = seen(head) === format;
      if (isWhole && !["mp3", "aac"].includes(format)) throw new Error(`${length} bytes are called whole`);
      if (!isWhole) expect(seen(head)).toHaveProperty("wrong");
    }
  });

  test.each(["mp3", "aac"] as const)("of the format %s may have tags in front", (format) => {
    const bytes = real.get(format)!;
    for (const tags of [id3(0), id3(1000), Buffer.concat([id3(20), id3(30)])]) {
      expect(seen(Buffer.concat([tags, bytes]))).toBe(format);
      expect(seen(Buffer.concat([tags, bytes]), true)).toBe(format);
    }
    expect(seen(id3(1000))).toHaveProperty("wrong");
    expect(seen(Buffer.concat([id3(lookAheadBytesMax), bytes]), false, false)).toHaveProperty("wrong");
    expect(seen(Buffer.concat([id3(10), Buffer.alloc(5000, 1)]), true)).toHaveProperty("wrong");
  });

  test("is not there before its first sample or packet, even if all of its head is", () => {
    const wav = sizedWav(real.get("pcm")!);
    expect(seen(wav.subarray(0, 45), false, false)).toBe("more");
    expect(seen(wav.subarray(0, 46), false, false)).toBe("wav");
    const ogg = real.get("opus")!;
    const third = Buffer.from(ogg).indexOf("OggS", Buffer.from(ogg).indexOf("OpusTags"));
    expect(seen(ogg.subarray(0, third + 27), false, false)).toBe("more");
    expect(seen(ogg.subarray(0, third))).toHaveProperty("wrong");
  });

  test("is not what merely begins like it", () => {
    expect(seen(Buffer.concat([Buffer.from([0xff, 0xfb, 0x90, 0x00]), Buffer.alloc(2000, 7)]))).toHaveProperty("wrong");
    expect(seen("RIFF\x10\0\0\0AVI LIST" + "\0".repeat(500))).toHaveProperty("wrong");
    expect(seen("OggS\0\x02" + "\0".repeat(20) + "\x01\x1e\x01vorbis" + "\0".repeat(500))).toHaveProperty("wrong");
    expect(seen("fLaC\x04\0\0\x10" + "\0".repeat(500))).toHaveProperty("wrong");
    const flac = new Uint8Array(real.get("flac")!);
    const frame = Buffer.from(flac).indexOf(Buffer.from([0xff, 0xf8]));
    flac[frame + 4]! ^= 1;
    expect(seen(flac)).toHaveProperty("wrong");
  });

  test.each([
    ["a page", "<!DOCTYPE html><html><body>Bad gateway</body></html>"],
    ["JSON", '{"error":{"message":"no"}}'],
    ["text", "upstream connect error or disconnect/reset before headers. ".repeat(20)],
    ["text of another script", Buffer.from("服务器内部错误。".repeat(40)).toString("latin1")],
    ["events", 'data: {"type":"speech.audio.delta"}\n\n'],
    ["nothing", ""],
    ["MP4", "\0\0\0\x20ftypM4A " + "\0".repeat(600)],
    ["WebM", "\x1aE\xdf\xa3" + "\0".repeat(600)],
    ["something packed", "\x1f\x8b\x08" + "\0".repeat(600)],
  ])("is not %s, even where bare samples are expected", (_, body) => {
    expect(seen(body)).toHaveProperty("wrong");
    expect(seen(body, true)).toHaveProperty("wrong");
  });

  test("that never comes is not waited for beyond a bound", () => {
    const nothingElse = Buffer.concat([
      Buffer.from("RIFF\0\0\0\0WAVE"),
      Buffer.from("LIST\xff\xff\xff\0", "latin1"),
      Buffer.alloc(lookAheadBytesMax),
    ]);
    expect(seen(nothingElse.subarray(0, lookAheadBytesMax - 1), false, false)).toBe("more");
    expect(seen(nothingElse.subarray(0, lookAheadBytesMax), false, false)).toHaveProperty("wrong");
  });

  test("of bare samples may be silence, noise, or loud", () => {
    expect(seen(Buffer.alloc(480), true, false)).toBe("pcm");
    expect(seen(Buffer.alloc(480, 0xff), true, false)).toBe("pcm");
    expect(seen(Buffer.alloc(2), true)).toBe("pcm");
    expect(seen(Buffer.alloc(479), true, false)).toBe("more");
  });

  test("or anything at all is looked at without an exception, and bytes that decide at once decide alike at the end", () => {
    const begun = fc.constantFrom("", "RIFF", "RIFF\0\0\0\0WAVEfmt ", "OggS\0\x02", "fLaC\0", "ID3", "\xff\xfb\x90", "\xff\xf1\x50");
    fc.assert(
      fc.property(begun, fc.uint8Array({ maxLength: 300 }), fc.boolean(), (mark, rest, bare) => {
        const bytes = Buffer.concat([Buffer.from(mark, "latin1"), rest]);
        const now = seen(bytes, bare, false);
        if (now !== "more") expect(seen(bytes, bare, true)).toEqual(now);
        expect(seen(bytes, bare, true)).not.toBe("more");
      }),
      { numRuns: 1000 },
    );
  });
});

describe("the end of audio", () => {
  function shortAt(format: AudioFormat, bytes: Uint8Array, length: number): string | null {
    const end = audioEnd(format, bytes);
    const wrong = end.push(bytes.subarray(0, length));
    return wrong ?? end.short();
  }

  test("of a WAV with real sizes is its last byte, and not before", () => {
    const wav = sizedWav(real.get("pcm")!.subarray(0, 2000));
    for (let length = 46; length < wav.length; length++) expect(shortAt("wav", wav, length)).not.toBeNull();
    expect(shortAt("wav", wav, wav.length)).toBeNull();
    expect(shortAt("wav", new Uint8Array(Buffer.concat([wav, Buffer.from("LIST\0\0\0\0")])), wav.length + 8)).toBeNull();
  });

  test.each([0, 0x7fff_0000, 0xffff_ffff])("of a WAV that could not know its size (%d) is wherever it ends", (size) => {
    const wav = sizedWav(real.get("pcm")!.subarray(0, 2000));
    new DataView(wav.buffer).setUint32(40, size, true);
    expect(shortAt("wav", wav, 100)).toBeNull();
  });

  test("of an Ogg stream is its last page, however the bytes come", () => {
    const ogg = real.get("opus")!;
    for (let length = 1; length < ogg.length; length++) expect(shortAt("opus", ogg, length)).not.toBeNull();
    expect(shortAt("opus", ogg, ogg.length)).toBeNull();
    const end = audioEnd("opus", ogg);
    for (const byte of ogg) expect(end.push(Uint8Array.of(byte))).toBeNull();
    expect(end.short()).toBeNull();
    expect(end.push(Buffer.from("{"))).not.toBeNull();
  });

  test("of bare samples is behind a whole one", () => {
    expect(shortAt("pcm", real.get("pcm")!, 100)).toBeNull();
    expect(shortAt("pcm", real.get("pcm")!, 101)).not.toBeNull();
  });

  /** Where each frame begins, and the end of the last. */
  function boundaries(bytes: Uint8Array): readonly number[] {
    const found = [0];
    for (let at = 0; at < bytes.length; found.push(at)) {
      const header = frameHeaderAt(bytes, at);
      if (typeof header === "string") throw new Error(`no frame begins at ${at}`);
      at += header.lengthBytes;
    }
    return found;
  }

  test.each(["mp3", "aac"] as const)("of the format %s is between two frames, however the bytes come", (format) => {
    const bytes = real.get(format)!;
    const ends = new Set(boundaries(bytes));
    expect(ends.size).toBeGreaterThan(3);
    expect(ends.has(bytes.length)).toBe(true);
    const end = audioEnd(format, bytes);
    for (let length = 1; length <= bytes.length; length++) {
      expect(end.push(bytes.subarray(length - 1, length))).toBeNull();
      const isWhole = ends.has(length);
      expect([length, end.short() === null, shortAt(format, bytes, length) === null]).toEqual([length, isWhole, isWhole]);
    }
  });

  const texts = Buffer.from(`TAG${"a song".padEnd(125, " ")}`);
  const ape = Buffer.concat([
    Buffer.from("APETAGEX"),
    Buffer.alloc(24, 1),
    Buffer.from("Title of it"),
    Buffer.from("APETAGEX"),
    Buffer.alloc(24, 2),
  ]);

  test.each([
    ["a tag of ID3v1", texts],
    ["a tag of APE", ape],
    ["both", Buffer.concat([ape, texts])],
    ["zeros", Buffer.alloc(5000)],
    ["ones", Buffer.alloc(5000, 0xff)],
    ["a tag of ID3v2 that is cut", id3(500).subarray(0, 300)],
    ["a lone frame's beginning in noise", Buffer.concat([Buffer.alloc(10, 7), Buffer.from([0xff, 0xf3, 0x84, 0xc4, 1, 2, 3])])],
    ["a frame that does not tell its length", Buffer.concat([Buffer.from([0xff, 0xfb, 0x00, 0x00]), Buffer.alloc(700, 7)])],
  ])("of frames may have %s behind it", (_, behind) => {
    for (const format of ["mp3", "aac"] as const) {
      const bytes = new Uint8Array(Buffer.concat([id3(50), real.get(format)!, behind]));
      for (let length = bytes.length - behind.length; length <= bytes.length; length++) {
        // One byte of the mark cannot be told from a frame that was cut.
        if (behind[0] === 0xff && length - (bytes.length - behind.length) < 4) continue;
        expect([format, length, shortAt(format, bytes, length)]).toEqual([format, length, null]);
      }
    }
  });

  test.each(["mp3", "aac"] as const)("of the format %s is found again behind something strange", (format) => {
    const bytes = real.get(format)!;
    const joint = new Uint8Array(Buffer.concat([bytes, texts, Buffer.alloc(300), bytes]));
    expect(shortAt(format, joint, joint.length)).toBeNull();
    expect(shortAt(format, joint, joint.length - 1)).not.toBeNull();
    expect(shortAt(format, joint, joint.length - bytes.length + 50)).toBeNull();
  });

  test("of frames is looked for in anything without an exception, alike however it comes", () => {
    const piece = fc.oneof(
      fc.uint8Array({ maxLength: 60 }),
      fc.constantFrom(
        real.get("mp3")!.subarray(0, 300),
        real.get("aac")!,
        id3(9),
        texts,
        Buffer.from([0xff]),
        Buffer.from([0xff, 0xf1, 0x50]),
      ),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), fc.constantFrom("mp3" as const, "aac" as const), (pieces, format) => {
        const bytes = new Uint8Array(Buffer.concat(pieces));
        const end = audioEnd(format, bytes);
        for (const byte of bytes) end.push(Uint8Array.of(byte));
        expect(end.short()).toEqual(shortAt(format, bytes, bytes.length));
      }),
      { numRuns: 300 },
    );
  });

  /** With the number of samples that the encoder did not know when it began. */
  function countedFlac(samples: number): Uint8Array {
    const bytes = new Uint8Array(flac);
    const view = new DataView(bytes.buffer);
    view.setUint8(21, (view.getUint8(21) & 0xf0) | Math.floor(samples / 2 ** 32));
    view.setUint32(22, samples % 2 ** 32);
    return bytes;
  }

  test("of a FLAC that counts its samples is not before the frame that brings the last", () => {
    const samples = 24 * flacMs;
    const bytes = countedFlac(samples);
    const whole = shortAt("flac", bytes, bytes.length);
    expect(whole).toBeNull();
    let lengths = 0;
    for (let length = 8000; length <= bytes.length; length += 97) if (shortAt("flac", bytes, length) !== null) lengths = length;
    expect(lengths).toBeGreaterThan(bytes.length * 0.7);
    for (let length = 8000; length < lengths; length += 97) expect(shortAt("flac", bytes, length)).not.toBeNull();
    expect(shortAt("flac", countedFlac(samples + 1), bytes.length)).not.toBeNull();
    const end = audioEnd("flac", bytes);
    for (const byte of bytes) end.push(Uint8Array.of(byte));
    expect(end.short()).toBeNull();
  });

  test("of a FLAC that does not count them is wherever it ends", () => {
    for (let length = 500; length < flac.length; length += 997) expect(shortAt("flac", countedFlac(0), length)).toBeNull();
  });
});
