import { describe, expect, test } from "bun:test";
import { deepgram } from "../../../src/dialects/deepgram/deepgram.ts";
import type { StreamedBody } from "../../../src/dialects/dialect.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import type { TranscriptFormat } from "../../../src/operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../../src/operations/transcription/transcription-request.ts";
import type { WholeAnswer } from "../../../src/operations/emission.ts";
import {
  ask,
  bytesOf,
  cuesIn,
  encoded,
  eventsIn,
  formFile,
  readWhole,
  sent,
  target,
  textOf,
  wave,
  whole,
} from "../../support/transcription-world.ts";

// The answers here have the shape of recorded ones; their words and numbers were written for these tests.
const words = [
  { word: "hello", start: 0.08, end: 0.4, confidence: 0.99, speaker: 0, punctuated_word: "Hello" },
  { word: "there", start: 0.4, end: 0.96, confidence: 0.98, speaker: 0, punctuated_word: "there." },
  { word: "hi", start: 1.2, end: 1.6, confidence: 0.97, speaker: 1, punctuated_word: "Hi." },
];
const utterances = [
  { start: 0.08, end: 0.96, confidence: 0.98, channel: 0, transcript: "Hello there.", words: words.slice(0, 2), speaker: 0, id: "u-0" },
  { start: 1.2, end: 1.6, confidence: 0.5, channel: 0, transcript: "Hi.", words: words.slice(2), speaker: 1, id: "u-1" },
];
const paragraphs = {
  transcript: "\nHello there. Hi.",
  paragraphs: [
    {
      sentences: [
        { text: "Hello there.", start: 0.08, end: 0.96 },
        { text: "Hi.", start: 1.2, end: 1.6 },
      ],
      num_words: 3,
      start: 0.08,
      end: 1.6,
    },
  ],
};

function answer(facts: { readonly alternative?: object; readonly results?: object } = {}): string {
  return JSON.stringify({
    metadata: { request_id: "r-1", sha256: "0", created: "2026-01-01T00:00:00.000Z", duration: 2.3, channels: 1, models: ["m-1"] },
    results: {
      channels: [
        {
          alternatives: [{ transcript: "Hello there. Hi.", confidence: 0.98, words, paragraphs, ...facts.alternative }],
          detected_language: "en",
          language_confidence: 0.9,
        },
      ],
      utterances,
      ...facts.results,
    },
  });
}

const codec = deepgram.transcription!;
const address = { baseUrl: "https://api.upstream.test/v1", transcriptionPath: "/listen" };

function asking(format: TranscriptFormat, more: readonly (readonly [string, string])[] = []): TranscriptionRequest {
  return ask([["response_format", format], ...more]);
}

function urlOf(asked: TranscriptionRequest, model = "nova-3"): URL {
  return new URL(encoded(codec.encode(asked, target({ address, model }))).request.url);
}

function answered(asked: TranscriptionRequest, body: string): WholeAnswer | Failure {
  return readWhole(encoded(codec.encode(asked, target({ address }))), body);
}

