import { describe, expect, test } from "bun:test";
import type { StreamPart } from "../../../src/operations/conversation/answer-parts.ts";
import type { Part } from "../../../src/operations/conversation/conversation.ts";
import type { AnswerContext } from "../../../src/operations/conversation/surface.ts";
import { generateAnswers, listedAnswers } from "../../../src/surfaces/gemini/index.ts";

const context: AnswerContext = {
  request: { model: "m", promptTokensEstimate: 9, maxCompletionTokens: null, echo: {} },
  idSeed: "seed",
  nowSeconds: 0,
  seal: (part) => `sluice-v1.${part.kind}`,
};
const usage = { promptTokens: 10, completionTokens: 7, cachedTokens: 4, reasoningTokens: 2 };
const stop = { reason: "stop", stopSequence: null } as const;

function whole(parts: readonly Part[]): unknown {
  const answer = { id: null, model: "served", createdSeconds: null, parts, finish: stop, usage };
  return JSON.parse(new TextDecoder().decode(generateAnswers.whole(answer, context))) as unknown;
}

/** The responses that the frames of a stream hold. */
function streamed(...batches: readonly (readonly StreamPart[])[]): readonly Record<string, unknown>[] {
  return streamedWith(context, ...batches);
}

function streamedWith(using: AnswerContext, ...batches: readonly (readonly StreamPart[])[]): readonly Record<string, unknown>[] {
  const writer = generateAnswers.writer(using);
  const bytes = [...batches.map((parts) => writer.write(parts)), writer.end()];
  const text = bytes.map((one) => new TextDecoder().decode(one)).join("");
  return text
    .split("\n\n")
    .filter((frame) => frame !== "")
    .map((frame) => JSON.parse(frame.replace(/^data: /, "")) as Record<string, unknown>);
}

function partsIn(responses: readonly Record<string, unknown>[]): readonly unknown[] {
  return responses.flatMap(({ candidates }) => (candidates as { content: { parts: unknown[] } }[])[0]!.content.parts);
}

const foreign = { dialect: "another", data: "x" };
const own = { dialect: "gemini", data: "c2ln" };
/** The field is one of bytes: the official clients for Python and Go refuse an answer where it is no base64. */
const sealedThought = btoa("sluice-v1.reasoning");

describe("a whole answer", () => {
  const parts: readonly Part[] = [
    { kind: "reasoning", text: "hm", signature: foreign },
    { kind: "text", text: "So:", signature: own },
    { kind: "tool_call", id: "", name: "look", arguments: '{"at":1}', signature: foreign },
    { kind: "tool_call", id: "c2", name: "patch", arguments: "free", custom: true },
    { kind: "tool_call", id: "c3", name: "odd", arguments: "[1]" },
  ];
  const expected = {
    candidates: [
      {
        content: {
          role: "model",
          parts: [
            { text: "hm", thought: true, thoughtSignature: sealedThought },
            { text: "So:", thoughtSignature: "c2ln" },
            { functionCall: { id: "call_seed_0", name: "look", args: { at: 1 } }, thoughtSignature: btoa("sluice-v1.tool_call") },
            { functionCall: { id: "c2", name: "patch", args: { input: "free" } }, thoughtSignature: sealedThought },
            { functionCall: { id: "c3", name: "odd", args: { _raw: "[1]" } } },
          ],
        },
        finishReason: "STOP",
        index: 0,
      },
    ],
    usageMetadata: {
      promptTokenCount: 10,
      candidatesTokenCount: 5,
      totalTokenCount: 17,
      cachedContentTokenCount: 4,
      thoughtsTokenCount: 2,
    },
    modelVersion: "served",
    responseId: "seed",
  };

  test("is a response with its parts, its reason and its usage", () => {
    expect(whole(parts)).toEqual(expected);
  });

  test("of nothing has an empty text", () => {
    expect(whole([])).toMatchObject({ candidates: [{ content: { parts: [{ text: "" }] } }] });
  });
});

