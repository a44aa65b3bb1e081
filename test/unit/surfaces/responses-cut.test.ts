import { describe, expect, test } from "bun:test";
import type { FinishReason, StreamPart } from "../../../src/operations/conversation/answer-parts.ts";
import type { Part } from "../../../src/operations/conversation/conversation.ts";
import type { AnswerContext } from "../../../src/operations/conversation/surface.ts";
import { openaiResponses } from "../../../src/surfaces/openai-responses/index.ts";

const context: AnswerContext = {
  request: { model: "m", promptTokensEstimate: 1, maxCompletionTokens: null, echo: {} },
  idSeed: "seed",
  nowSeconds: 1,
  seal: () => "sealed",
};

interface CutItem {
  readonly type: string;
  readonly status?: string;
}

interface JsonItem extends CutItem {
  readonly arguments?: string;
  readonly content?: readonly { readonly text: string }[];
}

const inShort = (output: readonly CutItem[]): readonly string[] => output.map(({ type, status }) => `${type} ${status ?? "-"}`);

function whole(parts: readonly Part[], reason: FinishReason): readonly string[] {
  const finish = { reason, stopSequence: null };
  const answer = { id: null, model: null, createdSeconds: null, parts, finish, usage: null };
  return inShort((JSON.parse(new TextDecoder().decode(openaiResponses.whole(answer, context))) as { output: CutItem[] }).output);
}

/** The items as they were when each was done, which the last event repeats. */
function streamed(parts: readonly Part[], reason: FinishReason): readonly string[] {
  const writer = openaiResponses.writer(context);
  const pieces = [...parts.flatMap(piecesOf), { kind: "finish", finish: { reason, stopSequence: null } } as const];
  const text = [...pieces.map((piece) => writer.write([piece])), writer.end()].map((bytes) => new TextDecoder().decode(bytes)).join("");
  const events = [...text.matchAll(/^data: (.*)$/gm)].map(
    ([, data]) => JSON.parse(data!) as { type: string; item: CutItem; response: { output: readonly CutItem[] } },
  );
  const done = events.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item);
  const last = events.at(-1)!;
  expect(last.type).toBe(reason === "length" || reason === "content_filter" ? "response.incomplete" : "response.completed");
  expect(last.response.output).toEqual(done);
  return inShort(done);
}

/** What a stream says of a part. */
function piecesOf(part: Part, index: number): readonly StreamPart[] {
  if (part.kind === "reasoning" || part.kind === "text" || part.kind === "refusal") return [{ kind: part.kind, text: part.text }];
  if (part.kind !== "tool_call") throw new Error(part.kind);
  const { arguments: text, ...call } = part;
  return [
    { ...call, index },
    { kind: "tool_arguments", index, text },
  ];
}

const thought: Part = { kind: "reasoning", text: "hm", signature: null };
const said: Part = { kind: "text", text: "half of" };
const call = (id: string, args: string): Part => ({ kind: "tool_call", id, name: "look", arguments: args });
const custom: Part = { kind: "tool_call", id: "c", name: "patch", custom: true, arguments: "*** Be" };

describe.each([
  ["whole", whole],
  ["streamed", streamed],
] as const)("the items of a response that was cut, %s", (_, items) => {
  test.each(["length", "content_filter"] as const)("by %s, say which of them is incomplete", (reason) => {
    expect(items([thought, said], reason)).toEqual(["reasoning -", "message incomplete"]);
    expect(items([{ kind: "refusal", text: "I can" }], reason)).toEqual(["message incomplete"]);
    expect(items([said, call("a", "{}"), call("b", '{"q')], reason)).toEqual([
      "message completed",
      "function_call completed",
      "function_call incomplete",
    ]);
    expect(items([call("a", "{}"), custom], reason)).toEqual(["function_call completed", "custom_tool_call incomplete"]);
    expect(items([call("a", "{}"), said], reason)).toEqual(["function_call completed", "message incomplete"]);
    // A thought has no status.
    expect(items([said, thought], reason)).toEqual(["message completed", "reasoning -"]);
  });

  test("by nothing are all complete", () => {
    expect(items([thought, said], "stop")).toEqual(["reasoning -", "message completed"]);
    expect(items([said, call("a", "{}"), custom], "tool_calls")).toEqual([
      "message completed",
      "function_call completed",
      "custom_tool_call completed",
    ]);
  });
});

describe("a call whose arguments go on after a text", () => {
  const look: StreamPart = { kind: "tool_call", index: 0, id: "a", name: "look" };
  const piece = (text: string): StreamPart => ({ kind: "tool_arguments", index: 0, text });
  const text: StreamPart = { kind: "text", text: "\n" };
  const finished = (reason: FinishReason): StreamPart => ({ kind: "finish", finish: { reason, stopSequence: null } });

  /** The items in the order in which they were done, and the output of the last event. */
  function written(...parts: readonly StreamPart[]): { readonly done: readonly JsonItem[]; readonly output: readonly JsonItem[] } {
    const writer = openaiResponses.writer(context);
    const frames = [...parts.map((part) => writer.write([part])), writer.end()].map((bytes) => new TextDecoder().decode(bytes)).join("");
    const events = [...frames.matchAll(/^data: (.*)$/gm)].map(
      ([, data]) => JSON.parse(data!) as { type: string; item: JsonItem; response: { output: readonly JsonItem[] } },
    );
    const done = events.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item);
    return { done, output: events.at(-1)!.response.output };
  }

  test("has all of them: it stays open beside the text", () => {
    const { done, output } = written(look, piece('{"cmd":'), text, piece('"ls"}'), text, finished("tool_calls"));
    expect(done).toMatchObject([
      { type: "function_call", arguments: '{"cmd":"ls"}', status: "completed" },
      { type: "message", content: [{ text: "\n\n" }] },
    ]);
    expect(output).toEqual(done);
  });

  test("is done before the text where they are complete, and gets nothing more", () => {
    const { done } = written(look, piece('{"cmd":"ls"}'), text, piece("}"), finished("tool_calls"));
    expect(done).toMatchObject([{ type: "function_call", arguments: '{"cmd":"ls"}' }, { type: "message" }]);
  });

  test("is incomplete where the response is cut before they end", () => {
    const { done } = written(look, piece('{"cmd":'), text, finished("length"));
    expect(inShort(done)).toEqual(["function_call incomplete", "message incomplete"]);
  });
});
