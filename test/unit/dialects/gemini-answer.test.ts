import { describe, expect, test } from "bun:test";
import { gemini } from "../../../src/dialects/gemini/gemini.ts";
import { geminiUsage } from "../../../src/dialects/gemini/usage.ts";
import type { Tool } from "../../../src/operations/conversation/conversation.ts";
import { bytewise } from "../../support/cuts.ts";
import { eventsFor, play, response, wholeFor } from "../../support/gemini.ts";

const tools: readonly Tool[] = [
  { name: "look", description: null, parameters: { type: "object" }, strict: null },
  { name: "patch", description: null, parameters: null, strict: null, custom: { format: null } },
];
const signature = (data: string) => ({ dialect: "gemini", data });
const usageMetadata = { promptTokenCount: 11, candidatesTokenCount: 3, thoughtsTokenCount: 1, totalTokenCount: 15 };
const finished = { finishReason: "STOP" };
const noReason = "FINISH_REASON_UNSPECIFIED";
const failedReasons = [
  ...["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE"],
  ...["OTHER", "IMAGE_OTHER", "NO_IMAGE"],
];

describe("a whole answer", () => {
  test("has its parts, with the signature of each", () => {
    const answer = wholeFor(
      response(
        [
          { text: "hm", thought: true },
          { text: "Look:", thoughtSignature: "c2ln" },
          { functionCall: { id: "f1", name: "look", args: { at: 1 } }, thoughtSignature: "Y2FsbA==" },
          { functionCall: { name: "patch", args: { input: "*** Begin" } } },
          { functionCall: { name: "look" } },
          { text: "" },
          { executableCode: { language: "PYTHON", code: "1+1" } },
          { codeExecutionResult: { outcome: "OUTCOME_OK", output: "2" } },
          { inlineData: { mimeType: "image/png", data: "AAAA" } },
          { somethingNew: {} },
        ],
        finished,
        { usageMetadata },
      ),
      tools,
    );
    expect(answer).toMatchObject({
      finish: "tool_calls",
      usage: { promptTokens: 11, completionTokens: 4, reasoningTokens: 1 },
      answer: {
        id: "r1",
        model: "gemini-9-flash-001",
        finish: { reason: "tool_calls" },
        parts: [
          { kind: "reasoning", text: "hm", signature: null },
          { kind: "text", text: "Look:", signature: signature("c2ln") },
          { kind: "tool_call", id: "f1", name: "look", arguments: '{"at":1}', signature: signature("Y2FsbA==") },
          { kind: "tool_call", id: "", name: "patch", custom: true, arguments: "*** Begin" },
          { kind: "tool_call", id: "", name: "look", arguments: "{}" },
          { kind: "text", text: "\n```python\n1+1\n```\n" },
          { kind: "text", text: "\n```\n2\n```\n" },
          { kind: "text", text: "![image/png](data:image/png;base64,AAAA)" },
        ],
      },
    });
  });

  test.each([
    ["STOP", "stop"],
    ["MAX_TOKENS", "length"],
    ["SAFETY", "content_filter"],
    ["RECITATION", "content_filter"],
    ["PROHIBITED_CONTENT", "content_filter"],
    ["SOMETHING_NEW", "stop"],
    [undefined, "stop"],
  ])("that ended with %p after a text is told as %p", (finishReason, finish) => {
    expect(wholeFor(response([{ text: "a" }], { finishReason }))).toMatchObject({ finish });
  });

  test.each([...failedReasons, noReason])("of a model that failed by %s is a failure, whatever it wrote before", (finishReason) => {
    const failed = { kind: "model_failed", blame: "channel" };
    const thought = response([{ text: "hm", thought: true }], { finishReason });
    expect(wholeFor({ candidates: [{ finishReason }] })).toMatchObject(failed);
    expect(wholeFor(thought)).toMatchObject(failed);
    // What it wrote is charged for; who gets nothing of it has to know.
    expect(wholeFor(response([{ text: "a" }], { finishReason }))).toMatchObject({ ...failed, served: true });
    expect(wholeFor({ candidates: [{ finishReason }] })).not.toHaveProperty("served");
    // A client that speaks this API reads the reason in the body.
    expect(wholeFor({ candidates: [{ finishReason }] }, null)).toMatchObject(failed);
    expect(wholeFor(thought, null)).toMatchObject({ kind: "whole", finish: "stop" });
  });

  test("to a prompt that was blocked is one that was filtered, not a failure of the channel", () => {
    const blocked = { promptFeedback: { blockReason: "PROHIBITED_CONTENT" }, usageMetadata: { promptTokenCount: 9, totalTokenCount: 9 } };
    expect(wholeFor(blocked)).toMatchObject({
      finish: "content_filter",
      usage: { promptTokens: 9, completionTokens: 0 },
      answer: { parts: [], finish: { reason: "content_filter" } },
    });
  });

  test("keeps its bytes for a client that speaks the same API", () => {
    const body = new TextEncoder().encode(JSON.stringify(response([{ text: "a" }], finished)));
    const whole = wholeFor(body, null);
    expect(whole).toMatchObject({ finish: "stop" });
    expect(whole).not.toHaveProperty("answer");
    expect("body" in whole ? whole.body : null).toBe(body);
  });

  test.each([
    ["", "bad_response"],
    ["[]", "bad_response"],
    ["null", "bad_response"],
    ["{}", "bad_response"],
    ['{"candidates":[]}', "bad_response"],
    ['{"candidates":[1,null]}', "bad_response"],
    ['{"candidates":[{"conten', "bad_response"],
    [`data: {"candidates":[]}\n\n`, "bad_response"],
    ["[".repeat(100_000), "bad_response"],
    ['[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}]', "rate_limited"],
    ['{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}', "overloaded"],
  ])("that is none is a failure: %.40s", (body, kind) => {
    expect(wholeFor(body)).toMatchObject({ kind });
  });

  test("cut at any byte is a failure", () => {
    const body = new TextEncoder().encode(JSON.stringify(response([{ text: "añ" }], finished, { usageMetadata })));
    for (let length = 0; length < body.length; length++) expect(wholeFor(body.subarray(0, length))).toMatchObject({ kind: "bad_response" });
  });
});