describe("a request", () => {
  test("is the bare file, under its own media type", async () => {
    const { request } = encoded(codec.encode(ask(), target({ address, headers: { "content-type": "application/json" } })));
    expect(request.headers["content-type"]).toBe("audio/wav");
    const { bytes } = await sent(request.body as StreamedBody);
    expect(bytes).toEqual(wave);
    expect((request.body as StreamedBody).length).toBe(wave.length);
  });

  test("is never called JSON, which would be read as the address of a recording to fetch", () => {
    for (const type of ["application/json", "text/plain", null, "audio/x\r\nx-evil: 1"]) {
      const asked = ask([], { file: formFile(bytesOf(`{"url":"http://10.0.0.1/"}`), { name: "a.mp3", type }) });
      expect(encoded(codec.encode(asked, target({ address }))).request.headers["content-type"]).toBe("application/octet-stream");
    }
  });

  test("says in its address what the client said in its form", () => {
    const url = urlOf(
      ask([
        ["keywords[]", "Sluice"],
        ["keywords[]", "two words"],
        ["temperature", "0.5"],
        ["prompt", "secret"],
      ]),
    );
    expect(url.origin + url.pathname).toBe("https://api.upstream.test/v1/listen");
    expect([...url.searchParams]).toEqual([
      ["model", "nova-3"],
      ["punctuate", "true"],
      ["smart_format", "true"],
      ["detect_language", "true"],
      ["keyterm", "Sluice"],
      ["keyterm", "two words"],
    ]);
    expect(urlOf(ask([["keywords[]", "Sluice"]]), "nova-2").searchParams.has("keyterm")).toBe(false);
    const { request } = encoded(codec.encode(ask(), target({ address: { ...address, query: "?tag=x" } })));
    expect(request.url).toStartWith("https://api.upstream.test/v1/listen?tag=x&model=theirs&");
  });

  test("listens for words however the list of them was written", () => {
    for (const entries of [
      [["keywords", `["Sluice","two words"]`]],
      [
        ["keywords[1]", "two words"],
        ["keywords[0]", "Sluice"],
      ],
      [
        ["keywords", "Sluice"],
        ["keywords", " two words "],
        ["keywords", " "],
      ],
    ] as const) {
      expect(urlOf(ask(entries)).searchParams.getAll("keyterm")).toEqual(["Sluice", "two words"]);
    }
  });

  test("tells which fields it could not carry, once each, in names that are safe to repeat", () => {
    const asked = asking("verbose_json", [
      ["stream", "true"],
      ["language", "en"],
      ["timestamp_granularities[]", "word"],
      ["keywords[]", "Sluice"],
      ["prompt", "secret"],
      ["temperature", "0.5"],
      ["chunking_strategy[type]", "server_vad"],
      ["chunking_strategy[threshold]", "0.5"],
      ["include", ""],
      ["ü, x\u2028", "1"],
      ["z".repeat(200), "1"],
    ]);
    const dropped = (model: string): unknown => encoded(codec.encode(asked, target({ address, model }))).dropped;
    const lost = ["prompt", "temperature", "chunking_strategy", "___x_", "z".repeat(64)];
    expect(dropped("nova-3-general")).toEqual(lost);
    expect(dropped("nova-2")).toEqual(["keywords", ...lost]);
    expect(encoded(codec.encode(ask(), target({ address }))).dropped).toEqual([]);
    const many = ask(Array.from({ length: 100 }, (_, index) => [`x${index}`, "1"] as const));
    expect(encoded(codec.encode(many, target({ address }))).dropped).toHaveLength(32);
  });

  test.each([
    ["en", "en"],
    ["english", "en"],
    ["en-GB", "en-GB"],
    ["pt_BR", "pt-BR"],
    ["javanese", "jv"],
    ["yue-HK", "yue-HK"],
    ["multi", "multi"],
    ["gsw-CH", "gsw-CH"],
  ])("names the language %s as %s", (said, tag) => {
    expect(urlOf(ask([["language", said]])).searchParams.get("language")).toBe(tag);
    expect(urlOf(ask([["language", said]])).searchParams.has("detect_language")).toBe(false);
  });

  test.each<[TranscriptFormat, boolean, boolean]>([
    ["json", false, false],
    ["text", false, false],
    ["srt", true, false],
    ["verbose_json", true, false],
    ["diarized_json", true, true],
  ])("for %s asks for utterances: %p, and for speakers: %p", (format, wantsUtterances, wantsSpeakers) => {
    const { searchParams } = urlOf(asking(format));
    expect(searchParams.has("utterances")).toBe(wantsUtterances);
    expect(searchParams.get("diarize_model")).toBe(wantsSpeakers ? "latest" : null);
  });

  test("for a translation is refused", () => {
    expect(codec.encode(ask([], { task: "translate" }), target({ address }))).toMatchObject({ kind: "unsupported", status: 400 });
  });
});

