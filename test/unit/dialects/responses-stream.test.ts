import { describe, expect, test } from "bun:test";
import { readResponse } from "../../../src/dialects/openai-responses/answer.ts";
import { DeclaredTools } from "../../../src/dialects/openai-responses/items.ts";
import { ResponsesStream } from "../../../src/dialects/openai-responses/stream.ts";
import { EventReader } from "../../../src/dialects/readers/event-reader.ts";
import type { StreamPart } from "../../../src/operations/conversation/answer-parts.ts";
import type { Tool } from "../../../src/operations/conversation/conversation.ts";
import { wireName } from "../../../src/operations/conversation/tool-names.ts";
import type { Emission } from "../../../src/operations/emission.ts";
import { isFailure, type Failure, type FailureKind } from "../../../src/operations/failure.ts";
import { bytewise } from "../../support/cuts.ts";
import {
  customCall,
  eventStream,
  functionCall,
  message,
  reasoning,
  refusal,
  response,
  responseEvents,
  type ScriptedItem,
} from "../../support/responses-script.ts";

const find: Tool = { name: "find", namespace: "crm", description: null, parameters: {}, strict: null };
const long: Tool = { name: "a tool with spaces", description: null, parameters: {}, strict: null };
const tools = new DeclaredTools([find, long]);

interface Played {
  readonly emissions: readonly Emission[];
  readonly failure: Failure | null;
}

function play(chunks: readonly (string | Uint8Array)[], declared: DeclaredTools | null): Played {
  const reader = new EventReader(new ResponsesStream(declared));
  const emissions: Emission[] = [];
  for (const chunk of [...chunks, null]) {
    const bytes = typeof chunk === "string" ? new TextEncoder().encode(chunk) : chunk;
    const read = bytes === null ? reader.close() : reader.push(bytes);
    if (isFailure(read)) return { emissions, failure: read };
    emissions.push(...read);
    if (reader.pending !== null) return { emissions, failure: reader.pending };
  }
  return { emissions, failure: null };
}

function partsOf({ emissions }: Played): readonly StreamPart[] {
  return emissions.flatMap((emission) => ("parts" in emission ? (emission.parts ?? []) : []));
}

/** Pieces of one text, thought or call as one, as a client would put them together. */
function joined(parts: readonly StreamPart[]): readonly StreamPart[] {
  const all: StreamPart[] = [];
  for (const part of parts) {
    const last = all.at(-1);
    const goesOn =
      last !== undefined &&
      "text" in part &&
      last.kind === part.kind &&
      (part.kind !== "tool_arguments" || ("index" in last && last.index === part.index));
    if (goesOn && "text" in last) all[all.length - 1] = { ...last, text: last.text + part.text } as StreamPart;
    else all.push(part);
  }
  return all;
}

function framesOf({ emissions }: Played): string {
  return Buffer.concat(emissions.flatMap((each) => ("frame" in each && each.frame !== null ? [each.frame] : []))).toString();
}

const start: StreamPart = { kind: "start", id: "resp_1", model: "served-model", createdSeconds: 1_790_000_000 };
const signed = (data: string, redacted: boolean): StreamPart => ({
  kind: "reasoning_signature",
  signature: { dialect: "openai-responses", data },
  redacted,
});
const finished = (reason: "stop" | "length" | "tool_calls" | "content_filter"): StreamPart => ({
  kind: "finish",
  finish: { reason, stopSequence: null },
});
const usage = {
  ...{ promptTokens: 40, completionTokens: 12, cachedTokens: 30, cacheWriteTokens: 4, reasoningTokens: 5 },
  servedModel: "served-model",
};

interface Scene {
  readonly items: readonly ScriptedItem[];
  readonly last?: Readonly<Record<string, unknown>>;
  readonly parts: readonly StreamPart[];
  readonly output: string;
  readonly finish: string;
}

