import { describe, expect, test } from "bun:test";
import { openaiTranscription } from "../../../src/dialects/openai/transcription.ts";
import type { StreamReader } from "../../../src/dialects/dialect.ts";
import type { Emission } from "../../../src/operations/emission.ts";
import { isFailure, type Failure, type FailureKind } from "../../../src/operations/failure.ts";
import type { MeteredUsage } from "../../../src/operations/usage.ts";
import { ask, bytesOf, encoded, head, target } from "../../support/transcription-world.ts";

/** Streams of the shapes that recorded ones have; their words were written for these tests. */
interface Stream {
  readonly about: string;
  readonly body: string;
  /** What the client gets, or null where it gets the body as it is. */
  readonly sends: string | null;
  readonly text: string;
  readonly usage?: Partial<MeteredUsage>;
  /** After these bytes the stream is whole; nothing where it never is. */
  readonly wholeAfter?: string;
  readonly fails?: FailureKind;
}

function events(...data: readonly (object | string)[]): string {
  return data.map((each) => `data: ${typeof each === "string" ? each : JSON.stringify(each)}\n\n`).join("");
}

function delta(text: string): object {
  return { type: "transcript.text.delta", delta: text };
}

function chunk(content: string, finish: string | null = null): object {
  return { id: "trsc-1", object: "transcription.chunk", created: 1, model: "m", choices: [{ delta: { content }, finish_reason: finish }] };
}

const tokens = {
  type: "tokens",
  input_tokens: 14,
  input_token_details: { text_tokens: 0, audio_tokens: 14 },
  output_tokens: 6,
  total_tokens: 20,
};
const done = { type: "transcript.text.done", text: "Grüße, all.", usage: tokens };
const segment = { type: "transcript.text.segment", id: "seg_0", start: 0, end: 1.5, text: " Hi.", speaker: "A" };

const streams: readonly Stream[] = [
  {
    about: "deltas and their end",
    body: events(delta("Grüße"), delta(", all."), done, "[DONE]"),
    sends: null,
    text: "Grüße, all.",
    usage: { promptTokens: 14, completionTokens: 6 },
    wholeAfter: JSON.stringify(done),
  },
  {
    about: "line ends of the other kind, comments and named events",
    body: `: hello\r\n\r\nevent: x\r\n${events(delta("Grüße"), delta(", all."), done, "[DONE]").replaceAll("\n", "\r\n")}`,
    sends: events(delta("Grüße"), delta(", all."), done, "[DONE]"),
    text: "Grüße, all.",
    wholeAfter: JSON.stringify(done),
  },
  {
    about: "an end without an end mark",
    body: events(delta("Grüße"), done),
    sends: events(delta("Grüße"), done, "[DONE]"),
    text: "Grüße",
    wholeAfter: JSON.stringify(done),
  },
  {
    about: "speakers' segments without deltas",
    body: events(segment, { type: "transcript.text.done", text: "Hi." }, "[DONE]"),
    sends: null,
    text: "",
    wholeAfter: `"text":"Hi."}`,
  },
  {
    about: "silence",
    body: events(delta(""), { type: "transcript.text.done", text: "" }, "[DONE]"),
    sends: null,
    text: "",
    wholeAfter: `"text":""}`,
  },
  {
    about: "an end mark in place of an end",
    body: events(delta("Grüße"), delta(", all."), "[DONE]"),
    sends: events(delta("Grüße"), delta(", all."), { type: "transcript.text.done", text: "Grüße, all." }, "[DONE]"),
    text: "Grüße, all.",
    wholeAfter: "[DONE]",
  },
  {
    about: "chunks like those of a chat, in two pieces of a recording",
    body: events(
      chunk("Grüße", "stop"),
      chunk(","),
      chunk(" all.", "stop"),
      { choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } },
      "[DONE]",
    ),
    sends: events(
      delta("Grüße"),
      delta(","),
      delta(" all."),
      {
        type: "transcript.text.done",
        text: "Grüße, all.",
        usage: { type: "tokens", input_tokens: 3, output_tokens: 2, total_tokens: 5 },
      },
      "[DONE]",
    ),
    text: "Grüße, all.",
    usage: { promptTokens: 3, completionTokens: 2 },
    wholeAfter: "[DONE]",
  },
  {
    about: "chunks like those of a chat, of silence",
    body: events(chunk("", "stop"), "[DONE]"),
    sends: events({ type: "transcript.text.done", text: "" }, "[DONE]"),
    text: "",
    wholeAfter: "[DONE]",
  },
  {
    about: "chunks like those of a chat that end without an end mark",
    body: events(chunk("Grüße", "stop")),
    sends: events(delta("Grüße")),
    text: "Grüße",
    fails: "interrupted",
  },
  {
    about: "events of another name",
    body: events(
      { type: "transcription.language", audio_language: "de" },
      { type: "transcription.text.delta", text: "Grüße" },
      { type: "transcription.done", text: "Grüße", usage: { prompt_tokens: 3, completion_tokens: 2, prompt_audio_seconds: 2 } },
    ),
    sends: events(
      delta("Grüße"),
      { type: "transcript.text.done", text: "Grüße", usage: { type: "tokens", input_tokens: 3, output_tokens: 2, total_tokens: 5 } },
      "[DONE]",
    ),
    text: "Grüße",
    usage: { promptTokens: 3, completionTokens: 2, audioSeconds: 2 },
    wholeAfter: `"prompt_audio_seconds":2}}`,
  },
  {
    about: "an error before any text",
    body: events({ error: { message: "slow down", code: "rate_limit_exceeded" } }),
    sends: "",
    text: "",
    fails: "rate_limited",
  },
  {
    about: "an error after text",
    body: events(delta("Grüße"), { type: "error", error: { message: "engine died", type: "server_error" } }, done, "[DONE]"),
    sends: events(delta("Grüße")),
    text: "Grüße",
    fails: "interrupted",
  },
  { about: "nothing but an end mark", body: events("[DONE]"), sends: "", text: "", fails: "bad_response" },
];

