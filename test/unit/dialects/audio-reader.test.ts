import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ReaderTools } from "../../../src/dialects/dialect.ts";
import { audioReader } from "../../../src/dialects/readers/audio-reader.ts";
import { makeTranscode } from "../../../src/engines/audio/transcode.ts";
import { audioFormats, audioTypes, type AudioFormat, TranscoderLost } from "../../../src/media/audio.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { recognise } from "../../../src/media/audio-sniff.ts";
import { bytewise } from "../../support/cuts.ts";
import { FakeTranscoder, headOf, heard, noTools, play, sizedWav, spoke, tone, toolsOf, type Played } from "../../support/speech-world.ts";

// Sweeps over every byte; no clock is judged here.
setDefaultTimeout(120_000);

const real = new Map<AudioFormat, Uint8Array>();

beforeAll(async () => {
  for (const format of audioFormats) real.set(format, await tone(format));
  real.set("wav", sizedWav(real.get("pcm")!));
});

interface Options {
  readonly asked?: AudioFormat;
  readonly events?: boolean;
  readonly tools?: ReaderTools;
  readonly type?: string | null;
}

function readerOf(wanted: AudioFormat, { asked = wanted, events = false, tools = noTools, type = audioTypes[asked] }: Options = {}) {
  return audioReader({ asked, wanted, events, characters: 42 }, headOf(type), tools);
}

function read(wanted: AudioFormat, chunks: readonly Uint8Array[], options: Options = {}): Promise<Played> {
  return play(readerOf(wanted, options), chunks);
}

const usage = { promptTokens: null, completionTokens: null, cachedTokens: null, reasoningTokens: null, characters: 42 };

/** Whether the end of a body can be told from a cut, by format. */
const tellsItsEnd: readonly AudioFormat[] = ["wav", "opus"];

describe.each(audioFormats)("audio in the format %s", (format) => {
  test("goes out byte for byte, with its type, and ends with what was spoken", async () => {
    const bytes = real.get(format)!;
    const reader = readerOf(format);
    expect(reader).toMatchObject({ type: audioTypes[format], shape: "bytes", pending: null });
    const { emissions, failure, sent } = await play(reader, [bytes]);
    expect(failure).toBeNull();
    expect(sent.equals(bytes)).toBe(true);
    expect(emissions[0]).toMatchObject({ kind: "delta", output: "audio", text: "", finishes: false });
    expect(emissions.at(-2)).toEqual({ kind: "usage", frame: null, usage });
    expect(emissions.at(-1)).toMatchObject({ kind: "end", finish: "stop", frame: new Uint8Array(0) });
  });

  test("is the same when it is cut in two anywhere, or comes byte by byte", async () => {
    const bytes = real.get(format)!;
    for (let at = 0; at <= bytes.length; at++) {
      const { failure, sent } = await read(format, [bytes.subarray(0, at), bytes.subarray(at)]);
      if (failure !== null || !sent.equals(bytes)) throw new Error(`cut at byte ${at} it is not the same: ${failure?.detail}`);
    }
    expect((await read(format, bytewise(bytes))).sent.equals(bytes)).toBe(true);
  });

  test("that ends at any byte is whole, or a failure that may be tried elsewhere as long as nothing has left", async () => {
    const bytes = real.get(format)!;
    for (let length = 0; length < bytes.length; length++) {
      const played = await read(format, [bytes.subarray(0, length / 2), bytes.subarray(length / 2, length)]);
      const { failure, emissions, sent } = played;
      if (!Buffer.from(bytes).subarray(0, sent.length).equals(sent)) throw new Error(`ended at byte ${length}, it is no beginning`);
      const isEnded = emissions.at(-1)?.kind === "end";
      if (isEnded !== (failure === null) || (failure !== null && failure.kind !== "bad_response"))
        throw new Error(`ended at byte ${length}, it ${isEnded ? "has" : "has no"} end, and the failure ${failure?.kind}`);
      if (failure !== null) continue;
      const mayEndHere = format === "pcm" ? length % 2 === 0 : format === "flac" || bytes[length] === 0xff;
      if (tellsItsEnd.includes(format) || !mayEndHere) throw new Error(`ended at byte ${length} it is called whole`);
    }
  });

  test("gives nothing before its first frame, and all of it with that", async () => {
    const bytes = real.get(format)!;
    const reader = readerOf(format);
    if (isFailure(reader)) throw new Error(reader.detail);
    for (let at = 0; at < bytes.length; at++) {
      const emissions = await reader.push(bytes.subarray(at, at + 1));
      if (isFailure(emissions)) throw new Error(emissions.detail);
      if (emissions.length === 0) continue;
      expect(recognise(bytes.subarray(0, at), { ended: false, bare: format === "pcm" })).toBe("more");
      expect(emissions[0]).toMatchObject({ frame: bytes.subarray(0, at + 1) });
      return;
    }
    throw new Error("nothing came");
  });

  test("is wrapped for a client that wants events, and ends with one event that says so", async () => {
    const bytes = real.get(format)!;
    const reader = readerOf(format, { events: true });
    expect(reader).toMatchObject({ type: "text/event-stream; charset=utf-8", shape: "events" });
    const { sent, failure, emissions } = await play(reader, [bytes.subarray(0, 1001), bytes.subarray(1001)]);
    expect(failure).toBeNull();
    expect(sent.toString()).toMatch(/^(data: [^\r\n]+\n\n)+$/);
    const { audio, done } = heard(sent);
    expect(audio.equals(bytes)).toBe(true);
    expect(done).toEqual([undefined]);
    expect(emissions.at(-1)).toMatchObject({ kind: "end" });
    expect(emissions.at(-2)).toEqual({ kind: "usage", frame: null, usage });
  });

  test("goes through the codecs where the client wants another, whatever the upstream was asked for", async () => {
    const bytes = real.get(format)!;
    const wanted = format === "mp3" ? "flac" : "mp3";
    for (const asked of format === "pcm" ? [format] : ([format, wanted] as const)) {
      const pairs: string[] = [];
      const transcoder = new FakeTranscoder();
      const { sent, failure, emissions } = await read(wanted, bytewise(bytes), { asked, tools: toolsOf(transcoder, pairs) });
      expect(failure).toBeNull();
      expect(pairs).toEqual([`${format} to ${wanted}`]);
      expect(sent.subarray(1, -1).equals(Buffer.from(bytes.map((byte) => byte ^ 0xff)))).toBe(true);
      expect(sent.toString("latin1")).toMatch(/^<[^]*>$/);
      expect(emissions.at(-1)).toMatchObject({ kind: "end" });
      expect(transcoder.ended).toBe(true);
    }
  });

  test("that cannot be made without codecs is refused, and nothing of the upstream is blamed for it", async () => {
    const wanted = format === "mp3" ? "flac" : "mp3";
    const played = await read(wanted, [real.get(format)!], { asked: format });
    expect(played.failure).toMatchObject({ kind: "misconfigured", scope: "request" });
    expect(played.emissions).toEqual([]);
  });
});