const scenes: Readonly<Record<string, Scene>> = {
  text: {
    items: [message("Hello, you.")],
    parts: [{ kind: "text", text: "Hello, you." }, finished("stop")],
    output: "text",
    finish: "stop",
  },
  "a refusal": {
    items: [refusal("I will not.")],
    parts: [{ kind: "refusal", text: "I will not." }, finished("stop")],
    output: "refusal",
    finish: "stop",
  },
  "reasoning in two pieces before the text": {
    items: [reasoning("enc-1", "First.", "Second."), message("Done 🚰.")],
    parts: [
      { kind: "reasoning", text: "First.\n\nSecond.", summary: true },
      signed("enc-1", false),
      { kind: "text", text: "Done 🚰." },
      finished("stop"),
    ],
    output: "reasoning",
    finish: "stop",
  },
  "reasoning that is not shown, and two calls": {
    items: [reasoning("enc-2"), functionCall("a", "look", '{"at": 1}'), customCall("b", "patch", "*** Begin")],
    parts: [
      signed("enc-2", true),
      { kind: "tool_call", index: 0, id: "a", name: "look" },
      { kind: "tool_arguments", index: 0, text: '{"at": 1}' },
      { kind: "tool_call", index: 1, id: "b", name: "patch", custom: true },
      { kind: "tool_arguments", index: 1, text: "*** Begin" },
      finished("tool_calls"),
    ],
    output: "reasoning",
    finish: "tool_calls",
  },
  "calls of a namespace, and of a tool whose name is none in this API": {
    items: [functionCall("a", "find", "{}", "crm"), functionCall("b", wireName(long), "{}")],
    parts: [
      { kind: "tool_call", index: 0, id: "a", name: "find", namespace: "crm" },
      { kind: "tool_arguments", index: 0, text: "{}" },
      { kind: "tool_call", index: 1, id: "b", name: "a tool with spaces" },
      { kind: "tool_arguments", index: 1, text: "{}" },
      finished("tool_calls"),
    ],
    output: "tool_call",
    finish: "tool_calls",
  },
  "two messages": {
    items: [message("I look."), message("Here.")],
    parts: [{ kind: "text", text: "I look.\n\nHere." }, finished("stop")],
    output: "text",
    finish: "stop",
  },
  "an answer that is cut to its length": {
    items: [message("Hello")],
    last: { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } },
    parts: [{ kind: "text", text: "Hello" }, finished("length")],
    output: "text",
    finish: "length",
  },
  "an answer that is filtered": {
    items: [message("Hello")],
    last: { status: "incomplete", incomplete_details: { reason: "content_filter" } },
    parts: [{ kind: "text", text: "Hello" }, finished("content_filter")],
    output: "text",
    finish: "content_filter",
  },
  "an answer of nothing": { items: [], parts: [finished("stop")], output: "finish", finish: "stop" },
};

describe.each(Object.entries(scenes))("the stream of %s", (name, { items, last, parts, output, finish }) => {
  const events = responseEvents(items, last);
  const body = eventStream(events);
  const bytes = new TextEncoder().encode(body);

  test("says what the response says, with its usage and how it ended", () => {
    const played = play([body], tools);
    expect(joined(partsOf(played))).toEqual([start, ...parts]);
    expect(framesOf(played)).toBe("");
    expect(played.emissions.at(-2)).toEqual({ kind: "usage", frame: null, usage });
    expect(played.emissions.at(-1)).toMatchObject({ kind: "end", finish });
    expect(played.emissions.find((each) => each.kind === "delta" && each.output !== null)).toMatchObject({ output });
    expect(played.failure).toBeNull();
  });

  test("says the same as the response that is not streamed", () => {
    const whole = readResponse(new TextEncoder().encode(JSON.stringify(response(items, last))), tools);
    if (isFailure(whole)) throw new Error(whole.detail);
    expect(whole).toMatchObject({ finish, usage, answer: { id: "resp_1", model: "served-model", createdSeconds: 1_790_000_000 } });
    const heard = whole.answer!.parts.map((part) => ("text" in part ? part.text : part.kind === "tool_call" ? part.arguments : ""));
    const told = joined(partsOf(play([body], tools))).flatMap((part) => ("text" in part ? [part.text] : []));
    expect(heard.join("")).toBe(told.join(""));
  });

  test("passes byte for byte to a client of the same API", () => {
    const played = play([body], null);
    expect(framesOf(played)).toBe(body);
    expect(partsOf(played)).toEqual([]);
    expect(played.emissions.at(-2)).toEqual({ kind: "usage", frame: null, usage });
    expect(played.emissions.at(-1)).toMatchObject({ kind: "end", finish });
  });

  test.each([tools, null])("is the same however it is cut, and a failure where it ends early", (declared) => {
    const outline = (played: Played): unknown => [framesOf(played), joined(partsOf(played)), played.failure];
    // Every byte of the shortest, and every few of the others, which have the same events.
    const step = name === "text" ? 1 : 17;
    const uncut = JSON.stringify(outline(play([bytes], declared)));
    expect(JSON.stringify(outline(play(bytewise(bytes), declared)))).toBe(uncut);
    for (let at = 0; at < bytes.length; at += step) {
      const cut = play([bytes.subarray(0, at), bytes.subarray(at)], declared);
      if (JSON.stringify(outline(cut)) !== uncut) throw new Error(`cut at byte ${at} it is another`);
    }
    for (let length = 0; length < bytes.length; length += step) {
      const { failure, emissions } = play([bytes.subarray(0, length)], declared);
      const isWhole = emissions.some(({ kind }) => kind === "end");
      // The last event may lack the blank line behind it.
      if (isWhole !== length >= bytes.length - 2) throw new Error(`ended at byte ${length}`);
      if (isWhole) continue;
      const spoke = emissions.some((each) => each.kind === "delta" && each.output !== null);
      if (failure?.kind !== (spoke ? "interrupted" : "bad_response"))
        throw new Error(`ended at byte ${length} it is called ${failure?.kind}`);
    }
  });
});

