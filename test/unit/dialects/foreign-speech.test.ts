import { describe, expect, test } from "bun:test";
import type { EncodedRequest } from "../../../src/dialects/dialect.ts";
import { encodedSpeech, foreignSpeech, jsonInsteadOfAudio, speechUrl } from "../../../src/dialects/speech/foreign-speech.ts";
import { speedWithin } from "../../../src/dialects/speech/own-fields.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { readSpeechRequest, type SpeechRequest } from "../../../src/operations/speech/speech-request.ts";
import { headOf, noTools, play, targetOf, tone } from "../../support/speech-world.ts";

function asked(fields: object): SpeechRequest {
  const body = JSON.stringify({ model: "m", input: "Hello.", voice: "alloy", ...fields });
  const ask = readSpeechRequest(Buffer.from(body), { charactersMax: 4096 });
  if (isFailure(ask)) throw new Error(ask.publicMessage);
  return ask;
}

function encoded(ask: SpeechRequest, carried: readonly string[], voice = "alloy"): EncodedRequest {
  const request = { method: "POST", url: "https://x.test", headers: {}, body: null } as const;
  return encodedSpeech(ask, { request, asked: "mp3", voice, carried, billed: (head) => Number(head.header("x-characters")) || null });
}

describe("a speech request for an upstream with an API of its own", () => {
  test("has the voice of the channel's map, or the client's, or the id of a voice that is an object", () => {
    const voices = { names: new Map([["alloy", "en-1"]]), unknown: "pass", fallback: null } as const;
    expect(foreignSpeech(asked({}), targetOf({ voices }), ["mp3"])).toMatchObject({ voice: "en-1" });
    expect(foreignSpeech(asked({ voice: "own" }), targetOf({ voices }), ["mp3"])).toMatchObject({ voice: "own" });
    expect(foreignSpeech(asked({ voice: { id: "own" } }), targetOf({ voices }), ["mp3"])).toMatchObject({ voice: "own" });
    const strict = { ...voices, unknown: "refuse" } as const;
    expect(foreignSpeech(asked({ voice: "own" }), targetOf({ voices: strict }), ["mp3"])).toMatchObject({
      kind: "unsupported",
      param: "voice",
    });
  });

  test("asks for the client's format, or for one that both the dialect and the channel have", () => {
    expect(foreignSpeech(asked({ response_format: "wav" }), targetOf(), ["mp3", "wav"])).toMatchObject({ format: "wav" });
    expect(foreignSpeech(asked({ response_format: "aac" }), targetOf(), ["mp3", "pcm"])).toMatchObject({ format: "pcm" });
    const mp3Only = targetOf({ speechFormats: ["mp3", "aac"] });
    expect(foreignSpeech(asked({ response_format: "aac" }), mp3Only, ["mp3", "pcm"])).toMatchObject({ format: "mp3" });
  });

  test("has speed and instructions only where they say something", () => {
    expect(foreignSpeech(asked({ speed: 1, instructions: "" }), targetOf(), ["mp3"])).toMatchObject({ speed: null, instructions: null });
    const full = asked({ speed: 0.5, instructions: "Calmly." });
    expect(foreignSpeech(full, targetOf(), ["mp3"])).toMatchObject({ speed: 0.5, instructions: "Calmly." });
  });

  test("reports the fields that it does not contain, by names that fit a header", () => {
    const ask = asked({ speed: 2, instructions: "Calmly.", user: null, 'a"b': 1, stream_format: "audio" });
    expect(encoded(ask, ["speed"]).dropped).toEqual(["instructions", "a_b"]);
    expect(encoded(asked({ speed: 1, instructions: "" }), []).dropped).toEqual([]);
  });

  test("reports the voice where it is not the one that the client named", () => {
    expect(encoded(asked({}), [], "alloy").voice).toBeNull();
    expect(encoded(asked({}), [], "other").voice).toBe("other");
  });

  test("counts the characters that the upstream says, or those of the text", async () => {
    const mp3 = await tone("mp3");
    for (const [stated, characters] of [
      [null, 6],
      ["9", 9],
    ] as const) {
      const { answer } = encoded(asked({}), []);
      if (answer.kind !== "stream") throw new Error("it is a stream");
      const head = { ...headOf("audio/mpeg"), header: (name: string) => (name === "x-characters" ? stated : "audio/mpeg") };
      const { emissions } = await play(await answer.reader(head, noTools), [mp3]);
      expect(emissions.at(-2)).toMatchObject({ usage: { characters } });
    }
  });

  test("goes to the channel's path with parameters behind those of the channel", () => {
    expect(speechUrl(targetOf({ speechPath: "/say/{model}", model: "a b" }))).toBe("https://speech.test/v1/say/a%20b");
    expect(speechUrl(targetOf({ query: "?v=1" }), new URLSearchParams({ x: "1" }))).toBe("https://speech.test/v1/audio/speech?v=1&x=1");
  });
});

test("a speed outside of what an upstream has becomes the nearest one, and is known not to be the client's", () => {
  expect(speedWithin(4, 0.7, 1.2)).toEqual({ speed: 1.2, exact: false });
  expect(speedWithin(0.9, 0.7, 1.2)).toEqual({ speed: 0.9, exact: true });
});

test.each([
  ['{"error":{"message":"no credit","code":"insufficient_quota"}}', "quota_exhausted"],
  ['{"detail":{"status":"quota_exceeded","message":"none left"}}', "quota_exhausted"],
  ["{}", "bad_response"],
  ["[", "bad_response"],
])("JSON in place of audio is a failure: %s", (body, kind) => {
  expect(jsonInsteadOfAudio(Buffer.from(body))).toMatchObject({ kind });
});
