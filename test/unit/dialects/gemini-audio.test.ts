import { describe, expect, test } from "bun:test";
import type { EncodedRequest, ExpectedStream, StreamedBody, Target } from "../../../src/dialects/dialect.ts";
import { gemini } from "../../../src/dialects/gemini/gemini.ts";
import { jsonFileBody } from "../../../src/dialects/transcripts/json-file-body.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import { readSpeechRequest } from "../../../src/operations/speech/speech-request.ts";
import type { TranscriptionRequest } from "../../../src/operations/transcription/transcription-request.ts";
import type { WholeAnswer } from "../../../src/operations/emission.ts";
import { bytewise } from "../../support/cuts.ts";
import { FakeTranscoder, headOf, heard, noTools, play, spoke, targetOf, tone, toolsOf, type Played } from "../../support/speech-world.ts";
import {
  ask,
  bytesOf,
  encoded,
  eventsIn,
  formFile,
  readWhole,
  sent,
  stored,
  target,
  textOf,
  whole,
} from "../../support/transcription-world.ts";

const speech = gemini.speech!;
const transcription = gemini.transcription!;
const address = { baseUrl: "https://g.test/v1beta", chatPath: "/models/{model}:generateContent", query: "" };

/** A target of speech, with the address of this API. */
function speaker(voices: Target["channel"]["voices"] = { names: new Map(), unknown: "pass", fallback: null }): Target {
  const made = targetOf({ model: "gemini-9-flash-tts", voices });
  return { ...made, channel: { ...made.channel, address: { ...made.channel.address, ...address } } };
}

function speaking(fields: object = {}, to = speaker()): EncodedRequest {
  const body = JSON.stringify({ model: "m", input: "Hello.", voice: "Kore", ...fields });
  const request = readSpeechRequest(Buffer.from(body), { charactersMax: 4096 });
  if (isFailure(request)) throw new Error(request.publicMessage);
  return encoded(speech.encode(request, to));
}

function bodyOf({ request }: EncodedRequest): unknown {
  return JSON.parse(Buffer.from(request.body as Uint8Array).toString());
}

const usageMetadata = {
  promptTokenCount: 7,
  candidatesTokenCount: 30,
  totalTokenCount: 37,
  promptTokensDetails: [{ modality: "TEXT", tokenCount: 7 }],
  candidatesTokensDetails: [{ modality: "AUDIO", tokenCount: 30 }],
};

function event(audio: Uint8Array | null, more: object = {}, mimeType = "audio/L16;codec=pcm;rate=24000"): object {
  const parts = audio === null ? [] : [{ inlineData: { mimeType, data: audio.toBase64() } }];
  return { candidates: [{ content: { role: "model", parts }, index: 0, ...more }], modelVersion: "gemini-9-flash-tts" };
}

function stream(...events: readonly object[]): Uint8Array {
  return bytesOf(events.map((each) => `data: ${JSON.stringify(each)}\r\n\r\n`).join(""));
}

async function played(chunks: readonly Uint8Array[], fields: object = { response_format: "pcm" }, tools = noTools): Promise<Played> {
  const reader = await (speaking(fields).answer as ExpectedStream).reader(headOf("text/event-stream"), tools);
  return play(reader, chunks);
}

describe("a text to be spoken", () => {
  test("goes to the stream of the model, with the voice and how to speak", () => {
    const made = speaking({ instructions: "Calmly.", speed: 1.5 });
    expect(made.request).toMatchObject({
      method: "POST",
      url: "https://g.test/v1beta/models/gemini-9-flash-tts:streamGenerateContent?alt=sse",
      headers: { "content-type": "application/json", accept: "text/event-stream" },
    });
    expect(bodyOf(made)).toEqual({
      contents: [{ role: "user", parts: [{ text: expect.stringMatching(/Calmly\.\n\nTranscript:\nHello\.$/) }] }],
      generationConfig: {
        responseModalities: ["AUDIO"],
        speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: "Kore" } } },
      },
    });
    expect(made.dropped).toEqual(["speed"]);
  });

  test("gets the channel's usual voice for a name that it does not have, and the client is told", () => {
    const voices = { names: new Map([["Kore", "Kore"]]), unknown: "replace", fallback: "Kore" } as const;
    const made = speaking({ voice: "alloy" }, speaker(voices));
    expect(JSON.stringify(bodyOf(made))).toContain('"voiceName":"Kore"');
    expect(made.voice).toBe("Kore");
  });
});

