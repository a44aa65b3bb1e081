import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import OpenAI from "openai";
import { ChatCompletionStream } from "openai/lib/ChatCompletionStream";
import type { ChatAnswer, StreamPart } from "../../../src/operations/conversation/answer-parts.ts";
import type { Part } from "../../../src/operations/conversation/conversation.ts";
import type { AnswerContext } from "../../../src/operations/conversation/surface.ts";
import type { MeteredUsage } from "../../../src/operations/usage.ts";
import { chunksOf, contextOf, framesOf, surface, type ChatChunk } from "../../support/chat-surface.ts";
import { joinedBytes } from "../../support/messages.ts";
import { anyText, numRuns } from "../../support/properties.ts";

// The official client reads thousands of streams; no clock is judged here.
setDefaultTimeout(120_000);

const start: StreamPart = { kind: "start", id: "up-1", model: "served", createdSeconds: 1 };
const finish: StreamPart = { kind: "finish", finish: { reason: "stop", stopSequence: null } };
const ended = (reason: "stop" | "length" | "tool_calls" | "content_filter"): StreamPart => ({
  kind: "finish",
  finish: { reason, stopSequence: null },
});
const text = (text: string): StreamPart => ({ kind: "text", text });
const thought = (text: string): StreamPart => ({ kind: "reasoning", text });
const call = (index: number, id = `c${index}`, name = `f${index}`): StreamPart => ({ kind: "tool_call", index, id, name });
const pieceOf = (index: number, text: string): StreamPart => ({ kind: "tool_arguments", index, text });
const signed = (redacted = false): StreamPart => ({ kind: "reasoning_signature", signature: { dialect: "other", data: "sig" }, redacted });
const usage: MeteredUsage = { promptTokens: 10, completionTokens: 5, cachedTokens: 4, reasoningTokens: 2, cacheWriteTokens: 3 };
const usageBody = {
  prompt_tokens: 10,
  completion_tokens: 5,
  total_tokens: 15,
  prompt_tokens_details: { cached_tokens: 4, audio_tokens: 0, cache_write_tokens: 3 },
  completion_tokens_details: { reasoning_tokens: 2, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
};
/** A seal that can be read in tests. */
const seal = (part: Part): string => `sluice-v1.${part.kind}`;
const sealing: Partial<AnswerContext> = { seal };

/** All that is written for some parts, each of them on its own, up to the end. */
function streamOf(parts: readonly StreamPart[], context: AnswerContext = contextOf()): Uint8Array {
  const writer = surface.writer(context);
  return joinedBytes([...parts.map((part) => writer.write([part])), writer.end()]);
}

type Choice = { readonly index: number; readonly delta: ChatChunk; readonly finish_reason: string | null; readonly logprobs: null };

function choicesOf(chunks: readonly ChatChunk[]): readonly Choice[] {
  return chunks.flatMap((chunk) => chunk["choices"] as readonly Choice[]);
}

/** The deltas of a stream after the first, and why it ended. */
function outline(parts: readonly StreamPart[], context: AnswerContext = contextOf()): readonly unknown[] {
  const [, ...rest] = choicesOf(chunksOf(streamOf(parts, context)));
  return rest.map(({ delta, finish_reason }) => finish_reason ?? delta);
}

const started = (index: number, id = `c${index}`, name = `f${index}`): object => ({
  tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }],
});
const continued = (index: number, text: string): object => ({ tool_calls: [{ index, function: { arguments: text } }] });

/** What the official client makes of the bytes of a stream, which reach it in pieces of this size. */
async function accumulated(bytes: Uint8Array, size = 64): Promise<OpenAI.ChatCompletion> {
  const client = new OpenAI({
    apiKey: "none",
    baseURL: "http://gateway.invalid/v1",
    maxRetries: 0,
    logLevel: "off",
    fetch: () => Promise.resolve(new Response(inPieces(bytes, size), { headers: { "content-type": "text/event-stream; charset=utf-8" } })),
  });
  const params = { model: "m", messages: [{ role: "user" as const, content: "x" }], stream: true as const };
  return ChatCompletionStream.createChatCompletion(client, params, {}).finalChatCompletion();
}

