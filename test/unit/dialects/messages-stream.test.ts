import { describe, expect, test } from "bun:test";
import { readMessage } from "../../../src/dialects/anthropic/answer.ts";
import { MessagesStream } from "../../../src/dialects/anthropic/stream.ts";
import { EventReader } from "../../../src/dialects/readers/event-reader.ts";
import type { StreamPart } from "../../../src/operations/conversation/answer-parts.ts";
import type { Tool } from "../../../src/operations/conversation/conversation.ts";
import type { Emission } from "../../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import type { MeteredUsage } from "../../../src/operations/usage.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

type Event = Readonly<Record<string, unknown>>;

function wire(...events: readonly Event[]): Uint8Array {
  return encoder.encode(events.map((event) => `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`).join(""));
}

interface StreamReading {
  readonly emissions: readonly Emission[];
  readonly failure: Failure | null;
}

function reading(bytes: Uint8Array, tools: readonly Tool[] | null, cuts: readonly number[] = []): StreamReading {
  const reader = new EventReader(new MessagesStream(tools));
  const emissions: Emission[] = [];
  const ends = [...cuts, bytes.length];
  for (const [at, end] of ends.entries()) {
    const read = reader.push(bytes.subarray(ends[at - 1] ?? 0, end));
    if (isFailure(read)) return { emissions, failure: read };
    emissions.push(...read);
    if (reader.pending !== null) return { emissions, failure: reader.pending };
  }
  const closing = reader.close();
  if (isFailure(closing)) return { emissions, failure: closing };
  return { emissions: [...emissions, ...closing], failure: reader.pending };
}

function partsOf({ emissions }: StreamReading): readonly StreamPart[] {
  return emissions.flatMap((emission) => (emission.kind === "delta" && "parts" in emission ? (emission.parts ?? []) : []));
}

function framesOf({ emissions }: StreamReading): string {
  return emissions.map((emission) => ("frame" in emission && emission.frame !== null ? decoder.decode(emission.frame) : "")).join("");
}

function usagesOf({ emissions }: StreamReading): readonly MeteredUsage[] {
  return emissions.flatMap((emission) => (emission.kind === "usage" ? [emission.usage] : []));
}

/** Texts and arguments that follow one another as one. */
function joinedParts(parts: readonly StreamPart[]): readonly StreamPart[] {
  const joined: StreamPart[] = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (last?.kind === "text" && part.kind === "text") joined[joined.length - 1] = { ...last, text: last.text + part.text };
    else if (last?.kind === "reasoning" && part.kind === "reasoning") joined[joined.length - 1] = { ...last, text: last.text + part.text };
    else if (last?.kind === "tool_arguments" && part.kind === "tool_arguments" && last.index === part.index) {
      joined[joined.length - 1] = { ...last, text: last.text + part.text };
    } else joined.push(part);
  }
  return joined;
}

const message = { id: "msg_1", type: "message", role: "assistant", model: "claude-x", content: [], stop_reason: null, stop_sequence: null };
const start: Event = {
  type: "message_start",
  message: { ...message, usage: { input_tokens: 10, cache_read_input_tokens: 4, cache_creation_input_tokens: 6, output_tokens: 1 } },
};
const blockStart = (index: number, block: Event): Event => ({ type: "content_block_start", index, content_block: block });
const delta = (index: number, value: Event): Event => ({ type: "content_block_delta", index, delta: value });
const blockStop = (index: number): Event => ({ type: "content_block_stop", index });
const finish = (reason: string, more: Event = {}): Event => ({
  type: "message_delta",
  delta: { stop_reason: reason, stop_sequence: null, ...more },
  usage: { output_tokens: 42 },
});
const stop: Event = { type: "message_stop" };
const ping: Event = { type: "ping" };

const said = (text: string): readonly Event[] => [
  blockStart(0, { type: "text", text: "" }),
  delta(0, { type: "text_delta", text }),
  blockStop(0),
];

