import { describe, expect, test } from "bun:test";
import { azureSpeech } from "../../../../src/dialects/azure-speech/azure-speech.ts";
import { localeOf } from "../../../../src/dialects/azure-speech/locales.ts";
import { isFailure, type Failure } from "../../../../src/operations/failure.ts";
import { languages } from "../../../../src/operations/transcription/languages.ts";
import type { TranscriptFormat } from "../../../../src/operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../../../src/operations/transcription/transcription-request.ts";
import type { WholeAnswer } from "../../../../src/operations/emission.ts";
import { ask, cuesIn, encoded, eventsIn, formIn, readWhole, target, textOf, wave, whole } from "../../../support/transcription-world.ts";

// The answers have the shape of the documented ones; their words and numbers were written for these tests.
const word = (text: string, offsetMilliseconds: number, durationMilliseconds: number): object => ({
  text,
  offsetMilliseconds,
  durationMilliseconds,
});
const phrases = [
  {
    speaker: 1,
    offsetMilliseconds: 80,
    durationMilliseconds: 880,
    text: "Hello there.",
    words: [word("Hello", 80, 320), word("there.", 400, 560)],
    locale: "en-US",
    confidence: 0.5,
  },
  { speaker: 2, ...word("Hi.", 1200, 400), words: [word("Hi.", 1200, 400)], locale: "en-US", confidence: 0 },
];
const talk = { durationMilliseconds: 2300, combinedPhrases: [{ text: "Hello there. Hi." }], phrases };

const codec = azureSpeech.transcription!;
const path = "/speechtotext/transcriptions:transcribe";
const address = { baseUrl: "https://here.upstream.test", transcriptionPath: path, translationPath: path };

async function definition(asked: TranscriptionRequest, model = "fast"): Promise<unknown> {
  const form = await formIn(encoded(codec.encode(asked, target({ address, model }))));
  const text = form.get("definition");
  return JSON.parse(typeof text === "string" ? text : "null");
}

function answered(asked: TranscriptionRequest, body: object | string): WholeAnswer | Failure {
  return readWhole(encoded(codec.encode(asked, target({ address }))), typeof body === "string" ? body : JSON.stringify(body));
}

function rendered(format: TranscriptFormat, more: readonly (readonly [string, string])[] = []): Uint8Array {
  return whole(answered(ask([["response_format", format], ...more]), talk)).body;
}

describe("a request", () => {
  test("is a form of a definition and the recording, in the version that has what is asked for", async () => {
    const made = encoded(codec.encode(ask(), target({ address })));
    expect(made.request.url).toBe(`https://here.upstream.test${path}?api-version=2025-10-15`);
    const form = await formIn(made);
    expect([...form.keys()]).toEqual(["definition", "audio"]);
    const file = form.get("audio") as File;
    expect(file.name).toBe("speech.wav");
    expect(Buffer.from(await file.arrayBuffer()).equals(wave)).toBe(true);
  });

  test("asks for what was said, in the client's language and with its words", async () => {
    expect(await definition(ask())).toEqual({ profanityFilterMode: "None" });
    const entries = [
      ["language", "de"],
      ["keywords[]", "Sluice"],
      ["keywords[]", "two words"],
      ["response_format", "diarized_json"],
    ] as const;
    expect(await definition(ask(entries))).toEqual({
      profanityFilterMode: "None",
      locales: ["de-DE"],
      phraseList: { phrases: ["Sluice", "two words"] },
      diarization: { enabled: true },
    });
    expect(await definition(ask([["language", "de-CH"]]))).toMatchObject({ locales: ["de-CH"] });
    expect(await definition(ask([["language", "zh-Hant"]]))).toMatchObject({ locales: ["zh-TW"] });
  });

  test("names the model where the service has more than one, and what that takes", async () => {
    const entries = [
      ["language", "en-US"],
      ["prompt", "Lexical."],
      ["keywords", "Sluice"],
      ["response_format", "srt"],
    ] as const;
    expect(await definition(ask(entries), "llm-speech")).toEqual({
      profanityFilterMode: "None",
      enhancedMode: { enabled: true, task: "transcribe", prompt: ["Lexical."] },
    });
    expect(await definition(ask(entries), "MAI-Transcribe-2")).toEqual({
      profanityFilterMode: "None",
      locales: ["en"],
      phraseList: { phrases: ["Sluice"] },
      enhancedMode: { enabled: true, model: "MAI-Transcribe-2", modelOptions: { timestamps: "word" } },
    });
    expect(await definition(ask(entries), "mai-transcribe-1.5")).toMatchObject({
      enhancedMode: { enabled: true, model: "mai-transcribe-1.5" },
    });
    expect(await definition(ask(), "MAI-Transcribe-2")).toMatchObject({ enhancedMode: { enabled: true, model: "MAI-Transcribe-2" } });
  });

  test("translates with the one model that does", async () => {
    const translation = ask([], { task: "translate" });
    expect(await definition(translation, "llm-speech")).toMatchObject({ enhancedMode: { task: "translate", targetLanguage: "en" } });
    expect(codec.encode(translation, target({ address }))).toMatchObject({ kind: "unsupported", param: "model" });
  });

  test("names what it leaves out", () => {
    const entries = [
      ["prompt", "x"],
      ["temperature", "0.5"],
      ["keywords", "Sluice"],
    ] as const;
    const dropped = (model: string): unknown => encoded(codec.encode(ask(entries), target({ address, model }))).dropped;
    expect(dropped("fast")).toEqual(["prompt", "temperature"]);
    expect(dropped("mai-transcribe-1.5")).toEqual(["prompt", "temperature"]);
    expect(dropped("llm-speech")).toEqual(["temperature", "keywords"]);
  });
});

