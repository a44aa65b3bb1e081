import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import OpenAI, { BadRequestError, PermissionDeniedError, RateLimitError } from "openai";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { Receipts } from "../support/receipts.ts";
import { startScripted, type Scripted } from "../support/scripted-upstream.ts";

setDefaultTimeout(60_000);

const key = "sk-client-of-these-tests";
const narrowKey = "sk-narrow-client-of-these-tests";
const chatKey = "sk-chat-client-of-these-tests";
const slowKey = "sk-slow-client-of-these-tests";

let first: Scripted;
let second: Scripted;
let gateway: Gateway;
let receipts: Receipts;
let client: OpenAI;

beforeAll(async () => {
  first = await startScripted(({ body }) => Response.json(embedded(body)));
  second = await startScripted(({ body }) => Response.json(embedded(body)));
  // What one fault taught the gateway about a deployment must not decide what the next call meets.
  const models = { small: "upstream-small", large: "upstream-large", failing: "f", cut: "c", erring: "e" };
  gateway = await startGateway({
    config: {
      keys: [
        { name: "client", key },
        { name: "narrow", key: narrowKey, models: ["small"] },
        { name: "chatter", key: chatKey, operations: ["chat"] },
        { name: "slow", key: slowKey, limits: { tpm: 100 } },
      ],
      channels: [
        { name: "first", base_url: first.url, api_key: "sk-first", models, tier: 1 },
        { name: "second", base_url: second.url, api_key: "sk-second", models, tier: 2 },
        { name: "talk", base_url: first.url, api_key: "sk-first", models: ["talker"], capabilities: { operations: ["chat"] } },
      ],
      prices: [{ model: "upstream-small", input: 2 }],
    },
  });
  receipts = await Receipts.open(gateway.directory);
  client = clientWith(key);
});

afterAll(async () => {
  await receipts[Symbol.asyncDispose]();
  await gateway.kill();
  await first.close();
  await second.close();
});

function clientWith(apiKey: string): OpenAI {
  return new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
}

/** Two numbers for each text, as the client asks for them: as numbers, or as base64 of their bytes. */
function embedded({ input, model, encoding_format: format }: Readonly<Record<string, unknown>>): object {
  const texts = Array.isArray(input) ? input : [input];
  const base64 = Buffer.from(new Float32Array([0.5, -0.25]).buffer).toString("base64");
  return {
    object: "list",
    data: texts.map((_, index) => ({ object: "embedding", index, embedding: format === "base64" ? base64 : [0.5, -0.25] })),
    model,
    usage: { prompt_tokens: 3 * texts.length, total_tokens: 3 * texts.length },
  };
}

async function failureOf(calling: PromiseLike<unknown>): Promise<unknown> {
  return calling.then(
    () => null,
    (error: unknown) => error,
  );
}

