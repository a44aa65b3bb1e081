import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { readAnswer } from "../../../src/dialects/openai/answer.ts";
import { chatAnswer, ChunkParts } from "../../../src/dialects/openai/chat-parts.ts";
import type { SseEvent } from "../../../src/dialects/dialect.ts";
import { OpenAiStream } from "../../../src/dialects/openai/stream.ts";
import type { StreamPart } from "../../../src/operations/conversation/answer-parts.ts";
import type { Tool } from "../../../src/operations/conversation/conversation.ts";
import { CustomInputReader, unwrapCustomInput, wrapCustomInput } from "../../../src/operations/conversation/custom-input.ts";
import { ToolNames, wireName } from "../../../src/operations/conversation/tool-names.ts";

const patch: Tool = { name: "apply_patch", description: null, parameters: null, strict: null, custom: { format: null } };
const search: Tool = { name: "search", namespace: "docs", description: null, parameters: {}, strict: null };

function chunk(delta: object, finish: string | null = null): Record<string, unknown> {
  return { id: "c1", model: "m1", created: 5, choices: [{ index: 0, delta, finish_reason: finish }] };
}

function partsOf(tools: readonly Tool[], ...chunks: readonly Record<string, unknown>[]): readonly StreamPart[] {
  const reader = new ChunkParts(tools);
  return chunks.flatMap((one) => reader.read(one));
}

const start: StreamPart = { kind: "start", id: "c1", model: "m1", createdSeconds: 5 };

