import { describe, expect, test } from "bun:test";
import { assemblyai } from "../../../src/dialects/assemblyai/assemblyai.ts";
import type { EncodedRequest, ExpectedSteps, NextStep, StreamedBody, UpstreamRequest } from "../../../src/dialects/dialect.ts";
import type { WholeAnswer } from "../../../src/operations/emission.ts";
import { failure, isFailure, type Failure } from "../../../src/operations/failure.ts";
import type { TranscriptFormat } from "../../../src/operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../../src/operations/transcription/transcription-request.ts";
import { ask, bytesOf, cuesIn, encoded, eventsIn, head, sent, target, textOf, wave, whole } from "../../support/transcription-world.ts";

// The answers have the shape of the documented ones; their words and numbers were written for these tests.
const words = [
  { text: "Hello", start: 80, end: 400, confidence: 0.99, speaker: "A" },
  { text: "there.", start: 400, end: 960, confidence: 0.98, speaker: "A" },
  { text: "Hi.", start: 1200, end: 1600, confidence: 0.97, speaker: "B" },
];
const utterances = [
  { speaker: "A", text: "Hello there.", start: 80, end: 960, confidence: 0.98, words: words.slice(0, 2) },
  { speaker: "B", text: "Hi.", start: 1200, end: 1600, confidence: 0.5, words: words.slice(2) },
];
const done = {
  id: "job-1",
  status: "completed",
  text: "Hello there. Hi.",
  language_code: "en_us",
  audio_duration: 3,
  words,
  utterances: null,
};
const queued = { id: "job-1", status: "queued", text: null, words: null, error: null };

const codec = assemblyai.transcription!;
const address = { baseUrl: "https://api.upstream.test/v2", transcriptionPath: "/transcript" };

function made(asked: TranscriptionRequest, model = "universal-3-5-pro"): EncodedRequest & { readonly answer: ExpectedSteps } {
  const request = encoded(codec.encode(asked, target({ address, model, headers: { "x-fixed": "1" } })));
  if (request.answer.kind !== "steps") throw new Error("it takes one request only");
  return { ...request, answer: request.answer };
}

type Read = WholeAnswer | NextStep | Failure;

function read(answer: ExpectedSteps, body: object | string): Read {
  return answer.read(bytesOf(typeof body === "string" ? body : JSON.stringify(body)), head("application/json"));
}

function step(came: Read | null): NextStep {
  if (came === null || came.kind !== "next") throw new Error(`no next request, but ${came?.kind}`);
  return came;
}

/** The request that creates the job. */
function creation(asked: TranscriptionRequest, model?: string): NextStep {
  return step(read(made(asked, model).answer, { upload_url: "https://cdn.upstream.test/upload/1" }));
}

function jsonIn({ body }: UpstreamRequest): unknown {
  return JSON.parse(textOf(body as Uint8Array));
}

/** What comes of a job that is in this state when it is asked for the first time. */
function outcome(job: object | string, asked: TranscriptionRequest = ask()): Read {
  return read(step(read(creation(asked).answer, queued)).answer, job);
}

function answered(format: TranscriptFormat, job: object, more: readonly (readonly [string, string])[] = []): WholeAnswer {
  const came = outcome(job, ask([["response_format", format], ...more]));
  if (came.kind === "next") throw new Error("it goes on");
  return whole(came);
}