describe("the official client", () => {
  test("gets embeddings in both encodings, of one text and of many", async () => {
    // Without a format it asks for base64 and decodes that.
    const plain = await client.embeddings.create({ model: "small", input: "one" });
    expect(plain.data.map(({ embedding }) => embedding)).toEqual([[0.5, -0.25]]);
    expect(first.bodies.at(-1)).toMatchObject({ model: "upstream-small", encoding_format: "base64" });
    const many = await client.embeddings.create({ model: "small", input: ["one", "two"], encoding_format: "float", dimensions: 2 });
    expect(many.data).toHaveLength(2);
    expect(many.usage).toEqual({ prompt_tokens: 6, total_tokens: 6 });
    expect(first.bodies.at(-1)).toEqual({ model: "upstream-small", input: ["one", "two"], encoding_format: "float", dimensions: 2 });
    const tokens = await client.embeddings.create({ model: "small", input: [[1, 2], [3]] });
    expect(tokens.data).toHaveLength(2);
  });

  test("is charged for the tokens of the input", async () => {
    const { response } = await client.embeddings.create({ model: "small", input: ["one", "two"] }).withResponse();
    const receipt = await receipts.of(response.headers.get("x-request-id"));
    expect(receipt).toMatchObject({
      operation: "embedding",
      model: "small",
      channel: "first",
      upstreamModel: "upstream-small",
      state: "complete",
      estimated: false,
      delivered: { promptTokens: 6, completionTokens: 0 },
      billedNanos: 12_000,
    });
    const unpriced = await client.embeddings.create({ model: "large", input: "one" }).withResponse();
    expect(await receipts.of(unpriced.response.headers.get("x-request-id"))).toMatchObject({ billedNanos: null });
  });

  test.each([
    ["failing", 2, () => Response.json({ error: { message: "down", type: "server_error" } }, { status: 500 })],
    ["cut", 1, () => new Response('{"object":"list","data":[{"embedding":[0.1,', { headers: { "content-type": "application/json" } })],
    ["erring", 2, () => Response.json({ error: { message: "The server is overloaded", type: "server_error" } })],
  ])("is answered by another channel if the first one is %s", async (model, times, answer) => {
    for (let time = 0; time < times; time++) first.next(answer);
    const { data, response } = await client.embeddings.create({ model, input: "one" }).withResponse();
    expect(data.data).toHaveLength(1);
    expect([response.headers.get("x-sluice-channel"), response.headers.get("x-sluice-attempts")]).toEqual(["second", String(times + 1)]);
    const receipt = await receipts.of(response.headers.get("x-request-id"));
    expect(receipt.attempts.map(({ channel, outcome }) => [channel, outcome])).toEqual([
      ...Array.from({ length: times }, () => ["first", "failed"]),
      ["second", "answered"],
    ]);
  });

  test("is told of its own mistakes, and of an upstream's refusal in its own words", async () => {
    expect(await failureOf(client.embeddings.create({ model: "small", input: [] }))).toBeInstanceOf(BadRequestError);
    first.next(() =>
      Response.json(
        { error: { message: "'input' is too long.", type: "invalid_request_error", param: "input", code: null } },
        { status: 400 },
      ),
    );
    expect(await failureOf(client.embeddings.create({ model: "small", input: "x" }))).toMatchObject({ status: 400, param: "input" });
    expect(await failureOf(client.embeddings.create({ model: "talker", input: "x" }))).toMatchObject({
      status: 400,
      code: "unsupported_operation",
    });
  });

  test("may use what its key may use", async () => {
    const narrow = clientWith(narrowKey);
    expect((await narrow.embeddings.create({ model: "small", input: "x" })).data).toHaveLength(1);
    expect(await failureOf(narrow.embeddings.create({ model: "large", input: "x" }))).toBeInstanceOf(PermissionDeniedError);
    expect(await failureOf(clientWith(chatKey).embeddings.create({ model: "small", input: "x" }))).toBeInstanceOf(PermissionDeniedError);
  });

  test("has its tokens limited by an estimate of the input", async () => {
    const slow = clientWith(slowKey);
    expect(await failureOf(slow.embeddings.create({ model: "small", input: "x".repeat(800) }))).toBeInstanceOf(RateLimitError);
    expect((await slow.embeddings.create({ model: "small", input: "x" })).data).toHaveLength(1);
  });

  test("finds in the list of models what they are for", async () => {
    const { data } = await client.models.list();
    expect(data.find(({ id }) => id === "small")).toMatchObject({ operations: expect.arrayContaining(["embedding"]) as string[] });
    expect(data.find(({ id }) => id === "talker")).toMatchObject({ operations: ["chat"] });
  });
});

test("a large batch of embeddings passes byte for byte", async () => {
  const numbers = Array.from({ length: 1_536 }, (_, at) => -0.0123456789012345 * at);
  const body = JSON.stringify({ object: "list", data: Array.from({ length: 200 }, (_, index) => ({ index, embedding: numbers })) });
  first.next(() => new Response(body, { headers: { "content-type": "application/json" } }));
  const response = await fetch(`${gateway.url}/v1/embeddings`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: '{"model":"small","input":["x"]}',
  });
  expect([response.status, (await response.text()) === body]).toEqual([200, true]);
});