describe("the locale of a language", () => {
  test.each([
    ["en", "en-US"],
    ["de", "de-DE"],
    ["zh", "zh-CN"],
    ["pt", "pt-BR"],
    ["no", "nb-NO"],
    ["jw", "jv-ID"],
    ["tl", "fil-PH"],
    ["bn", "bn-IN"],
    ["yue", "yue-CN"],
  ])("%s is %s", (language, locale) => {
    expect(localeOf(language)).toBe(locale);
  });

  test("is there for every language that clients can name, and never throws", () => {
    for (const { code } of languages) expect(localeOf(code)).toMatch(/^[a-z]{2,3}-[A-Z]{2}$/);
    for (const odd of ["", "x", "not a tag", "\u0000"]) expect(() => localeOf(odd)).not.toThrow();
  });
});

describe("a transcript", () => {
  test("has its words and times in every format", () => {
    expect(textOf(rendered("json"))).toBe('{"text":"Hello there. Hi.","usage":{"type":"duration","seconds":3}}');
    expect(textOf(rendered("text"))).toBe("Hello there. Hi.\n");
    for (const format of ["srt", "vtt"] as const) {
      expect(cuesIn(rendered(format), format)).toEqual([
        { start: 80, end: 960, text: "Hello there." },
        { start: 1200, end: 1600, text: "Hi." },
      ]);
    }
    const verbose = JSON.parse(textOf(rendered("verbose_json", [["timestamp_granularities[]", "word"]]))) as object;
    expect(verbose).toMatchObject({
      language: "english",
      duration: 2.3,
      words: [{ word: "Hello", start: 0.08, end: 0.4 }, { word: "there." }, { word: "Hi.", start: 1.2, end: 1.6 }],
    });
    expect(JSON.parse(textOf(rendered("verbose_json")))).toMatchObject({
      segments: [{ text: " Hello there.", avg_logprob: Math.log(0.5) }, { avg_logprob: 0 }],
    });
    expect(eventsIn(rendered("json", [["stream", "true"]])).at(-2)).toContain('"transcript.text.done"');
  });

  test("calls its speakers A, B and so on, from whatever number they are counted", () => {
    expect(JSON.parse(textOf(rendered("diarized_json")))).toMatchObject({ segments: [{ speaker: "A" }, { speaker: "B" }] });
  });

  test("is metered by the length that the upstream heard", () => {
    expect(whole(answered(ask(), talk)).usage).toMatchObject({ audioSeconds: 2.3 });
  });

  test("has no words where the model reported none, and may be empty", () => {
    const wordless = { ...talk, phrases: phrases.map((phrase) => ({ ...phrase, words: undefined })) };
    expect(isFailure(answered(ask([["response_format", "srt"]]), wordless))).toBe(false);
    const words = ask([
      ["response_format", "verbose_json"],
      ["timestamp_granularities[]", "word"],
    ]);
    expect(answered(words, wordless)).toMatchObject({ kind: "unsupported", param: "timestamp_granularities", served: true });
    const timeless = { ...talk, phrases: phrases.map(({ text }) => ({ text })) };
    expect(answered(ask([["response_format", "srt"]]), timeless)).toMatchObject({ kind: "unsupported", param: "response_format" });
    expect(textOf(whole(answered(ask([["response_format", "text"]]), timeless)).body)).not.toBe("\n");
    const empty = { durationMilliseconds: 1000, combinedPhrases: [], phrases: [] };
    expect(textOf(whole(answered(ask([["response_format", "vtt"]]), empty)).body)).toBe("WEBVTT\n\n");
    expect(textOf(whole(answered(ask([["response_format", "text"]]), empty)).body)).toBe("\n");
  });

  test("that is none is a failure", () => {
    for (const body of ["", "<html>", "[]", "{}", '{"combinedPhrases":"x"}', "[".repeat(100_000)]) {
      expect(answered(ask(), body)).toMatchObject({ kind: "bad_response" });
    }
    const refused = { code: "InvalidRequest", message: "The audio is empty." };
    expect(isFailure(answered(ask(), refused))).toBe(true);
    const odd = { ...talk, phrases: [null, "x", { words: "none", speaker: {} }] };
    expect(isFailure(answered(ask(), odd))).toBe(false);
  });
});

describe("an error", () => {
  const explained = (status: number, body: object | string): Failure =>
    codec.explain({ status, header: () => null, body: typeof body === "string" ? body : JSON.stringify(body) });

  test("is explained by what it says", () => {
    const message = "Access denied due to invalid subscription key or wrong API endpoint.";
    expect(explained(401, { error: { code: "401", message } })).toMatchObject({ kind: "unauthorized" });
    expect(explained(429, { error: { code: "429", message: "Requests have exceeded call rate limit." } })).toMatchObject({
      kind: "rate_limited",
    });
    const inner = { code: "InvalidLocale", message: "The specified locale is not supported." };
    expect(explained(400, { code: "InvalidRequest", message: inner.message, innerError: inner })).toMatchObject({
      blame: "client",
      publicMessage: inner.message,
    });
    expect(explained(500, { code: "InternalServerError", message: "x" })).toMatchObject({ kind: "overloaded" });
  });
});
