import { describe, expect, test } from "bun:test";
import { isFailure } from "../../../src/operations/failure.ts";
import type { PassthroughOperation } from "../../../src/operations/operation.ts";
import { readPassthroughRequest, type PassthroughRequest } from "../../../src/operations/passthrough/passthrough-request.ts";

function read(operation: PassthroughOperation, body: unknown): PassthroughRequest {
  const request = readPassthroughRequest(operation, bytes(body));
  if (isFailure(request)) throw new Error(request.publicMessage);
  return request;
}

/** The code and the parameter of a mistake. */
function mistakeIn(operation: PassthroughOperation, body: unknown): readonly (string | null)[] {
  const request = readPassthroughRequest(operation, bytes(body));
  return isFailure(request) ? [request.code, request.param] : [];
}

function bytes(body: unknown): Uint8Array {
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}

describe("a request for embeddings", () => {
  test("is read for its model and the size of its input, and keeps its bytes", () => {
    const body = bytes('{ "model":"e", "input" : "four bytes a token", "dimensions": 256.0, "x":[1,2] }');
    const request = readPassthroughRequest("embedding", body);
    expect(request).toMatchObject({ operation: "embedding", model: "e", promptTokensEstimate: 5 });
    if (!isFailure(request)) expect(request.body).toBe(body);
  });

  test.each([
    [["some text", "and more"], 6],
    [[1, 2, 3, 4], 4],
    [[[1, 2, 3], [4]], 4],
    [[{ image: "data:image/png;base64,AAAA" }], 10],
  ])("of %j is estimated at %p tokens", (input, tokens) => {
    expect(read("embedding", { model: "e", input }).promptTokensEstimate).toBe(tokens);
  });

  test("counts the larger of two inputs of the same name, because upstreams differ in which they use", () => {
    const long = "x".repeat(400);
    expect(read("embedding", `{"model":"e","input":"${long}","input":"y"}`).promptTokensEstimate).toBeGreaterThan(100);
  });

  test("may have as many tokens as the largest batches, and no more", () => {
    const batch = (numbers: number): string => `{"model":"e","input":[${"7,".repeat(numbers - 1)}7]}`;
    expect(read("embedding", batch(600_000)).promptTokensEstimate).toBe(600_000);
    expect(mistakeIn("embedding", batch(2_100_000))).toEqual(["json_too_complex", null]);
  });

  test.each([
    ["{", [null, null]],
    ["[]", ["invalid_type", null]],
    [{ input: "x" }, ["missing_required_parameter", "model"]],
    [{ model: 1, input: "x" }, ["invalid_type", "model"]],
    [{ model: "", input: "x" }, ["invalid_value", "model"]],
    [{ model: "e" }, ["missing_required_parameter", "input"]],
    [{ model: "e", input: null }, ["missing_required_parameter", "input"]],
    [{ model: "e", input: 5 }, ["invalid_type", "input"]],
    [{ model: "e", input: {} }, ["invalid_type", "input"]],
    [{ model: "e", input: [] }, ["invalid_value", "input"]],
    [{ model: "e", Input: "x", input: "x" }, ["unknown_parameter", "input"]],
  ])("that is %j is refused, with the name of what is wrong", (body, mistake) => {
    expect(mistakeIn("embedding", body)).toEqual(mistake);
  });
});

describe("a request for completions", () => {
  test.each([
    [{ prompt: "x" }, { choices: 1, maxTokens: null, stream: false, contextTokens: 1 }],
    [{ prompt: ["x", "y", "z"], n: 2 }, { choices: 6 }],
    [{ prompt: [1, 2, 3] }, { choices: 1, promptTokensEstimate: 3, contextTokens: 3 }],
    [
      {
        prompt: [
          [1, 2],
          [3, 4],
        ],
      },
      { choices: 2, promptTokensEstimate: 4, contextTokens: 2 },
    ],
    [{ prompt: "x", n: 1, best_of: 5 }, { choices: 5 }],
    [{ prompt: "x", max_tokens: 7, n_predict: 9 }, { maxTokens: 9 }],
    [
      { prompt: "x", stream: true, stream_options: { include_usage: true } },
      { stream: true, wantsUsage: true },
    ],
    [
      { prompt: "x", stream: true },
      { stream: true, wantsUsage: false },
    ],
    [{ prompt_embeds: "AAAA" }, { promptTokensEstimate: 0 }],
    [{ prompt: "x", suffix: "y".repeat(38) }, { promptTokensEstimate: 11 }],
  ])("that is %j is read for what it may cost: %j", (body, facts) => {
    expect(read("completion", { model: "m", ...body })).toMatchObject(facts);
  });

  test.each([
    [{ prompt: 5 }, ["invalid_type", "prompt"]],
    [{ prompt: [] }, ["invalid_value", "prompt"]],
    [{ prompt: "x", n: 129 }, ["integer_above_max_value", "n"]],
    [{ prompt: "x", best_of: 1e9 }, ["integer_above_max_value", "best_of"]],
    [{ prompt: "x", n: "2" }, ["invalid_type", "n"]],
    [{ prompt: "x", max_tokens: "2" }, ["invalid_type", "max_tokens"]],
    [{ prompt: "x", stream: 1 }, ["invalid_type", "stream"]],
    [{ prompt: "x", Max_Tokens: 1 }, ["unknown_parameter", "max_tokens"]],
  ])("that is %j is refused", (body, mistake) => {
    expect(mistakeIn("completion", { model: "m", ...body })).toEqual(mistake);
  });
});

describe("other requests", () => {
  test("say how many images they ask for", () => {
    expect(read("image", { model: "m", prompt: "x" })).toMatchObject({ choices: 1, stream: false });
    expect(read("image", { model: "m", prompt: "x", n: 4, stream: true })).toMatchObject({ choices: 4, stream: true });
    expect(mistakeIn("image", { model: "m", prompt: ["x"] })).toEqual(["invalid_type", "prompt"]);
    expect(mistakeIn("image", { prompt: "x" })).toEqual(["missing_required_parameter", "model"]);
  });

  test("for a moderation need no model", () => {
    expect(read("moderation", { input: ["x", "y"] })).toMatchObject({ model: "omni-moderation-latest" });
    expect(read("moderation", { model: null, input: [{ type: "text", text: "x" }] })).toMatchObject({ model: "omni-moderation-latest" });
    expect(read("moderation", { model: "m", input: "x" })).toMatchObject({ model: "m" });
  });

  test("do not take the bytes of an image for text", () => {
    const url = `data:image/png;base64,${"iVBORw0KGg".repeat(40_000)}`;
    const input = [{ type: "image_url", image_url: { url } }];
    expect(read("moderation", { model: "m", input }).promptTokensEstimate).toBeLessThan(2_000);
    expect(read("moderation", { model: "m", input: url }).promptTokensEstimate).toBeGreaterThan(90_000);
  });

  test("to rank have a query and documents", () => {
    expect(read("rerank", { model: "m", query: "x".repeat(38), documents: ["y".repeat(36)] })).toMatchObject({ promptTokensEstimate: 20 });
    expect(mistakeIn("rerank", { model: "m", query: "x" })).toEqual(["missing_required_parameter", "documents"]);
    expect(mistakeIn("rerank", { model: "m", query: "x", documents: [] })).toEqual(["invalid_value", "documents"]);
  });
});