describe("a stream with little in it", () => {
  test("of which only the whole items come, says them", () => {
    const items = [reasoning("enc", "Hm."), message("Yes."), functionCall("a", "look", "{}")];
    const events = responseEvents(items).filter(({ type }) => /\.(created|done|completed)$/.test(type) && !/text|part/.test(type));
    expect(joined(partsOf(play([eventStream(events)], tools)))).toEqual([
      start,
      { kind: "reasoning", text: "Hm.", summary: true },
      signed("enc", false),
      { kind: "text", text: "Yes." },
      { kind: "tool_call", index: 0, id: "a", name: "look" },
      { kind: "tool_arguments", index: 0, text: "{}" },
      finished("tool_calls"),
    ]);
  });

  test("of which only the end comes, says what that holds", () => {
    const events = responseEvents([message("Yes.")]).slice(-1);
    expect(joined(partsOf(play([eventStream(events)], tools)))).toEqual([start, { kind: "text", text: "Yes." }, finished("stop")]);
  });

  test("whose end has a call that no event told, calls it; one that was told under another place is no other", () => {
    const said = responseEvents([message("I look.")]).slice(0, -1);
    const end = (...items: readonly ScriptedItem[]) => ({ type: "response.completed", response: response(items) });
    const called = [
      { kind: "tool_call", index: 0, id: "a", name: "look" },
      { kind: "tool_arguments", index: 0, text: '{"at": 1}' },
    ] as const;
    const look = functionCall("a", "look", '{"at": 1}');
    const untold = play([eventStream([...said, end(message("I look."), look)])], tools);
    expect(joined(partsOf(untold))).toEqual([start, { kind: "text", text: "I look." }, ...called, finished("tool_calls")]);
    expect(untold.emissions.at(-1)).toMatchObject({ kind: "end", finish: "tool_calls" });
    const told = responseEvents([look]).slice(0, -1);
    expect(joined(partsOf(play([eventStream([...told, end(message("I look."), look)])], tools)))).toEqual([
      start,
      ...called,
      finished("tool_calls"),
    ]);
  });

  test("whose end leaves out the text before its calls, calls each of them once", () => {
    const [a, b] = [functionCall("a", "look", '{"at": 1}'), functionCall("b", "look", '{"at": 2}')];
    const called = (index: number, id: string, text: string) => [
      { kind: "tool_call" as const, index, id, name: "look" },
      { kind: "tool_arguments" as const, index, text },
    ];
    const end = { type: "response.completed", response: response([a, b]) };
    const both = [start, { kind: "text", text: "I look." }, ...called(0, "a", '{"at": 1}'), ...called(1, "b", '{"at": 2}')];
    for (const told of [[message("I look.")], [message("I look."), a], [message("I look."), a, b]]) {
      const events = [...responseEvents(told).slice(0, -1), end];
      expect(joined(partsOf(play([eventStream(events)], tools)))).toEqual([...both, finished("tool_calls")] as StreamPart[]);
    }
  });

  test("whose call is told its id late, or another one in each event, has one call", () => {
    const look = functionCall("a", "look", '{"at": 1}');
    const told = responseEvents([look]).slice(0, -1);
    const end = (...items: readonly ScriptedItem[]) => ({ type: "response.completed", response: response(items) });
    const changed = (id: string | undefined) =>
      told.map((event) =>
        event.type === "response.output_item.added" ? { ...event, item: { ...look, arguments: "", call_id: id } } : event,
      );
    const callsOf = (events: readonly object[]) =>
      partsOf(play([eventStream(events as typeof told)], tools)).filter(({ kind }) => kind === "tool_call");
    expect(callsOf([...changed(undefined), end(message("I look."), look)])).toHaveLength(1);
    expect(callsOf([...changed("first"), end(message("I look."), look)])).toHaveLength(1);
    expect(callsOf([...changed("first"), end({ ...look, call_id: "third" })])).toHaveLength(1);
    expect(callsOf([...changed("first"), end(message("I look."), { ...look, call_id: "third" })])).toHaveLength(1);
    expect(callsOf([...changed("first"), end(look, { ...look, id: "fc_2", call_id: "other" })])).toHaveLength(2);
  });

  test("whose end does not repeat the output, is complete", () => {
    const events = [
      ...responseEvents([functionCall("a", "look", "{}")]).slice(0, -1),
      { type: "response.completed", response: { id: "resp_1" } },
    ];
    const played = play([eventStream(events)], tools);
    expect(played.failure).toBeNull();
    expect(played.emissions.at(-1)).toMatchObject({ kind: "end", finish: "tool_calls" });
  });

  test("and with events that nobody knows, ignores those", () => {
    const body = eventStream(responseEvents([message("Yes.")]));
    const odd = `event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n${body}data: [DONE]\n\n`;
    expect(joined(partsOf(play([odd], tools)))).toEqual([
      { ...start, id: null, model: null, createdSeconds: null },
      { kind: "text", text: "Yes." },
      finished("stop"),
    ]);
  });
});