interface Played {
  readonly emissions: readonly Emission[];
  readonly failure: Failure | null;
}

function reader(): StreamReader {
  const { answer } = encoded(openaiTranscription.encode(ask([["stream", "true"]]), target()));
  if (answer.kind !== "stream") throw new Error("not a stream");
  return answer.reader(head("text/event-stream"), { transcoder: () => Promise.resolve(null) }) as StreamReader;
}

function play(chunks: readonly Uint8Array[]): Played {
  const reading = reader();
  const emissions: Emission[] = [];
  for (const part of [...chunks, null]) {
    const read = (part === null ? reading.close() : reading.push(part)) as readonly Emission[] | Failure;
    if (isFailure(read)) return { emissions, failure: read };
    emissions.push(...read);
    if (reading.pending !== null) return { emissions, failure: reading.pending };
  }
  return { emissions, failure: null };
}

function framesOf(emissions: readonly Emission[]): string {
  return Buffer.concat(emissions.flatMap((each) => ("frame" in each && each.frame !== null ? [each.frame] : []))).toString();
}

function outline({ emissions, failure }: Played): string {
  return JSON.stringify([emissions.map((each) => ("frame" in each ? { ...each, frame: framesOf([each]) } : each)), failure]);
}

function endsOf(emissions: readonly Emission[]): number {
  return emissions.filter(({ kind }) => kind === "end").length;
}

describe.each(streams.map((stream) => [stream.about, stream] as const))("a stream of %s", (_, stream) => {
  const bytes = bytesOf(stream.body);
  const uncut = play([bytes]);
  const wholeFrom =
    stream.wholeAfter === undefined
      ? Infinity
      : bytesOf(stream.body.slice(0, stream.body.indexOf(stream.wholeAfter) + stream.wholeAfter.length)).length;

  test("is understood", () => {
    expect(framesOf(uncut.emissions)).toBe(stream.sends ?? stream.body);
    expect(uncut.failure?.kind ?? null).toBe(stream.fails ?? null);
    expect(uncut.emissions.map((each) => (each.kind === "delta" ? each.text : "")).join("")).toBe(stream.text);
    expect(endsOf(uncut.emissions)).toBe(stream.fails === undefined ? 1 : 0);
    const usage = uncut.emissions.find((each) => each.kind === "usage")?.usage ?? null;
    if (stream.usage !== undefined) expect(usage).toMatchObject(stream.usage);
  });

  test("is the same when it is cut in two anywhere, or comes byte by byte", () => {
    const expected = outline(uncut);
    for (let at = 0; at <= bytes.length; at++) {
      const played = outline(play([bytes.subarray(0, at), bytes.subarray(at)]));
      if (played !== expected) throw new Error(`cut at byte ${at} it becomes ${played}, not ${expected}`);
    }
    expect(outline(play(Array.from(bytes, (_byte, at) => bytes.subarray(at, at + 1))))).toBe(expected);
  });

  test("is a failure when it dies at any byte before its end, and nothing is invented to round it off", () => {
    const sent = framesOf(uncut.emissions);
    for (let length = 0; length <= bytes.length; length++) {
      const { emissions, failure } = play([bytes.subarray(0, length)]);
      const spoke = emissions.some((each) => each.kind === "delta" && each.output !== null);
      const isWhole = failure === null;
      if (stream.wholeAfter !== undefined) expect([length, isWhole]).toEqual([length, length >= wholeFrom]);
      expect(endsOf(emissions)).toBe(isWhole ? 1 : 0);
      if (isWhole) continue;
      if (!sent.startsWith(framesOf(emissions))) throw new Error(`dead at byte ${length} it sent ${framesOf(emissions)}`);
      expect(failure.blame).toBe("channel");
      expect([length, failure.kind === "interrupted"]).toEqual([length, spoke]);
    }
  });
});

test("the first text commits, and so does an end without text; empty deltas and unknown events do not", () => {
  const outputs = (body: string): unknown[] =>
    play([bytesOf(body)]).emissions.map((each) => (each.kind === "delta" ? each.output : each.kind));
  expect(outputs(events(delta(""), { type: "transcript.hello" }, delta("a"), done))).toEqual([
    null,
    null,
    "text",
    "finish",
    "usage",
    "end",
  ]);
  expect(outputs(events({ type: "transcript.text.done", text: "" }))).toEqual(["finish", "end"]);
});

test("a stream is finished once its end was told, and not by the end of a piece", () => {
  const reading = reader();
  void reading.push(bytesOf(events(chunk("a", "stop"))));
  expect(reading.finished).toBe(false);
  void reading.push(bytesOf(events(done)));
  expect(reading.finished).toBe(true);
  expect(reading.push(bytesOf(events(delta("late"), "[DONE]", "[DONE]")))).toMatchObject([{ kind: "end" }]);
});

test("an event that is not JSON is skipped, and a body that is no stream is a failure", () => {
  expect(play([bytesOf(events("nonsense", delta("a"), done))]).emissions[0]).toMatchObject({ kind: "skipped" });
  expect(play([bytesOf("<html></html>")]).failure).toMatchObject({ kind: "bad_response" });
  expect(play([bytesOf("WEBVTT\n\n")]).failure).toMatchObject({ kind: "bad_response" });
});
