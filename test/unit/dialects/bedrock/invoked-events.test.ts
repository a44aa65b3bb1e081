import { describe, expect, test } from "bun:test";
import { MessagesStream } from "../../../../src/dialects/anthropic/stream.ts";
import { invokedEvents } from "../../../../src/dialects/bedrock/invoked-events.ts";
import type { EventDecoder, StreamReader } from "../../../../src/dialects/dialect.ts";
import { EventReader } from "../../../../src/dialects/readers/event-reader.ts";
import type { Emission } from "../../../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../../../src/operations/failure.ts";
import { bytewise } from "../../../support/cuts.ts";
import { awsEvent, awsException } from "../../../support/event-stream.ts";

const events = [
  {
    type: "message_start",
    message: { id: "msg_1", model: "m", role: "assistant", content: [], usage: { input_tokens: 3, output_tokens: 1 } },
  },
  { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "", signature: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "hm" } },
  { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "c2ln" } },
  { type: "content_block_stop", index: 0 },
  { type: "content_block_start", index: 1, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "héllo" } },
  { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "x".repeat(50_000) } },
  { type: "content_block_stop", index: 1 },
  { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 9 } },
  { type: "message_stop", "amazon-bedrock-invocationMetrics": { inputTokenCount: 3 } },
];

function chunk(event: unknown): Uint8Array {
  return awsEvent("chunk", { bytes: Buffer.from(JSON.stringify(event)).toString("base64") });
}

const framed = new Uint8Array(Buffer.concat(events.map(chunk)));
const sse = new TextEncoder().encode(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(""));

function read(reader: StreamReader, pieces: readonly Uint8Array[]): { emissions: Emission[]; failure: Failure | null } {
  const emissions: Emission[] = [];
  for (const step of [...pieces.map((piece) => () => reader.push(piece)), () => reader.close()]) {
    const read = step();
    if (read instanceof Promise) throw new Error("it does no I/O");
    if (isFailure(read)) return { emissions, failure: read };
    emissions.push(...read);
    if (reader.pending !== null) return { emissions, failure: reader.pending };
  }
  return { emissions, failure: null };
}

/** Both for a client that speaks the API itself, and for one whose answer is translated. */
const decoders: readonly (readonly [string, () => EventDecoder])[] = [
  ["as it is", () => new MessagesStream(null)],
  ["translated", () => new MessagesStream([])],
];

describe("the stream of an invoked model", () => {
  test.each(decoders)("says what the same events say as server-sent events, %s", (_, decoder) => {
    const expected = read(new EventReader(decoder()), [sse]);
    expect(expected.failure).toBeNull();
    expect(read(invokedEvents(decoder()), [framed])).toEqual(expected);
  });

  test.each(decoders)("says the same cut anywhere, %s", (_, decoder) => {
    const whole = read(invokedEvents(decoder()), [framed]);
    expect(read(invokedEvents(decoder()), bytewise(framed))).toEqual(whole);
    for (let at = 0; at < framed.length; at += 1009) {
      expect(read(invokedEvents(decoder()), [framed.subarray(0, at), framed.subarray(at)])).toEqual(whole);
    }
  });

  test("that breaks off is a failure", () => {
    const short = Buffer.concat(events.slice(0, 7).map(chunk));
    expect(read(invokedEvents(new MessagesStream(null)), [new Uint8Array(short)]).failure).toMatchObject({ kind: "interrupted" });
    expect(read(invokedEvents(new MessagesStream(null)), [new Uint8Array(short.subarray(0, -3))]).failure).toMatchObject({
      kind: "interrupted",
    });
    expect(read(invokedEvents(new MessagesStream(null)), [chunk(events[0]).subarray(0, 50)]).failure).not.toBeNull();
  });

  test.each([
    ["throttlingException", "rate_limited"],
    ["modelStreamErrorException", "overloaded"],
    ["validationException", "invalid_request"],
  ] as const)("with a %s before its output is %s, and interrupted after it", (type, kind) => {
    const exception = awsException(type, "no");
    expect(read(invokedEvents(new MessagesStream([])), [exception]).failure).toMatchObject({ kind });
    const after = [...events.slice(0, 7).map(chunk), exception];
    expect(read(invokedEvents(new MessagesStream([])), after).failure).toMatchObject({ kind: "interrupted" });
  });

  test("passes over what holds no event", () => {
    const odd = [
      awsEvent("other", {}),
      awsEvent("chunk", {}),
      awsEvent("chunk", { bytes: "!!!" }),
      chunk([]),
      chunk({ type: "UPPER case" }),
    ];
    const { failure, emissions } = read(invokedEvents(new MessagesStream([])), [...odd, framed]);
    expect(failure).toBeNull();
    expect(emissions.filter(({ kind }) => kind === "skipped").length).toBe(odd.length);
    expect(emissions.at(-1)?.kind).toBe("end");
  });

  test("with bytes that are no messages is a failure after what was good", () => {
    const bytes = new Uint8Array(Buffer.concat([...events.slice(0, 7).map(chunk), Buffer.from("this is not a message")]));
    const { failure, emissions } = read(invokedEvents(new MessagesStream(null)), [bytes]);
    expect(failure).toMatchObject({ kind: "interrupted" });
    expect(emissions.some((emission) => emission.kind === "delta" && emission.output === "text")).toBe(true);
  });
});