describe("a spoken answer", () => {
  test("is the samples of its events, wherever they are cut, with the tokens that it cost", async () => {
    const pcm = await tone("pcm", 60);
    const body = stream(event(pcm.subarray(0, 501)), event(null), event(pcm.subarray(501)), {
      ...event(null, { finishReason: "STOP" }),
      usageMetadata,
    });
    for (const chunks of [[body], bytewise(body)]) {
      const { sent: bytes, failure, emissions } = await played(chunks);
      expect(failure).toBeNull();
      expect(bytes.equals(pcm)).toBe(true);
      expect(emissions.at(-2)).toMatchObject({
        kind: "usage",
        usage: { promptTokens: 7, completionTokens: 30, audioOutputTokens: 30, characters: 6 },
      });
      expect(emissions.at(-1)).toMatchObject({ kind: "end" });
    }
  });

  test("becomes events or another format for a client that wants those", async () => {
    const pcm = await tone("pcm", 60);
    const body = stream({ ...event(pcm, { finishReason: "STOP" }), usageMetadata });
    const { sent: events } = await played([body], { response_format: "pcm", stream_format: "sse" });
    expect(heard(events)).toEqual({ audio: Buffer.from(pcm), done: [{ input_tokens: 7, output_tokens: 30, total_tokens: 37 }] });
    const asked: string[] = [];
    expect((await played([body], { response_format: "flac" }, toolsOf(new FakeTranscoder(), asked))).failure).toBeNull();
    expect(asked).toEqual(["pcm to flac"]);
  });

  test("may come all at once, in an event that no other stream has", async () => {
    const pcm = new Uint8Array(7 * 1024 * 1024).fill(1);
    expect((await played([stream(event(pcm, { finishReason: "STOP" }))])).sent.length).toBe(pcm.length);
  });

  test.each<[string, readonly object[], Failure["kind"]]>([
    ["ends without a reason", [event(new Uint8Array(960))], "bad_response"],
    ["says nothing", [event(null, { finishReason: "STOP" })], "model_failed"],
    ["was refused", [{ promptFeedback: { blockReason: "PROHIBITED_CONTENT" } }], "model_failed"],
    ["stops for another reason", [event(null, { finishReason: "OTHER" })], "model_failed"],
    ["is cut at the model's limit", [event(new Uint8Array(960), { finishReason: "MAX_TOKENS" })], "model_failed"],
    ["has samples of another rate", [event(new Uint8Array(960), {}, "audio/L16;codec=pcm;rate=16000")], "bad_response"],
    ["is no base64", [{ candidates: [{ content: { parts: [{ inlineData: { data: "???" } }] } }] }], "bad_response"],
    ["is an error", [{ error: { code: 429, status: "RESOURCE_EXHAUSTED", message: "Quota exceeded." } }], "rate_limited"],
  ])("that %s is a failure", async (_, events, kind) => {
    const { failure, emissions } = await played([stream(...events)]);
    expect(failure).toMatchObject({ kind });
    expect(emissions.some(({ kind: one }) => one === "end")).toBe(false);
  });

  test("that breaks off keeps what was said before", async () => {
    const { failure, ...rest } = await played([stream(event(new Uint8Array(960).fill(3)), { error: { code: 503, message: "x" } })]);
    expect(failure).toMatchObject({ blame: "channel" });
    expect(spoke({ failure, ...rest })).toBe(true);
  });

  test("that is a JSON document is an error of the upstream", () => {
    const { answer } = speaking();
    const instead = (text: string): WholeAnswer | Failure => (answer as ExpectedStream).instead(bytesOf(text), headOf(null));
    expect(instead('[{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"API key not valid."}}]')).toMatchObject({
      kind: "unauthorized",
    });
    expect(instead(JSON.stringify(event(null, { finishReason: "STOP" })))).toMatchObject({ kind: "bad_response" });
  });
});

const flash = target({ address, model: "gemini-9-flash" });
const mp3 = new Uint8Array([...bytesOf("ID3\u0004\u0000\u0000\u0000\u0000\u0000\u0000"), ...new Uint8Array(990).map((_, at) => at % 251)]);

async function documentOf(request: TranscriptionRequest, to = flash): Promise<Record<string, unknown>> {
  const made = encoded(transcription.encode(request, to));
  const body = made.request.body as StreamedBody;
  const { bytes } = await sent(body);
  expect(bytes.length).toBe(body.length);
  return JSON.parse(textOf(bytes)) as Record<string, unknown>;
}

