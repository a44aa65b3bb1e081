import { describe, expect, test } from "bun:test";
import { openaiTranscription } from "../../../src/dialects/openai/transcription.ts";
import { presetNamed } from "../../../src/dialects/presets.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import { transcriptFormats, type TranscriptFormat } from "../../../src/operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../../src/operations/transcription/transcription-request.ts";
import type { WholeAnswer } from "../../../src/operations/emission.ts";
import {
  ask,
  cuesIn,
  encoded,
  eventsIn,
  formIn,
  readWhole,
  target,
  textOf,
  whole,
  type TargetFacts,
} from "../../support/transcription-world.ts";

// The answers here have the shapes that recorded ones have; their words were written for these tests.
const verboseAnswer = JSON.stringify({
  task: "transcribe",
  language: "english",
  duration: 3.2,
  text: "Hello there. How are you?",
  segments: [
    {
      id: 0,
      seek: 0,
      start: 0.0,
      end: 1.5,
      text: " Hello there.",
      tokens: [50364, 2425],
      temperature: 0.0,
      avg_logprob: -0.3,
      compression_ratio: 0.8,
      no_speech_prob: 0.01,
    },
    {
      id: 1,
      seek: 0,
      start: 1.5,
      end: 3.2,
      text: " How are you?",
      tokens: [50439],
      temperature: 0.0,
      avg_logprob: -0.3,
      compression_ratio: 0.8,
      no_speech_prob: 0.01,
    },
  ],
  usage: { type: "duration", seconds: 4 },
});
const jsonAnswer = `{"text": "Hello there.", "usage": {"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":0,"audio_tokens":14},"output_tokens":6,"total_tokens":20}, "logprobs": [1.50]}`;
const diarizedAnswer = `{"task":"transcribe","duration":3.2,"text":"Hi. Hello.","segments":[{"type":"transcript.text.segment","id":"seg_0","start":0,"end":1,"text":" Hi.","speaker":"A"},{"type":"transcript.text.segment","id":"seg_1","start":1,"end":2,"text":" Hello.","speaker":"B"}],"usage":{"type":"duration","seconds":4}}`;
const srtAnswer = "1\n00:00:00,000 --> 00:00:01,500\nHello there.\n\n";
const vttAnswer = "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello there.\n\n";

type Entries = readonly (readonly [string, string])[];

const codec = openaiTranscription;

function asking(format: TranscriptFormat, more: Entries = []): TranscriptionRequest {
  return ask([["response_format", format], ...more]);
}

function answered(asked: TranscriptionRequest, facts: TargetFacts, body: string | Uint8Array, type?: string | null): WholeAnswer | Failure {
  return readWhole(encoded(codec.encode(asked, target(facts))), body, type);
}

async function formOf(asked: TranscriptionRequest, facts: TargetFacts = {}): Promise<readonly (readonly [string, string])[]> {
  const form = await formIn(encoded(codec.encode(asked, target(facts))));
  return [...form.entries()].filter((entry): entry is [string, string] => typeof entry[1] === "string");
}