describe("a transcription", () => {
  test("uploads the bare file, creates a job for it, and asks for the job", async () => {
    const upload = made(ask());
    expect(upload.request).toMatchObject({ method: "POST", url: "https://api.upstream.test/v2/upload" });
    expect(upload.request.headers).toMatchObject({ "content-type": "application/octet-stream", "x-fixed": "1" });
    expect((await sent(upload.request.body as StreamedBody)).bytes).toEqual(wave);

    const create = creation(ask());
    expect(create).toMatchObject({ afterMs: 0, request: { method: "POST", url: "https://api.upstream.test/v2/transcript" } });
    expect(create.request.headers["content-type"]).toBe("application/json");
    expect(jsonIn(create.request)).toEqual({
      audio_url: "https://cdn.upstream.test/upload/1",
      speech_models: ["universal-3-5-pro"],
      language_detection: true,
    });

    const poll = step(read(create.answer, queued));
    expect(poll.request).toMatchObject({ method: "GET", url: "https://api.upstream.test/v2/transcript/job-1", body: null });
    expect(poll.request.headers).toMatchObject({ "x-fixed": "1" });
    expect(poll.request.headers["content-type"]).toBeUndefined();
    expect(textOf(whole(read(poll.answer, done) as WholeAnswer).body)).toBe(
      '{"text":"Hello there. Hi.","usage":{"type":"duration","seconds":3}}',
    );
  });

  test("is asked for ever more seldom, up to a number of times", () => {
    const waits: number[] = [];
    let came = read(creation(ask()).answer, queued);
    while (came.kind === "next") {
      waits.push(came.afterMs);
      came = read(came.answer, { ...queued, status: waits.length % 2 === 0 ? "queued" : "processing" });
    }
    expect(waits[0]).toBe(500);
    expect(waits.every((wait, at) => at === 0 || wait >= waits[at - 1]!)).toBe(true);
    expect(Math.max(...waits)).toBe(5_000);
    expect(waits).toHaveLength(2_000);
    expect(came).toMatchObject({ kind: "timed_out" });
  });

  test("may be done when the job is created", () => {
    expect(read(creation(ask()).answer, done)).toMatchObject({ kind: "whole" });
  });

  test("is not lost because the job could not be asked once, nor asked for ever", () => {
    const causes = [failure("overloaded", "x"), failure("disconnected", "x"), failure("unreachable", "x")];
    let poll = step(read(creation(ask()).answer, queued));
    for (let troubles = 0; troubles < 5; troubles++) {
      const again = step(poll.answer.retry!(causes[troubles % 3]!));
      expect(again.request.url).toBe(poll.request.url);
      expect(again.afterMs).toBeGreaterThanOrEqual(1000 * 2 ** troubles);
      poll = again;
    }
    expect(poll.answer.retry!(causes[0]!)).toBeNull();
    // One that goes well is a new beginning.
    const well = step(read(poll.answer, queued));
    expect(well.answer.retry!(causes[0]!)).toMatchObject({ kind: "next", afterMs: expect.any(Number) });
    const limited = step(well.answer.retry!(failure("rate_limited", "x", { retryAfterMs: 9_000 })));
    expect(limited.afterMs).toBe(9_000);
    expect(step(well.answer.retry!(failure("rate_limited", "x", { retryAfterMs: 9e9 }))).afterMs).toBe(30_000);
    for (const kind of ["unauthorized", "bad_response", "client_gone", "deadline"] as const) {
      expect(well.answer.retry!(failure(kind, "x"))).toBeNull();
    }
    // A second upload or job would cost a second time.
    expect([made(ask()).answer.retry, creation(ask()).answer.retry]).toEqual([undefined, undefined]);
  });
});

describe("a job", () => {
  function body(entries: readonly (readonly [string, string])[], model?: string): unknown {
    return jsonIn(creation(ask(entries), model).request);
  }

  test("has the language of the client in the upstream's spelling", () => {
    expect(body([["language", "German"]])).toMatchObject({ language_code: "de" });
    expect(body([["language", "en-GB"]])).toMatchObject({ language_code: "en_uk" });
    expect(body([["language", "en_US"]])).toMatchObject({ language_code: "en_us" });
    expect(body([["language", "pt-BR"]])).toMatchObject({ language_code: "pt" });
    expect(body([["language", "jv"]])).toMatchObject({ language_code: "jw" });
    expect(body([["language", "xx-Xxxx"]])).toMatchObject({ language_code: "xx-Xxxx" });
    expect(body([["language", "en"]])).not.toHaveProperty("language_detection");
  });

  test("has words to expect, a prompt, or both in one", () => {
    const keywords = [
      ["keywords[]", "Sluice"],
      ["keywords[]", "two words"],
    ] as const;
    expect(body(keywords)).toMatchObject({ keyterms_prompt: ["Sluice", "two words"] });
    expect(body([["prompt", "A talk."]])).toMatchObject({ prompt: "A talk." });
    const both = body([...keywords, ["prompt", "A talk."]]);
    expect(both).toMatchObject({ prompt: "A talk.\n\nContext: Sluice, two words" });
    expect(both).not.toHaveProperty("keyterms_prompt");
  });

  test("tells speakers apart where the format needs it", () => {
    expect(body([["response_format", "diarized_json"]])).toMatchObject({ speaker_labels: true });
    expect(body([["response_format", "srt"]])).not.toHaveProperty("speaker_labels");
  });

  test("leaves out what its model does not take, and says so", () => {
    const entries = [
      ["prompt", "A talk."],
      ["temperature", "0.5"],
      ["keywords", "Sluice"],
      ["include[]", "logprobs"],
    ] as const;
    expect(body(entries)).toMatchObject({ temperature: 0.5 });
    expect(made(ask(entries)).dropped).toEqual(["include"]);
    expect(body(entries, "universal-2")).toEqual({
      audio_url: "https://cdn.upstream.test/upload/1",
      speech_models: ["universal-2"],
      language_detection: true,
      keyterms_prompt: ["Sluice"],
    });
    expect(made(ask(entries), "universal-2").dropped).toEqual(["prompt", "temperature", "include"]);
  });

  test("does not translate", () => {
    expect(codec.encode(ask([], { task: "translate" }), target({ address }))).toMatchObject({ kind: "unsupported", param: "model" });
  });
});