test("shows all of the reasoning where an upstream does", () => {
  const events = [
    { type: "response.created", response: response([]) },
    { type: "response.reasoning_text.delta", output_index: 0, content_index: 0, delta: "Let me" },
    { type: "response.reasoning_text.delta", output_index: 0, content_index: 0, delta: " see." },
    {
      type: "response.output_item.done",
      output_index: 0,
      item: { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "Let me see." }] },
    },
    { type: "response.completed", response: response([]) },
  ];
  expect(joined(partsOf(play([eventStream(events)], tools)))).toEqual([
    start,
    { kind: "reasoning", text: "Let me see." },
    finished("stop"),
  ]);
});

test("another channel can go on with a text, but not with an item that is half told or where events have no numbers", () => {
  const events = responseEvents([reasoning("enc", "Hm."), message("Yes, it is.")]);
  const placeAfter = (type: string, shown: typeof events): unknown => {
    const at = shown.findIndex((event) => event["type"] === type) + 1;
    const { emissions } = play([eventStream(shown.slice(0, at))], null);
    const last = emissions.at(-1);
    return last !== undefined && "place" in last ? last.place : null;
  };
  const done = [reasoning("enc", "Hm.")];
  expect(placeAfter("response.created", events)).toEqual({ id: "resp_1", sequence: 0, resume: { items: [], message: null } });
  expect(placeAfter("response.reasoning_summary_text.delta", events)).toMatchObject({ resume: null });
  expect(placeAfter("response.output_item.done", events)).toMatchObject({ resume: { items: done, message: null } });
  expect(placeAfter("response.output_text.delta", events)).toMatchObject({
    id: "resp_1",
    resume: { items: done, message: { id: "msg_1" } },
  });
  expect(placeAfter("response.output_text.done", events)).toMatchObject({ resume: null });
  expect(placeAfter("response.content_part.done", events)).toMatchObject({ resume: null });
  const unnumbered = events.map((event) => ({ ...event, sequence_number: undefined }));
  expect(placeAfter("response.output_text.delta", unnumbered)).toEqual({ id: "resp_1", sequence: 9, resume: null });
  const nameless = events.map((event) => ({ ...event, response: undefined }));
  expect(placeAfter("response.output_text.delta", nameless)).toMatchObject({ id: "", resume: null });
});

test("a tool that runs at the upstream is output: what it does is not to be done twice", () => {
  const events = [
    { type: "response.created", response: response([]) },
    { type: "response.output_item.added", output_index: 0, item: { id: "ws_1", type: "web_search_call", status: "in_progress" } },
  ];
  expect(play([eventStream(events)], null)).toMatchObject({ failure: { kind: "interrupted" } });
});