describe("a request", () => {
  test("tells an engine of this machine how long the sound may last: twice what its file says, and what its channel takes", () => {
    const bound = (seconds: number | null, facts: TargetFacts): string | undefined =>
      encoded(codec.encode({ ...ask([]), seconds }, target(facts))).request.headers["x-audio-seconds-max"];
    const engine = { address: { baseUrl: "engine://local/v1" } };
    expect(bound(10, engine)).toBe("80");
    expect(bound(600, { ...engine, audioSecondsMax: 900 })).toBe("945");
    expect(bound(null, { ...engine, audioSecondsMax: 900 })).toBe("945");
    expect(bound(null, engine)).toBeUndefined();
    expect(bound(10, { audioSecondsMax: 900 })).toBeUndefined();
  });

  test("goes to the address of its task, with the headers of the channel and the form's own content type", () => {
    const facts = { headers: { "x-fixed": "1", "content-type": "text/plain" }, forwarded: { "x-client": "2" }, address: { query: "?v=1" } };
    const { request, clampedTo, voice } = encoded(codec.encode(ask(), target(facts)));
    expect(request).toMatchObject({ method: "POST", url: "https://upstream.test/v1/audio/transcriptions?v=1" });
    expect(request.headers).toMatchObject({ "x-fixed": "1", "x-client": "2" });
    expect(request.headers["content-type"]).toMatch(/^multipart\/form-data; boundary=/);
    expect([clampedTo, voice]).toEqual([null, null]);
    const translation = encoded(codec.encode(ask([], { task: "translate" }), target()));
    expect(translation.request.url).toBe("https://upstream.test/v1/audio/translations");
  });

  test("has the model in the address where the channel wants it there", () => {
    const facts = { model: "a/b $&", address: { transcriptionPath: "/deployments/{model}/audio/transcriptions" } };
    expect(encoded(codec.encode(ask(), target(facts))).request.url).toBe(
      "https://upstream.test/v1/deployments/a%2Fb%20%24%26/audio/transcriptions",
    );
  });

  test("carries the client's fields as they are, under the upstream's name of the model, every one of them", async () => {
    const asked = ask([
      ["chunking_strategy[type]", "server_vad"],
      ["prompt", " two\r\nlines "],
      ["model", "another"],
      ["include[]", "logprobs"],
      ["temperature", "0.20"],
    ]);
    expect(await formOf(asked)).toEqual([
      ["model", "theirs"],
      ["chunking_strategy[type]", "server_vad"],
      ["prompt", " two\r\nlines "],
      ["model", "theirs"],
      ["include[]", "logprobs"],
      ["temperature", "0.20"],
    ]);
  });

  test.each([
    [
      "repeated without brackets",
      (name: string): Entries => [
        [name, "word"],
        [name, "segment"],
      ],
    ],
    [
      "numbered",
      (name: string): Entries => [
        [`${name}[1]`, "segment"],
        [`${name}[0]`, "word"],
      ],
    ],
    ["as JSON", (name: string): Entries => [[name, `["word","segment"]`]]],
    [
      "as the OpenAI API has it",
      (name: string): Entries => [
        [`${name}[]`, "word"],
        [`${name}[]`, "segment"],
      ],
    ],
  ])("has every list in the form of the OpenAI API where the client wrote it %s", async (_, written) => {
    const lists = "timestamp_granularities include languages keywords known_speaker_names known_speaker_references".split(" ");
    const asked = ask([...lists.flatMap(written), ["prompt", `["a"]`], ["other", "1"], ["other", "2"]]);
    expect(await formOf(asked)).toEqual([
      ["model", "theirs"],
      ...lists.flatMap((name): Entries => [
        [`${name}[]`, "word"],
        [`${name}[]`, "segment"],
      ]),
      ["prompt", `["a"]`],
      ["other", "1"],
      ["other", "2"],
    ]);
  });

  test("has the lists of Mistral without brackets, as its documentation writes them", async () => {
    const { quirks } = presetNamed("mistral")!;
    const asked = ask([
      ["timestamp_granularities[]", "word"],
      ["timestamp_granularities[]", "segment"],
    ]);
    expect(await formOf(asked, { quirks })).toEqual([
      ["model", "theirs"],
      ["timestamp_granularities", "word"],
      ["timestamp_granularities", "segment"],
    ]);
  });

  test("asks Mistral for the times that a format needs, which the OpenAI API gives without being asked", async () => {
    const { quirks } = presetNamed("mistral")!;
    const granularities = async (asked: TranscriptionRequest) =>
      (await formOf(asked, { quirks })).filter(([name]) => name === "timestamp_granularities").map(([, value]) => value);
    expect(await granularities(asking("srt"))).toEqual(["segment"]);
    expect(await granularities(asking("verbose_json", [["timestamp_granularities[]", "word"]]))).toEqual(["word"]);
    expect(await granularities(asking("json"))).toEqual([]);
    const spoken = `{"model":"m","text":"Hi.","language":"en","segments":[{"type":"transcription_segment","text":"Hi.","start":0.1,"end":0.9}],"usage":{}}`;
    expect(textOf(whole(answered(asking("srt"), { quirks }, spoken)).body)).toBe("1\n00:00:00,100 --> 00:00:00,900\nHi.\n\n");
  });

  test("leaves a strategy in the spelling it came in", async () => {
    const spellings: readonly Entries[] = [
      [["chunking_strategy", `{"type":"server_vad"}`]],
      [
        ["chunking_strategy[type]", "server_vad"],
        ["chunking_strategy[threshold]", "0.5"],
      ],
      [["chunking_strategy", "auto"]],
    ];
    for (const entries of spellings) expect(await formOf(ask(entries))).toEqual([["model", "theirs"], ...entries]);
  });

  test("has one file, whatever else is called so, with its name and bytes", async () => {
    const form = await formIn(encoded(codec.encode(ask([["file", "https://elsewhere.test/x.wav"]]), target())));
    const files = form.getAll("file") as unknown as File[];
    expect(files.map(({ name }) => name)).toEqual(["speech.wav"]);
    expect((await files[0]!.text()).slice(0, 4)).toBe("RIFF");
  });

  test("names the language by its code, and not at all where the client left it empty", async () => {
    expect(await formOf(ask([["language", "en-US"]]))).toContainEqual(["language", "en"]);
    expect(await formOf(ask([["language", "German"]]))).toContainEqual(["language", "de"]);
    expect((await formOf(ask([["language", ""]]))).map(([name]) => name)).not.toContain("language");
  });

  test("in a language that the common speech model does not know is refused", () => {
    for (const said of ["multi", "klingon", "tlh-Latn"]) {
      for (const task of ["transcribe", "translate"] as const) {
        const failure = codec.encode(ask([["language", said]], { task }), target()) as Failure;
        // Another dialect may know it: that one is asked before the client is told.
        expect(failure).toMatchObject({ kind: "unsupported", status: 400, type: "invalid_request_error", code: "invalid_value" });
        expect(failure).toMatchObject({ param: "language", blame: "client" });
        expect(failure.publicMessage).toContain("english");
        expect(failure.publicMessage).not.toContain(said);
      }
    }
  });

  test("asks for a stream only where the client wants one and the channel has one", async () => {
    const streaming = ask([["stream", "true"]]);
    expect(await formOf(streaming)).toContainEqual(["stream", "true"]);
    expect((await formOf(streaming, { streams: false })).map(([name]) => name)).not.toContain("stream");
    expect((await formOf(asking("srt", [["stream", "true"]]))).map(([name]) => name)).not.toContain("stream");
    expect(await formOf(ask([["stream", "false"]]))).toContainEqual(["stream", "false"]);
    expect(encoded(codec.encode(streaming, target())).answer.kind).toBe("stream");
    expect(encoded(codec.encode(streaming, target({ streams: false }))).answer.kind).toBe("whole");
  });

  test.each([
    ["True", "true"],
    ["TRUE ", "true"],
    ["False", "false"],
  ])("says %p to stream in the one spelling that every upstream reads", async (written, value) => {
    expect(await formOf(ask([["stream", written]]))).toContainEqual(["stream", value]);
  });

  test("asks for a stream in JSON, so that an upstream that does not stream can be understood", async () => {
    const streaming = asking("text", [["stream", "true"]]);
    expect(await formOf(streaming)).toContainEqual(["response_format", "json"]);
    expect(await formOf(streaming, { formats: ["text"] })).toContainEqual(["response_format", "text"]);
  });
});

