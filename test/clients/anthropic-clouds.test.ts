import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { generateKeyPairSync } from "node:crypto";
import OpenAI from "openai";
import { isSigned } from "../support/aws-signature.ts";
import { awsEvent } from "../support/event-stream.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";

setDefaultTimeout(60_000);

const key = "client-key-0123456789abcdef";
const keys = { accessKeyId: "AKIDTEST", secretAccessKey: "secret/key+0123456789", sessionToken: null, region: "eu-central-1" };
const account = {
  client_email: "robot@project.example",
  private_key: generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs8", format: "pem" }),
};
type Body = Readonly<Record<string, unknown>>;
const asked: { path: string; beta: string | null; body: Body }[] = [];
let server: ReturnType<typeof Bun.serve>;
let gateway: Gateway;
let anthropic: Anthropic;
let openai: OpenAI;

beforeAll(async () => {
  server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: respond });
  const base = `http://127.0.0.1:${server.port}`;
  gateway = await startGateway({
    config: {
      keys: [{ name: "client", key }],
      channels: [
        {
          name: "bedrock",
          provider: "bedrock-anthropic",
          base_url: base,
          region: keys.region,
          api_key: `${keys.accessKeyId}:${keys.secretAccessKey}`,
          models: { bedrock: "eu.anthropic.claude-x-v1:0" },
        },
        {
          name: "vertex",
          provider: "vertex-anthropic",
          base_url: `${base}/v1/projects/p/locations/global`,
          token_url: `${base}/token`,
          api_key: Buffer.from(JSON.stringify(account)).toString("base64"),
          models: { vertex: "claude-x@20260101" },
        },
        {
          name: "gemini",
          provider: "vertex",
          base_url: `${base}/v1/projects/p/locations/global`,
          token_url: `${base}/token`,
          api_key: Buffer.from(JSON.stringify(account)).toString("base64"),
          models: ["gemini-x"],
        },
      ],
    },
  });
  anthropic = new Anthropic({ apiKey: key, authToken: null, baseURL: gateway.url, maxRetries: 0 });
  openai = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
});

afterAll(async () => {
  await gateway.kill();
  await server.stop(true);
});

beforeEach(() => {
  asked.length = 0;
});

async function respond(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  const bytes = new Uint8Array(await request.arrayBuffer());
  if (pathname === "/token") return Response.json({ access_token: "issued-token", expires_in: 3600 });
  const isBedrock = pathname.startsWith("/model/");
  const isProven = isBedrock ? isSigned(request, bytes, keys) : request.headers.get("authorization") === "Bearer issued-token";
  if (!isProven) return Response.json({ message: "not proven" }, { status: 403 });
  asked.push({ path: pathname, beta: request.headers.get("anthropic-beta"), body: JSON.parse(new TextDecoder().decode(bytes)) as Body });
  const [, count] = counts.find(([ending]) => pathname.endsWith(ending)) ?? [];
  if (count !== undefined) return Response.json(count);
  if (namesUnknown(asked.at(-1)!)) return Response.json({ message: "invalid beta flag" }, { status: 400 });
  if (pathname.endsWith(":generateContent")) return Response.json(generated);
  if (pathname.endsWith("/invoke") || pathname.endsWith(":rawPredict")) return Response.json(message);
  if (!isBedrock) return new Response(sse, { headers: { "content-type": "text/event-stream" } });
  return new Response(frames, { headers: { "content-type": "application/vnd.amazon.eventstream" } });
}

function namesUnknown({ beta, body }: (typeof asked)[number]): boolean {
  return [beta ?? "", ...((body["anthropic_beta"] as readonly string[] | undefined) ?? [])].join().includes("unknown");
}

