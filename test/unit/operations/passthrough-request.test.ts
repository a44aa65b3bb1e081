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