describe("the format that is asked of the upstream", () => {
  const all: readonly TranscriptFormat[] = ["json", "text", "verbose_json"];

  test.each<[TranscriptFormat, readonly TranscriptFormat[] | null, TranscriptFormat | null]>([
    ["json", null, "json"],
    ["vtt", null, "vtt"],
    ["diarized_json", null, "diarized_json"],
    ["text", all, "text"],
    ["srt", all, "verbose_json"],
    ["vtt", all, "verbose_json"],
    ["text", ["json"], "json"],
    ["text", ["json", "verbose_json"], "verbose_json"],
    ["json", ["text"], "text"],
    ["srt", ["json", "text", "diarized_json"], "diarized_json"],
    ["verbose_json", ["json", "diarized_json"], "diarized_json"],
    ["srt", ["json", "text"], null],
    ["vtt", ["json"], null],
    ["verbose_json", ["json", "text"], null],
    ["diarized_json", ["json", "verbose_json"], null],
  ])("for %s of %j is %p", async (format, formats, expected) => {
    const made = codec.encode(asking(format), target({ formats }));
    if (expected === null) {
      expect(made).toMatchObject({
        kind: "unsupported",
        status: 400,
        type: "invalid_request_error",
        code: "unsupported_value",
        param: "response_format",
      });
      expect((made as Failure).publicMessage).toMatch(/no channel .* (timestamps|speaker labels)/);
      return;
    }
    expect((await formIn(encoded(made))).getAll("response_format")).toEqual([expected]);
  });

  test("is not said where it is the default and the client did not say it", async () => {
    expect(await formOf(ask())).toEqual([["model", "theirs"]]);
    expect(await formOf(ask(), { formats: ["verbose_json"] })).toEqual([
      ["model", "theirs"],
      ["response_format", "verbose_json"],
    ]);
  });

  test("cannot be one without words where words are wanted", () => {
    const asked = asking("verbose_json", [["timestamp_granularities[]", "word"]]);
    expect(codec.encode(asked, target({ formats: ["json", "diarized_json"] }))).toMatchObject({ kind: "unsupported" });
  });
});

