import { describe, expect, test } from "bun:test";
import { elevenlabs } from "../../../src/dialects/elevenlabs/elevenlabs.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import type { TranscriptFormat } from "../../../src/operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../../src/operations/transcription/transcription-request.ts";
import type { WholeAnswer } from "../../../src/operations/emission.ts";
import { ask, cuesIn, encoded, eventsIn, formIn, readWhole, target, textOf, whole } from "../../support/transcription-world.ts";

// The answers here have the shape of recorded ones; their words and numbers were written for these tests.
function item(type: string, text: string, start: number, end: number, speaker: string | null = "speaker_0"): object {
  return { text, start, end, type, speaker_id: speaker, logprob: -0.01 };
}

const talk = {
  language_code: "eng",
  language_probability: 0.98,
  text: "Hello there. Hi.",
  words: [
    item("word", "Hello", 0.08, 0.4),
    item("spacing", " ", 0.4, 0.41),
    item("word", "there.", 0.41, 0.96),
    item("audio_event", "(laughs)", 1, 1.1),
    item("spacing", " ", 1.1, 1.2, "speaker_1"),
    item("word", "Hi.", 1.2, 1.6, "speaker_1"),
  ],
  transcription_id: "t-1",
};

const codec = elevenlabs.transcription!;
const address = { baseUrl: "https://api.upstream.test/v1", transcriptionPath: "/speech-to-text", authHeader: "xi-api-key" };

function asking(format: TranscriptFormat, more: readonly (readonly [string, string])[] = []): TranscriptionRequest {
  return ask([["response_format", format], ...more]);
}

function answered(asked: TranscriptionRequest, body: object | string): WholeAnswer | Failure {
  return readWhole(encoded(codec.encode(asked, target({ address }))), typeof body === "string" ? body : JSON.stringify(body));
}

describe("a request", () => {
  test("is a form of the upstream's own fields and the file", async () => {
    const asked = ask([
      ["language", "Javanese"],
      ["temperature", "0.5"],
      ["keywords[]", "Sluice"],
      ["keywords[]", "two words"],
      ["prompt", "dropped"],
    ]);
    const made = encoded(codec.encode(asked, target({ address, model: "scribe_v2" })));
    expect(made.request.url).toBe("https://api.upstream.test/v1/speech-to-text");
    const form = await formIn(made);
    expect([...form.entries()].filter(([, value]) => typeof value === "string") as unknown[]).toEqual([
      ["model_id", "scribe_v2"],
      ["tag_audio_events", "false"],
      ["timestamps_granularity", "word"],
      ["diarize", "false"],
      ["language_code", "jv"],
      ["temperature", "0.5"],
      ["keyterms", "Sluice"],
      ["keyterms", "two words"],
    ]);
    expect((form.get("file") as unknown as File).name).toBe("speech.wav");
  });

  test("has the language as the upstream calls it, or as the client did where only the upstream can know it", async () => {
    for (const [said, code] of [
      ["yue-HK", "yue"],
      ["eng", "en"],
      ["ceb", "ceb"],
      ["multi", "multi"],
      ["", null],
    ] as const) {
      expect((await formIn(encoded(codec.encode(ask([["language", said]]), target({ address }))))).get("language_code")).toBe(code);
    }
  });

  test("listens for words however the list of them was written, and tells which fields it could not carry", async () => {
    const asked = ask([
      ["keywords", `["Sluice","two words"]`],
      ["temperature", "0"],
      ["languages[]", "en"],
      ["languages[]", "de"],
      ["prompt", "secret"],
      ["seed", "1"],
    ]);
    const made = encoded(codec.encode(asked, target({ address })));
    expect((await formIn(made)).getAll("keyterms")).toEqual(["Sluice", "two words"]);
    expect(made.dropped).toEqual(["languages", "prompt", "seed"]);
  });

  test("tells speakers apart only where they were asked for", async () => {
    expect((await formIn(encoded(codec.encode(asking("diarized_json"), target({ address }))))).get("diarize")).toBe("true");
  });

  test("for a translation is refused", () => {
    expect(codec.encode(ask([], { task: "translate" }), target({ address }))).toMatchObject({ kind: "unsupported", status: 400 });
  });
});

