import { describe, expect, test } from "bun:test";
import type { EncodedRequest, ExpectedStream, StreamedBody, Target } from "../../../src/dialects/dialect.ts";
import { googleSpeechToText, googleTextToSpeech } from "../../../src/dialects/google/google-cloud.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import { readSpeechRequest } from "../../../src/operations/speech/speech-request.ts";
import type { TranscriptionRequest } from "../../../src/operations/transcription/transcription-request.ts";
import { bytewise } from "../../support/cuts.ts";
import { FakeTranscoder, headOf, noTools, play, targetOf, tone, toolsOf } from "../../support/speech-world.ts";
import { ask, bytesOf, cuesIn, encoded, readWhole, sent, target, textOf, wave, whole } from "../../support/transcription-world.ts";

const synthesis = googleTextToSpeech.speech!;
const recognition = googleSpeechToText.transcription!;

function made(fields: object = {}, model = "chirp3-hd"): EncodedRequest | Failure {
  const body = JSON.stringify({ model: "m", input: "Hello.", voice: "de-DE-Chirp3-HD-Puck", ...fields });
  const request = readSpeechRequest(Buffer.from(body), { charactersMax: 9000 });
  if (isFailure(request)) throw new Error(request.publicMessage);
  return synthesis.encode(request, targetOf({ model, speechPath: "/text:synthesize" }));
}

function bodyOf(encodedRequest: EncodedRequest): unknown {
  return JSON.parse(Buffer.from(encodedRequest.request.body as Uint8Array).toString());
}

describe("a text for Cloud Text-to-Speech", () => {
  test("is sent with its voice, the language of the voice and an encoding of the API", () => {
    const request = encoded(made({ speed: 1.5, instructions: "Calmly." }));
    expect(request.request.url).toBe("https://speech.test/v1/text:synthesize");
    expect(bodyOf(request)).toEqual({
      input: { text: "Hello." },
      voice: { name: "de-DE-Chirp3-HD-Puck", languageCode: "de-DE" },
      audioConfig: { audioEncoding: "MP3", speakingRate: 1.5 },
    });
    expect(request).toMatchObject({ dropped: ["instructions"], voice: null });
  });

  test.each([
    ["mp3", { audioEncoding: "MP3" }],
    ["opus", { audioEncoding: "OGG_OPUS" }],
    ["wav", { audioEncoding: "LINEAR16", sampleRateHertz: 24_000 }],
    ["pcm", { audioEncoding: "LINEAR16", sampleRateHertz: 24_000 }],
    ["flac", { audioEncoding: "LINEAR16", sampleRateHertz: 24_000 }],
    ["aac", { audioEncoding: "LINEAR16", sampleRateHertz: 24_000 }],
  ])("for %s is requested in the nearest encoding", (format, audioConfig) => {
    expect(bodyOf(encoded(made({ response_format: format })))).toMatchObject({ audioConfig });
  });

  test("is spoken at the highest speed there is where the client wants more, and the client is told", () => {
    const request = encoded(made({ speed: 4 }));
    expect(bodyOf(request)).toMatchObject({ audioConfig: { speakingRate: 2 } });
    expect(request.dropped).toEqual(["speed"]);
  });

  test.each([
    ["alloy", "chirp3-hd", "en-US-Chirp3-HD-Kore"],
    ["alloy", "neural2", "en-US-Neural2-F"],
    ["cmn-CN-Wavenet-A", "wavenet", "cmn-CN-Wavenet-A"],
    ["en-US-News-K", "news", "en-US-News-K"],
  ])("with the voice %s and the model %s is spoken by %s", (voice, model, name) => {
    const request = encoded(made({ voice }, model));
    expect(bodyOf(request)).toMatchObject({ voice: { name, languageCode: name.slice(0, name.indexOf("-", 4)) } });
    expect(request.voice).toBe(voice === name ? null : name);
  });

  test.each([
    ["en-US-Studio-O", "standard"],
    ["alloy", "unheard-of"],
  ])("with the voice %s is not sent as the model %s, which has another price", (voice, model) => {
    expect(made({ voice }, model)).toMatchObject({ kind: "unsupported", param: "voice", code: "invalid_value" });
  });

  test("that has too many bytes is left to another channel", () => {
    expect(isFailure(made({ input: "a".repeat(5000) }))).toBe(false);
    expect(made({ input: "ж".repeat(2501) })).toMatchObject({ kind: "unsupported", param: "input", code: "string_above_max_length" });
  });
});