describe("an answer in the format that was asked for", () => {
  const answers: { readonly [F in TranscriptFormat]: string } = {
    json: jsonAnswer,
    text: "Hello there.\n",
    srt: srtAnswer,
    vtt: vttAnswer,
    verbose_json: verboseAnswer,
    diarized_json: diarizedAnswer,
  };

  test.each([...transcriptFormats])("keeps its bytes as %s, and has the right type", (format) => {
    const read = whole(answered(asking(format), {}, answers[format], "application/whatever"));
    expect(textOf(read.body)).toBe(answers[format]);
    expect(read.type).toBe(format.endsWith("json") ? "application/json" : "text/plain; charset=utf-8");
  });

  test("tells what it cost in tokens or in seconds", () => {
    expect(whole(answered(asking("json"), {}, jsonAnswer)).usage).toMatchObject({
      promptTokens: 14,
      completionTokens: 6,
      audioSeconds: null,
    });
    expect(whole(answered(asking("verbose_json"), {}, verboseAnswer)).usage).toMatchObject({ promptTokens: null, audioSeconds: 4 });
    const bare = `{"text":"a","duration":2.5,"segments":[]}`;
    expect(whole(answered(asking("verbose_json"), {}, bare.replace(`"a"`, `""`))).usage).toMatchObject({ audioSeconds: 2.5 });
    expect(whole(answered(asking("json"), {}, `{"text":"a"}`)).usage).toBeNull();
    expect(whole(answered(asking("json"), {}, `{"text":"a","usage":{"seconds":-1,"input_tokens":1.5}}`)).usage).toBeNull();
    expect(whole(answered(asking("text"), {}, "a")).usage).toBeNull();
  });

  test("may be of nothing, where its type says what it is", () => {
    for (const format of ["text", "srt"] as const) {
      expect(whole(answered(asking(format), {}, "", "text/plain")).body.length).toBe(0);
      expect(answered(asking(format), {}, "", null)).toMatchObject({ kind: "bad_response" });
    }
    expect(whole(answered(asking("vtt"), {}, "WEBVTT\n\n", "text/vtt")).body.length).toBe(8);
  });
});

describe("an answer that is none", () => {
  test.each<[TranscriptFormat, string, string]>([
    ["json", "", "empty"],
    ["json", "{", "not JSON"],
    ["json", "Hello", "not JSON"],
    ["json", "[]", "not an object"],
    ["json", "null", "not an object"],
    ["json", "{}", "no text"],
    ["json", `{"text":null}`, "no text"],
    ["json", "<html><body>502</body></html>", "markup"],
    ["text", "\n <!DOCTYPE html><title>Sign in</title>", "markup"],
    ["text", `{"a":1}`, "no text"],
    ["srt", "Hello there.", "not an SRT"],
    ["vtt", srtAnswer, "not a WebVTT"],
  ])("%s: %p is a failure of the channel", (format, body, detail) => {
    const failure = answered(asking(format), {}, body, "text/plain");
    expect(failure).toMatchObject({ kind: "bad_response", blame: "channel" });
    expect((failure as Failure).detail).toContain(detail);
  });

  test("because it has segments, but no speakers where those were asked for", () => {
    expect(answered(asking("diarized_json"), {}, verboseAnswer)).toMatchObject({ kind: "unsupported", param: "response_format" });
    const silent = `{"task":"transcribe","duration":3.2,"text":"","segments":[]}`;
    expect(textOf(whole(answered(asking("diarized_json"), {}, silent)).body)).toBe(silent);
  });

  test("because it is an error in disguise is judged as the error", () => {
    const error = `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`;
    for (const format of transcriptFormats) expect(answered(asking(format), {}, error)).toMatchObject({ kind: "rate_limited" });
    expect(answered(asking("text"), {}, error, "text/plain")).toMatchObject({ kind: "rate_limited" });
    expect(answered(asking("json"), {}, `{"detail":{"status":"quota_exceeded","message":"no credits"}}`)).toMatchObject({
      kind: "quota_exhausted",
    });
  });

  test("at whatever byte it ends is noticed", () => {
    for (const [format, body] of [
      ["json", jsonAnswer],
      ["verbose_json", verboseAnswer],
      ["diarized_json", diarizedAnswer],
    ] as const) {
      for (let length = 0; length < body.length; length++) {
        const read = answered(asking(format), {}, body.slice(0, length));
        if (!isFailure(read) || read.kind !== "bad_response") throw new Error(`${format} cut at ${length} passes`);
      }
    }
  });

  test("in a form that costs seconds to parse is refused quickly", () => {
    const deep = `{"text":"a","x":${"[".repeat(200_000)}${"]".repeat(200_000)}}`;
    expect(answered(asking("json"), {}, deep)).toMatchObject({ kind: "bad_response" });
  });
});