function inPieces(bytes: Uint8Array, size: number): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) controller.close();
      else controller.enqueue(bytes.slice(at, (at += size)));
    },
  });
}

describe("a stream", () => {
  test("begins with the role, and says the same about itself in every chunk", () => {
    const chunks = chunksOf(streamOf([start, text("a"), finish]));
    for (const { id, object, created, model } of chunks) {
      expect({ id, object, created, model }).toEqual({
        id: "chatcmpl-seed",
        object: "chat.completion.chunk",
        created: 1_800_000_000,
        model: "served",
      });
    }
    expect(choicesOf(chunks)).toEqual([
      { index: 0, delta: { role: "assistant", content: "", refusal: null }, logprobs: null, finish_reason: null },
      { index: 0, delta: { content: "a" }, logprobs: null, finish_reason: null },
      { index: 0, delta: {}, logprobs: null, finish_reason: "stop" },
    ]);
    expect(chunks.every((chunk) => !("usage" in chunk))).toBe(true);
  });

  test("sends each piece when it comes", () => {
    const writer = surface.writer(contextOf());
    const count = (...parts: readonly StreamPart[]): number => framesOf(writer.write(parts)).length;
    expect([count(start), count(text("a")), count(text("b"), text("c")), count(text(""))]).toEqual([1, 1, 2, 0]);
    expect([count(call(0)), count(pieceOf(0, '{"a"')), count(pieceOf(0, ":1}")), count(finish)]).toEqual([1, 1, 1, 0]);
    expect(framesOf(writer.end()).at(-1)).toBe("[DONE]");
    expect(writer.end().length + writer.write([text("late")]).length).toBe(0);
  });

  test.each<[string, readonly StreamPart[], readonly unknown[]]>([
    ["nothing", [], ["stop"]],
    ["no start", [text("a")], [{ content: "a" }, "stop"]],
    ["two starts, of two channels", [start, text("a"), start, text("b"), finish], [{ content: "a" }, { content: "b" }, "stop"]],
    ["a thought before the text", [thought("hm"), text("a"), finish], [{ reasoning_content: "hm" }, { content: "a" }, "stop"]],
    ["a refusal", [{ kind: "refusal", text: "No." }, ended("content_filter")], [{ refusal: "No." }, "content_filter"]],
    ["a length", [text("a"), ended("length")], [{ content: "a" }, "length"]],
    [
      "two calls",
      [call(4), pieceOf(4, '{"a":'), pieceOf(4, "1}"), call(7), pieceOf(7, "{}"), ended("tool_calls")],
      [started(0, "c4", "f4"), continued(0, '{"a":'), continued(0, "1}"), started(1, "c7", "f7"), continued(1, "{}"), "tool_calls"],
    ],
    ["a call that ends with stop", [call(0), pieceOf(0, "{}"), finish], [started(0), continued(0, "{}"), "tool_calls"]],
    ["no call where the reason says so", [text("a"), ended("tool_calls")], [{ content: "a" }, "stop"]],
    ["a call without arguments", [call(0), finish], [started(0), continued(0, "{}"), "tool_calls"]],
    [
      "two calls without arguments",
      [call(0), call(1), finish],
      [started(0), continued(0, "{}"), started(1), continued(1, "{}"), "tool_calls"],
    ],
    [
      "calls whose pieces interleave",
      [call(0), call(1), pieceOf(1, '{"b"'), pieceOf(0, "{"), pieceOf(0, "}"), pieceOf(1, ":2}"), finish],
      [started(0), continued(0, "{"), continued(0, "}"), started(1), continued(1, '{"b"'), continued(1, ":2}"), "tool_calls"],
    ],
    ["arguments that are no object", [call(0), pieceOf(0, "oops"), finish], [started(0), continued(0, "oops"), "tool_calls"]],
    ["more than the arguments", [call(0), pieceOf(0, "{}{}"), finish], [started(0), continued(0, "{}"), "tool_calls"]],
    ["a call without an id", [call(0, ""), pieceOf(0, "{}"), finish], [started(0, "call_seed_0"), continued(0, "{}"), "tool_calls"]],
    [
      "a custom call",
      [{ kind: "tool_call", index: 0, id: "c", name: "patch", custom: true }, pieceOf(0, "*** "), pieceOf(0, "Begin"), finish],
      [
        { tool_calls: [{ index: 0, id: "c", type: "custom", custom: { name: "patch", input: "" } }] },
        { tool_calls: [{ index: 0, custom: { input: "*** " } }] },
        { tool_calls: [{ index: 0, custom: { input: "Begin" } }] },
        "tool_calls",
      ],
    ],
    [
      "signatures that cannot be sealed",
      [thought("hm"), signed(), text("a"), finish],
      [{ reasoning_content: "hm" }, { content: "a" }, "stop"],
    ],
  ])("of %s", (_, parts, expected) => {
    expect(outline(parts)).toEqual([...expected]);
  });

  test("carries what only a provider understands: sealed with what it belongs to, and all of it at once before the end", () => {
    const signature = { dialect: "other", data: "sig" };
    const sealed: Part[] = [];
    const context = contextOf({}, { seal: (part) => `sluice-v1.${sealed.push(part) - 1}` });
    const parts: readonly StreamPart[] = [
      ...[thought("h"), thought("m"), signed(), signed(true)],
      ...[{ kind: "reasoning", text: "sum", summary: true } as const, signed(), text("a"), text("b")],
      { kind: "text_signature", signature },
      { kind: "tool_call", index: 0, id: "", name: "f", signature },
      finish,
    ];
    const encrypted = (index: number, id: string): object => ({
      ...{ type: "reasoning.encrypted", data: `sluice-v1.${index}`, id, format: "sluice-v1", index },
    });
    expect(outline(parts, context)).toEqual([
      ...[{ reasoning_content: "h" }, { reasoning_content: "m" }, { reasoning_content: "sum" }, { content: "a" }, { content: "b" }],
      {
        tool_calls: [
          {
            ...{ index: 0, id: "call_seed_0", type: "function", function: { name: "f", arguments: "" } },
            extra_content: { google: { thought_signature: "sluice-v1.4" } },
          },
        ],
      },
      continued(0, "{}"),
      { reasoning_details: [encrypted(0, "at-0-0"), encrypted(1, "at-0-0"), encrypted(2, "at-0-0"), encrypted(3, "at-2-0")] },
      "tool_calls",
    ]);
    expect(sealed).toEqual([
      { kind: "reasoning", text: "hm", signature },
      { kind: "reasoning", text: "", signature, redacted: true },
      { kind: "reasoning", text: "sum", signature, summary: true },
      { kind: "text", text: "ab", signature },
      { kind: "tool_call", id: "call_seed_0", name: "f", arguments: "", signature },
    ]);
    const tooLong = contextOf({}, { seal: () => "" });
    expect(JSON.stringify(outline(parts, tooLong))).not.toMatch(/reasoning_details|extra_content/);
  });

  test("ends with its usage where the client asked for it, and only there", () => {
    const asked = contextOf({ stream: true, stream_options: { include_usage: true } });
    const parts = [start, text("a"), finish, { kind: "usage", usage } as const];
    const chunks = chunksOf(streamOf(parts, asked));
    expect(chunks.at(-1)).toMatchObject({ id: "chatcmpl-seed", choices: [], usage: usageBody });
    expect(chunks.slice(0, -1).map((chunk) => chunk["usage"])).toEqual([null, null, null]);
    expect(chunksOf(streamOf(parts)).some((chunk) => "usage" in chunk)).toBe(false);
    // Nobody counted.
    expect(chunksOf(streamOf([start, text("a"), finish], asked)).at(-1)).toMatchObject({ choices: [{ finish_reason: "stop" }] });
  });

  test("calls a function in the field that a client from before the tools reads", () => {
    const legacy = contextOf({ functions: [{ name: "f0" }] });
    expect(outline([call(0), pieceOf(0, '{"a":1}'), call(1), pieceOf(1, "{}"), finish], legacy)).toEqual([
      { function_call: { name: "f0", arguments: "" } },
      { function_call: { arguments: '{"a":1}' } },
      "function_call",
    ]);
  });

  test("that goes on with an answer of which the client has the beginning keeps its identity, and does not repeat the role", () => {
    const resumed: StreamPart = { kind: "start", id: "chatcmpl-first", model: "m1", createdSeconds: 7, resumes: true };
    const chunks = chunksOf(streamOf([{ kind: "usage", usage }, resumed, text("b"), finish]));
    expect(chunks[0]).toMatchObject({ id: "chatcmpl-first", created: 7, model: "m1", choices: [{ delta: { content: "b" } }] });
    expect(JSON.stringify(chunks)).not.toContain("role");
  });
});

