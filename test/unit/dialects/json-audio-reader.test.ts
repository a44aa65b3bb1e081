import { describe, expect, test } from "bun:test";
import { audioReader } from "../../../src/dialects/readers/audio-reader.ts";
import { JsonAudioReader, type JsonAudio } from "../../../src/dialects/readers/json-audio-reader.ts";
import type { AudioFormat } from "../../../src/media/audio.ts";
import { failure, type Failure } from "../../../src/operations/failure.ts";
import { nothingCounted } from "../../../src/operations/usage.ts";
import { bytewise } from "../../support/cuts.ts";
import { FakeTranscoder, headOf, heard, noTools, play, tone, toolsOf } from "../../support/speech-world.ts";

function find(document: unknown): JsonAudio | Failure {
  const { audio, rate } = (document ?? {}) as { readonly audio?: string; readonly rate?: number };
  if (audio === undefined) return failure("bad_response", "no audio in it");
  const usage = { ...nothingCounted, promptTokens: 3 };
  return { audio: Uint8Array.fromBase64(audio), usage, ...(rate === undefined ? undefined : { sampleRate: rate }) };
}

function conversion(asked: AudioFormat, wanted: AudioFormat = asked) {
  return { asked, wanted, events: false, characters: 5 };
}

function documentOf(audio: Uint8Array, rate?: number): Uint8Array {
  return Buffer.from(JSON.stringify({ audio: Buffer.from(audio).toString("base64"), rate }));
}

describe("audio in a JSON document", () => {
  test("is passed on as it is, however the document is cut, with its usage", async () => {
    const mp3 = await tone("mp3");
    const {
      sent,
      failure: broken,
      emissions,
    } = await play(new JsonAudioReader(conversion("mp3"), noTools, find), bytewise(documentOf(mp3)));
    expect(broken).toBeNull();
    expect(sent.equals(mp3)).toBe(true);
    expect(emissions.at(-2)).toMatchObject({ kind: "usage", usage: { promptTokens: 3, characters: 5 } });
  });

  test("is wrapped in events for a client that wants those", async () => {
    const pcm = await tone("pcm");
    const reader = new JsonAudioReader({ ...conversion("pcm"), events: true }, noTools, find);
    const { sent } = await play(reader, [documentOf(pcm)]);
    expect(heard(sent).audio.equals(pcm)).toBe(true);
  });

  test("goes through the codecs as a WAV where its samples have another rate", async () => {
    const pcm = await tone("pcm");
    const asked: string[] = [];
    const reader = new JsonAudioReader(conversion("pcm", "mp3"), toolsOf(new FakeTranscoder(), asked), find);
    expect((await play(reader, [documentOf(pcm, 16_000)])).failure).toBeNull();
    expect(asked).toEqual(["wav to mp3"]);
  });

  test.each([
    ["is cut", documentOf(new Uint8Array(100)).subarray(0, 60)],
    ["is empty", new Uint8Array(0)],
    ["has no audio", Buffer.from("{}")],
    ["has something else in place of audio", documentOf(Buffer.from("Sorry, no."))],
  ])("is a failure where the document %s", async (_, body) => {
    const { failure: broken, emissions } = await play(new JsonAudioReader(conversion("mp3"), noTools, find), [body]);
    expect(broken).toMatchObject({ kind: "bad_response" });
    expect(emissions).toEqual([]);
  });

  test("is not collected without a limit", () => {
    const reader = new JsonAudioReader(conversion("mp3"), noTools, find);
    const chunk = new Uint8Array(33 * 1024 * 1024);
    expect(reader.push(chunk)).toEqual([]);
    expect(reader.push(chunk)).toMatchObject({ kind: "bad_response" });
  });
});

test("bare samples of a stated rate become a WAV of that rate, and are resampled for a client that wants them bare", async () => {
  const pcm = await tone("pcm");
  const wav = await play(audioReader({ ...conversion("pcm", "wav"), sampleRate: 8_000 }, headOf("audio/pcm"), noTools), bytewise(pcm));
  expect(wav.failure).toBeNull();
  expect(wav.sent.readUInt32LE(24)).toBe(8_000);
  expect(wav.sent.subarray(44).equals(pcm)).toBe(true);

  const asked: string[] = [];
  const tools = toolsOf(new FakeTranscoder(), asked);
  await play(audioReader({ ...conversion("pcm"), sampleRate: 8_000 }, headOf("audio/pcm"), tools), [pcm]);
  expect(asked).toEqual(["wav to pcm"]);
});
