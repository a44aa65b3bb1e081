import { describe, expect, setDefaultTimeout, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import type { Message } from "@anthropic-ai/sdk/resources";
import fc from "fast-check";
import type { ChatAnswer, StreamPart } from "../../../src/operations/conversation/answer-parts.ts";
import type { Part } from "../../../src/operations/conversation/conversation.ts";
import type { AnswerContext } from "../../../src/operations/conversation/surface.ts";
import { nothingCounted } from "../../../src/operations/usage.ts";
import { contextOf, eventsOf, joinedBytes, surface, type MessageEvent } from "../../support/messages.ts";

// The official client reads thousands of streams; no clock is judged here.
setDefaultTimeout(120_000);

const start: StreamPart = { kind: "start", id: "up-1", model: "served", createdSeconds: 1 };
const finish: StreamPart = { kind: "finish", finish: { reason: "stop", stopSequence: null } };
const text = (text: string): StreamPart => ({ kind: "text", text });
const thought = (text: string): StreamPart => ({ kind: "reasoning", text });
const call = (index: number, id = `c${index}`, name = `f${index}`): StreamPart => ({ kind: "tool_call", index, id, name });
const pieceOf = (index: number, text: string): StreamPart => ({ kind: "tool_arguments", index, text });
const signed = (dialect: string, redacted = false): StreamPart => ({
  kind: "reasoning_signature",
  signature: { dialect, data: `of-${dialect}` },
  redacted,
});
const failure = { status: 502, type: "api_error", code: null, param: null, message: "It broke off." };

/** All that is written for some parts, each of them on its own, up to the end. */
function streamOf(parts: readonly StreamPart[], context: Partial<AnswerContext> = {}): Uint8Array {
  const writer = surface.writer(contextOf(context));
  return joinedBytes([...parts.map((part) => writer.write([part])), writer.end()]);
}

/** What a stream says, a line for each event. */
function outline(parts: readonly StreamPart[], context: Partial<AnswerContext> = {}): readonly string[] {
  return eventsOf(streamOf(parts, context)).map((event) => {
    switch (event.type) {
      case "content_block_start": {
        const { type, ...fields } = event["content_block"] as MessageEvent;
        return `${event["index"]} ${type} ${JSON.stringify(fields)}`;
      }
      case "content_block_delta": {
        const { type, ...fields } = event["delta"] as MessageEvent;
        return `${event["index"]} ${type} ${Object.values(fields).map(String).join()}`;
      }
      case "content_block_stop":
        return `${event["index"]} stop`;
      default:
        return event.type;
    }
  });
}

const textStart = 'text {"text":"","citations":null}';
const thinkingStart = 'thinking {"thinking":"","signature":""}';
const toolStart = (id: string, name: string): string => `tool_use {"id":"${id}","name":"${name}","input":{},"caller":{"type":"direct"}}`;
const framed = (...lines: readonly string[]): readonly string[] => ["message_start", ...lines, "message_delta", "message_stop"];

/** What the official client makes of the bytes of a stream, which reach it in pieces of this size. */
async function accumulated(bytes: Uint8Array, size = 64, kind: "messages" | "beta" = "messages"): Promise<Message> {
  const client = new Anthropic({
    apiKey: "none",
    baseURL: "http://gateway.invalid",
    maxRetries: 0,
    logLevel: "off",
    fetch: () => Promise.resolve(new Response(inPieces(bytes, size), { headers: { "content-type": "text/event-stream; charset=utf-8" } })),
  });
  const request = { model: "m", max_tokens: 10, messages: [{ role: "user" as const, content: "x" }] };
  if (kind === "beta") return (await client.beta.messages.stream(request).finalMessage()) as unknown as Message;
  return client.messages.stream(request).finalMessage();
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
  test("begins with the message, an estimate of its input and no reason to stop", () => {
    const [first, ...rest] = eventsOf(streamOf([start, text("a"), finish]));
    const { request } = contextOf();
    expect(first).toMatchObject({
      type: "message_start",
      message: {
        ...{ id: "msg_seed", type: "message", role: "assistant", model: "served", content: [], stop_reason: null, stop_sequence: null },
        usage: { input_tokens: request.promptTokensEstimate, output_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
      },
    });
    expect(request.promptTokensEstimate).toBeGreaterThan(0);
    expect(rest.map(({ type }) => type)).not.toContain("message_start");
  });

  test("sends each piece when it comes", () => {
    const writer = surface.writer(contextOf());
    const types = (parts: readonly StreamPart[]): readonly string[] => eventsOf(writer.write(parts)).map(({ type }) => type);
    expect(types([start])).toEqual(["message_start"]);
    expect(types([text("a")])).toEqual(["content_block_start", "content_block_delta"]);
    expect(types([text("b"), text("c")])).toEqual(["content_block_delta", "content_block_delta"]);
    expect(types([text("")])).toEqual([]);
    expect(types([call(0)])).toEqual(["content_block_stop", "content_block_start"]);
    expect(types([pieceOf(0, '{"a"')])).toEqual(["content_block_delta"]);
    expect(types([finish])).toEqual(["content_block_stop"]);
    expect(eventsOf(writer.end()).map(({ type }) => type)).toEqual(["message_delta", "message_stop"]);
    expect(writer.end().length + writer.write([text("late")]).length).toBe(0);
  });

  test.each<[string, readonly StreamPart[], readonly string[]]>([
    ["nothing", [], framed()],
    ["no start", [text("a")], framed(`0 ${textStart}`, "0 text_delta a", "0 stop")],
    [
      "two starts, of two channels",
      [start, text("a"), start, text("b"), finish],
      framed(`0 ${textStart}`, "0 text_delta a", "0 text_delta b", "0 stop"),
    ],
    [
      "thinking, text and thinking again",
      [start, thought("a"), text("b"), thought("c"), finish],
      framed(
        ...[`0 ${thinkingStart}`, "0 thinking_delta a", "0 stop"],
        ...[`1 ${textStart}`, "1 text_delta b", "1 stop"],
        ...[`2 ${thinkingStart}`, "2 thinking_delta c", "2 stop"],
      ),
    ],
    [
      "thinking that is signed for this API",
      [start, thought("a"), signed("anthropic"), thought("b"), text("c"), finish],
      framed(
        ...[`0 ${thinkingStart}`, "0 thinking_delta a", "0 signature_delta of-anthropic", "0 stop"],
        ...[`1 ${thinkingStart}`, "1 thinking_delta b", "1 stop"],
        ...[`2 ${textStart}`, "2 text_delta c", "2 stop"],
      ),
    ],
    [
      "a signature of thinking that is not shown",
      [signed("anthropic")],
      framed(`0 ${thinkingStart}`, "0 signature_delta of-anthropic", "0 stop"),
    ],
    ["a signature of another provider", [thought("a"), signed("gemini")], framed(`0 ${thinkingStart}`, "0 thinking_delta a", "0 stop")],
    [
      "redacted thinking",
      [signed("anthropic", true), text("a"), signed("gemini", true)],
      framed('0 redacted_thinking {"data":"of-anthropic"}', "0 stop", `1 ${textStart}`, "1 text_delta a", "1 stop"),
    ],
    [
      "a call alone",
      [call(0), pieceOf(0, '{"a":'), pieceOf(0, "1}")],
      framed(`0 ${toolStart("c0", "f0")}`, '0 input_json_delta {"a":', "0 input_json_delta 1}", "0 stop"),
    ],
    ["a call without arguments", [call(0), pieceOf(0, ""), finish], framed(`0 ${toolStart("c0", "f0")}`, "0 stop")],
    ["a call with null", [call(0), pieceOf(0, "nu"), pieceOf(0, "ll"), finish], framed(`0 ${toolStart("c0", "f0")}`, "0 stop")],
    [
      "a call with a list",
      [call(0), pieceOf(0, "[1,"), pieceOf(0, "2]")],
      framed(`0 ${toolStart("c0", "f0")}`, '0 input_json_delta {"_raw":"[1,2]"}', "0 stop"),
    ],
    [
      "a call with more than one object",
      [call(0), pieceOf(0, ' {"a":"}"} {'), pieceOf(0, "}")],
      framed(`0 ${toolStart("c0", "f0")}`, '0 input_json_delta  {"a":"}"}', "0 stop"),
    ],
    [
      "a call with free text",
      [{ kind: "tool_call", index: 0, id: "c", name: "f", custom: true }, pieceOf(0, "{x"), pieceOf(0, "} y")],
      framed(`0 ${toolStart("c", "f")}`, '0 input_json_delta {"input":"{x} y"}', "0 stop"),
    ],
    ["a call without an id", [call(0, "", "f")], framed(`0 ${toolStart("toolu_seed_0", "f")}`, "0 stop")],
    ["arguments of no call", [pieceOf(3, "{}")], framed()],
    [
      "calls one after the other",
      [text("a"), call(0), pieceOf(0, "{}"), call(1), pieceOf(1, "{}"), finish],
      framed(
        ...[`0 ${textStart}`, "0 text_delta a", "0 stop"],
        ...[`1 ${toolStart("c0", "f0")}`, "1 input_json_delta {}", "1 stop"],
        ...[`2 ${toolStart("c1", "f1")}`, "2 input_json_delta {}", "2 stop"],
      ),
    ],
    [
      "calls that interleave",
      [call(0), call(1), pieceOf(1, '{"b"'), pieceOf(0, '{"a"'), pieceOf(1, ":2}"), text("x"), pieceOf(0, ":1}"), finish],
      framed(
        ...[`0 ${toolStart("c0", "f0")}`, '0 input_json_delta {"a"', "0 input_json_delta :1}", "0 stop"],
        ...[`1 ${toolStart("c1", "f1")}`, '1 input_json_delta {"b"', "1 input_json_delta :2}", "1 stop"],
        ...[`2 ${textStart}`, "2 text_delta x", "2 stop"],
      ),
    ],
    [
      "two calls of one number",
      [call(0), pieceOf(0, '{"a":1'), call(0, "d", "g"), pieceOf(0, "{}")],
      framed(
        ...[`0 ${toolStart("c0", "f0")}`, '0 input_json_delta {"a":1', "0 stop"],
        ...[`1 ${toolStart("d", "g")}`, "1 input_json_delta {}", "1 stop"],
      ),
    ],
    [
      "citations of this API and of another",
      [
        text("a"),
        { kind: "citations", citations: { dialect: "anthropic", data: '[{"type":"page_location"}]' } },
        { kind: "citations", citations: { dialect: "gemini", data: "[1]" } },
        { kind: "citations", citations: { dialect: "anthropic", data: "{" } },
      ],
      framed(`0 ${textStart}`, "0 text_delta a", "0 citations_delta [object Object]", "0 stop"),
    ],
  ])("of %s", (_, parts, lines) => {
    expect(outline(parts)).toEqual(lines);
  });

  test("seals what another provider signed, where it can", () => {
    const seal = (part: Part): string => `sluice-v1.${part.kind}.${"text" in part ? part.text : ""}`;
    const gemini = { dialect: "gemini", data: "g" };
    const parts: readonly StreamPart[] = [
      ...[thought("a"), thought("b"), signed("gemini"), signed("openai", true)],
      ...[text("c"), { kind: "text_signature", signature: gemini } as const, text("d")],
      { kind: "tool_call", index: 0, id: "t", name: "f", signature: gemini },
    ];
    expect(outline(parts, { seal })).toEqual(
      framed(
        ...[`0 ${thinkingStart}`, "0 thinking_delta a", "0 thinking_delta b", "0 signature_delta sluice-v1.reasoning.ab", "0 stop"],
        ...['1 redacted_thinking {"data":"sluice-v1.reasoning."}', "1 stop"],
        ...[`2 ${textStart}`, "2 text_delta c", "2 stop"],
        ...['3 redacted_thinking {"data":"sluice-v1.text.c"}', "3 stop"],
        ...[`4 ${textStart}`, "4 text_delta d", "4 stop"],
        ...['5 redacted_thinking {"data":"sluice-v1.tool_call."}', "5 stop"],
        ...[`6 ${toolStart("t", "f")}`, "6 stop"],
      ),
    );
  });

  test("signs of two channels' thoughts only that of the one that signed", () => {
    const seal = (part: Part): string => `sluice-v1.${"text" in part ? part.text : ""}`;
    expect(outline([thought("broken"), start, thought("whole"), signed("gemini")], { seal })).toEqual(
      framed(
        ...[`0 ${thinkingStart}`, "0 thinking_delta broken", "0 stop"],
        ...[`1 ${thinkingStart}`, "1 thinking_delta whole", "1 signature_delta sluice-v1.whole", "1 stop"],
      ),
    );
  });

  test("ends with its reason and what it used in all", () => {
    const usage = { ...nothingCounted, promptTokens: 50, completionTokens: 20, cachedTokens: 30, reasoningTokens: 4, cacheWriteTokens: 5 };
    const end = (parts: readonly StreamPart[]): MessageEvent => eventsOf(streamOf(parts)).at(-2)!;
    expect(end([start, text("a"), { kind: "finish", finish: { reason: "length", stopSequence: null } }, { kind: "usage", usage }])).toEqual(
      {
        type: "message_delta",
        delta: { stop_reason: "max_tokens", stop_sequence: null, stop_details: null, container: null },
        usage: {
          ...{ input_tokens: 15, cache_creation_input_tokens: 5, cache_read_input_tokens: 30 },
          ...{ output_tokens: 20, output_tokens_details: { thinking_tokens: 4 }, server_tool_use: null },
        },
      },
    );
    expect(end([text("abcdefgh"), finish])).toMatchObject({ usage: { output_tokens: 2 } });
    expect(end([call(0), finish])).toMatchObject({ delta: { stop_reason: "tool_use" } });
    expect(end([text("a"), { kind: "finish", finish: { reason: "stop", stopSequence: "END" } }])).toMatchObject({
      delta: { stop_reason: "stop_sequence", stop_sequence: "END" },
    });
    expect(end([{ kind: "refusal", text: "I will " }, { kind: "refusal", text: "not." }, finish])).toMatchObject({
      delta: { stop_reason: "refusal", stop_details: { type: "refusal", category: null, explanation: "I will not." } },
    });
  });

  test("stays alive by pings, wherever they come", async () => {
    const writer = surface.writer(contextOf());
    const parts = [start, thought("hm"), text("a"), call(0), pieceOf(0, "{}"), finish];
    const bytes = joinedBytes([surface.keepAlive, ...parts.flatMap((part) => [writer.write([part]), surface.keepAlive]), writer.end()]);
    expect((await accumulated(bytes)).content.map(({ type }) => type)).toEqual(["thinking", "text", "tool_use"]);
  });
});

describe("the official client", () => {
  const words = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 12 }),
    fc.constantFrom("\n\n", "event: x\ndata: {}\n\n", "\u2028", "\ud83d", "\r\n"),
  );
  const said = words.filter((one) => one !== "");
  // The client's reader of inputs makes a prototype of it.
  const key = fc.string({ maxLength: 6 }).filter((one) => one !== "__proto__");
  const value = fc.jsonValue({ maxDepth: 1 }).filter((one) => !JSON.stringify(one).includes("__proto__"));
  const input = fc.dictionary(key, value, { maxKeys: 3 });

  interface Segment {
    readonly parts: readonly Part[];
    /** One list for each part, to be interleaved where there are several. */
    readonly streams: readonly (readonly StreamPart[])[];
  }

  const pieces = (text: string, cuts: readonly number[]): readonly string[] => {
    const at = [0, ...cuts.map((cut) => cut % (text.length + 1)).toSorted((a, b) => a - b), text.length];
    return at.slice(1).map((end, index) => text.slice(at[index], end));
  };
  const cuts = fc.array(fc.nat(), { maxLength: 4 });
  const own = { dialect: "anthropic", data: "EqQB" };
  const segment: fc.Arbitrary<Segment> = fc.oneof(
    fc.tuple(said, cuts).map(([all, at]) => ({ parts: [{ kind: "text" as const, text: all }], streams: [pieces(all, at).map(text)] })),
    fc.tuple(said, cuts, fc.boolean()).map(([all, at, isSigned]) => ({
      parts: [{ kind: "reasoning" as const, text: all, signature: isSigned ? own : null }],
      streams: [
        [...pieces(all, at).map(thought), ...(isSigned ? [{ kind: "reasoning_signature" as const, signature: own, redacted: false }] : [])],
      ],
    })),
    fc.constant({
      parts: [{ kind: "reasoning" as const, text: "", signature: own, redacted: true }],
      streams: [[{ kind: "reasoning_signature" as const, signature: own, redacted: true }]],
    }),
    fc.array(fc.tuple(input, cuts, fc.stringMatching(/^[a-z_]{1,8}$/)), { minLength: 1, maxLength: 3 }).map((calls) => ({
      parts: calls.map(([args, , name], at) => ({ kind: "tool_call" as const, id: `call_${at}`, name, arguments: JSON.stringify(args) })),
      streams: calls.map(([args, at, name], index) => [
        call(index, `call_${index}`, name),
        ...pieces(JSON.stringify(args), at).map((one) => pieceOf(index, one)),
      ]),
    })),
  );

  /** No two texts in a row, and no two unsigned thoughts: nobody could tell where one of them ends. */
  const segments = fc.array(segment, { maxLength: 5 }).map((all) => {
    const kept: Segment[] = [];
    for (const one of all) {
      const before = kept.at(-1)?.parts[0];
      const [part] = one.parts;
      const isText = part?.kind === "text" && before?.kind === "text";
      const isThought = part?.kind === "reasoning" && part.redacted !== true && before?.kind === "reasoning" && before.signature === null;
      if (!isText && !isThought) kept.push(one);
    }
    return kept;
  });

  /** The calls begin in order; what they are made of comes in any order. */
  function interleaved(streams: readonly (readonly StreamPart[])[], dice: readonly number[]): readonly StreamPart[] {
    const left = streams.map((stream) => [...stream]);
    const parts: StreamPart[] = [];
    let begun = 0;
    for (let at = 0; left.some(({ length }) => length > 0); at++) {
      const ready = left.filter((stream, index) => stream.length > 0 && index <= begun);
      const chosen = ready[(dice[at % Math.max(1, dice.length)] ?? 0) % ready.length]!;
      if (left.indexOf(chosen) === begun) begun++;
      parts.push(chosen.shift()!);
    }
    return parts;
  }

  const answers = fc.tuple(segments, fc.array(fc.nat(), { maxLength: 20 })).map(([all, dice]) => {
    // A call of each segment has a number of its own, as upstreams have it.
    let calls = 0;
    const numbered = all.map(({ parts, streams }) => {
      const base = calls;
      if (parts[0]?.kind === "tool_call") calls += parts.length;
      return {
        parts: parts.map((part, at) => (part.kind === "tool_call" ? { ...part, id: `call_${base + at}` } : part)),
        streams: streams.map((stream) =>
          stream.map((part) =>
            part.kind === "tool_call"
              ? { ...part, index: base + part.index, id: `call_${base + part.index}` }
              : part.kind === "tool_arguments"
                ? { ...part, index: base + part.index }
                : part,
          ),
        ),
      };
    });
    const answer: ChatAnswer = {
      ...{ id: "up", model: "served", createdSeconds: 1, finish: { reason: "stop", stopSequence: null }, usage: null },
      parts: numbered.flatMap(({ parts }): readonly Part[] => parts),
    };
    return { answer, parts: [start, ...numbered.flatMap(({ streams }) => interleaved(streams, dice)), finish] };
  });

  test("makes the same message of a stream as of a whole answer, however both are cut", async () => {
    await fc.assert(
      fc.asyncProperty(
        answers,
        fc.array(fc.integer({ min: 0, max: 4 })),
        fc.integer({ min: 1, max: 200 }),
        async ({ answer, parts }, runs, size) => {
          const context = contextOf();
          const whole = JSON.parse(new TextDecoder().decode(surface.whole(answer, context))) as Message;
          const bytes = streamOf(parts);

          // Which parts come together is of no importance.
          const writer = surface.writer(context);
          const together: Uint8Array[] = [];
          for (let at = 0, run = 0; at < parts.length; run++) {
            const count = Math.max(1, runs[run] ?? parts.length);
            together.push(writer.write(parts.slice(at, at + count)));
            at += count;
          }
          expect(joinedBytes([...together, writer.end()])).toEqual(bytes);

          const message = await accumulated(bytes, size);
          expect(JSON.parse(JSON.stringify(message.content))).toEqual(whole.content as never);
          expect(message).toMatchObject({ id: whole.id, model: whole.model, stop_reason: whole.stop_reason, usage: whole.usage });
        },
      ),
      { numRuns: 200 },
    );
  });

  test("has it from its beta interface as well", async () => {
    const bytes = streamOf([
      start,
      thought("a"),
      signed("anthropic"),
      text("b"),
      call(0),
      call(1),
      pieceOf(1, "{}"),
      pieceOf(0, '{"x":1}'),
      finish,
    ]);
    const message = await accumulated(bytes, 7, "beta");
    expect(message.content).toMatchObject([
      { type: "thinking", thinking: "a", signature: "of-anthropic" },
      { type: "text", text: "b" },
      { type: "tool_use", id: "c0", input: { x: 1 } },
      { type: "tool_use", id: "c1", input: {} },
    ]);
  });

  test("reports an error wherever the stream breaks off, and never a message that is complete", async () => {
    const parts = [start, thought("a"), text("b"), call(0), pieceOf(0, '{"x"'), call(1), pieceOf(1, "{}"), pieceOf(0, ":1}"), finish];
    for (let count = 0; count <= parts.length; count++) {
      const writer = surface.writer(contextOf());
      const bytes = joinedBytes([writer.write(parts.slice(0, count)), surface.errorEvent(failure, "req_1")]);
      expect(eventsOf(bytes).at(-1)?.type).toBe("error");
      expect(new TextDecoder().decode(bytes)).not.toContain("message_stop");
      const outcome = await accumulated(bytes).catch((error: unknown) => error);
      expect(outcome).toBeInstanceOf(Anthropic.APIError);
      expect((outcome as InstanceType<typeof Anthropic.APIError>).type).toBe("api_error");
    }
  });

  const anyPart: fc.Arbitrary<StreamPart> = fc.oneof(
    fc.constant(start),
    words.map(text),
    words.map((text) => ({ kind: "refusal" as const, text })),
    words.map(thought),
    fc.tuple(fc.constantFrom("anthropic", "gemini", "sluice"), fc.boolean()).map(([dialect, redacted]) => signed(dialect, redacted)),
    fc.constant({ kind: "text_signature" as const, signature: { dialect: "gemini", data: "g" } }),
    fc.tuple(fc.nat({ max: 3 }), words, words).map(([index, id, name]) => call(index, id, name)),
    fc
      .tuple(fc.nat({ max: 4 }), fc.constantFrom("", "{", "}", "{}", '{"a":', "1", "}", "[", "]", '"', "null", " ", "x"))
      .map(([index, one]) => pieceOf(index, one)),
    words.map((data) => ({ kind: "citations" as const, citations: { dialect: "anthropic", data } })),
    fc.constant({ kind: "usage" as const, usage: { ...nothingCounted, promptTokens: 3 } }),
    fc.constant(finish),
  );

  test("gets blocks in order, each begun once and ended once, of any parts in any order", () => {
    fc.assert(
      fc.property(fc.array(anyPart, { maxLength: 30 }), fc.boolean(), (parts, seals) => {
        const events = eventsOf(streamOf(parts, seals ? { seal: ({ kind }) => `sluice-v1.${kind}` } : {}));
        expect(events[0]?.type).toBe("message_start");
        expect(events.slice(-2).map(({ type }) => type)).toEqual(["message_delta", "message_stop"]);
        let open: number | null = null;
        let next = 0;
        for (const event of events.slice(1, -2)) {
          if (event.type === "content_block_start") {
            expect(open).toBeNull();
            expect(event["index"]).toBe(next);
            open = next++;
          } else {
            expect(event["index"]).toBe(open as never);
            if (event.type === "content_block_stop") open = null;
          }
        }
        expect(open).toBeNull();
      }),
      { numRuns: 500 },
    );
  });
});