describe("an error inside a stream", () => {
  const created = { type: "response.created", response: response([]) };
  const failed = (error: unknown): string =>
    eventStream([created, { type: "response.failed", response: response([], { status: "failed", error }) }]);

  test.each([
    [failed({ code: "server_error", message: "The server had an error." }), "overloaded"],
    [failed({ code: "rate_limit_exceeded", message: "Rate limit reached. Please try again in 1.2s." }), "rate_limited"],
    [failed({ code: "context_length_exceeded", message: "Your input exceeds the context window." }), "context_length"],
    [failed({ code: "insufficient_quota", message: "You exceeded your current quota." }), "quota_exhausted"],
    [failed({ code: "invalid_prompt", message: "Invalid prompt." }), "content_policy"],
    [failed({ code: "cyber_policy", message: "Not allowed." }), "content_policy"],
    [failed({ code: "invalid_image_url", message: "The image cannot be read." }), "invalid_request"],
    [failed({ code: "server_is_overloaded", message: "Slow down." }), "overloaded"],
    [failed(null), "model_failed"],
    [eventStream([created, { type: "response.cancelled", response: response([], { status: "cancelled" }) }]), "model_failed"],
    [eventStream([{ type: "error", code: "rate_limit_exceeded", message: "Slow down.", param: null }]), "rate_limited"],
    [eventStream([{ type: "error", error: { type: "invalid_request_error", code: "invalid_api_key", message: "No." } }]), "unauthorized"],
    [eventStream([created, { type: "response.completed", response: null }]), "bad_response"],
    [
      eventStream([{ type: "response.completed", response: response([], { error: { code: "server_error", message: "x" } }) }]),
      "overloaded",
    ],
    ["data: nonsense\n\n", "bad_response"],
    ['{"error":{"message":"x"}}', "bad_response"],
    ["", "bad_response"],
  ])("%#. before any output is the failure that it tells of", (body, kind) => {
    for (const declared of [tools, null]) expect(play([body], declared).failure?.kind).toBe(kind as FailureKind);
  });

  test("after some output is an interruption", () => {
    const events = responseEvents([message("Hello")]).slice(0, 6);
    const body = eventStream([
      ...events,
      { type: "response.failed", response: response([], { status: "failed", error: { code: "server_error", message: "x" } }) },
    ]);
    for (const declared of [tools, null]) expect(play([body], declared).failure?.kind).toBe("interrupted");
  });
});

describe("a response that is not streamed", () => {
  const read = (value: unknown): ReturnType<typeof readResponse> => readResponse(new TextEncoder().encode(JSON.stringify(value)), null);

  test("keeps its bytes for a client of the same API", () => {
    const body = new TextEncoder().encode(JSON.stringify(response([message("Hello")]), null, 2));
    const whole = readResponse(body, null);
    if (isFailure(whole)) throw new Error(whole.detail);
    expect(whole.body).toBe(body);
    expect(whole).not.toHaveProperty("answer");
  });

  test.each([
    [response([], { status: "failed", error: { code: "server_error", message: "x" } }), "overloaded"],
    [response([], { status: "failed" }), "model_failed"],
    [response([], { status: "in_progress" }), "bad_response"],
    [{ error: { code: "invalid_api_key", message: "x" } }, "unauthorized"],
    [{ choices: [] }, "bad_response"],
    ["text", "bad_response"],
    [null, "bad_response"],
  ])("%#. is a failure if it is no answer", (value, kind) => {
    expect(read(value)).toMatchObject({ kind });
  });

  test("tells its output as a text where the upstream reports no usage, so that it can be estimated", () => {
    const items = [reasoning("enc", "Hm. "), message("Yes. "), functionCall("a", "look ", '{"at":1}')];
    expect(read(response(items, { usage: null }))).toMatchObject({ usage: null, said: 'Hm. Yes. look {"at":1}' });
    expect(read(response(items))).not.toHaveProperty("said");
  });

  test("is a failure when it ends at any byte before its last", () => {
    const body = new TextEncoder().encode(JSON.stringify(response([message("Hello")])));
    for (let length = 0; length < body.length; length += 1)
      expect(readResponse(body.subarray(0, length), null)).toMatchObject({ kind: "bad_response" });
  });
});