const everything: readonly Event[] = [
  start,
  ping,
  blockStart(0, { type: "thinking", thinking: "", signature: "" }),
  delta(0, { type: "thinking_delta", thinking: "hm" }),
  delta(0, { type: "thinking_delta", thinking: " ü" }),
  delta(0, { type: "signature_delta", signature: "sig" }),
  blockStop(0),
  blockStart(1, { type: "redacted_thinking", data: "enc" }),
  blockStop(1),
  blockStart(2, { type: "text", text: "" }),
  delta(2, { type: "text_delta", text: "It is €" }),
  delta(2, { type: "citations_delta", citation: { type: "char_location", cited_text: "x" } }),
  ping,
  blockStop(2),
  blockStart(3, { type: "tool_use", id: "toolu_1", name: "docs__look", input: {} }),
  delta(3, { type: "input_json_delta", partial_json: "" }),
  delta(3, { type: "input_json_delta", partial_json: '{"n":1' }),
  delta(3, { type: "input_json_delta", partial_json: "}" }),
  blockStop(3),
  blockStart(4, { type: "tool_use", id: "toolu_2", name: "patch", input: {} }),
  delta(4, { type: "input_json_delta", partial_json: '{"input":"a\\n' }),
  delta(4, { type: "input_json_delta", partial_json: 'b"}' }),
  blockStop(4),
  blockStart(5, { type: "tool_use", id: "toolu_3", name: "now", input: {} }),
  blockStop(5),
  { type: "something_new", detail: 1 },
  finish("tool_use"),
  stop,
];

const tools: readonly Tool[] = [
  { name: "look", namespace: "docs", description: null, parameters: {}, strict: null },
  { name: "patch", description: null, parameters: null, strict: null, custom: { format: null } },
];

const everyPart: readonly StreamPart[] = [
  { kind: "start", id: "msg_1", model: "claude-x", createdSeconds: null },
  { kind: "reasoning", text: "hm ü" },
  { kind: "reasoning_signature", signature: { dialect: "anthropic", data: "sig" }, redacted: false },
  { kind: "reasoning_signature", signature: { dialect: "anthropic", data: "enc" }, redacted: true },
  { kind: "text", text: "It is €" },
  { kind: "citations", citations: { dialect: "anthropic", data: '{"type":"char_location","cited_text":"x"}' } },
  { kind: "tool_call", index: 0, id: "toolu_1", name: "look", namespace: "docs" },
  { kind: "tool_arguments", index: 0, text: '{"n":1}' },
  { kind: "tool_call", index: 1, id: "toolu_2", name: "patch", custom: true },
  { kind: "tool_arguments", index: 1, text: "a\nb" },
  { kind: "tool_call", index: 2, id: "toolu_3", name: "now" },
  { kind: "tool_arguments", index: 2, text: "{}" },
  { kind: "finish", finish: { reason: "tool_calls", stopSequence: null } },
];

const fullUsage = { promptTokens: 20, completionTokens: 42, cachedTokens: 4, reasoningTokens: null, cacheWriteTokens: 6 };