describe("an answer of Cloud Text-to-Speech", () => {
  const read = async (chunks: readonly Uint8Array[], fields: object = {}, tools = noTools) => {
    const { answer } = encoded(made(fields));
    expect(answer).toMatchObject({ isJson: true });
    return play(await (answer as ExpectedStream).reader(headOf("application/json"), tools), chunks);
  };

  test("is its audio, however it is cut, and costs the characters of the text", async () => {
    const mp3 = await tone("mp3");
    const body = bytesOf(JSON.stringify({ audioContent: mp3.toBase64() }, null, 2));
    for (const chunks of [[body], bytewise(body)]) {
      const { sent: bytes, emissions } = await read(chunks);
      expect(bytes.equals(mp3)).toBe(true);
      expect(emissions.at(-2)).toMatchObject({ kind: "usage", usage: { characters: 6, promptTokens: null } });
    }
  });

  test("is converted where the API lacks the client's format", async () => {
    const asked: string[] = [];
    const body = bytesOf(JSON.stringify({ audioContent: (await tone("wav")).toBase64() }));
    expect((await read([body], { response_format: "aac" }, toolsOf(new FakeTranscoder(), asked))).failure).toBeNull();
    expect(asked).toEqual(["wav to aac"]);
  });

  test.each([
    ["has no audio", '{"audioContent":""}', "bad_response"],
    ["is no base64", '{"audioContent":"???"}', "bad_response"],
    ["is cut", '{"audioContent":"SUQz', "bad_response"],
    ["is an error", '{"error":{"code":503,"status":"UNAVAILABLE","message":"Try later."}}', "overloaded"],
  ])("that %s is a failure", async (_, body, kind) => {
    expect((await read([bytesOf(body)])).failure).toMatchObject({ kind });
  });
});

const recognizer: Target = target({
  address: { baseUrl: "https://stt.test/v2/x", transcriptionPath: "/recognizers/_:recognize" },
  model: "chirp_3",
});

async function configOf(request: TranscriptionRequest, to = recognizer): Promise<unknown> {
  const { bytes } = await sent(encoded(recognition.encode(request, to)).request.body as StreamedBody);
  const { config, content } = JSON.parse(textOf(bytes)) as { readonly config: unknown; readonly content: string };
  expect(Buffer.from(content, "base64").equals(wave)).toBe(true);
  return config;
}

describe("a recording for Cloud Speech-to-Text", () => {
  test("is sent inside of the request, and decoded by the recognizer itself", async () => {
    expect(encoded(recognition.encode(ask(), recognizer)).request).toMatchObject({
      url: "https://stt.test/v2/x/recognizers/_:recognize",
      headers: { "content-type": "application/json" },
    });
    expect(await configOf(ask())).toEqual({
      autoDecodingConfig: {},
      model: "chirp_3",
      languageCodes: ["auto"],
      features: { enableAutomaticPunctuation: true },
    });
  });

  test("is asked for times and speakers only where the format needs them, and for the client's words", async () => {
    expect(await configOf(ask([["response_format", "srt"]]))).toMatchObject({ features: { enableWordTimeOffsets: true } });
    const diarized = ask([
      ["response_format", "diarized_json"],
      ["keywords[]", "Sluice"],
      ["prompt", "x"],
      ["temperature", "0.1"],
    ]);
    expect(await configOf(diarized)).toMatchObject({
      features: { enableWordTimeOffsets: true, diarizationConfig: { minSpeakerCount: 1 } },
      adaptation: { phraseSets: [{ inlinePhraseSet: { phrases: [{ value: "Sluice" }] } }] },
    });
    expect(encoded(recognition.encode(diarized, recognizer)).dropped).toEqual(["prompt", "temperature"]);
  });

  test.each([
    ["en", "en-US"],
    ["german", "de-DE"],
    ["pt", "pt-BR"],
    ["en-GB", "en-GB"],
    ["zh", "cmn-Hans-CN"],
    ["zh-CN", "cmn-Hans-CN"],
    ["zh-Hant", "cmn-Hant-TW"],
    ["zh_tw", "cmn-Hant-TW"],
    ["he-IL", "iw-IL"],
    ["hebrew", "iw-IL"],
    ["javanese", "jv-ID"],
  ])("in the language %s is one in %s", async (language, code) => {
    expect(await configOf(ask([["language", language]]))).toMatchObject({ languageCodes: [code] });
  });

  test("needs its language where the model does not detect it", () => {
    const long = { ...recognizer, model: "long" };
    expect(recognition.encode(ask(), long)).toMatchObject({ kind: "unsupported", param: "language" });
    expect(isFailure(recognition.encode(ask([["language", "en"]]), long))).toBe(false);
    expect(recognition.encode(ask([], { task: "translate" }), recognizer)).toMatchObject({ kind: "unsupported" });
  });
});