describe("a recording to be written down", () => {
  test("is sent whole inside of the request, under its own type, with words that ask for a transcript", async () => {
    const file = formFile(mp3, { name: "a.bin", type: "application/octet-stream" });
    const request = ask(
      [
        ["language", "de"],
        ["prompt", 'About "data":"" and Sluice.'],
        ["keywords[]", "Sluice"],
        ["temperature", "0.5"],
        ["chunking_strategy", "auto"],
      ],
      { file },
    );
    expect(encoded(transcription.encode(request, flash))).toMatchObject({
      request: { url: "https://g.test/v1beta/models/gemini-9-flash:generateContent" },
      dropped: ["chunking_strategy"],
    });
    const { contents, generationConfig } = await documentOf(request);
    expect(generationConfig).toEqual({ temperature: 0.5, thinkingConfig: { thinkingLevel: "LOW" } });
    const [{ parts }] = contents as [{ parts: readonly { inlineData?: { mimeType: string; data: string }; text?: string }[] }];
    expect(parts[0]?.inlineData?.mimeType).toBe("audio/mp3");
    expect(Buffer.from(parts[0]?.inlineData?.data ?? "", "base64").equals(mp3)).toBe(true);
    for (const words of ["word for word", "german", "Sluice", 'About "data":""']) expect(parts[1]?.text).toContain(words);
  });

  test.each([0, 1, 2, 3, 4, 1000, 256 * 1024 * 2 + 1])("has every byte of a file of %d bytes", async (length) => {
    const file = new Uint8Array(length).map((_, at) => at % 253);
    const body = jsonFileBody({ a: "b", content: "", c: 1 }, "content", stored(file));
    const { bytes } = await sent(body);
    expect(bytes.length).toBe(body.length);
    expect(JSON.parse(textOf(bytes))).toEqual({ a: "b", content: Buffer.from(file).toString("base64"), c: 1 });
  });

  test("is asked for in English where the client wants a translation", async () => {
    expect(JSON.stringify(await documentOf(ask([], { task: "translate" })))).toContain("in English");
  });

  test.each(["srt", "vtt", "verbose_json", "diarized_json"])("is left to another channel where %s needs times", (format) => {
    expect(transcription.encode(ask([["response_format", format]]), flash)).toMatchObject({
      kind: "unsupported",
      code: "unsupported_value",
      param: "response_format",
    });
  });

  test("is left to another channel where its type is not known", () => {
    const file = formFile(bytesOf("no audio at all"), { name: "a.mp3", type: "text/plain" });
    expect(transcription.encode(ask([], { file }), flash)).toMatchObject({ kind: "unsupported", param: "file" });
  });
});

function writing(finishReason: string, text: string | null): string {
  const parts = [{ text: "Hm.", thought: true }, ...(text === null ? [] : [{ text }])];
  return JSON.stringify({
    candidates: [{ content: { parts }, finishReason }],
    usageMetadata: {
      promptTokenCount: 120,
      candidatesTokenCount: 5,
      totalTokenCount: 125,
      promptTokensDetails: [
        { modality: "TEXT", tokenCount: 20 },
        { modality: "AUDIO", tokenCount: 100 },
      ],
    },
  });
}

function written(body: string, entries: readonly (readonly [string, string])[] = []): WholeAnswer | Failure {
  return readWhole(encoded(transcription.encode({ ...ask(entries), seconds: 4 }, flash)), body);
}

describe("a transcript", () => {
  test("is what the model wrote, without its thoughts, with tokens and seconds", () => {
    const answer = whole(written(writing("STOP", "Hello there.\n")));
    expect(JSON.parse(textOf(answer.body))).toEqual({
      text: "Hello there.",
      usage: {
        type: "tokens",
        input_tokens: 120,
        input_token_details: { text_tokens: 20, audio_tokens: 100 },
        output_tokens: 5,
        total_tokens: 125,
      },
    });
    expect(answer.usage).toMatchObject({ promptTokens: 120, completionTokens: 5, audioInputTokens: 100, audioSeconds: 5 });
    expect(textOf(whole(written(writing("STOP", "Hello."), [["response_format", "text"]])).body)).toBe("Hello.\n");
    expect(JSON.parse(textOf(whole(written(writing("STOP", null))).body))).toMatchObject({ text: "" });
  });

  test("is one delta and the end for a client that wants a stream", () => {
    const events = eventsIn(whole(written(writing("STOP", "Hello."), [["stream", "true"]])).body);
    expect(JSON.parse(events[0] ?? "")).toMatchObject({ type: "transcript.text.delta", delta: "Hello." });
  });

  test.each<[string, string, Failure["kind"]]>([
    ["cut at the model's limit", writing("MAX_TOKENS", "Hello"), "model_failed"],
    ["refused", writing("SAFETY", null), "model_failed"],
    ["ended for another reason", writing("OTHER", "Hello"), "model_failed"],
    ["ended for a reason that is not known yet", writing("SOMETHING_NEW", "Hello"), "model_failed"],
    ["not said to have ended", writing("", "Hello"), "model_failed"],
    ["an error", '{"error":{"code":503,"status":"UNAVAILABLE","message":"The model is overloaded."}}', "overloaded"],
    ["empty", "", "bad_response"],
    ["no JSON", "<html>", "bad_response"],
  ])("that is %s is a failure", (_, body, kind) => {
    expect(written(body)).toMatchObject({ kind });
  });
});