describe("the events of a stream", () => {
  test("are read as parts, with the usage and the end, for a client of another API", () => {
    const read = reading(wire(...everything), tools);
    expect(read.failure).toBeNull();
    expect(joinedParts(partsOf(read))).toEqual(everyPart);
    expect(framesOf(read)).toBe("");
    expect(usagesOf(read)).toEqual([{ ...fullUsage, completionTokens: null }, fullUsage]);
    expect(read.emissions.at(-1)).toMatchObject({ kind: "end", finish: "tool_calls" });
  });

  test("pass as they came to a client of this API, which is told of the parts as well", () => {
    const bytes = wire(...everything);
    const read = reading(bytes, null);
    expect(framesOf(read)).toBe(decoder.decode(bytes));
    expect(partsOf(read).map(({ kind }) => kind)).toContain("tool_arguments");
    expect(usagesOf(read).at(-1)).toEqual(fullUsage);
    expect(read.emissions.every((emission) => emission.kind !== "delta" || emission.output !== null)).toBe(true);
  });

  test("mean the same wherever the network cuts them", () => {
    const bytes = wire(...everything);
    const text = decoder.decode(bytes);
    const uncut = joinedParts(partsOf(reading(bytes, tools)));
    expect(uncut).toEqual(everyPart);
    const expected = JSON.stringify(uncut);
    for (let at = 1; at < bytes.length; at++) {
      const translated = JSON.stringify(joinedParts(partsOf(reading(bytes, tools, [at]))));
      if (translated !== expected) throw new Error(`cut at byte ${at} they become ${translated}, not ${expected}`);
      if (framesOf(reading(bytes, null, [at])) !== text) throw new Error(`cut at byte ${at} they are not passed on as they came`);
    }
  });

  test("that break off anywhere before the reason why it ended are a failure, and complete after it", () => {
    const events = [start, ping, ...said("hi"), finish("end_turn"), stop];
    for (let count = 0; count <= events.length; count++) {
      for (const asked of [null, tools]) {
        const bytes = wire(...events.slice(0, count));
        const read = reading(bytes, asked);
        const expected = count > 5 ? null : count > 3 ? "interrupted" : "bad_response";
        expect([count, read.failure?.kind ?? null]).toEqual([count, expected]);
        if (expected === null && asked === null) expect(framesOf(read)).toBe(decoder.decode(wire(...events)));
      }
    }
  });

  test("that end without a reason are cut", () => {
    expect(reading(wire(start, ...said("hi"), stop), null).failure?.kind).toBe("interrupted");
    expect(reading(wire(start, stop), tools).failure?.kind).toBe("bad_response");
  });

  test("hold what says nothing until something does, so that a ping is no progress", () => {
    const read = new MessagesStream(null);
    const event = (value: Event): Emission[] | Failure => {
      const bytes = wire(value);
      const name = String(value["type"]);
      return read.read({ name, data: JSON.stringify(value), frame: bytes }) as Emission[];
    };
    expect(event(ping)).toEqual([]);
    expect(event({ type: "message_start", message })).toEqual([]);
    expect(event(blockStart(0, { type: "text", text: "" }))).toEqual([]);
    const [first] = event(delta(0, { type: "text_delta", text: "a" })) as Emission[];
    expect(first).toMatchObject({ kind: "delta", output: "text", text: "a", finishes: false });
  });

  test.each([
    ["overloaded_error", "overloaded"],
    ["rate_limit_error", "rate_limited"],
    ["api_error", "overloaded"],
    ["invalid_request_error", "invalid_request"],
    ["authentication_error", "unauthorized"],
  ] as const)("with an error (%s) fail as that before any output, and are interrupted after it", (type, kind) => {
    const error: Event = { type: "error", error: { type, message: "Sorry" } };
    for (const asked of [null, tools]) {
      expect(reading(wire(start, ping, error), asked).failure?.kind).toBe(kind);
      expect(reading(wire(start, ...said("hi"), error), asked).failure?.kind).toBe("interrupted");
    }
  });

  test("ignore a repeated beginning, and refuse another message in the middle", () => {
    const repeated = reading(wire(start, start, ...said("hi"), finish("end_turn"), stop), null);
    expect(repeated.failure).toBeNull();
    expect(framesOf(repeated)).toBe(decoder.decode(wire(start, ...said("hi"), finish("end_turn"), stop)));
    const other = { ...start, message: { ...message, id: "msg_2" } };
    expect(reading(wire(start, ...said("hi"), other), null).failure?.kind).toBe("interrupted");
  });

  test("may begin with all that is said", () => {
    const begun = {
      ...message,
      content: [{ type: "tool_use", id: "toolu_1", name: "docs__look", input: { n: 1 } }],
      stop_reason: "tool_use",
      usage: { input_tokens: 1, output_tokens: 2 },
    };
    const events = [{ type: "message_start", message: begun }, stop];
    expect(framesOf(reading(wire(...events), null))).toBe(decoder.decode(wire(...events)));
    const read = reading(wire(...events), tools);
    expect(partsOf(read).slice(1)).toEqual([
      { kind: "tool_call", index: 0, id: "toolu_1", name: "look", namespace: "docs" },
      { kind: "tool_arguments", index: 0, text: '{"n":1}' },
      { kind: "finish", finish: { reason: "tool_calls", stopSequence: null } },
    ]);
    expect(usagesOf(read)).toMatchObject([{ promptTokens: 1, completionTokens: 2 }]);
  });

  test("of the provider's own tools commit to the channel, and say nothing in another API", () => {
    const hosted = [
      start,
      blockStart(0, { type: "server_tool_use", id: "s", name: "web_search", input: {} }),
      delta(0, { type: "input_json_delta", partial_json: '{"query":"x"}' }),
      blockStop(0),
      blockStart(1, { type: "web_search_tool_result", tool_use_id: "s", content: [] }),
      blockStop(1),
      finish("pause_turn"),
      stop,
    ];
    const read = reading(wire(...hosted), null);
    expect(framesOf(read)).toBe(decoder.decode(wire(...hosted)));
    expect(read.emissions.find(({ kind }) => kind === "delta")).toMatchObject({ output: "tool_call" });
    expect(partsOf(reading(wire(...hosted), tools)).map(({ kind }) => kind)).toEqual(["start", "finish"]);
  });

  test("of a tool that the answer had to be given with are a text", () => {
    const name = "structured_answer";
    const events = [
      start,
      blockStart(0, { type: "tool_use", id: "t", name, input: {} }),
      delta(0, { type: "input_json_delta", partial_json: '{"n":' }),
      delta(0, { type: "input_json_delta", partial_json: "1}" }),
      blockStop(0),
      finish("tool_use"),
      stop,
    ];
    const read = reading(wire(...events), tools);
    expect(joinedParts(partsOf(read)).slice(1)).toEqual([
      { kind: "text", text: '{"n":1}' },
      { kind: "finish", finish: { reason: "stop", stopSequence: null } },
    ]);
    expect(read.emissions.at(-1)).toMatchObject({ kind: "end", finish: "stop" });
    const content = [{ type: "tool_use", id: "t", name, input: { n: 1 } }];
    expect(readMessage(bodyOf({ content, stop_reason: "tool_use" }), tools)).toMatchObject({
      finish: "stop",
      answer: { parts: [{ kind: "text", text: '{"n":1}' }], finish: { reason: "stop" } },
    });
    // A tool of the client that has this name is called like any other.
    const own: Tool = { name, description: null, parameters: {}, strict: null };
    expect(partsOf(reading(wire(...events), [own])).map(({ kind }) => kind)).toContain("tool_call");
    expect(readMessage(bodyOf({ content, stop_reason: "tool_use" }), [own])).toMatchObject({ finish: "tool_calls" });
  });

  test.each<[string, Event, string]>([
    ["with its block", { a: 1 }, '{"a":1}'],
    ["not at all", {}, "{}"],
  ])("of a tool that the answer had to be given with are a text, also where its input comes %s", (_, input, text) => {
    const block = { type: "tool_use", id: "t", name: "structured_answer", input };
    const begun = { ...start, message: { ...message, content: [block], stop_reason: "tool_use" } };
    for (const events of [
      [start, blockStart(0, block), blockStop(0), finish("tool_use"), stop],
      [begun, stop],
    ]) {
      const read = reading(wire(...events), tools);
      expect(partsOf(read).slice(1)).toEqual([
        { kind: "text", text },
        { kind: "finish", finish: { reason: "stop", stopSequence: null } },
      ]);
      expect(read.emissions.map((one) => (one.kind === "delta" ? one.text : "")).join("")).toBe(text);
      expect(read.emissions.flatMap((one) => (one.kind === "delta" ? (one.output ?? []) : []))[0]).toBe("text");
      expect(read.emissions.at(-1)).toMatchObject({ kind: "end", finish: "stop" });
    }
  });

  test("that are no JSON are skipped", () => {
    const read = reading(
      encoder.encode(`event: x\ndata: {oops\n\n${decoder.decode(wire(start, ...said("hi"), finish("end_turn"), stop))}`),
      tools,
    );
    expect(read.emissions[0]).toMatchObject({ kind: "skipped" });
    expect(read.failure).toBeNull();
  });
});