describe("the official client", () => {
  test("reads what was said, whatever the pieces that it arrives in", async () => {
    const parts = [
      ...[start, thought("h"), thought("m"), signed(), text("Hé"), text("llo 🌍")],
      ...[call(0), pieceOf(0, '{"town":"Zü'), pieceOf(0, 'rich"}'), call(1), ended("tool_calls"), { kind: "usage", usage } as const],
    ];
    const bytes = streamOf(parts, contextOf({ stream: true, stream_options: { include_usage: true } }, sealing));
    for (const size of [1, 7, 64, 4096]) {
      const completion = await accumulated(bytes, size);
      expect(completion.choices[0]).toMatchObject({
        finish_reason: "tool_calls",
        message: {
          role: "assistant",
          content: "Héllo 🌍",
          reasoning_details: [{ type: "reasoning.encrypted", data: "sluice-v1.reasoning" }],
          tool_calls: [
            { id: "c0", type: "function", function: { name: "f0", arguments: '{"town":"Zürich"}' } },
            { id: "c1", type: "function", function: { name: "f1", arguments: "{}" } },
          ],
        },
      });
      expect(completion.usage).toMatchObject(usageBody);
    }
  });

  test("gets the same from a stream as from a whole answer", async () => {
    const somePart: fc.Arbitrary<Part> = fc.oneof(
      anyText({ minLength: 1, maxLength: 8 }).map((text): Part => ({ kind: "text", text })),
      fc
        .dictionary(anyText({ maxLength: 3 }), fc.jsonValue(), { maxKeys: 2 })
        .map((args): Part => ({ kind: "tool_call", id: "", name: "f", arguments: JSON.stringify(args) })),
      anyText({ minLength: 1, maxLength: 8 }).map((text): Part => ({
        kind: "reasoning",
        text,
        signature: { dialect: "other", data: "s" },
      })),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(somePart, { maxLength: 6 }), fc.nat({ max: 9 }), async (parts, cut) => {
        const context = contextOf({}, sealing);
        const answer: ChatAnswer = {
          ...{ id: null, model: "served", createdSeconds: null, parts, usage: null },
          finish: { reason: "stop", stopSequence: null },
        };
        const whole = JSON.parse(new TextDecoder().decode(surface.whole(answer, context))) as OpenAI.ChatCompletion;
        const { message, finish_reason } = (
          await accumulated(streamOf([start, ...parts.flatMap((part, at) => piecesOf(part, at, cut)), finish], context))
        ).choices[0]!;
        const expected = whole.choices[0]!;
        expect(finish_reason).toBe(expected.finish_reason);
        expect(message.content ?? "").toBe(expected.message.content ?? "");
        expect(message.tool_calls ?? []).toEqual(expected.message.tool_calls ?? []);
      }),
      { numRuns: numRuns(60) },
    );
  });
});

