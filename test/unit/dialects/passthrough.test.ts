import { describe, expect, test } from "bun:test";
import type { EncodedRequest, Emissions, StreamReader, Target } from "../../../src/dialects/dialect.ts";
import { openaiPassthrough } from "../../../src/dialects/openai/passthrough.ts";
import { cohere } from "../../../src/dialects/cohere/cohere.ts";
import { defaultPaths, presetNamed } from "../../../src/dialects/presets.ts";
import type { Emission, WholeAnswer } from "../../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import type { PassthroughOperation } from "../../../src/operations/operation.ts";
import { readPassthroughRequest } from "../../../src/operations/passthrough/passthrough-request.ts";
import { channel } from "../../support/plan-world.ts";
import { noTools } from "../../support/speech-world.ts";

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
  completion: '{"model":"m","prompt":"x"}',
  moderation: '{"model":"m","input":"x"}',
  image: '{"model":"m","prompt":"x","n":2}',
  rerank: '{"model":"m","query":"x","documents":["a","b"]}',
};

const answers: { readonly [O in PassthroughOperation]: string } = {
  embedding:
    '{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1,-2e-3]}],"usage":{"prompt_tokens":3,"total_tokens":3}}',
  completion:
    '{"object":"text_completion","choices":[{"index":0,"text":"y","finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}',
  moderation: '{"id":"modr-1","model":"m","results":[{"flagged":false,"categories":{}}]}',
  image: '{"created":1,"data":[{"b64_json":"AAAA"},{"url":"https://x.test/y.png"}]}',
  rerank: '{"results":[{"index":1,"relevance_score":0.9}],"usage":{"total_tokens":7}}',
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
    const { request } = encoded(
      operation,
      requests[operation],
      targetOf({ channel: plain, forwarded: { "x-fixed": "0", "x-trace": "t" } }),
    );
    expect(request).toMatchObject({ method: "POST", url: `https://a.test/v1${defaultPaths.passthroughPaths[operation]}` });
    expect(request.headers).toEqual({ "content-type": "application/json", accept: "application/json", "x-fixed": "1", "x-trace": "t" });
    const address = {
      ...plain.address,
      query: "?v=1",
      passthroughPaths: { ...defaultPaths.passthroughPaths, [operation]: "/d/{model}/x" },
    };
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
    for (let end = 0; end < body.length; end++) expect([end, isFailure(answer(operation, body.slice(0, end)))]).toEqual([end, true]);
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

describe("the usage of other answers", () => {
  test.each([
    ["completion", answers.completion, { promptTokens: 1, completionTokens: 2 }],
    ["moderation", answers.moderation, { promptTokens: null, completionTokens: 0 }],
    ["rerank", answers.rerank, { promptTokens: 7, completionTokens: 0 }],
    ["image", answers.image, { promptTokens: null, completionTokens: null, images: 2 }],
    [
      "image",
      '{"data":[{"b64_json":"A"}],"usage":{"total_tokens":100,"input_tokens":50,"output_tokens":50}}',
      { promptTokens: 50, completionTokens: 50, images: 1 },
    ],
  ] as const)("to %s is %j", (operation, body, usage) => {
    expect(answer(operation, body)).toMatchObject({ usage });
  });
});

test("a reranking goes to the provider that the form comes from as it is", () => {
  const cohereChannel = channel("c", { address: { ...channel("c").address, ...presetNamed("cohere")!.paths } });
  const ask = readPassthroughRequest("rerank", Buffer.from(requests.rerank));
  if (isFailure(ask)) throw new Error(ask.publicMessage);
  const made = cohere.rerank!.encode(ask, targetOf({ channel: cohereChannel, model: "rerank-v3.5" }));
  if (isFailure(made) || made.answer.kind !== "whole") throw new Error("a whole answer is expected");
  expect(made.request.url).toBe("https://c.test/v1/v2/rerank");
  expect(sent(made)).toBe(requests.rerank.replace('"m"', '"rerank-v3.5"'));
  const body = '{"results":[{"index":0,"relevance_score":0.9}],"id":"x","meta":{"billed_units":{"search_units":1}}}';
  expect(made.answer.read(Buffer.from(body), { status: 200, header: () => null })).toMatchObject({
    usage: { promptTokens: null, completionTokens: 0 },
  });
});

test("a moderation without a model gets the usual one, also where the channel calls it the same", () => {
  const made = encoded("moderation", '{"input":"x"}', targetOf({ model: "omni-moderation-latest" }));
  expect(sent(made)).toBe('{"model":"omni-moderation-latest","input":"x"}');
});

describe("a completion", () => {
  test("above the channel's ceiling is lowered to it, and told", () => {
    const made = encoded("completion", '{"model":"m","prompt":"x","max_tokens":5000}', targetOf({ model: "m", ceiling: 1000 }));
    expect([sent(made), made.clampedTo]).toEqual(['{"model":"m","prompt":"x","max_tokens":1000}', 1000]);
  });

  test("that is streamed asks for usage, which the client does not see unless it asked for it too", () => {
    const target = targetOf({ model: "m", meterStream: true });
    expect(sent(encoded("completion", '{"model":"m","prompt":"x","stream":true}', target))).toBe(
      '{"stream_options":{"include_usage":true},"model":"m","prompt":"x","stream":true}',
    );
    const asked = '{"model":"m","prompt":"x","stream":true,"stream_options":{"include_usage":true}}';
    expect(sent(encoded("completion", asked, target))).toBe(asked);
    const usage = 'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n';
    const hidden = streamOf("completion", '{"model":"m","prompt":"x","stream":true}', target);
    expect(emitted(hidden, chunk(0, "a", "stop") + usage + done)).toMatchObject([
      { kind: "delta", text: "a", finishes: true },
      { kind: "usage", frame: null, usage: { promptTokens: 1, completionTokens: 2 } },
      { kind: "end", finish: "stop" },
    ]);
    const shown = streamOf("completion", asked, target);
    expect(emitted(shown, chunk(0, "a", "stop") + usage + done)[1]).toMatchObject({ kind: "usage", frame: Buffer.from(usage) });
  });

  test("passes its events byte for byte, and commits with the first text", () => {
    const body = chunk(0, "") + chunk(0, "On") + chunk(0, "ce") + chunk(0, "", "length") + done;
    const emissions = emitted(streamOf("completion", streamedRequests.completion), body);
    expect(emissions.map((one) => ("frame" in one ? Buffer.from(one.frame!).toString() : "")).join("")).toBe(body);
    expect(emissions.map((one) => (one.kind === "delta" ? one.output : one.kind))).toEqual([null, "text", "text", "finish", "end"]);
  });

  test("of several prompts is complete when each choice is", () => {
    const request = '{"model":"m","prompt":["x","y"],"n":2,"stream":true}';
    const all = [0, 1, 2, 3].map((index) => chunk(index, "a", "stop"));
    expect(emitted(streamOf("completion", request), all.join("")).at(-1)).toMatchObject({ kind: "end" });
    expect(() => emitted(streamOf("completion", request), all.slice(0, 3).join(""))).toThrow("without a finish_reason");
  });
});

describe("images that are streamed", () => {
  const partial = 'data: {"type":"image_generation.partial_image","b64_json":"AA","partial_image_index":0}\n\n';
  const completed = 'data: {"type":"image_generation.completed","b64_json":"AAAA","usage":{"input_tokens":5,"output_tokens":9}}\n\n';

  test("keep the names of their events, and are read the same with them, however large they are", () => {
    const large = completed.replace("AAAA", "A".repeat(100_000));
    const body = `event: image_generation.partial_image\n${partial}event: image_generation.completed\n${large}`;
    const emissions = emitted(streamOf("image", streamedRequests.image), body);
    expect(emissions.map((one) => ("frame" in one && one.frame !== null ? Buffer.from(one.frame).toString() : "")).join("")).toBe(body);
    expect(emissions.map(({ kind }) => kind)).toEqual(["delta", "delta", "usage", "end"]);
  });

  test("pass as they come, and are counted", () => {
    const emissions = emitted(streamOf("image", streamedRequests.image), partial + completed);
    expect(emissions).toMatchObject([
      { kind: "delta", output: "image", finishes: false },
      { kind: "delta", output: "image", finishes: true },
      { kind: "usage", frame: null, usage: { promptTokens: 5, completionTokens: 9, images: 1 } },
      { kind: "end" },
    ]);
  });

  test("are cut off where none is complete", () => {
    expect(() => emitted(streamOf("image", streamedRequests.image), partial)).toThrow("interrupted");
    expect(() => emitted(streamOf("image", streamedRequests.image), ": nothing\n\n")).toThrow("bad_response");
    const error = 'data: {"type":"error","error":{"message":"Overloaded","type":"server_error"}}\n\n';
    expect(() => emitted(streamOf("image", streamedRequests.image), error)).toThrow("overloaded");
  });
});

describe.each(["completion", "image"] as const)("a stream of %s", (operation) => {
  test("that is cut at any byte is complete or a failure, and is read the same in pieces", () => {
    const whole = streamedAnswers[operation];
    for (let end = 0; end <= whole.length; end++) {
      const isComplete = end >= whole.indexOf(lastNeeded[operation]) + lastNeeded[operation].length;
      let failed = false;
      try {
        emitted(streamOf(operation, streamedRequests[operation]), whole.slice(0, end));
      } catch {
        failed = true;
      }
      expect([end, failed]).toEqual([end, !isComplete]);
    }
    const inPieces = emitted(streamOf(operation, streamedRequests[operation]), whole, 1);
    expect(inPieces).toEqual([...emitted(streamOf(operation, streamedRequests[operation]), whole)]);
  });

  test("that came whole is a failure of the channel", () => {
    const ask = encoded(operation, streamedRequests[operation]).answer;
    if (ask.kind !== "stream") throw new Error("a whole answer is expected");
    expect(ask.instead(Buffer.from(answers[operation]), { status: 200, header: () => null })).toMatchObject({ kind: "bad_response" });
  });
});

const done = "data: [DONE]\n\n";

function chunk(index: number, text: string, finish: string | null = null): string {
  return `data: ${JSON.stringify({ object: "text_completion", choices: [{ index, text, logprobs: null, finish_reason: finish }] })}\n\n`;
}

const streamedRequests = {
  completion: '{"model":"m","prompt":"x","stream":true}',
  image: '{"model":"m","prompt":"x","stream":true}',
} as const;

const streamedAnswers = {
  completion: chunk(0, "Once ") + chunk(0, "upon") + chunk(0, " a") + chunk(0, "", "stop") + done,
  image:
    'data: {"type":"image_generation.partial_image","b64_json":"AA"}\n\ndata: {"type":"image_generation.completed","b64_json":"AAAA"}\n\n',
} as const;

/** A stream is complete with these bytes, also where the line or the mark after them is missing. */
const lastNeeded = { completion: '"finish_reason":"stop"}]}', image: 'completed","b64_json":"AAAA"}' } as const;

function streamOf(operation: PassthroughOperation, body: string, target = targetOf()): StreamReader {
  const { answer: expected } = encoded(operation, body, target);
  if (expected.kind !== "stream") throw new Error("a whole answer is expected");
  return expected.reader({ status: 200, header: () => null }, noTools) as StreamReader;
}

/** What a body says, pushed in pieces of so many bytes. Throws the failure. */
function emitted(reader: StreamReader, body: string, pieceBytes = body.length): readonly Emission[] {
  const emissions: Emission[] = [];
  const take = (some: Emissions): void => {
    if (isFailure(some)) throw new Error(`${some.kind}: ${some.detail}`);
    emissions.push(...some);
    if (reader.pending !== null) throw new Error(`${reader.pending.kind}: ${reader.pending.detail}`);
  };
  const bytes = Buffer.from(body);
  for (let at = 0; at < bytes.length; at += pieceBytes) take(reader.push(bytes.subarray(at, at + pieceBytes)) as Emissions);
  take(reader.close() as Emissions);
  return emissions;
}
