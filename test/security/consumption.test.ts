// Needs: quiet. It mostly waits for its own calls, which are few; a request may take a tenth of a second to be read.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { readChatRequest } from "../../src/operations/chat/chat-request.ts";
import { isFailure } from "../../src/operations/failure.ts";
import { readSpeechRequest } from "../../src/operations/speech/speech-request.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const messages = [{ role: "user", content: "hello" }];
const tool = { type: "function", function: { name: "f", parameters: {} } };
const many = <T>(count: number, value: T): readonly T[] => Array.from({ length: count }, () => value);

function read(more: Readonly<Record<string, unknown>>) {
  return readRaw(JSON.stringify({ model: "m", messages, ...more }));
}

function readRaw(text: string) {
  const read = readChatRequest(new TextEncoder().encode(text));
  return isFailure(read) ? { refused: read.code, param: read.param } : read;
}

describe("S37: a request that asks for too much", () => {
  test.each([
    ["stop sequences", { stop: many(257, "x") }, "array_above_max_length", "stop"],
    ["stop sequences that are hardly any", { stop: many(257, 1) }, "array_above_max_length", "stop"],
    ["a megabyte of them", { stop: many(50_000, "some text 123456789") }, "string_above_max_length", "stop"],
    ["one of a megabyte", { stop: "x".repeat(1_000_000) }, "string_above_max_length", "stop"],
    ["ten thousand tools", { tools: many(10_000, tool) }, "array_above_max_length", "tools"],
    ["tools that are none", { tools: many(1_025, null) }, "array_above_max_length", "tools"],
    ["functions, as tools were called", { functions: many(1_025, { name: "f" }) }, "array_above_max_length", "functions"],
  ])("in %s is refused, by its name", (_, more, code, param) => {
    expect(read(more)).toEqual({ refused: code, param });
  });

  test("is refused also if the excess is in a duplicate field", () => {
    const stops = JSON.stringify(many(300, "x"));
    const head = `{"model":"m","messages":${JSON.stringify(messages)}`;
    expect(readRaw(`${head},"stop":${stops},"stop":["x"]}`)).toMatchObject({ refused: "array_above_max_length" });
    expect(readRaw(`${head},"stop":["x"],"st\\u006fp":${stops}}`)).toMatchObject({ refused: "array_above_max_length" });
  });

  test("is served up to what is allowed, which is more than any vendor takes", () => {
    for (const more of [
      { stop: many(256, "x") },
      { stop: "x".repeat(60_000) },
      { stop: null },
      { stop: [] },
      { tools: many(1_024, tool) },
      { tools: [] },
      { tools: "none" },
      { functions: many(1_024, { name: "f" }) },
    ]) {
      expect(read(more)).toMatchObject({ operation: "chat" });
    }
  });

  test("costs no more than reading it once", () => {
    const body = new TextEncoder().encode(
      JSON.stringify({ model: "m", messages, tools: many(10_000, tool), stop: many(3_000, "some text") }),
    );
    const startedMs = performance.now();
    for (let round = 0; round < 10; round++) readChatRequest(body);
    expect((performance.now() - startedMs) / 10).toBeLessThan(slowed(100));
  });
});

test("S37: a list is refused by its length alone", () => {
  fc.assert(
    fc.property(fc.nat(600), fc.constantFrom("x", 1, null, "a longer one, of words"), (length, value) => {
      const stop = many(length, value);
      const fits = length <= 256 && JSON.stringify(stop).length <= 65_536;
      expect(isFailure(readChatRequest(new TextEncoder().encode(JSON.stringify({ model: "m", messages, stop }))))).toBe(!fits);
    }),
  );
});