const words = [
  { word: "Hello", endOffset: "0.500s", speakerLabel: "1" },
  { word: "there.", startOffset: "0.500s", endOffset: "1s", speakerLabel: "1" },
];
const more = [{ word: "Hi.", startOffset: "2.200s", endOffset: "2.600s", speakerLabel: "2" }];
const results = [
  { alternatives: [{ transcript: "Hello there.", confidence: 0.9, words }], resultEndOffset: "1.100s", languageCode: "en-us" },
  { alternatives: [{ transcript: " Hi.", words: more }], resultEndOffset: "2.900s", languageCode: "en-us" },
];
const metadata = { totalBilledDuration: "3s", requestId: "r" };

function heardAs(format: string, answer: object): ReturnType<typeof readWhole> {
  const request = { ...ask([["response_format", format]]), seconds: 2.9 };
  return readWhole(encoded(recognition.encode(request, recognizer)), JSON.stringify(answer));
}

describe("an answer of Cloud Speech-to-Text", () => {
  test("is the text of its results, and costs the seconds that were billed", () => {
    const answer = whole(heardAs("json", { results, metadata }));
    expect(JSON.parse(textOf(answer.body))).toEqual({ text: "Hello there. Hi.", usage: { type: "duration", seconds: 3 } });
    expect(answer.usage).toMatchObject({ audioSeconds: 3 });
  });

  test("has the times of its words, and segments that are made of them", () => {
    expect(cuesIn(whole(heardAs("srt", { results, metadata })).body, "srt")).toEqual([
      { start: 0, end: 1000, text: "Hello there." },
      { start: 2200, end: 2600, text: "Hi." },
    ]);
    expect(JSON.parse(textOf(whole(heardAs("verbose_json", { results, metadata })).body))).toMatchObject({
      language: "english",
      duration: 2.9,
      segments: [
        { start: 0, end: 1, text: " Hello there." },
        { start: 2.2, end: 2.6, text: " Hi." },
      ],
    });
    const { segments } = JSON.parse(textOf(whole(heardAs("diarized_json", { results, metadata })).body)) as {
      segments: readonly { speaker: string }[];
    };
    expect(segments.map(({ speaker }) => speaker)).toEqual(["A", "B"]);
  });

  test("without speech is an empty text", () => {
    expect(JSON.parse(textOf(whole(heardAs("json", { metadata })).body))).toMatchObject({ text: "" });
    expect(textOf(whole(heardAs("vtt", {})).body)).toBe("WEBVTT\n\n");
  });

  test("never gets times that the recognizer did not give", () => {
    const plain = [{ alternatives: [{ transcript: "Hello." }], resultEndOffset: "1s" }];
    expect(heardAs("srt", { results: plain })).toMatchObject({ kind: "unsupported", served: true });
    const broken = [{ alternatives: [{ transcript: "Hello.", words: [{ word: "Hello." }] }] }];
    expect(heardAs("srt", { results: broken })).toMatchObject({ blame: expect.stringMatching(/channel|client/) });
  });

  test.each([
    ['{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"Audio is too long."}}', "invalid_request"],
    ["[]", "bad_response"],
    ["", "bad_response"],
  ])("%s is a failure", (body, kind) => {
    expect(readWhole(encoded(recognition.encode(ask(), recognizer)), body)).toMatchObject({ kind });
  });

  test("with figures that cannot be is read without them", () => {
    for (const totalBilledDuration of ["-3s", "1e999s", "99999999999s", 5, {}]) {
      const answer = whole(heardAs("json", { results, metadata: { totalBilledDuration } }));
      expect(answer.usage).toMatchObject({ audioSeconds: 2.9, estimated: true });
    }
  });
});