describe("an answer that is no audio", () => {
  test.each([
    ["empty", ""],
    ["a page", "<html><body>502 Bad Gateway</body></html>"],
    ["text", "internal error ".repeat(100)],
    ["JSON under a wrong type", '{"error":{"message":"no"}}'],
  ])("because it is %s can be asked for elsewhere, whichever format was", async (_, body) => {
    for (const format of audioFormats) {
      for (const chunks of [[Buffer.from(body)], bytewise(Buffer.from(body))]) {
        const { failure, emissions } = await read(format, chunks);
        expect(failure).toMatchObject({ kind: "bad_response", blame: "channel" });
        expect(emissions).toEqual([]);
      }
    }
  });

  test("but samples that nobody asked for is taken where it is called samples, and not where it is called anything else", async () => {
    const pcm = real.get("pcm")!;
    for (const type of ["audio/pcm", "audio/pcm; rate=24000", "audio/L16;codec=pcm;rate=24000", "audio/x-pcm"]) {
      const pairs: string[] = [];
      const tools = toolsOf(new FakeTranscoder(), pairs);
      expect((await read("mp3", [pcm], { type, tools })).failure).toBeNull();
      expect(pairs).toEqual(["pcm to mp3"]);
    }
    for (const type of ["audio/mpeg", "audio/pcm;rate=16000", "audio/l16; rate=24000; channels=2", "application/octet-stream", null]) {
      const tools = toolsOf(new FakeTranscoder());
      expect((await read("mp3", [pcm], { type, tools })).failure?.kind).toBe("bad_response");
    }
    // What it is called does not make samples of what has a mark of its own, or of words.
    const flac = await read("flac", [real.get("flac")!], { type: "audio/pcm" });
    expect([flac.failure, flac.sent.equals(real.get("flac")!)]).toEqual([null, true]);
    expect((await read("mp3", [Buffer.from("internal error ".repeat(100))], { type: "audio/pcm" })).failure?.kind).toBe("bad_response");
  });

  test("but samples of another rate or of two channels is refused, and with the rate of the OpenAI API it is not", async () => {
    for (const type of ["audio/pcm;rate=16000", "audio/L16; rate=24000; channels=2", "audio/pcm; sample-rate=8000"]) {
      expect((await read("pcm", [real.get("pcm")!], { type })).failure?.kind).toBe("bad_response");
    }
    for (const type of ["audio/pcm; rate=24000; channels=1", "application/octet-stream", null]) {
      expect((await read("pcm", [real.get("pcm")!], { type })).failure).toBeNull();
    }
  });
});