describe("a stream", () => {
  const said = [
    response(
      [{ text: "Let me ", thought: true }],
      {},
      { usageMetadata: { promptTokenCount: 11, totalTokenCount: 12, thoughtsTokenCount: 1 } },
    ),
    response([{ text: "think", thought: true, thoughtSignature: "dGg=" }]),
    response([{ text: "Wa" }, { text: "ter ñ" }]),
    response([
      { functionCall: { id: "f1", name: "look", args: { at: 1 } }, thoughtSignature: "Y2FsbA==" },
      { functionCall: { name: "patch", args: { input: "x" } } },
    ]),
    response([{ text: "", thoughtSignature: "ZW5k" }], finished, { usageMetadata }),
  ];
  const bytes = eventsFor(...said);

  test("is read as parts, each with its signature, and ends with the body", () => {
    const { parts, emissions, failure } = play([bytes], tools);
    expect(failure).toBeNull();
    expect(parts).toEqual([
      { kind: "start", id: "r1", model: "gemini-9-flash-001", createdSeconds: null },
      { kind: "reasoning", text: "Let me " },
      { kind: "reasoning", text: "think" },
      { kind: "reasoning_signature", signature: signature("dGg="), redacted: false },
      { kind: "text", text: "Wa" },
      { kind: "text", text: "ter ñ" },
      { kind: "tool_call", index: 0, id: "f1", name: "look", signature: signature("Y2FsbA==") },
      { kind: "tool_arguments", index: 0, text: '{"at":1}' },
      { kind: "tool_call", index: 1, id: "", name: "patch", custom: true },
      { kind: "tool_arguments", index: 1, text: "x" },
      { kind: "text_signature", signature: signature("ZW5k") },
      { kind: "finish", finish: { reason: "tool_calls", stopSequence: null } },
    ]);
    const usage = emissions.findLast((emission) => emission.kind === "usage")?.usage;
    expect(usage).toMatchObject({ promptTokens: 11, completionTokens: 4, reasoningTokens: 1 });
    expect(emissions.at(-1)).toMatchObject({ kind: "end", finish: "tool_calls" });
    const outputs = emissions.flatMap((emission) => (emission.kind === "delta" ? [emission.output] : []));
    expect(outputs).toEqual(["reasoning", "reasoning", "text", "tool_call", "finish"]);
  });

  test("cut in two at any byte, or read byte by byte, says the same", () => {
    const whole = play([bytes], tools).parts;
    for (let at = 0; at <= bytes.length; at++) {
      const { parts } = play([bytes.subarray(0, at), bytes.subarray(at)], tools);
      if (!Bun.deepEquals(parts, whole)) throw new Error(`cut at byte ${at} it says ${JSON.stringify(parts)}`);
    }
    expect(play(bytewise(bytes), tools).parts).toEqual(whole);
  });

  test("that ends at any byte before the reason why is interrupted, or failed before it began", () => {
    const complete = new TextDecoder().decode(bytes).length;
    const last = eventsFor(said.at(-1)!).length;
    const endOfLast = bytes.length - 4;
    expect(complete).toBeLessThan(bytes.length + 1);
    const first = eventsFor(said[0]!).length - 4;
    for (let length = 0; length < bytes.length - last + 1; length += 3) {
      const { failure } = play([bytes.subarray(0, length)], tools);
      expect(failure?.kind).toBe(length < first ? "bad_response" : "interrupted");
    }
    for (let length = endOfLast; length <= bytes.length; length++) expect(play([bytes.subarray(0, length)], tools).failure).toBeNull();
  });

  test("passes to a client that speaks the same API in the events that it came in", () => {
    const { emissions, failure } = play([bytes], null);
    expect(failure).toBeNull();
    const frames = emissions.flatMap((emission) => ("frame" in emission && emission.frame !== null ? [emission.frame] : []));
    expect(new TextDecoder().decode(Buffer.concat(frames))).toBe(said.map((one) => `data: ${JSON.stringify(one)}\n\n`).join(""));
    expect(emissions.every((emission) => !("parts" in emission))).toBe(true);
  });

  test("of several candidates is complete when the last one is", () => {
    const of = (index: number, fields: object = {}) => ({ candidates: [{ index, content: { parts: [{ text: "a" }] }, ...fields }] });
    const open = eventsFor(of(0), of(1), of(0, finished));
    expect(play([open], null, 2).failure).toMatchObject({ kind: "interrupted" });
    expect(play([open, eventsFor(of(1, finished))], null, 2).failure).toBeNull();
  });

  test("that a filter stopped says so, and one that was blocked from the start is an answer", () => {
    const stopped = play([eventsFor(response([{ text: "I" }]), response([], { finishReason: "SAFETY" }))]);
    expect(stopped.parts.at(-1)).toEqual({ kind: "finish", finish: { reason: "content_filter", stopSequence: null } });
    const blocked = play([eventsFor({ promptFeedback: { blockReason: "SAFETY" }, responseId: "r" })]);
    expect(blocked.failure).toBeNull();
    expect(blocked.parts.at(-1)).toEqual({ kind: "finish", finish: { reason: "content_filter", stopSequence: null } });
  });

  test.each(failedReasons)("of a model that failed by %s is a failure, and after output an interruption", (finishReason) => {
    const last = response([], { finishReason });
    expect(play([eventsFor(last)]).failure).toMatchObject({ kind: "model_failed" });
    expect(play([eventsFor(response([{ text: "a" }], { finishReason }))]).failure).toMatchObject({ kind: "model_failed" });
    for (const said of [{ text: "hm", thought: true }, { text: "a" }, { functionCall: { name: "look" } }]) {
      const { parts, failure } = play([eventsFor(response([said])), eventsFor(last)], tools);
      expect(failure).toMatchObject({ kind: "interrupted" });
      expect(parts.some(({ kind }) => kind === "finish")).toBe(false);
    }
    // A client that speaks this API reads the reason in the event.
    expect(play([eventsFor(response([{ text: "a" }]), last)], null).failure).toBeNull();
    expect(play([eventsFor(last)], null).failure).toMatchObject({ kind: "model_failed" });
  });

  test("whose events say in the words of a default that there is no reason yet goes on until one has a reason", () => {
    const goesOn = { finishReason: noReason };
    const events = [response([{ text: "a" }], goesOn), response([{ text: "b" }], goesOn), response([{ text: "c" }], finished)];
    for (const of of [tools, null]) expect(play([eventsFor(...events)], of).failure).toBeNull();
    const { parts } = play([eventsFor(...events)], tools);
    expect(parts.map((part) => (part.kind === "text" ? part.text : part.kind)).join(" ")).toBe("start a b c finish");
    expect(play([eventsFor(...events.slice(0, 2))], tools).failure).toMatchObject({ kind: "interrupted" });
    // A client that speaks this API reads in the last event that there is none.
    expect(play([eventsFor(...events.slice(0, 2))], null).failure).toBeNull();
    for (const of of [tools, null]) expect(play([eventsFor(response([], goesOn))], of).failure).toMatchObject({ kind: "model_failed" });
  });

  test.each([
    [[], "unavailable", "overloaded"],
    [[response([{ text: "a" }])], "unavailable", "interrupted"],
  ])("with an error in it fails as that error, and after output as an interruption", (before, _, kind) => {
    const error = { error: { code: 503, message: "overloaded", status: "UNAVAILABLE" } };
    expect(play([eventsFor(...before, error)]).failure).toMatchObject({ kind });
    expect(play([eventsFor(...before, [error])]).failure).toMatchObject({ kind });
  });

  test("skips what is no response", () => {
    const { emissions, failure } = play([eventsFor("1", "[", "[]", response([{ text: "a" }], finished))]);
    expect(emissions.filter(({ kind }) => kind === "skipped").length).toBe(3);
    expect(failure).toBeNull();
  });

  test("that is none, but JSON, is a failure", () => {
    expect(play([new TextEncoder().encode('[{"candidates":[]}]')]).failure).toMatchObject({ kind: "bad_response" });
  });

  test("reads no further call once there are more than any answer makes", () => {
    const calls = Array.from({ length: 3000 }, () => ({ functionCall: { name: "look" } }));
    const { parts } = play([eventsFor(response(calls, finished))], tools);
    expect(parts.filter(({ kind }) => kind === "tool_call").length).toBe(1024);
  });
});

