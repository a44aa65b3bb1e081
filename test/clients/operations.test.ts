import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import OpenAI from "openai";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { Receipts } from "../support/receipts.ts";
import { startScripted, type Scripted } from "../support/scripted-upstream.ts";

setDefaultTimeout(60_000);

const key = "sk-client-of-these-tests";
const poorKey = "sk-poor-client-of-these-tests";

let first: Scripted;
let second: Scripted;
let gateway: Gateway;
let receipts: Receipts;
let client: OpenAI;

beforeAll(async () => {
  first = await startScripted(answer);
  second = await startScripted(answer);
  gateway = await startGateway({
    config: {
      keys: [
        { name: "client", key },
        { name: "poor", key: poorKey, limits: { budget_usd: 1 } },
      ],
      channels: [
        { name: "first", base_url: first.url, api_key: "sk-first", models: "*", tier: 1 },
        { name: "second", base_url: second.url, api_key: "sk-second", models: "*", tier: 2 },
      ],
      prices: [
        { model: "completer", input: 2, output: 4 },
        { model: "painter", image: 0.04 },
        { model: "token-painter", input: 5, output: 40 },
        { model: "ranker", call: 0.002 },
      ],
    },
  });
  receipts = await Receipts.open(gateway.directory);
  client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
});

afterAll(async () => {
  await receipts[Symbol.asyncDispose]();
  await gateway.kill();
  await first.close();
  await second.close();
});

/** What an upstream of the OpenAI API answers on each path. */
function answer({ path, body }: { readonly path: string; readonly body: Readonly<Record<string, unknown>> }): Response {
  switch (path) {
    case "/v1/completions":
      return body["stream"] === true ? events([...chunks, usageChunk, "[DONE]"]) : Response.json(completion);
    case "/v1/moderations":
      return Response.json({ id: "modr-1", model: body["model"], results: [{ flagged: true, categories: { violence: true } }] });
    case "/v1/images/generations":
      return body["model"] === "token-painter"
        ? Response.json({ created: 1, data: [{ b64_json: "AAAA" }], usage: { input_tokens: 10, output_tokens: 1000, total_tokens: 1010 } })
        : Response.json({
            created: 1,
            data: Array.from({ length: (body["n"] as number | undefined) ?? 1 }, () => ({ url: "https://x.test/" })),
          });
    case "/v1/images/edits":
    case "/v1/images/variations":
      return Response.json({ created: 1, data: [{ b64_json: "AAAA" }, { b64_json: "BBBB" }] });
    case "/v1/rerank":
      return Response.json({ results: [{ index: 1, relevance_score: 0.9 }], usage: { total_tokens: 12 } });
    default:
      return Response.json({ error: { message: "unknown path" } }, { status: 404 });
  }
}