describe("a transcoder", () => {
  const mp3 = (): Uint8Array => real.get("mp3")!;

  test("that needs more first holds nothing back once it has something", async () => {
    const transcoder = new FakeTranscoder({ needs: 900 });
    const reader = readerOf("wav", { asked: "mp3", tools: toolsOf(transcoder) });
    if (isFailure(reader)) throw new Error(reader.detail);
    expect(await reader.push(mp3().subarray(0, 899))).toEqual([]);
    expect(await reader.push(mp3().subarray(899, 950))).toHaveLength(1);
  });

  test("that breaks is a failure, before it gave anything and later", async () => {
    const early = new FakeTranscoder({ breaksAt: 10 });
    expect((await read("wav", [mp3()], { asked: "mp3", tools: toolsOf(early) })).failure).toMatchObject({
      kind: "bad_response",
      detail: "the audio could not be transcoded: cannot read this",
    });
    expect(early.destroyed).toBe(1);
    const late = new FakeTranscoder({ breaksAt: 900 });
    const played = await read("wav", [mp3().subarray(0, 890), mp3().subarray(890)], { asked: "mp3", tools: toolsOf(late) });
    expect(played.failure?.kind).toBe("bad_response");
    expect(late.destroyed).toBe(1);
  });

  test("that gives nothing at all made no audio", async () => {
    const { failure } = await read("wav", [mp3()], { asked: "mp3", tools: toolsOf(new FakeTranscoder({ needs: 1e9 })) });
    expect(failure).toMatchObject({ kind: "bad_response", detail: "the answer holds no audio" });
  });

  test("that cannot even be made is a failure and no exception", async () => {
    const lazy: ReaderTools = { transcoder: () => Promise.reject(new Error("no memory")) };
    const eager: ReaderTools = {
      transcoder: () => {
        throw new Error("no memory");
      },
    };
    for (const tools of [lazy, eager]) expect((await read("wav", [mp3()], { asked: "mp3", tools })).failure?.kind).toBe("bad_response");
  });

  test("is not asked to finish an incomplete input, and is destroyed with its reader", async () => {
    const transcoder = new FakeTranscoder();
    const reader = readerOf("mp3", { asked: "wav", tools: toolsOf(transcoder) });
    const wav = real.get("wav")!;
    expect((await play(reader, [wav.subarray(0, 1000)])).failure?.kind).toBe("bad_response");
    expect(transcoder).toMatchObject({ ended: false, destroyed: 0 });
    if (!isFailure(reader)) reader.destroy();
    await Promise.resolve();
    expect(transcoder.destroyed).toBe(1);
  });

  test("that was still starting when its reader was destroyed is destroyed as soon as it has started", async () => {
    const transcoder = new FakeTranscoder();
    const made = Promise.withResolvers<FakeTranscoder>();
    const reader = readerOf("wav", { asked: "mp3", tools: { transcoder: () => made.promise } });
    if (isFailure(reader)) throw new Error(reader.detail);
    const pushed = reader.push(mp3());
    reader.destroy();
    made.resolve(transcoder);
    expect(isFailure(await pushed)).toBe(true);
    expect(transcoder).toMatchObject({ destroyed: 1, received: 0 });
    expect(isFailure(await reader.push(mp3()))).toBe(true);
    expect(isFailure(await reader.close())).toBe(true);
  });
});

describe("the real codecs", () => {
  const transcode = makeTranscode();
  afterAll(() => transcode.stop());
  const made = new Map<AudioFormat, Promise<Uint8Array>>();
  const toneIn = (format: AudioFormat): Promise<Uint8Array> => {
    const bytes = made.get(format) ?? tone(format, 400);
    made.set(format, bytes);
    return bytes;
  };
  const pairs = audioFormats.flatMap((from) => audioFormats.flatMap((to) => (from === to ? [] : [[from, to] as const])));

  test.each(pairs)("make of %s what is recognised as %s and whole", async (from, to) => {
    const bytes = await toneIn(from);
    const chunks = Array.from({ length: Math.ceil(bytes.length / 700) }, (_, at) => bytes.subarray(at * 700, at * 700 + 700));
    const { failure, sent } = await read(to, chunks, { asked: from, tools: { transcoder: transcode.make } });
    expect(failure).toBeNull();
    expect((await read(to, [sent])).failure).toBeNull();
    expect(sent.length).toBeGreaterThan(500);
  });
});

describe("a transcoder that is lost", () => {
  const lost = (): Promise<never> => Promise.reject(new TranscoderLost("the worker ended"));

  test("before it gave anything is the gateway's trouble: nothing cools down, and others may be asked", async () => {
    const transcoder = new FakeTranscoder();
    transcoder.push = lost;
    for (const tools of [toolsOf(transcoder), { transcoder: lost }]) {
      const { failure, emissions } = await read("wav", [real.get("mp3")!], { asked: "mp3", tools });
      expect(failure).toMatchObject({ kind: "saturated", blame: "gateway", scope: "request" });
      expect(emissions).toEqual([]);
    }
  });

  test("later is still not charged to the upstream", async () => {
    const transcoder = new FakeTranscoder();
    transcoder.end = lost;
    const played = await read("wav", [real.get("mp3")!], { asked: "mp3", tools: toolsOf(transcoder) });
    expect(spoke(played)).toBe(true);
    expect(played.failure).toMatchObject({ blame: "gateway", scope: "request" });
  });
});