describe("the chunks of a stream", () => {
  test("become text, reasoning and refusals, and a finish", () => {
    const parts = partsOf(
      [],
      chunk({ role: "assistant", content: "" }),
      chunk({ reasoning_content: "hm" }),
      chunk({ content: "yes" }),
      chunk({ refusal: "no" }),
      chunk({}, "length"),
    );
    expect(parts).toEqual([
      start,
      { kind: "reasoning", text: "hm" },
      { kind: "reasoning_signature", signature: { dialect: "openai", data: "{}" }, redacted: false },
      { kind: "text", text: "yes" },
      { kind: "refusal", text: "no" },
      { kind: "finish", finish: { reason: "length", stopSequence: null } },
    ]);
  });

  test.each([
    ["length", "length"],
    ["model_length", "length"],
    ["repetition", "length"],
    ["content_filter", "content_filter"],
    ["end_turn", "stop"],
    ["eos", "stop"],
  ] as const)("end for the reason that an upstream has its own word for: %s", (word, reason) => {
    expect(partsOf([], chunk({ content: "x" }), chunk({}, word)).at(-1)).toEqual({
      kind: "finish",
      finish: { reason, stopSequence: null },
    });
  });

  test("become parallel tool calls, which may interleave", () => {
    const parts = partsOf(
      [search],
      chunk({ tool_calls: [{ index: 0, id: "a", function: { name: "docs__search", arguments: "" } }] }),
      chunk({ tool_calls: [{ index: 1, id: "b", function: { name: "other", arguments: "{" } }] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: '{"q":1}' } }] }),
      chunk({ tool_calls: [{ index: 1, function: { arguments: "}" } }] }),
      chunk({}, "stop"),
    );
    expect(parts.slice(1)).toEqual([
      { kind: "tool_call", index: 0, id: "a", name: "search", namespace: "docs" },
      { kind: "tool_call", index: 1, id: "b", name: "other" },
      { kind: "tool_arguments", index: 1, text: "{" },
      { kind: "tool_arguments", index: 0, text: '{"q":1}' },
      { kind: "tool_arguments", index: 1, text: "}" },
      { kind: "finish", finish: { reason: "tool_calls", stopSequence: null } },
    ]);
  });

  test("become parallel tool calls where an upstream gives them all the same index", () => {
    const call = (id: string, name: string, args: string) => chunk({ tool_calls: [{ index: 0, id, function: { name, arguments: args } }] });
    const parts = partsOf(
      [patch],
      call("a", "f", '{"x":1}'),
      call("b", "apply_patch", "{ "),
      call("c", "g", '{"y"'),
      call("c", "g", ":2}"),
    );
    expect(parts.slice(1)).toEqual([
      { kind: "tool_call", index: 0, id: "a", name: "f" },
      { kind: "tool_arguments", index: 0, text: '{"x":1}' },
      { kind: "tool_call", index: 0, id: "b", name: "apply_patch", custom: true },
      { kind: "tool_arguments", index: 0, text: "{ " },
      { kind: "tool_call", index: 0, id: "c", name: "g" },
      { kind: "tool_arguments", index: 0, text: '{"y"' },
      { kind: "tool_arguments", index: 0, text: ":2}" },
    ]);
  });

  test.each([
    { id: "b", function: { arguments: "}" } },
    { id: "", function: { name: "f", arguments: "}" } },
    { function: { name: "g", arguments: "}" } },
  ])("begin no other call by a new id or a name alone: %j", (piece) => {
    const first = { index: 0, id: "a", function: { name: "f", arguments: "{" } };
    const parts = partsOf([], chunk({ tool_calls: [first] }), chunk({ tool_calls: [{ index: 0, ...piece }] }));
    expect(parts.slice(1)).toEqual([
      { kind: "tool_call", index: 0, id: "a", name: "f" },
      { kind: "tool_arguments", index: 0, text: "{" },
      { kind: "tool_arguments", index: 0, text: "}" },
    ]);
  });

  test("say what an upstream needs back of its reasoning, whose pieces are joined", () => {
    const parts = partsOf(
      [],
      chunk({ reasoning: "h", reasoning_details: [{ type: "reasoning.text", index: 0, text: "h", format: "f" }] }),
      chunk({ reasoning: "m", reasoning_details: [{ type: "reasoning.text", index: 0, text: "m", signature: null }] }),
      chunk({ reasoning_details: [{ type: "reasoning.text", index: 0, signature: "sig" }] }),
      chunk({ reasoning_details: [{ type: "reasoning.encrypted", index: 1, data: "xyz" }] }),
      chunk({ tool_calls: [{ index: 0, id: "a", extra_content: { google: { thought_signature: "t" } }, function: { name: "f" } }] }),
      chunk({ reasoning_details: [{ type: "reasoning.encrypted", index: 2, data: "late" }] }, "tool_calls"),
    );
    const details = [
      { type: "reasoning.text", index: 0, text: "hm", format: "f", signature: "sig" },
      { type: "reasoning.encrypted", index: 1, data: "xyz" },
    ];
    const late = [{ type: "reasoning.encrypted", index: 2, data: "late" }];
    const signature = (form: object): object => ({ dialect: "openai", data: JSON.stringify(form) });
    expect(parts.slice(1)).toEqual([
      { kind: "reasoning", text: "h" },
      { kind: "reasoning", text: "m" },
      { kind: "reasoning_signature", signature: signature({ field: "reasoning", details }), redacted: false } as StreamPart,
      { kind: "tool_call", index: 0, id: "a", name: "f", signature: signature({ google: { thought_signature: "t" } }) } as StreamPart,
      { kind: "reasoning_signature", signature: signature({ field: "reasoning", details: late }), redacted: true } as StreamPart,
      { kind: "finish", finish: { reason: "tool_calls", stopSequence: null } },
    ]);
  });

  test("unwrap the text of a custom tool", () => {
    const parts = partsOf(
      [patch],
      chunk({ tool_calls: [{ index: 0, id: "a", function: { name: "apply_patch", arguments: '{"inp' } }] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: 'ut":"*** Begin\\nx"' } }] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: "}" } }] }, "tool_calls"),
    );
    expect(parts.slice(1, -1)).toEqual([
      { kind: "tool_call", index: 0, id: "a", name: "apply_patch", custom: true },
      { kind: "tool_arguments", index: 0, text: "*** Begin\nx" },
    ]);
  });

  test("are read whatever is in them", () => {
    fc.assert(
      fc.property(fc.array(fc.dictionary(fc.constantFrom("id", "choices", "model"), fc.jsonValue())), (chunks) => {
        expect(Array.isArray(partsOf([patch], ...chunks))).toBe(true);
      }),
    );
  });
});