describe("the arguments of a call that arrive in pieces", () => {
  const piece = (functionCall: object, more: object = {}) => response([{ functionCall, ...more }]);
  const args = (jsonPath: string, value: object) => piece({ partialArgs: [{ jsonPath, ...value }], willContinue: true });
  const argumentsIn = (...events: readonly object[]) =>
    play([eventsFor(...events, response([{ text: "" }], finished))], tools).parts.flatMap((part) =>
      part.kind === "tool_arguments" ? [part.text] : [],
    );
  const begun = piece({ name: "look", willContinue: true }, { thoughtSignature: "c2ln" });

  test("are put together", () => {
    expect(
      argumentsIn(
        begun,
        args("$.items[0].name", { stringValue: "ap", willContinue: true }),
        args("$.items[0].name", { stringValue: "ple" }),
        args("$.items[0].price", { numberValue: 0.5 }),
        piece({ willContinue: true }),
        args("$.items[1]['odd \\'name']", { boolValue: true }),
        args("$.none", { nullValue: "NULL_VALUE" }),
        piece({ partialArgs: [{ jsonPath: "$.__proto__.polluted", stringValue: "x" }] }),
        piece({}),
      ),
    ).toEqual([`{"items":[{"name":"apple","price":0.5},{"odd 'name":true}],"none":null,"__proto__":{"polluted":"x"}}`]);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  test("are complete also where their last piece is missing, or where there are none", () => {
    expect(argumentsIn(begun, args("$.at", { numberValue: 1 }))).toEqual(['{"at":1}']);
    expect(argumentsIn(begun, piece({ name: "look" }))).toEqual(["{}", "{}"]);
  });

  test.each(["$", "at", "$.items[7]", "$.at.deeper", `$${".a".repeat(100)}`, "$.a[99999]", "$..a"])(
    "are not guessed from the path %.20s",
    (path) => {
      const { failure } = play(
        [eventsFor(begun, args("$.at", { numberValue: 1 }), args(path, { stringValue: "x" }), response([], finished))],
        tools,
      );
      expect(failure).toMatchObject({ blame: "channel" });
    },
  );
});

describe("usage", () => {
  test.each([
    [
      { promptTokenCount: 5, totalTokenCount: 5 },
      { promptTokens: 5, completionTokens: 0 },
    ],
    [
      {
        promptTokenCount: 19,
        cachedContentTokenCount: 3,
        candidatesTokenCount: 4,
        toolUsePromptTokenCount: 63,
        thoughtsTokenCount: 56,
        totalTokenCount: 142,
        promptTokensDetails: [
          { modality: "TEXT", tokenCount: 10 },
          { modality: "AUDIO", tokenCount: 9 },
        ],
        candidatesTokensDetails: [{ modality: "AUDIO", tokenCount: 2 }],
      },
      { promptTokens: 82, completionTokens: 60, cachedTokens: 3, reasoningTokens: 56, audioInputTokens: 9, audioOutputTokens: 2 },
    ],
    [
      { promptTokenCount: 5, candidatesTokenCount: -1 },
      { promptTokens: 5, completionTokens: null },
    ],
    [
      { promptTokenCount: 5, candidatesTokenCount: 1e300 },
      { promptTokens: 5, completionTokens: null },
    ],
  ])("%p is read as %p", (metadata, usage) => {
    expect(geminiUsage(metadata)).toMatchObject(usage);
  });

  test.each([[null], [[]], ["1"], [{ trafficType: "ON_DEMAND" }], [{}]])("%p is none", (metadata) => {
    expect(geminiUsage(metadata)).toBeNull();
  });
});

describe("an error", () => {
  const explain = (status: number, error: object, wrapped: boolean) =>
    gemini.chat?.explain({ status, header: () => null, body: JSON.stringify(wrapped ? [{ error }] : { error }) });
  const details = [
    {
      "@type": "type.googleapis.com/google.rpc.QuotaFailure",
      violations: [{ quotaId: "GenerateRequestsPerMinutePerProjectPerModel-FreeTier" }],
    },
    { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34.4s" },
  ];

  test.each([false, true])("says when to come back, in a list or not (%p)", (wrapped) => {
    const error = { code: 429, message: "You exceeded your current quota.", status: "RESOURCE_EXHAUSTED", details };
    expect(explain(429, error, wrapped)).toMatchObject({ kind: "rate_limited", retryAfterMs: 34_400 });
  });

  test.each([
    [400, { status: "INVALID_ARGUMENT", message: "API key not valid.", details: [{ reason: "API_KEY_INVALID" }] }, "unauthorized"],
    [
      400,
      { status: "INVALID_ARGUMENT", message: "The input token count (9) exceeds the maximum number of tokens allowed (5)." },
      "context_length",
    ],
    [404, { status: "NOT_FOUND", message: "models/x is not found for API version v1beta" }, "model_missing"],
    [503, { status: "UNAVAILABLE", message: "The model is overloaded." }, "overloaded"],
    [403, { status: "PERMISSION_DENIED", message: "Permission denied on resource project." }, "unauthorized"],
  ])("with the status %p and %p is understood", (status, error, kind) => {
    expect(explain(status, { code: status, ...error }, false)).toMatchObject({ kind });
  });
});

test("the list of models has those that generate content", () => {
  const list = {
    models: [
      { name: "models/gemini-9-flash", supportedGenerationMethods: ["generateContent", "countTokens"] },
      { name: "models/embedding-1", supportedGenerationMethods: ["embedContent"] },
      { name: "models/unknown" },
      null,
    ],
    nextPageToken: "x",
  };
  expect(gemini.models?.read(JSON.stringify(list))).toEqual(["models/gemini-9-flash", "models/unknown"]);
  expect(gemini.models?.read("{}")).toEqual([]);
  expect(gemini.models?.read('{"error":{"code":500}}')).toBeNull();
  expect(gemini.models?.read("{")).toBeNull();
  expect(gemini.models?.read("[]")).toBeNull();
});

test("the list of models goes on where its page says so", () => {
  expect(gemini.models?.next?.('{"models":[],"nextPageToken":"a/b=="}')).toBe("&pageToken=a%2Fb%3D%3D");
  for (const last of [
    '{"models":[]}',
    '{"nextPageToken":""}',
    '{"nextPageToken":5}',
    JSON.stringify({ nextPageToken: "x".repeat(5000) }),
    "{",
  ]) {
    expect(gemini.models?.next?.(last)).toBeNull();
  }
});