const counts = [
  ["/count-tokens", { inputTokens: 17 }],
  ["/count-tokens:rawPredict", { input_tokens: 18 }],
  [":countTokens", { totalTokens: 19 }],
] as const;
const usage = { input_tokens: 3, output_tokens: 2, cache_read_input_tokens: 4 };
const thinking = { type: "thinking", thinking: "hm", signature: "c2lnbmF0dXJl" };
const text = { type: "text", text: "Hello wörld" };
const message = {
  ...{ id: "msg_1", type: "message", role: "assistant", model: "claude-x", stop_reason: "end_turn", stop_sequence: null },
  content: [thinking, text],
  usage,
};
const generated = {
  candidates: [{ content: { role: "model", parts: [{ text: "Hello Gemini" }] }, finishReason: "STOP" }],
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 },
};
const events = [
  { type: "message_start", message: { ...message, content: [], stop_reason: null } },
  { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "", signature: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "hm" } },
  { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "c2lnbmF0dXJl" } },
  { type: "content_block_stop", index: 0 },
  { type: "content_block_start", index: 1, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "Hello wörld" } },
  { type: "content_block_stop", index: 1 },
  { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 2 } },
  { type: "message_stop" },
];
const sse = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
const frames = new Uint8Array(
  Buffer.concat(events.map((event) => awsEvent("chunk", { bytes: Buffer.from(JSON.stringify(event)).toString("base64") }))),
);

const hosts = [
  {
    model: "bedrock",
    whole: "/model/eu.anthropic.claude-x-v1%3A0/invoke",
    streamed: "/model/eu.anthropic.claude-x-v1%3A0/invoke-with-response-stream",
    version: "bedrock-2023-05-31",
    stream: undefined,
  },
  {
    model: "vertex",
    whole: "/v1/projects/p/locations/global/publishers/anthropic/models/claude-x%4020260101:rawPredict",
    streamed: "/v1/projects/p/locations/global/publishers/anthropic/models/claude-x%4020260101:streamRawPredict",
    version: "vertex-2023-10-16",
    // The path alone makes no stream there.
    stream: true,
  },
];
const question: Anthropic.MessageParam = { role: "user", content: "Hi." };

describe.each(hosts)("the Messages API on $model", ({ model, whole, streamed, version, stream: saidInBody }) => {
  test("gets the client's own body, with the model in the path", async () => {
    const answer = await anthropic.messages.create({ model, max_tokens: 100, messages: [question], metadata: { user_id: "u" } });
    expect(answer.content).toMatchObject([thinking, text]);
    expect(asked).toMatchObject([{ path: whole }]);
    expect(asked[0]?.body).toEqual({ anthropic_version: version, max_tokens: 100, messages: [question], metadata: { user_id: "u" } });
  });

  test("streams, and gets its reasoning back as it was", async () => {
    const first = await anthropic.messages.stream({ model, max_tokens: 100, messages: [question] }).finalMessage();
    expect(first.content).toMatchObject([thinking, text]);
    expect(first.usage).toMatchObject({ input_tokens: 3, cache_read_input_tokens: 4, output_tokens: 2 });
    const messages = [question, { role: "assistant" as const, content: first.content }, question];
    await anthropic.messages.stream({ model, max_tokens: 100, messages }).finalMessage();
    expect(asked.map(({ path }) => path)).toEqual([streamed, streamed]);
    expect(asked[1]?.body["messages"]).toMatchObject([{}, { content: [thinking, text] }, {}]);
    expect(asked[1]?.body["stream"]).toBe(saidInBody);
  });

  test("serves chat completions", async () => {
    const stream = openai.chat.completions.stream({ model, max_tokens: 100, messages: [{ role: "user", content: "Hi." }] });
    const completion = await stream.finalChatCompletion();
    expect(completion.choices[0]).toMatchObject({ message: { content: "Hello wörld" }, finish_reason: "stop" });
    expect(asked[0]).toMatchObject({ path: streamed, body: { anthropic_version: version, max_tokens: 100 } });
    expect(asked[0]?.body["model"]).toBeUndefined();
  });
});

test("Gemini on Vertex AI takes the same token", async () => {
  const completion = await openai.chat.completions.create({ model: "gemini-x", messages: [{ role: "user", content: "Hi." }] });
  expect(completion.choices[0]?.message.content).toBe("Hello Gemini");
  expect(asked[0]?.path).toBe("/v1/projects/p/locations/global/publishers/google/models/gemini-x:generateContent");
});