/** What `unit: "binary"` means, which takes most of a second to set up. */
const anyCharacter = fc.oneof(fc.nat(0xd7ff), fc.integer({ min: 0xe000, max: 0x10ffff })).map((code) => String.fromCodePoint(code));

test("the text of a custom tool is the same, however its arguments are cut", () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), fc.boolean(), fc.array(fc.nat(40)), (text, escaped, cuts) => {
      const wrapped = escaped ? wrapCustomInput(text).replace(/[^\x00-\x7f]/g, escapeUnit) : wrapCustomInput(text);
      const reader = new CustomInputReader();
      let at = 0;
      let read = "";
      for (const cut of cuts) {
        read += reader.push(wrapped.slice(at, at + cut));
        at += cut;
      }
      read += reader.push(wrapped.slice(at)) + reader.close();
      expect(read).toBe(text);
      expect(unwrapCustomInput(wrapped)).toBe(text);
    }),
  );
});

function escapeUnit(unit: string): string {
  return [...Array(unit.length).keys()].map((at) => `\\u${unit.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");
}

function frame(delta: object, finish: string | null): SseEvent {
  const data = JSON.stringify(chunk(delta, finish));
  return { name: "", data, frame: new TextEncoder().encode(`data: ${data}\n\n`) };
}

describe.each([{}, { tools: [] }])("an empty finish_reason in every chunk, read with %j", (options) => {
  const streamed = (...chunks: readonly SseEvent[]) => {
    const stream = new OpenAiStream({ hidesUsage: false, choices: 1, ...options });
    return { stream, emissions: chunks.map((one) => stream.read(one)) };
  };

  test("is no end: a body that is cut off is not complete", () => {
    const { stream, emissions } = streamed(frame({ content: "half" }, ""), frame({ content: " of" }, ""));
    for (const read of emissions) expect(read).toMatchObject([{ kind: "delta", finishes: false }]);
    expect(JSON.stringify(emissions)).not.toContain('"kind":"finish"');
    expect(stream.finished).toBe(false);
    expect(stream.close()).toMatchObject({ kind: "interrupted" });
  });

  test("gives way to the reason that comes at last", () => {
    const { stream, emissions } = streamed(frame({ content: "all" }, ""), frame({}, "length"), frame({}, ""));
    expect(emissions[1]).toMatchObject([{ kind: "delta", finishes: true }]);
    expect(stream.finished).toBe(true);
    expect(stream.close()).toMatchObject([{ kind: "end", finish: "length" }]);
  });
});

describe.each(["error", "abort", "insufficient_system_resource"])("a finish_reason that says that the upstream failed: %s", (reason) => {
  test("is no end of an answer that is translated: another channel may go on with it", () => {
    const stream = new OpenAiStream({ hidesUsage: false, choices: 1, tools: [] });
    stream.read(frame({ content: "half of" }, null));
    expect(stream.read(frame({}, reason))).toMatchObject({ kind: "interrupted" });
  });

  test("makes a whole answer a failure, of which no client has anything yet", () => {
    const read = (body: object) => readAnswer(new TextEncoder().encode(JSON.stringify(body)));
    const choices = [{ message: { content: "half of" }, finish_reason: reason }];
    expect(read({ choices })).toMatchObject({ kind: "model_failed" });
    expect(read({ choices })).not.toHaveProperty("served");
    // The upstream counted it, and charges for it.
    expect(read({ choices, usage: { prompt_tokens: 9, completion_tokens: 4 } })).toMatchObject({ kind: "model_failed", served: true });
  });

  test("is passed on to a client of the same API, once there was output", () => {
    const stream = new OpenAiStream({ hidesUsage: false, choices: 1 });
    expect(stream.read(frame({}, reason))).toMatchObject({ kind: "model_failed" });
    const other = new OpenAiStream({ hidesUsage: false, choices: 1 });
    other.read(frame({ content: "half of" }, null));
    expect(other.read(frame({}, reason))).toMatchObject([{ kind: "delta", finishes: true }]);
  });
});

describe("an end mark without a finish_reason", () => {
  const done: SseEvent = { name: "", data: "[DONE]", frame: new TextEncoder().encode("data: [DONE]\n\n") };

  test("is no end of a text that is translated: every API has a reason there, and it would be invented", () => {
    const stream = new OpenAiStream({ hidesUsage: false, choices: 1, tools: [] });
    stream.read(frame({ content: "half of" }, null));
    expect(stream.read(done)).toMatchObject({ kind: "interrupted" });
  });

  test("is passed on to a client of the same API", () => {
    const stream = new OpenAiStream({ hidesUsage: false, choices: 1 });
    stream.read(frame({ content: "half of" }, null));
    expect(stream.read(done)).toEqual([{ kind: "end", frame: done.frame, finish: null }]);
  });
});

describe("an answer that is not streamed", () => {
  test("is whole without a finish_reason: where it is cut, it is no JSON", () => {
    const body = JSON.stringify({ choices: [{ message: { content: "yes" }, finish_reason: null }] });
    expect(chatAnswer(new TextEncoder().encode(body), [])).toMatchObject({ finish: { reason: "stop" } });
  });

  test("is an empty one where its upstream has filtered all of it, with the message that it was in", () => {
    const body = (finish: string): Uint8Array =>
      new TextEncoder().encode(JSON.stringify({ choices: [{ index: 0, finish_reason: finish }] }));
    expect(chatAnswer(body("content_filter"), [])).toMatchObject({ parts: [], finish: { reason: "content_filter" } });
    expect(chatAnswer(body("stop"), [])).toMatchObject({ kind: "bad_response" });
  });

  test("becomes the same parts", () => {
    const body = {
      id: "c1",
      model: "m1",
      created: 5,
      choices: [
        {
          message: {
            content: "yes",
            reasoning: "hm",
            tool_calls: [
              { id: "a", function: { name: "docs__search", arguments: '{"q":1}' } },
              { id: "", function: { name: "apply_patch", arguments: '{"input":"x"}' } },
              { function: { name: "unknown" } },
            ],
          },
          finish_reason: "tool_calls",
        },
      ],
      usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
    };
    expect(chatAnswer(new TextEncoder().encode(JSON.stringify(body)), [patch, search])).toMatchObject({
      id: "c1",
      model: "m1",
      createdSeconds: 5,
      parts: [
        { kind: "reasoning", text: "hm", signature: { dialect: "openai", data: `{"field":"reasoning"}` } },
        { kind: "text", text: "yes" },
        { kind: "tool_call", id: "a", name: "search", namespace: "docs", arguments: '{"q":1}' },
        { kind: "tool_call", id: "", name: "apply_patch", custom: true, arguments: "x" },
        { kind: "tool_call", id: "", name: "unknown", arguments: "{}" },
      ],
      finish: { reason: "tool_calls" },
      usage: { promptTokens: 3, completionTokens: 2 },
    });
  });
});

describe("the name of a tool", () => {
  test("is kept where every upstream takes it", () => {
    expect(wireName({ name: "get_weather" })).toBe("get_weather");
  });

  test("is made short and plain otherwise, and found again", () => {
    const tools = [search, { ...patch, name: "päth/ü".repeat(20) }];
    const names = new ToolNames(tools);
    for (const tool of tools) {
      expect(wireName(tool)).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
      expect(names.toolOf(wireName(tool))).toBe(tool);
    }
    expect(names.toolOf("nothing")).toBeNull();
  });
});