describe("an answer", () => {
  test("becomes each of the formats", () => {
    const read = whole(answered(asking("json"), talk));
    expect(read).toMatchObject({ type: "application/json" });
    expect(textOf(read.body)).toBe(`{"text":"Hello there. Hi."}`);
    expect(textOf(whole(answered(asking("text"), talk)).body)).toBe("Hello there. Hi.\n");
    expect(cuesIn(whole(answered(asking("srt"), talk)).body, "srt")).toEqual([
      { start: 80, end: 960, text: "Hello there." },
      { start: 1200, end: 1600, text: "Hi." },
    ]);
    expect(JSON.parse(textOf(whole(answered(asking("diarized_json"), talk)).body))).toMatchObject({
      segments: [
        { start: 0.08, end: 0.96, text: " Hello there.", speaker: "A" },
        { start: 1.2, end: 1.6, text: " Hi.", speaker: "B" },
      ],
    });
  });

  test("is metered by what the upstream says that it heard, and without that by the length of the file, not by its last word", () => {
    const metered = (seconds: number | null, more: object = {}) =>
      whole(answered({ ...asking("json"), seconds }, { ...talk, ...more })).usage;
    expect(metered(600, { audio_duration_secs: 2.3 })).toMatchObject({ audioSeconds: 2.3 });
    expect(metered(600)).toMatchObject({ audioSeconds: 600, estimated: true });
    expect(metered(600, { audio_duration_secs: 0 })).toMatchObject({ audioSeconds: 600, estimated: true });
    // A file that claims to be shorter than what was heard in it.
    expect(metered(0.5)).toMatchObject({ audioSeconds: 1.6, estimated: true });
    expect(metered(null)).toMatchObject({ audioSeconds: 1.6, estimated: true });
    expect(metered(null, { words: [] })).toBeNull();
  });

  test("as verbose_json has words only of what was said, and the language by name", () => {
    const asked = asking("verbose_json", [["timestamp_granularities[]", "word"]]);
    expect(JSON.parse(textOf(whole(answered(asked, { ...talk, audio_duration_secs: 2.3 })).body))).toEqual({
      task: "transcribe",
      language: "english",
      duration: 2.3,
      text: talk.text,
      words: [
        { word: "Hello", start: 0.08, end: 0.4 },
        { word: "there.", start: 0.41, end: 0.96 },
        { word: "Hi.", start: 1.2, end: 1.6 },
      ],
      usage: { type: "duration", seconds: 3 },
    });
  });

  test("keeps the upstream's own spacing between words", () => {
    const chinese = {
      language_code: "zho",
      text: "你好 a",
      words: [item("word", "你", 0, 1), item("word", "好", 1, 2), item("spacing", " ", 2, 2), item("word", "a", 2, 3)],
    };
    expect(cuesIn(whole(answered(asking("srt"), chinese)).body, "srt")[0]?.text).toBe("你好 a");
  });

  test("of silence is an empty transcript, and a stream is emulated", () => {
    expect(textOf(whole(answered(asking("vtt"), { text: "", language_code: "eng", words: [] })).body)).toBe("WEBVTT\n\n");
    expect(eventsIn(whole(answered(ask([["stream", "true"]]), talk)).body).length).toBe(3);
  });

  test("with times that mean nothing, or with none, gives no subtitles", () => {
    const broken = { ...talk, words: [item("word", "a", 0, 1), { type: "word", text: "b", start: null, end: 2 }] };
    expect(answered(asking("srt"), broken)).toMatchObject({ kind: "bad_response" });
    expect(answered(asking("srt"), { ...talk, words: null })).toMatchObject({ kind: "unsupported" });
    expect(isFailure(answered(asking("json"), broken))).toBe(false);
  });

  test.each(["", "{}", "[]", "null", "<html>", `{"text":5}`])("of the shape %p is a failure of the channel", (body) => {
    expect(answered(ask(), body)).toMatchObject({ kind: "bad_response", blame: "channel" });
  });

  test("that ends at any byte before its last is noticed", () => {
    const body = JSON.stringify(talk);
    for (let length = 0; length < body.length; length++) {
      if (!isFailure(answered(ask(), body.slice(0, length)))) throw new Error(`cut at ${length} it passes`);
    }
  });
});

describe("a refusal", () => {
  test.each([
    [401, { detail: { status: "invalid_api_key", message: "Invalid API key" } }, "unauthorized"],
    [401, { detail: { status: "quota_exceeded", message: "This request exceeds your quota." } }, "quota_exhausted"],
    [400, { detail: { status: "invalid_content", message: "The file is corrupted." } }, "invalid_request"],
    [422, { detail: [{ loc: ["body", "model_id"], msg: "field required", type: "value_error.missing" }] }, "invalid_request"],
    [429, { detail: { status: "too_many_concurrent_requests", message: "Too many concurrent requests." } }, "rate_limited"],
    [429, { detail: { status: "system_busy", message: "The system is busy." } }, "overloaded"],
  ] as const)("of %p with %j is called %s", (status, body, kind) => {
    expect(codec.explain({ status, header: () => null, body: JSON.stringify(body) })).toMatchObject({ kind });
  });
});
