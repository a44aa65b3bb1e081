import { describe, expect, test } from "bun:test";
import type { EncodedRequest, Target } from "../../../src/dialects/dialect.ts";
import { openaiPassthrough } from "../../../src/dialects/openai/passthrough.ts";
import { defaultPaths } from "../../../src/dialects/presets.ts";
import type { WholeAnswer } from "../../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import type { PassthroughOperation } from "../../../src/operations/operation.ts";
import { readPassthroughRequest } from "../../../src/operations/passthrough/passthrough-request.ts";
import { channel } from "../../support/plan-world.ts";

function targetOf(more: Partial<Target> = {}): Target {
  return { channel: channel("a"), model: "upstream-model", ceiling: null, meterStream: false, forwarded: {}, ...more };
}

function encoded(operation: PassthroughOperation, body: string, target = targetOf()): EncodedRequest {
  const ask = readPassthroughRequest(operation, Buffer.from(body));
  if (isFailure(ask)) throw new Error(ask.publicMessage);
  const made = openaiPassthrough[operation].encode(ask, target);
  if (isFailure(made)) throw new Error(made.publicMessage);
  return made;
}

function sent(made: EncodedRequest): string {
  return Buffer.from(made.request.body as Uint8Array).toString();
}

/** How an answer with status 200 is read. */
function answer(operation: PassthroughOperation, body: string | Uint8Array): WholeAnswer | Failure {
  const expected = encoded(operation, requests[operation]).answer;
  if (expected.kind !== "whole") throw new Error("a stream is expected");
  return expected.read(Buffer.from(body as string), { status: 200, header: () => null });
}

const requests: { readonly [O in PassthroughOperation]: string } = {
  embedding: '{"model":"m","input":"x"}',
};

const answers: { readonly [O in PassthroughOperation]: string } = {
  embedding: '{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1,-2e-3]}],"usage":{"prompt_tokens":3,"total_tokens":3}}',
};

const all = Object.keys(requests) as readonly PassthroughOperation[];

describe.each(all)("a request for %s", (operation) => {
  test("is the very same bytes where the channel calls the model the same", () => {
    const ask = readPassthroughRequest(operation, Buffer.from(requests[operation]));
    if (isFailure(ask)) throw new Error(ask.publicMessage);
    const made = openaiPassthrough[operation].encode(ask, targetOf({ model: "m" }));
    if (isFailure(made)) throw new Error(made.publicMessage);
    expect(made.request.body).toBe(ask.body);
  });

  test("differs in nothing but the model's name, in every place where it stands", () => {
    const strange = requests[operation].replace("{", '{ "x" : 1.0e0,\n"model":"other", "y":[ ] ,');
    const made = encoded(operation, strange);
    expect(sent(made)).toBe(strange.replace('"other"', '"upstream-model"').replace('"m"', '"upstream-model"'));
    expect(made).toMatchObject({ clampedTo: null, voice: null });
  });

  test("goes to the channel's path for it, with the channel's headers", () => {
    const plain = channel("a", { headers: { "x-fixed": "1" } });
    const { request } = encoded(operation, requests[operation], targetOf({ channel: plain, forwarded: { "x-fixed": "0", "x-trace": "t" } }));
    expect(request).toMatchObject({ method: "POST", url: `https://a.test/v1${defaultPaths.passthroughPaths[operation]}` });
    expect(request.headers).toEqual({ "content-type": "application/json", accept: "application/json", "x-fixed": "1", "x-trace": "t" });
    const address = { ...plain.address, query: "?v=1", passthroughPaths: { ...defaultPaths.passthroughPaths, [operation]: "/d/{model}/x" } };
    const placed = encoded(operation, requests[operation], targetOf({ channel: { ...plain, address }, model: "a/b $&" }));
    expect(placed.request.url).toBe("https://a.test/v1/d/a%2Fb%20%24%26/x?v=1");
  });
});

describe.each(all)("an answer to %s", (operation) => {
  test("keeps its bytes", () => {
    const body = Buffer.from(answers[operation]);
    const made = answer(operation, body);
    expect(made).toMatchObject({ kind: "whole", type: "application/json" });
    if (!isFailure(made)) expect(Buffer.from(made.body).equals(body)).toBe(true);
  });

  test("is a failure wherever it is cut", () => {
    const body = answers[operation];
    for (let end = 0; end < body.length; end++)
      expect([end, isFailure(answer(operation, body.slice(0, end)))]).toEqual([end, true]);
  });

  test.each([
    ["[]", "bad_response"],
    ["{}", "bad_response"],
    ['"text"', "bad_response"],
    ["<html>", "bad_response"],
    ['{"error":{"message":"Rate limit reached","type":"rate_limit_error"}}', "rate_limited"],
    ['{"data":[],"results":[],"choices":[]}', "bad_response"],
    ['{"data":{},"results":{},"choices":{}}', "bad_response"],
  ])("that is %s is a failure", (body, kind) => {
    expect(answer(operation, body)).toMatchObject({ kind });
  });
});

describe("the usage of embeddings", () => {
  test.each([
    ['{"prompt_tokens":3,"total_tokens":3}', 3],
    ['{"total_tokens":4}', 4],
    ['{"prompt_tokens":5}', 5],
    ['{"prompt_tokens":-1}', null],
    ["null", null],
    ['"many"', null],
  ])("of %s is %p tokens of input, and none of output", (usage, promptTokens) => {
    const body = answers.embedding.replace(/"usage":\{[^}]*\}/, `"usage":${usage}`);
    expect(answer("embedding", body)).toMatchObject({ usage: { promptTokens, completionTokens: 0 } });
  });
});