describe("why an answer ended", () => {
  const explanation = "It is not allowed.";
  const cases: readonly (readonly [string, string])[] = [
    ["end_turn", "stop"],
    ["stop_sequence", "stop"],
    ["pause_turn", "length"],
    ["tool_use", "tool_calls"],
    ["max_tokens", "length"],
    ["model_context_window_exceeded", "length"],
    ["refusal", "content_filter"],
    ["something_new", "stop"],
  ];

  test.each(cases)("%s is %s, streamed and whole", (reason, expected) => {
    const streamed = reading(wire(start, finish(reason, { stop_sequence: "END" }), stop), tools);
    const stopSequence = reason === "stop_sequence" ? "END" : null;
    expect(partsOf(streamed).at(-1)).toEqual({ kind: "finish", finish: { reason: expected as "stop", stopSequence } });
    expect(streamed.emissions.at(-1)).toMatchObject({ kind: "end", finish: expected });
    const whole = readMessage(bodyOf({ stop_reason: reason, stop_sequence: "END" }), tools);
    expect(whole).toMatchObject({ finish: expected, answer: { finish: { reason: expected, stopSequence } } });
  });

  test("is no cut for a client of this API where the turn is paused: it goes on with it", () => {
    const paused = wire(start, ...said("hi"), finish("pause_turn"), stop);
    expect(reading(paused, null).emissions.at(-1)).toMatchObject({ kind: "end", finish: "stop" });
    expect(readMessage(bodyOf({ stop_reason: "pause_turn" }), null)).toMatchObject({ finish: "stop" });
  });

  test("is told with a refusal, which may be all there is", () => {
    const details = { stop_details: { type: "refusal", category: "cyber", explanation } };
    const streamed = reading(wire(start, ping, finish("refusal", details), stop), tools);
    expect(partsOf(streamed).slice(1)).toEqual([
      { kind: "refusal", text: explanation },
      { kind: "finish", finish: { reason: "content_filter", stopSequence: null } },
    ]);
    expect(readMessage(bodyOf({ stop_reason: "refusal", ...details }), tools)).toMatchObject({
      answer: { parts: [{ kind: "refusal", text: explanation }] },
    });
  });
});