const completion = {
  id: "cmpl-1",
  object: "text_completion",
  created: 1,
  model: "completer",
  choices: [{ index: 0, text: "Once upon", logprobs: null, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
};

function chunk(text: string, finish: string | null = null): string {
  return JSON.stringify({ id: "cmpl-1", object: "text_completion", choices: [{ index: 0, text, logprobs: null, finish_reason: finish }] });
}

const chunks = [chunk("Once"), chunk(" upon"), chunk("", "stop")];
const usageChunk = JSON.stringify({ id: "cmpl-1", choices: [], usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 } });

function events(data: readonly string[]): Response {
  return new Response(data.map((one) => `data: ${one}\n\n`).join(""), { headers: { "content-type": "text/event-stream" } });
}

async function failureOf(calling: PromiseLike<unknown>): Promise<{ readonly code?: unknown; readonly status?: unknown } | null> {
  return calling.then(
    () => null,
    (error: unknown) => error as { code?: unknown; status?: unknown },
  );
}

async function textOf(stream: AsyncIterable<OpenAI.Completion>): Promise<string> {
  let text = "";
  for await (const { choices } of stream) text += choices[0]?.text ?? "";
  return text;
}

function requestIdOf({ headers }: Response): string | null {
  return headers.get("x-request-id");
}

describe("completions, with the official client", () => {
  const ask = { model: "completer", prompt: "Tell me a story", max_tokens: 20 } as const;

  test("come whole and streamed, and cost what their tokens cost", async () => {
    const whole = await client.completions.create(ask).withResponse();
    expect(whole.data.choices[0]?.text).toBe("Once upon");
    const figures = { operation: "completion", state: "complete", estimated: false, billedNanos: 5 * 2000 + 2 * 4000 };
    expect(await receipts.of(requestIdOf(whole.response))).toMatchObject({ ...figures, stream: false });
    const streamed = await client.completions.create({ ...ask, stream: true }).withResponse();
    expect(await textOf(streamed.data)).toBe("Once upon");
    expect(first.bodies.at(-1)).toMatchObject({ stream_options: { include_usage: true } });
    expect(await receipts.of(requestIdOf(streamed.response))).toMatchObject({ ...figures, stream: true });
  });

  test("are estimated where the upstream reports nothing", async () => {
    first.next(() => Response.json({ ...completion, usage: undefined }));
    const { response } = await client.completions.create(ask).withResponse();
    const { estimated, delivered } = await receipts.of(requestIdOf(response));
    expect([estimated, delivered.completionTokens]).toEqual([true, 3]);
  });

  test("that break off before any text are asked for elsewhere, and after it end with an error", async () => {
    first.next(() => events([]));
    const saved = await client.completions.create({ ...ask, stream: true }).withResponse();
    expect([await textOf(saved.data), saved.response.headers.get("x-sluice-channel")]).toEqual(["Once upon", "second"]);
    first.next(() => events(chunks.slice(0, 2)));
    const broken = await client.completions.create({ ...ask, model: "another", stream: true }).withResponse();
    expect(await failureOf(textOf(broken.data))).toMatchObject({ code: "upstream_stream_interrupted" });
    expect(await receipts.of(requestIdOf(broken.response))).toMatchObject({ state: "interrupted", partial: true });
  });
});

describe("moderations, with the official client", () => {
  test("are answered, with a model or without", async () => {
    const named = await client.moderations.create({ model: "censor", input: "x" });
    expect([named.model, named.results[0]?.flagged]).toEqual(["censor", true]);
    const { data, response } = await client.moderations.create({ input: ["x", "y"] }).withResponse();
    expect(data.model).toBe("omni-moderation-latest");
    expect(await receipts.of(requestIdOf(response))).toMatchObject({ operation: "moderation", estimated: true, billedNanos: null });
  });
});

describe("images, with the official client", () => {
  test("are charged by the piece, or by tokens, or not known", async () => {
    const pieces = await client.images.generate({ model: "painter", prompt: "a sluice", n: 3 }).withResponse();
    expect(pieces.data.data).toHaveLength(3);
    expect(await receipts.of(requestIdOf(pieces.response))).toMatchObject({
      operation: "image",
      billedNanos: 120_000_000,
      estimated: false,
    });
    const tokens = await client.images.generate({ model: "token-painter", prompt: "a sluice" }).withResponse();
    expect(await receipts.of(requestIdOf(tokens.response))).toMatchObject({ billedNanos: 10 * 5000 + 1000 * 40_000 });
    const unknown = await client.images.generate({ model: "unpriced", prompt: "a sluice" }).withResponse();
    expect(await receipts.of(requestIdOf(unknown.response))).toMatchObject({ billedNanos: null });
  });

  test("may be streamed", async () => {
    first.next(() =>
      events([
        '{"type":"image_generation.partial_image","b64_json":"AA","partial_image_index":0}',
        '{"type":"image_generation.completed","b64_json":"AAAA","usage":{"input_tokens":1,"output_tokens":2}}',
      ]),
    );
    const { data, response } = await client.images.generate({ model: "painter", prompt: "x", stream: true }).withResponse();
    const types: string[] = [];
    for await (const event of data) types.push(event.type);
    expect(types).toEqual(["image_generation.partial_image", "image_generation.completed"]);
    expect(await receipts.of(requestIdOf(response))).toMatchObject({ state: "complete", billedNanos: 40_000_000 });
  });

  test("without a price are refused to a key with a budget, and counted for it with one", async () => {
    const poor = new OpenAI({ apiKey: poorKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    expect(await failureOf(poor.images.generate({ model: "unpriced", prompt: "x" }))).toMatchObject({ code: "price_unknown" });
    expect((await poor.images.generate({ model: "painter", prompt: "x", n: 2 })).data).toHaveLength(2);
    expect(await failureOf(poor.images.generate({ model: "painter", prompt: "x", n: 100 }))).toMatchObject({ status: 429 });
  });
});

test("documents are ranked, and charged by the call", async () => {
  const response = await fetch(`${gateway.url}/v1/rerank`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "ranker", query: "x", documents: ["a", "b"], top_n: 1 }),
  });
  expect(await response.json()).toMatchObject({ results: [{ index: 1 }] });
  expect(await receipts.of(requestIdOf(response))).toMatchObject({
    operation: "rerank",
    delivered: { promptTokens: 12 },
    billedNanos: 2_000_000,
  });
});