describe("a stream", () => {
  test("has a response for each piece, whole calls, and the reason and the usage at its end", () => {
    const responses = streamed(
      [{ kind: "start", id: "x", model: "served", createdSeconds: 1 }],
      [{ kind: "reasoning", text: "h" }],
      [{ kind: "reasoning", text: "m" }],
      [{ kind: "reasoning_signature", signature: foreign, redacted: false }],
      [{ kind: "text", text: "So:" }],
      [{ kind: "text_signature", signature: own }],
      [
        { kind: "tool_call", index: 0, id: "", name: "look" },
        { kind: "tool_call", index: 1, id: "c2", name: "listen", signature: own },
      ],
      [{ kind: "tool_arguments", index: 1, text: '{"b"' }],
      [{ kind: "tool_arguments", index: 0, text: '{"a":1}' }],
      [{ kind: "tool_arguments", index: 1, text: ":2}" }],
      [{ kind: "finish", finish: { reason: "tool_calls", stopSequence: null } }],
      [{ kind: "usage", usage }],
    );
    expect(partsIn(responses)).toEqual([
      { text: "h", thought: true },
      { text: "m", thought: true },
      { text: "", thought: true, thoughtSignature: sealedThought },
      { text: "So:" },
      { text: "", thoughtSignature: "c2ln" },
      // Clients that leave thoughts out return the calls as they were.
      { functionCall: { id: "call_seed_0", name: "look", args: { a: 1 } }, thoughtSignature: sealedThought },
      { functionCall: { id: "c2", name: "listen", args: { b: 2 } }, thoughtSignature: "c2ln" },
      { text: "" },
    ]);
    expect(responses.slice(0, -1).every(({ usageMetadata }) => usageMetadata === undefined)).toBe(true);
    expect(responses.at(-1)).toMatchObject({
      candidates: [{ finishReason: "STOP", index: 0 }],
      usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, thoughtsTokenCount: 2 },
      modelVersion: "served",
      responseId: "seed",
    });
  });

  test("has all arguments of a call, also those that come after a text or a thought", () => {
    const look: StreamPart = { kind: "tool_call", index: 0, id: "c1", name: "look" };
    const piece = (text: string): StreamPart => ({ kind: "tool_arguments", index: 0, text });
    const finished: StreamPart = { kind: "finish", finish: { reason: "tool_calls", stopSequence: null } };
    const call = { functionCall: { id: "c1", name: "look", args: { at: 1 } } };
    for (const [kind, said] of [
      ["text", { text: "a" }],
      ["reasoning", { text: "a", thought: true }],
    ] as const) {
      const between = streamed([look], [piece('{"at"')], [{ kind, text: "a" }], [piece(":1}")], [finished]);
      expect(partsIn(between)).toEqual([said, call, { text: "" }]);
      const before = streamed([look], [piece('{"at":1}')], [{ kind, text: "a" }], [finished]);
      expect(partsIn(before)).toEqual([call, said, { text: "" }]);
    }
  });

  test.each([
    ["length", "MAX_TOKENS"],
    ["content_filter", "SAFETY"],
    ["stop", "STOP"],
  ] as const)("that ended by %s says %s", (reason, finishReason) => {
    const responses = streamed([
      { kind: "text", text: "a" },
      { kind: "finish", finish: { reason, stopSequence: null } },
    ]);
    expect(responses.at(-1)).toMatchObject({
      candidates: [{ finishReason }],
      usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 1 },
    });
  });

  test("that another channel goes on with seals what that one said and thought, and no word of the first", () => {
    const seal: AnswerContext["seal"] = (part) => `sluice-v1.${part.kind === "text" || part.kind === "reasoning" ? part.text : part.kind}`;
    const responses = streamedWith(
      { ...context, seal },
      [{ kind: "start", id: "x", model: "first", createdSeconds: 1 }],
      [{ kind: "reasoning", text: "carried" }],
      [{ kind: "reasoning_signature", signature: foreign, redacted: false }],
      [{ kind: "reasoning", text: "broken off" }],
      [{ kind: "text", text: "said before" }],
      [{ kind: "start", id: null, model: null, createdSeconds: null }],
      [{ kind: "reasoning", text: "second" }],
      [{ kind: "reasoning_signature", signature: foreign, redacted: false }],
      [{ kind: "text", text: "said after" }],
      [{ kind: "text_signature", signature: foreign }],
      [{ kind: "tool_call", index: 0, id: "c1", name: "look" }],
    );
    const signatures = partsIn(responses).flatMap((part) => (part as { thoughtSignature?: string }).thoughtSignature ?? []);
    expect(signatures.map((one) => atob(one))).toEqual(["carried", "second", "said after", "second"].map((text) => `sluice-v1.${text}`));
    expect(responses.at(-1)).toMatchObject({ modelVersion: "first" });
  });

  test("says nothing after its end", () => {
    const writer = generateAnswers.writer(context);
    writer.end();
    expect(writer.write([{ kind: "text", text: "a" }]).length).toBe(0);
    expect(writer.end().length).toBe(0);
  });
});