function bodyOf(more: Event): Uint8Array {
  return encoder.encode(JSON.stringify({ ...message, usage: { input_tokens: 10, output_tokens: 5 }, ...more }));
}

describe("a whole answer", () => {
  const content = [
    { type: "thinking", thinking: "hm", signature: "sig" },
    { type: "redacted_thinking", data: "enc" },
    { type: "text", text: "It is", citations: [{ type: "char_location" }] },
    { type: "server_tool_use", id: "s", name: "web_search", input: {} },
    { type: "tool_use", id: "toolu_1", name: "docs__look", input: { n: 1 } },
    { type: "tool_use", id: "toolu_2", name: "patch", input: { input: "a\nb" } },
  ];
  const body = encoder.encode(
    decoder.decode(bodyOf({ content, stop_reason: "tool_use" })).replace('"input":{"n":1}', '"input":{"n": 12345678901234567890}'),
  );

  test("is read as parts for a client of another API, with the input of calls as the model wrote it", () => {
    const whole = readMessage(body, tools);
    if (isFailure(whole)) throw new Error(whole.detail);
    expect(whole.answer).toEqual({
      id: "msg_1",
      model: "claude-x",
      createdSeconds: null,
      parts: [
        { kind: "reasoning", text: "hm", signature: { dialect: "anthropic", data: "sig" } },
        { kind: "reasoning", text: "", signature: { dialect: "anthropic", data: "enc" }, redacted: true },
        { kind: "text", text: "It is", citations: { dialect: "anthropic", data: '[{"type":"char_location"}]' } },
        { kind: "tool_call", id: "toolu_1", name: "look", namespace: "docs", arguments: '{"n": 12345678901234567890}' },
        { kind: "tool_call", id: "toolu_2", name: "patch", custom: true, arguments: "a\nb" },
      ],
      finish: { reason: "tool_calls", stopSequence: null },
      usage: { promptTokens: 10, completionTokens: 5, cachedTokens: null, reasoningTokens: null },
    });
  });

  test("keeps its bytes for a client of this API", () => {
    const whole = readMessage(body, null);
    expect(whole).toMatchObject({ kind: "whole", finish: "tool_calls", usage: { promptTokens: 10, completionTokens: 5 } });
    if (!isFailure(whole)) expect(whole.body).toBe(body);
    expect(whole).not.toHaveProperty("answer");
  });

  test("cut at any byte is a failure", () => {
    for (let at = 0; at < body.length; at++) expect(isFailure(readMessage(body.subarray(0, at), tools))).toBe(true);
  });

  test("says which model served where the provider fell back to another one", () => {
    const fallback = { type: "fallback", from: { model: "claude-x" }, to: { model: "claude-y" } };
    const whole = readMessage(bodyOf({ content: [fallback, { type: "text", text: "hi" }], stop_reason: "end_turn" }), tools);
    expect(whole).toMatchObject({ answer: { model: "claude-y", parts: [{ kind: "text", text: "hi" }] } });
  });

  test.each([
    ['{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "overloaded"],
    ['{"type":"message"}', "bad_response"],
    ["[]", "bad_response"],
    ["event: ping\ndata: {}\n\n", "bad_response"],
  ] as const)("that is none (%s) is a failure", (text, kind) => {
    expect(readMessage(encoder.encode(text), tools)).toMatchObject({ kind });
  });
});

describe("usage", () => {
  test.each([
    [
      { input_tokens: 10, output_tokens: 5 },
      { promptTokens: 10, completionTokens: 5, cachedTokens: null, reasoningTokens: null },
    ],
    [
      {
        input_tokens: 10,
        cache_read_input_tokens: 100,
        cache_creation_input_tokens: 50,
        cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 30 },
        output_tokens: 5,
        output_tokens_details: { thinking_tokens: 3 },
      },
      {
        promptTokens: 160,
        completionTokens: 5,
        cachedTokens: 100,
        reasoningTokens: 3,
        cacheWriteTokens: 50,
        cacheWriteHourTokens: 30,
      },
    ],
    // Steps that summarise the conversation are billed too; one that another model served in the end is in the totals.
    [
      {
        input_tokens: 600,
        output_tokens: 20,
        iterations: [
          { type: "compaction", input_tokens: 60_000, output_tokens: 500 },
          { type: "message", input_tokens: 600, output_tokens: 20 },
          { type: "advisor_message", input_tokens: 9, output_tokens: 9 },
        ],
      },
      { promptTokens: 60_600, completionTokens: 520, cachedTokens: null, reasoningTokens: null },
    ],
    [
      {
        input_tokens: 412,
        output_tokens: 264,
        iterations: [
          { type: "message", input_tokens: 408, output_tokens: 0 },
          { type: "fallback_message", input_tokens: 412, output_tokens: 264 },
        ],
      },
      { promptTokens: 412, completionTokens: 264, cachedTokens: null, reasoningTokens: null },
    ],
    [{ input_tokens: -1, output_tokens: "many" }, null],
  ] as const)("of %j is read in full", (usage, expected) => {
    expect(readMessage(bodyOf({ usage, stop_reason: "end_turn" }), null)).toMatchObject({ usage: expected });
  });
});