describe("images that are changed, with the official client", () => {
  const picture = () => new File(["the bytes of a picture"], 'a "picture".png', { type: "image/png" });

  test("go to the upstream in a form with the model of the channel, and are billed like those that are made", async () => {
    const asked = { model: "painter", prompt: "A hat, please: é", n: 2, image: [picture(), picture()], mask: picture() };
    const { data, response } = await client.images.edit(asked).withResponse();
    expect(data.data).toHaveLength(2);
    const { path, headers, text } = first.requests.at(-1)!;
    expect(path).toBe("/v1/images/edits");
    const form = await new Response(text, { headers: { "content-type": headers.get("content-type") ?? "" } }).formData();
    expect([...form.keys()].toSorted()).toEqual(["image[]", "image[]", "mask", "model", "n", "prompt"]);
    expect([form.get("model"), form.get("prompt"), form.get("n")]).toEqual(["painter", "A hat, please: é", "2"]);
    expect(await (form.get("mask") as File).text()).toBe("the bytes of a picture");
    expect(await receipts.of(requestIdOf(response))).toMatchObject({ operation: "image", billedNanos: 80_000_000 });
  });

  test("go to another channel where one has no such path, which stays in use for others", async () => {
    first.next(() => new Response("<html>Not found</html>", { status: 404, headers: { "content-type": "text/html" } }));
    const { response } = await client.images.createVariation({ model: "painter", image: picture() }).withResponse();
    expect(response.headers.get("x-sluice-channel")).toBe("second");
    expect(second.requests.at(-1)?.path).toBe("/v1/images/variations");
    const { response: next } = await client.images.generate({ model: "painter", prompt: "A cat" }).withResponse();
    expect(next.headers.get("x-sluice-channel")).toBe("first");
  });

  test.each([
    [{ prompt: "x", image: "file" }, "model"],
    [{ model: "painter", prompt: "x" }, "image"],
    [{ model: "painter", image: "file" }, "prompt"],
    [{ model: "painter", prompt: "x", image: "file", n: "11" }, "n"],
    [{ model: "painter", prompt: "x", image: "file", stream: "perhaps" }, "stream"],
    [{ model: "painter", prompt: "x", image: "file", Model: "other" }, "model"],
  ])("%j is refused with the name of the field", async (fields, param) => {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.append(name, value === "file" ? picture() : value);
    const before = first.requests.length;
    const answered = await fetch(`${gateway.url}/v1/images/edits`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}` },
      body: form,
    });
    expect([answered.status, ((await answered.json()) as { error: { param: string } }).error.param]).toEqual([400, param]);
    expect(first.requests).toHaveLength(before);
  });

  test("of a repeated model only the last one reaches the upstream", async () => {
    const form = new FormData();
    for (const model of ["token-painter", "painter"]) form.append("model", model);
    form.append("prompt", "x");
    form.append("image", picture());
    await fetch(`${gateway.url}/v1/images/edits`, { method: "POST", headers: { authorization: `Bearer ${key}` }, body: form });
    expect(first.requests.at(-1)?.text.match(/token-painter|painter/g)).toEqual(["painter"]);
  });
});
