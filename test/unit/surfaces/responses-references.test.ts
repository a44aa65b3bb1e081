import { describe, expect, test } from "bun:test";
import type { ChatRequest } from "../../../src/operations/chat/chat-request.ts";
import { canKeep, type KeptItem } from "../../../src/operations/conversation/kept-items.ts";
import type { AnswerContext } from "../../../src/operations/conversation/surface.ts";
import type { ChatAnswer } from "../../../src/operations/conversation/answer-parts.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { openaiResponses } from "../../../src/surfaces/openai-responses/index.ts";

const references = openaiResponses.references!;

function parsed(body: object | string): ChatRequest {
  const request = openaiResponses.parse(new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body)));
  if (isFailure(request)) throw new Error(request.detail);
  return request;
}

function resolved(body: object | string, items: Readonly<Record<string, string>>): unknown {
  const text = new TextDecoder().decode(references.resolved(parsed(body), new Map(Object.entries(items))));
  return JSON.parse(text);
}

const user = { role: "user", content: "Hello, item_reference." };
const refer = (id: unknown): object => ({ type: "item_reference", id });

describe("references in a request", () => {
  test.each<[string, object | string, readonly string[]]>([
    ["none in a text", { model: "m", input: "item_reference" }, []],
    ["none in a message", { model: "m", input: [user] }, []],
    ["each, in its order", { model: "m", input: [refer("a"), user, refer("b"), refer("a")] }, ["a", "b", "a"]],
    ["not within another item", { model: "m", input: [user, { role: "user", content: [refer("a")] }] }, []],
    ["not of another type than text", { model: "m", input: [user, refer(7), refer(null), refer("x".repeat(300))] }, []],
    ["of the last input, if there are two", '{"model":"m","input":[{"type":"item_reference","id":"a"}],"input":"x"}', []],
    ["no more than can be looked up", { model: "m", input: Array(3_000).fill(refer("a")) }, Array(2_000).fill("a")],
  ])("are found: %s", (_, body, ids) => {
    expect(references.idsIn(parsed(body))).toEqual(ids);
  });

  test("become the items, and the rest of the request stays as it is", () => {
    const body = { model: "m", temperature: 0.5, input: [refer("a"), user, refer("b"), refer("a")] };
    expect(resolved(body, { a: '{"type":"message","é":1}' })).toEqual({
      ...body,
      input: [{ type: "message", é: 1 }, user, refer("b"), { type: "message", é: 1 }],
    });
    expect(resolved(body, {})).toEqual(body);
  });

  test("to what is not known are a mistake that says what to do, at an upstream with another API", () => {
    const request = parsed({ model: "m", input: [user, refer("msg_1")] });
    expect(request.toConversation(request)).toMatchObject({ status: 400, param: "input.1", code: "unsupported_parameter" });
    expect(request.toConversation(request)).toMatchObject({ publicMessage: expect.stringContaining("'store' set to false") });
  });
});

describe("the items of an answer", () => {
  const answer: ChatAnswer = {
    id: null,
    model: null,
    createdSeconds: null,
    parts: [
      { kind: "reasoning", text: "Hm.", signature: { dialect: "other", data: "x" } },
      { kind: "text", text: "Well." },
      { kind: "tool_call", id: "call_1", name: "look", arguments: "{}" },
    ],
    finish: { reason: "tool_calls", stopSequence: null },
    usage: null,
  };

  function context(keep?: AnswerContext["keep"]): AnswerContext {
    return {
      request: { model: "m", promptTokensEstimate: 1, maxCompletionTokens: null, echo: {} },
      idSeed: "seed",
      nowSeconds: 1,
      seal: () => "sluice-v1.sealed",
      ...(keep === undefined ? undefined : { keep }),
    };
  }

  interface Body {
    readonly store: boolean;
    readonly output: readonly { readonly id: string }[];
  }

  function whole(keep?: AnswerContext["keep"]): Body {
    return JSON.parse(new TextDecoder().decode(openaiResponses.whole(answer, context(keep)))) as Body;
  }

  /** What the first and the last event say. */
  function streamed(keep?: AnswerContext["keep"]): readonly [first: Body, last: Body] {
    const writer = openaiResponses.writer(context(keep));
    const frames = [
      writer.write([{ kind: "reasoning", text: "Hm." }]),
      writer.write([{ kind: "reasoning_signature", signature: { dialect: "other", data: "x" }, redacted: false }]),
      writer.write([{ kind: "text", text: "Well." }]),
      writer.write([{ kind: "tool_call", index: 0, id: "call_1", name: "look" }]),
      writer.end(),
    ];
    const text = frames.map((bytes) => new TextDecoder().decode(bytes)).join("");
    const bodies = [...text.matchAll(/^data: (.*)$/gm)].flatMap(
      ([, data = ""]) => (JSON.parse(data) as { response?: Body }).response ?? [],
    );
    return [bodies[0]!, bodies.at(-1)!];
  }

  test("are kept as the client got them, whole and streamed", () => {
    const kept: (readonly KeptItem[])[] = [];
    const keep = (items: readonly KeptItem[]): boolean => kept.push(items) > 0;
    const bodies = [whole(keep), streamed(keep)[1]];
    for (const [at, { store, output }] of bodies.entries()) {
      expect(store).toBe(true);
      expect(output.map(({ id }) => id)).toEqual(["rs_sluice_seed0000", "msg_seed0001", "fc_seed0002"]);
      expect(kept[at]?.map(({ id, json }) => [id, JSON.parse(json) as unknown])).toEqual(output.map((item) => [item.id, item]));
    }
    expect(bodies[0]).toMatchObject({ output: bodies[1]!.output });
  });

  test("are said to be stored only where they are", () => {
    expect(whole().store).toBe(false);
    expect(whole(() => false).store).toBe(false);
    expect(streamed().map(({ store }) => store)).toEqual([false, false]);
    expect(streamed(() => false).map(({ store }) => store)).toEqual([true, false]);
    expect(canKeep([{ id: "a", json: "x".repeat(1_000_000) }])).toBe(true);
    expect(canKeep([1, 2].map((id) => ({ id: String(id), json: "x".repeat(600_000) })))).toBe(false);
  });

  test.each<[object, boolean]>([
    [{}, true],
    [{ store: null }, true],
    [{ store: true }, true],
    [{ store: false }, false],
  ])("may be kept unless the client says otherwise: %j", (more, may) => {
    expect(openaiResponses.mayKeep?.(parsed({ model: "m", input: "x", ...more }))).toBe(may);
  });
});