describe("an answer", () => {
  test("becomes each of the formats", () => {
    const read = whole(answered(asking("json"), answer()));
    expect(read).toMatchObject({ type: "application/json", usage: { audioSeconds: 2.3, promptTokens: null } });
    expect(textOf(read.body)).toBe(`{"text":"Hello there. Hi.","usage":{"type":"duration","seconds":3}}`);
    expect(textOf(whole(answered(asking("text"), answer())).body)).toBe("Hello there. Hi.\n");
    expect(cuesIn(whole(answered(asking("vtt"), answer())).body, "vtt")).toEqual([
      { start: 80, end: 960, text: "Hello there." },
      { start: 1200, end: 1600, text: "Hi." },
    ]);
    expect(JSON.parse(textOf(whole(answered(asking("diarized_json"), answer())).body))).toMatchObject({
      segments: [
        { text: " Hello there.", speaker: "A" },
        { text: " Hi.", speaker: "B" },
      ],
    });
  });

  test("as verbose_json has names, words with punctuation, and scores", () => {
    const asked = asking("verbose_json", [
      ["timestamp_granularities[]", "word"],
      ["timestamp_granularities[]", "segment"],
    ]);
    const read = JSON.parse(textOf(whole(answered(asked, answer())).body)) as { segments: { avg_logprob: number }[]; words: unknown };
    expect(read).toMatchObject({ task: "transcribe", language: "english", duration: 2.3, usage: { type: "duration", seconds: 3 } });
    expect(read.segments[1]).toMatchObject({
      id: 1,
      seek: 0,
      text: " Hi.",
      tokens: [],
      temperature: 0,
      compression_ratio: 1,
      no_speech_prob: 0,
    });
    expect(read.segments[1]!.avg_logprob).toBeCloseTo(Math.log(0.5));
    expect(read.words).toEqual(words.map(({ punctuated_word: word, start, end }) => ({ word, start, end })));
  });

  test("without utterances is cut into sentences, and without those into groups of words", () => {
    const cues = (body: string): unknown => cuesIn(whole(answered(asking("srt"), body)).body, "srt").map(({ text }) => text);
    expect(cues(answer({ results: { utterances: undefined } }))).toEqual(["Hello there.", "Hi."]);
    expect(cues(answer({ results: { utterances: [] }, alternative: { paragraphs: undefined } }))).toEqual(["Hello there.", "Hi."]);
  });

  test("of silence is an empty transcript", () => {
    const silence = answer({ alternative: { transcript: "", words: [], paragraphs: undefined }, results: { utterances: [] } });
    expect(textOf(whole(answered(asking("srt"), silence)).body)).toBe("");
    expect(JSON.parse(textOf(whole(answered(asking("json"), silence)).body))).toMatchObject({ text: "" });
  });

  test("becomes events where a stream was asked for", () => {
    const read = whole(answered(ask([["stream", "true"]]), answer()));
    expect(read.type).toBe("text/event-stream; charset=utf-8");
    expect(eventsIn(read.body)[0]).toBe(`{"type":"transcript.text.delta","delta":"Hello there. Hi."}`);
    expect(eventsIn(read.body).at(-1)).toBe("[DONE]");
  });

  test("without speakers where they were asked for, or with times that mean nothing, is a failure of the channel", () => {
    const plain = {
      alternative: { words: [], paragraphs: undefined },
      results: { utterances: [{ ...utterances[0], speaker: undefined }] },
    };
    expect(answered(asking("diarized_json"), answer(plain))).toMatchObject({ kind: "bad_response" });
    const timeless = {
      alternative: { words: [{ word: "a", start: "x" }] },
      results: { utterances: [{ transcript: "a", start: null, end: 1 }] },
    };
    expect(answered(asking("srt"), answer(timeless))).toMatchObject({ kind: "bad_response" });
  });

  test.each(["", "{}", "[]", "null", "<html>", `{"results":{"channels":[]}}`, `{"results":{"channels":[{"alternatives":[{}]}]}}`])(
    "of the shape %p is a failure of the channel",
    (body) => {
      expect(answered(ask(), body)).toMatchObject({ kind: "bad_response", blame: "channel" });
    },
  );

  test("that ends at any byte before its last is noticed", () => {
    const body = answer();
    for (let length = 0; length < body.length; length++) {
      if (!isFailure(answered(ask(), body.slice(0, length)))) throw new Error(`cut at ${length} it passes`);
    }
  });
});

describe("a refusal", () => {
  test.each([
    [
      400,
      `{"err_code":"Bad Request","err_msg":"Bad Request: failed to process audio: corrupt or unsupported data","request_id":"r"}`,
      "invalid_request",
    ],
    [401, `{"err_code":"INVALID_AUTH","err_msg":"Invalid credentials.","request_id":"r"}`, "unauthorized"],
    [402, `{"err_code":"ASR_PAYMENT_REQUIRED","err_msg":"Project does not have enough credits.","request_id":"r"}`, "quota_exhausted"],
    [
      403,
      `{"err_code":"INSUFFICIENT_PERMISSIONS","err_msg":"User does not have sufficient permissions.","request_id":"r"}`,
      "unauthorized",
    ],
    [
      403,
      `{"err_code":"INSUFFICIENT_PERMISSIONS","err_msg":"Project does not have access to the requested model.","request_id":"r"}`,
      "model_missing",
    ],
    [413, "", "too_large"],
    [429, `{"err_code":"TOO_MANY_REQUESTS","err_msg":"Too many requests. Please try again later","request_id":"r"}`, "rate_limited"],
    [504, "upstream request timeout", "timed_out"],
  ] as const)("of %p with %p is called %s", (status, body, kind) => {
    expect(codec.explain({ status, header: () => null, body })).toMatchObject({ kind });
  });
});