test("a transcript is read in a time that does not grow with the square of its white space", () => {
  const text = `one${" ".repeat(200_000)}two`;
  expect(whole(answered(asking("json"), {}, JSON.stringify({ text }))).usage).toBeNull();
});

describe("an answer to a request for the times of words", () => {
  const asked = asking("verbose_json", [["timestamp_granularities[]", "word"]]);
  const both = asking("verbose_json", [["timestamp_granularities", `["segment","word"]`]]);

  test("that has none of them is no answer, so that another channel is asked", () => {
    for (const body of [verboseAnswer, verboseAnswer.replace(`"segments":`, `"words":[],"segments":`), jsonAnswer]) {
      for (const each of [asked, both]) {
        expect(answered(each, {}, body)).toMatchObject({
          kind: "unsupported",
          scope: "request",
          status: 400,
          code: "unsupported_value",
          param: "timestamp_granularities",
        });
      }
    }
    expect(textOf(whole(answered(asking("verbose_json"), {}, verboseAnswer)).body)).toBe(verboseAnswer);
  });

  test("keeps its bytes where it has them, or where there was nothing to time", () => {
    const words = `"words":[{"word":"Hello","start":0,"end":0.5}]`;
    for (const body of [
      verboseAnswer.replace(`"segments":`, `${words},"segments":`),
      `{"text":"Hello", "duration":1,${words}}`,
      `{"text":" ","duration":1,"words":[]}`,
      `{"text":"","duration":1,"segments":[]}`,
      `{"text":" ...","duration":1,"words":[],"segments":[]}`,
    ]) {
      expect(textOf(whole(answered(asked, {}, body)).body)).toBe(body);
    }
  });

  test("matters only where the format has words", () => {
    const plain = ask([["timestamp_granularities[]", "word"]]);
    expect(textOf(whole(answered(plain, {}, jsonAnswer)).body)).toBe(jsonAnswer);
  });
});