test("betas stand in the body on one, and in a header on the other", async () => {
  for (const { model } of hosts) {
    await anthropic.messages.create({ model, max_tokens: 100, messages: [question] }, { headers: { "anthropic-beta": "one,two" } });
  }
  expect(asked.map(({ beta, body }) => [beta, body["anthropic_beta"]])).toEqual([
    [null, ["one", "two"]],
    ["one,two", undefined],
  ]);
});

test("betas that a cloud does not know are left out, for later calls as well, and the client reads which", async () => {
  const known = "interleaved-thinking-2025-05-14";
  const headers = { "anthropic-beta": `unknown-2027-01-01,${known}` };
  for (const { model } of hosts) {
    for (const requests of [2, 1]) {
      asked.length = 0;
      const { response } = await anthropic.messages.create({ model, max_tokens: 100, messages: [question] }, { headers }).withResponse();
      expect(response.headers.get("x-sluice-dropped-params")).toBe("betas.unknown-2027-01-01");
      expect(asked).toHaveLength(requests);
      expect([asked.at(-1)?.beta, asked.at(-1)?.body["anthropic_beta"]]).toContainEqual(model === "bedrock" ? [known] : known);
    }
  }
  // Tokens are counted with what was learned.
  await anthropic.messages.countTokens({ model: "vertex", messages: [question] }, { headers });
  expect(asked.at(-1)?.beta).toBe(known);
});

describe("tokens are counted by the cloud that has the model", () => {
  const prompt = { system: "Be brief.", messages: [{ role: "user" as const, content: "hi" }] };
  const paths = { bedrock: "/model/eu.anthropic.claude-x-v1%3A0/count-tokens", projects: "/v1/projects/p/locations/global/publishers" };

  test.each([
    ["bedrock", 17, paths.bedrock],
    ["vertex", 18, `${paths.projects}/anthropic/models/count-tokens:rawPredict`],
    ["gemini-x", 19, `${paths.projects}/google/models/gemini-x:countTokens`],
  ])("for a client of the Messages API: %s", async (model, tokens, path) => {
    const { data, response } = await anthropic.messages.countTokens({ model, ...prompt }).withResponse();
    expect([data.input_tokens, response.headers.get("x-sluice-token-count")]).toEqual([tokens, "upstream"]);
    expect(asked.map((one) => one.path)).toEqual([path]);
  });

  test("with the prompt in the form of its API, without what is about the answer", async () => {
    for (const model of ["bedrock", "vertex", "gemini-x"]) await anthropic.messages.countTokens({ model, ...prompt });
    const [bedrock, vertex, google] = asked.map(({ body }) => body);
    const input = bedrock?.["input"] as { readonly invokeModel: { readonly body: string } } | undefined;
    expect(JSON.parse(atob(input?.invokeModel.body ?? ""))).toEqual({ max_tokens: 1, ...prompt, anthropic_version: "bedrock-2023-05-31" });
    expect(vertex).toEqual({ ...prompt, anthropic_version: "vertex-2023-10-16", model: "claude-x@20260101" });
    expect(google).toMatchObject({
      contents: [{ role: "user", parts: [{ text: "hi" }] }],
      systemInstruction: { parts: [{ text: "Be brief." }] },
    });
  });

  test("for a client of the Gemini API, over any of them", async () => {
    const headers = { "x-goog-api-key": key, "content-type": "application/json" };
    const body = JSON.stringify({ contents: [{ role: "user", parts: [{ text: "hi" }] }] });
    for (const [model, totalTokens] of [
      ["vertex", 18],
      ["gemini-x", 19],
    ] as const) {
      const answer = await fetch(`${gateway.url}/v1beta/models/${model}:countTokens`, { method: "POST", headers, body });
      expect(await answer.json()).toEqual({ totalTokens });
    }
    expect(asked[0]?.body).toEqual({
      model: "claude-x@20260101",
      messages: [{ role: "user", content: [{ type: "text", text: "hi" }] }],
      anthropic_version: "vertex-2023-10-16",
    });
  });
});