test.each([
  [400, "INVALID_ARGUMENT"],
  [401, "UNAUTHENTICATED"],
  [403, "PERMISSION_DENIED"],
  [404, "NOT_FOUND"],
  [429, "RESOURCE_EXHAUSTED"],
  [500, "INTERNAL"],
  [502, "UNAVAILABLE"],
  [504, "DEADLINE_EXCEEDED"],
])("an error with the status %p is %s, in the body, in a stream and in a list", (status, name) => {
  const failure = { status, type: "t", code: "some_code", param: "contents", message: "No." };
  const expected = { error: { code: status, message: "No.", status: name } };
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  expect(JSON.parse(decode(generateAnswers.error(failure, "r")))).toMatchObject(expected);
  expect(JSON.parse(decode(generateAnswers.errorEvent(failure, "r")).replace(/^data: /, ""))).toMatchObject(expected);
  expect(JSON.parse(decode(listedAnswers.error(failure, "r")))).toMatchObject([expected]);
});

describe("a stream that is a list", () => {
  const failure = { status: 502, type: "t", code: null, param: null, message: "No." };
  const parsed = (...pieces: readonly Uint8Array[]): readonly Record<string, unknown>[] =>
    JSON.parse(pieces.map((piece) => new TextDecoder().decode(piece)).join("")) as readonly Record<string, unknown>[];
  const { keepAlive } = listedAnswers;

  test("has an element for each event, and is one document whenever something keeps it alive", () => {
    const writer = listedAnswers.writer(context);
    const [first, second] = [writer.write([{ kind: "text", text: "So" }]), writer.write([{ kind: "text", text: " so." }])];
    const list = parsed(keepAlive, first, keepAlive, second, keepAlive, writer.end());
    expect(partsIn(list)).toEqual([{ text: "So" }, { text: " so." }, { text: "" }]);
    expect(list.at(-1)).toMatchObject({ candidates: [{ finishReason: "STOP" }] });
    expect(parsed(listedAnswers.writer(context).end())).toHaveLength(1);
    expect([writer.type, listedAnswers.streamType]).toEqual(["application/json", "application/json"]);
  });

  test("ends with the error that broke it, or is nothing else", () => {
    const writer = listedAnswers.writer(context);
    expect(parsed(keepAlive, listedAnswers.errorEvent(failure, "r", writer.place))).toMatchObject([{ error: { code: 502 } }]);
    const said = writer.write([{ kind: "text", text: "So" }]);
    expect(parsed(said, keepAlive, listedAnswers.errorEvent(failure, "r", writer.place))).toMatchObject([{}, { error: { code: 502 } }]);
  });
});