describe("an answer in another format than the client asked for", () => {
  const formats: readonly TranscriptFormat[] = ["json", "verbose_json"];

  test("is rendered", () => {
    expect(textOf(whole(answered(asking("text"), { formats }, verboseAnswer)).body)).toBe("Hello there. How are you?\n");
    expect(cuesIn(whole(answered(asking("srt"), { formats }, verboseAnswer)).body, "srt")).toEqual([
      { start: 0, end: 1500, text: "Hello there." },
      { start: 1500, end: 3200, text: "How are you?" },
    ]);
    const vtt = whole(answered(asking("vtt"), { formats }, verboseAnswer));
    expect(vtt).toMatchObject({ type: "text/plain; charset=utf-8", usage: { audioSeconds: 4 } });
    expect(textOf(vtt.body)).toStartWith("WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello there.\n");
  });

  test("is rendered as json with what it cost, and without what was not asked for", () => {
    expect(textOf(whole(answered(asking("json"), { formats: ["verbose_json"] }, verboseAnswer)).body)).toBe(
      `{"text":"Hello there. How are you?","usage":{"type":"duration","seconds":4}}`,
    );
    expect(textOf(whole(answered(asking("json"), { formats: ["text"] }, " Hi.\n", "text/plain")).body)).toBe(`{"text":"Hi."}`);
  });

  test("is rendered from speakers' segments where there is nothing better", () => {
    const read = whole(answered(asking("srt"), { formats: ["diarized_json"] }, diarizedAnswer));
    expect(cuesIn(read.body, "srt").map(({ text }) => text)).toEqual(["Hi.", "Hello."]);
  });

  test("is understood where the upstream ignored the format, as far as it goes", () => {
    expect(textOf(whole(answered(asking("text"), {}, jsonAnswer)).body)).toBe("Hello there.\n");
    expect(cuesIn(whole(answered(asking("srt"), {}, verboseAnswer)).body, "srt").length).toBe(2);
    for (const format of ["srt", "vtt", "verbose_json", "diarized_json"] as const) {
      expect(answered(asking(format), {}, jsonAnswer)).toMatchObject({ kind: "unsupported", param: "response_format" });
    }
  });

  test("has its line breaks as single spaces, and other blanks as they are", () => {
    const spoken = JSON.stringify({ text: " \n Hello,  there.\r\n \n How are\tyou? \n" });
    expect(textOf(whole(answered(asking("text"), {}, spoken)).body)).toBe("Hello,  there. How are\tyou?\n");
  });

  test("with times that are untidy is written anew, and with times that mean nothing refused", () => {
    const reversed = verboseAnswer.replace(`"end":1.5`, `"end":-4`);
    const read = JSON.parse(textOf(whole(answered(asking("verbose_json"), {}, reversed)).body)) as { segments: object[] };
    expect(read.segments[0]).toMatchObject({ start: 0, end: 0, tokens: [50364, 2425], avg_logprob: -0.3 });
    for (const wrong of ["1e999", `"soon"`, "null", "1e40", "{}"]) {
      const answer = verboseAnswer.replace(`"end":1.5`, `"end":${wrong}`);
      for (const format of ["verbose_json", "srt", "vtt"] as const) {
        expect(answered(asking(format), { formats }, answer)).toMatchObject({ kind: "bad_response" });
      }
    }
    const scored = verboseAnswer.replace(`"avg_logprob":-0.3`, `"avg_logprob":1e999`).replace(`"end":1.5`, `"end":-4`);
    expect(textOf(whole(answered(asking("verbose_json"), {}, scored)).body)).not.toContain("null");
  });
});

describe("an answer that came whole where events were asked for", () => {
  const streaming = ask([["stream", "true"]]);
  const events = [
    `{"type":"transcript.text.delta","delta":"Hello there. How are you?"}`,
    `{"type":"transcript.text.done","text":"Hello there. How are you?","usage":{"type":"duration","seconds":4}}`,
    "[DONE]",
  ];

  test("becomes events, from a channel that streams and from one that cannot", () => {
    for (const facts of [{}, { streams: false }, { streams: false, formats: ["verbose_json"] as const }]) {
      const read = whole(answered(streaming, facts, verboseAnswer));
      expect(read).toMatchObject({ type: "text/event-stream; charset=utf-8", usage: { audioSeconds: 4 } });
      expect(eventsIn(read.body)).toEqual(events);
    }
  });

  test("becomes segments where speakers were asked for", () => {
    const read = whole(answered(asking("diarized_json", [["stream", "true"]]), { streams: false }, diarizedAnswer));
    expect(eventsIn(read.body).map((data) => (data === "[DONE]" ? data : (JSON.parse(data) as { type: string }).type))).toEqual([
      "transcript.text.segment",
      "transcript.text.segment",
      "transcript.text.done",
      "[DONE]",
    ]);
  });

  test("is a failure where it is an error or nothing", () => {
    expect(answered(streaming, {}, `{"error":{"message":"x","code":"rate_limit_exceeded"}}`)).toMatchObject({ kind: "rate_limited" });
    expect(answered(streaming, {}, "{}")).toMatchObject({ kind: "bad_response" });
  });
});

test("a refusal is explained as any other of this dialect", () => {
  const body = `{"error":{"message":"413: Maximum content size limit (26214400) exceeded","type":"server_error","param":null,"code":null},"usage":{"type":"duration","seconds":0}}`;
  expect(codec.explain({ status: 413, header: () => null, body })).toMatchObject({ kind: "too_large", blame: "client" });
});