describe("a transcript", () => {
  test("has its times in seconds, and its language by name", () => {
    const verbose = [
      ["timestamp_granularities[]", "word"],
      ["timestamp_granularities[]", "segment"],
    ] as const;
    expect(JSON.parse(textOf(answered("verbose_json", done, verbose).body))).toMatchObject({
      language: "english",
      duration: 3,
      words: [
        { word: "Hello", start: 0.08, end: 0.4 },
        { word: "there.", start: 0.4, end: 0.96 },
        { word: "Hi.", start: 1.2, end: 1.6 },
      ],
      segments: [{ id: 0, start: 0.08 }, {}],
    });
  });

  test("has its words in every format", () => {
    expect(textOf(answered("text", done).body)).toBe("Hello there. Hi.\n");
    for (const format of ["srt", "vtt"] as const) {
      expect(cuesIn(answered(format, done).body, format)).toEqual([
        { start: 80, end: 960, text: "Hello there." },
        { start: 1200, end: 1600, text: "Hi." },
      ]);
    }
    expect(JSON.parse(textOf(answered("diarized_json", { ...done, utterances }).body))).toMatchObject({
      segments: [
        { speaker: "A", text: " Hello there.", start: 0.08, end: 0.96 },
        { speaker: "B", text: " Hi." },
      ],
    });
    expect(eventsIn(answered("json", done, [["stream", "true"]]).body).at(-2)).toContain('"transcript.text.done"');
  });

  test("is metered by the length that the upstream billed", () => {
    expect(answered("json", done).usage).toMatchObject({ audioSeconds: 3 });
  });

  test("is empty where nothing was said", () => {
    const silent = { ...queued, status: "error", error: "language_detection cannot be performed on files with no spoken audio." };
    expect(JSON.parse(textOf(answered("json", silent).body))).toMatchObject({ text: "" });
    expect(textOf(answered("srt", silent).body)).toBe("");
    expect(textOf(answered("text", { ...done, text: null, words: [] }).body)).toBe("\n");
  });
});

describe("an answer that is of no use", () => {
  test("is the client's fault if the job says so of the file, and the upstream's otherwise", () => {
    const failed = (error: string): Read => outcome({ ...queued, status: "error", error });
    expect(failed("Transcoding failed. File does not appear to contain audio. File type is text/plain")).toMatchObject({
      kind: "invalid_request",
      publicMessage: "Transcoding failed. File does not appear to contain audio. File type is text/plain",
    });
    expect(failed("Audio duration is too short.")).toMatchObject({ kind: "invalid_request" });
    expect(failed("Server error, developers have been alerted.")).toMatchObject({ kind: "overloaded", blame: "channel" });
    expect(failed("Download error, unable to download the file.")).toMatchObject({ blame: "channel" });
    expect(failed("")).toMatchObject({ blame: "channel" });
  });

  test("is a failure in each of its steps, whatever it is", () => {
    const bad = [
      "",
      "<html>",
      "[]",
      "null",
      "3",
      '{"status":"paused"}',
      '{"status":3}',
      "[".repeat(200_000),
      '{"status":"completed","text":7}',
    ];
    for (const body of bad) {
      expect(isFailure(read(made(ask()).answer, body))).toBe(true);
      expect(isFailure(read(creation(ask()).answer, body))).toBe(true);
      expect(isFailure(outcome(body))).toBe(true);
    }
    expect(isFailure(read(made(ask()).answer, { upload_url: "x".repeat(5000) }))).toBe(true);
    expect(isFailure(outcome({ ...done, words: [{ text: 1 }, null, "x"] }))).toBe(false);
    expect(isFailure(outcome({ ...done, words: "none" }, ask([["response_format", "srt"]])))).toBe(true);
  });

  test("does not send the gateway anywhere else", () => {
    for (const id of ["../../account", "a/b", "a?b", "", "x".repeat(200), "é", "a b"]) {
      expect(isFailure(read(creation(ask()).answer, { ...queued, id }))).toBe(true);
    }
  });

  test("in an error's form is explained by what it says", () => {
    const explained = (status: number, error: string): Failure =>
      codec.explain({ status, header: () => null, body: JSON.stringify({ error }) });
    expect(explained(401, "Authentication error, API token missing/invalid")).toMatchObject({ kind: "unauthorized" });
    expect(explained(400, "Your current account balance is negative. Please top up.")).toMatchObject({ kind: "quota_exhausted" });
    expect(explained(429, "Too Many Requests")).toMatchObject({ kind: "rate_limited" });
    expect(explained(400, "Invalid endpoint schema")).toMatchObject({ kind: "invalid_request", publicMessage: "Invalid endpoint schema" });
  });
});