describe("what limits and budgets count", () => {
  const readMembers = (members: string) => readChatRequest(new TextEncoder().encode(`{"model":"m","messages":[{}],${members}}`));

  test.each([
    ['"n":"100000"', "n", "invalid_type"],
    ['"n":[100]', "n", "invalid_type"],
    ['"max_tokens":"500000"', "max_tokens", "invalid_type"],
    ['"max_completion_tokens":"500000"', "max_completion_tokens", "invalid_type"],
    ['"n_predict":"500000"', "n_predict", "invalid_type"],
    ['"max_tokens":"500000","max_tokens":1', "max_tokens", "invalid_type"],
    ['"N":100', "n", "unknown_parameter"],
    ['"MAX_TOKENS":500000', "max_tokens", "unknown_parameter"],
    ['"Max_Completion_Tokens":500000', "max_completion_tokens", "unknown_parameter"],
    ['"max_to\u212aens":500000', "max_tokens", "unknown_parameter"],
    ['"Model":"another"', "model", "unknown_parameter"],
    ['"Me\u017f\u017fages":[]', "messages", "unknown_parameter"],
    ['"Stream":true', "stream", "unknown_parameter"],
  ])("is refused where an upstream may read another figure than was counted: %s", (members, param, code) => {
    expect(readMembers(members)).toMatchObject({ kind: "invalid_request", status: 400, param, code });
  });

  test.each([
    ['"max_tokens":10,"max_completion_tokens":500', 10, 500, 1],
    ['"max_tokens":500,"max_tokens":10', 500, null, 1],
    ['"n_predict":700,"max_tokens":10', 700, null, 1],
    ['"n":7,"n":1', null, null, 7],
    ['"n":null,"max_tokens":null,"temperature":"1","X-Model":"x","NN":3', null, null, 1],
  ])("is the largest of duplicate values: %s", (members, maxTokens, maxCompletionTokens, choices) => {
    expect(readMembers(members)).toMatchObject({ operation: "chat", maxTokens, maxCompletionTokens, choices });
  });

  test("is read in speech requests under exact names only", () => {
    const body = new TextEncoder().encode('{"model":"m","input":"hi","voice":"v","Input":"a much longer text"}');
    expect(readSpeechRequest(body, { charactersMax: 10 })).toMatchObject({ status: 400, param: "input", code: "unknown_parameter" });
  });
});

describe("S37: at a running gateway", () => {
  let rig: Rig<"a">;
  beforeAll(async () => {
    rig = await setUp({ a: { max_tokens_ceiling: 4_096 } });
  });
  afterAll(async () => rig[Symbol.asyncDispose]());

  test("nothing that is too much reaches an upstream", async () => {
    for (const [more, param] of [
      [{ n: 1_000 }, "n"],
      [{ n: "100000" }, "n"],
      [{ MAX_TOKENS: 500_000 }, "max_tokens"],
      [{ stop: many(40_000, "some text 123456789") }, "stop"],
      [{ tools: many(10_000, tool) }, "tools"],
    ] as const) {
      const reply = await rig.chat({ model: "bounded", ...more }, { key: clientKey });
      expect(reply).toMatchObject({ status: 400, error: { param, type: "invalid_request_error" } });
    }
    expect(rig.upstream.a.ledger.chats).toHaveLength(0);
  });

  test("another name for max_tokens is lowered like the others", async () => {
    expect((await rig.chat({ model: "predicted", n_predict: 1e9 }, { key: clientKey })).status).toBe(200);
    expect(JSON.parse(Buffer.from(rig.upstream.a.ledger.chats.at(-1)!.body).toString())).toMatchObject({ n_predict: 4_096 });
  });

  test("a length beyond what the channel allows is lowered to that, and one that is none is not made worse", async () => {
    for (const max_tokens of [1e9, 1e15, -1, 0]) {
      expect([max_tokens, (await rig.chat({ model: `of ${max_tokens}`, max_tokens, x_tokens: 1 }, { key: clientKey })).status]).toEqual([
        max_tokens,
        200,
      ]);
    }
    const sent = rig.upstream.a.ledger.chats.map(
      ({ body }) => (JSON.parse(Buffer.from(body).toString()) as { readonly max_tokens?: number }).max_tokens,
    );
    expect(sent.slice(-4)).toEqual([4_096, 4_096, -1, 0]);
  });
});