/** A part in two pieces. */
function piecesOf(part: Part, index: number, cut: number): readonly StreamPart[] {
  const halves = (whole: string): readonly string[] => [whole.slice(0, cut), whole.slice(cut)];
  switch (part.kind) {
    case "text":
      return part.text.isWellFormed() && halves(part.text).every((half) => half.isWellFormed())
        ? halves(part.text).map(text)
        : [text(part.text)];
    case "reasoning":
      return [thought(part.text), { kind: "reasoning_signature", signature: part.signature!, redacted: false }];
    case "tool_call":
      return [{ kind: "tool_call", index, id: part.id, name: part.name }, ...halves(part.arguments).map((half) => pieceOf(index, half))];
    default:
      return [];
  }
}

describe("a whole answer", () => {
  const bodyOf = (answer: Partial<ChatAnswer>, context = contextOf()): ChatChunk =>
    JSON.parse(
      new TextDecoder().decode(
        surface.whole(
          {
            id: "up-1",
            model: "served",
            createdSeconds: 1,
            parts: [],
            finish: { reason: "stop", stopSequence: null },
            usage: null,
            ...answer,
          },
          context,
        ),
      ),
    ) as ChatChunk;
  const messageOf = (parts: readonly Part[], context = contextOf()): unknown =>
    (bodyOf({ parts }, context)["choices"] as readonly { message: unknown }[])[0]!.message;

  test("has every field that clients require", () => {
    expect(bodyOf({ parts: [{ kind: "text", text: "a" }], usage })).toEqual({
      ...{ id: "chatcmpl-seed", object: "chat.completion", created: 1_800_000_000, model: "served" },
      choices: [{ index: 0, message: { role: "assistant", content: "a", refusal: null }, logprobs: null, finish_reason: "stop" }],
      usage: usageBody,
    });
    expect(bodyOf({ model: null })["model"]).toBe("m");
  });

  test.each<[readonly Part[], object]>([
    [[], { role: "assistant", content: "", refusal: null }],
    [[{ kind: "refusal", text: "No." }], { role: "assistant", content: null, refusal: "No." }],
    [
      [
        { kind: "reasoning", text: "hm", signature: { dialect: "other", data: "s" } },
        { kind: "tool_call", id: "1", name: "f", arguments: "" },
        { kind: "tool_call", id: "", name: "p", arguments: "raw", custom: true, signature: { dialect: "other", data: "s" } },
      ],
      {
        ...{ role: "assistant", content: null, refusal: null, reasoning_content: "hm" },
        reasoning_details: [{ type: "reasoning.encrypted", data: "sluice-v1.reasoning", id: "at-0-0", format: "sluice-v1", index: 0 }],
        tool_calls: [
          { id: "1", type: "function", function: { name: "f", arguments: "{}" } },
          {
            ...{ id: "call_seed_1", type: "custom", custom: { name: "p", input: "raw" } },
            extra_content: { google: { thought_signature: "sluice-v1.tool_call" } },
          },
        ],
      },
    ],
  ])("%j", (parts, message) => {
    expect(messageOf(parts, contextOf({}, sealing))).toEqual(message);
  });

  test("calls a function in the field that a client from before the tools reads", () => {
    const body = bodyOf({ parts: [{ kind: "tool_call", id: "1", name: "f", arguments: "{}" }] }, contextOf({ functions: [{ name: "f" }] }));
    expect(body["choices"]).toMatchObject([
      { message: { content: null, function_call: { name: "f", arguments: "{}" } }, finish_reason: "function_call" },
    ]);
  });
});
