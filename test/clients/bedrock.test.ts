import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { isSigned } from "../support/aws-signature.ts";
import { awsEvent, awsException } from "../support/event-stream.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";

setDefaultTimeout(60_000);

const key = "client-key-0123456789abcdef";
const keys = { accessKeyId: "AKIDTEST", secretAccessKey: "secret/key+0123456789", sessionToken: "session/token==", region: "eu-central-1" };
const model = "eu.amazon.nova-pro-v1:0";

type Body = Readonly<Record<string, unknown>>;
const asked: { path: string; body: Body }[] = [];
/** What the scripted upstream answers next. */
let frames: readonly Uint8Array[] = [];
let answer: Body = {};
let server: ReturnType<typeof Bun.serve>;
let gateway: Gateway;
let openai: OpenAI;
let anthropic: Anthropic;

beforeAll(async () => {
  server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: respond });
  const channel = (name: string, more: Record<string, unknown>) => ({
    name,
    provider: "bedrock-converse",
    base_url: `http://127.0.0.1:${server.port}`,
    api_key: `${keys.accessKeyId}:${keys.secretAccessKey}:${keys.sessionToken}`,
    region: keys.region,
    ...more,
  });
  gateway = await startGateway({
    config: {
      keys: [{ name: "client", key }],
      channels: [
        channel("main", { models: { nova: model } }),
        channel("first", { tier: 1, models: { pair: "throttled" } }),
        channel("second", { tier: 2, models: { pair: model } }),
      ],
    },
  });
  openai = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  anthropic = new Anthropic({ apiKey: key, authToken: null, baseURL: gateway.url, maxRetries: 0 });
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
  if (!isSigned(request, bytes, keys)) {
    return Response.json({ message: "no" }, { status: 403, headers: { "x-amzn-errortype": "InvalidSignatureException" } });
  }
  asked.push({ path: pathname, body: JSON.parse(new TextDecoder().decode(bytes)) as Body });
  if (pathname.includes("throttled"))
    return new Response(new Uint8Array(awsException("throttlingException", "Too many requests.")), events);
  return pathname.endsWith("/converse") ? Response.json(answer) : new Response(new Uint8Array(Buffer.concat(frames)), events);
}

const events = { headers: { "content-type": "application/vnd.amazon.eventstream" } };
const start = awsEvent("messageStart", { role: "assistant" });
const metadata = awsEvent("metadata", { usage: { inputTokens: 3, outputTokens: 2, cacheReadInputTokens: 7 } });
const stop = (stopReason: string): Uint8Array => awsEvent("messageStop", { stopReason });
const delta = (contentBlockIndex: number, value: Body): Uint8Array => awsEvent("contentBlockDelta", { contentBlockIndex, delta: value });
const blockStop = (contentBlockIndex: number): Uint8Array => awsEvent("contentBlockStop", { contentBlockIndex });

const hello = [start, delta(0, { text: "Hello " }), delta(0, { text: "wörld" }), blockStop(0), stop("end_turn"), metadata];
const calling = [
  start,
  delta(0, { reasoningContent: { text: "I look it up." } }),
  delta(0, { reasoningContent: { signature: "c2lnbmF0dXJl" } }),
  blockStop(0),
  awsEvent("contentBlockStart", { contentBlockIndex: 1, start: { toolUse: { toolUseId: "tooluse_1", name: "weather" } } }),
  delta(1, { toolUse: { input: '{"town":' } }),
  delta(1, { toolUse: { input: '"Rome"}' } }),
  blockStop(1),
  stop("tool_use"),
  metadata,
];
const whole = {
  output: { message: { role: "assistant", content: [{ text: "Hello whole" }] } },
  stopReason: "max_tokens",
  usage: { inputTokens: 3, outputTokens: 2, totalTokens: 5 },
};
const parameters = { type: "object" as const, properties: { town: { type: "string" } }, required: ["town"] };

describe("a channel that speaks Converse", () => {
  test("serves a stream of chat completions, signed and with usage", async () => {
    frames = hello;
    const stream = await openai.chat.completions.create({
      model: "nova",
      stream: true,
      stream_options: { include_usage: true },
      messages: [{ role: "user", content: "Hi." }],
    });
    let text = "";
    let finish: string | null = null;
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      finish = chunk.choices[0]?.finish_reason ?? finish;
      usage = chunk.usage ?? usage;
    }
    expect([text, finish]).toEqual(["Hello wörld", "stop"]);
    expect(usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 7 } });
    expect(asked).toEqual([
      {
        path: "/model/eu.amazon.nova-pro-v1%3A0/converse-stream",
        body: { messages: [{ role: "user", content: [{ text: "Hi." }] }] },
      },
    ]);
  });

  test("serves a whole chat completion", async () => {
    answer = whole;
    const completion = await openai.chat.completions.create({ model: "nova", max_tokens: 2, messages: [{ role: "user", content: "Hi." }] });
    expect(completion.choices[0]).toMatchObject({ message: { content: "Hello whole" }, finish_reason: "length" });
    expect(asked[0]?.body["inferenceConfig"]).toEqual({ maxTokens: 2 });
  });

  test("carries a tool loop of the Messages API, and gets its reasoning back as it was", async () => {
    frames = calling;
    const tools: Anthropic.Tool[] = [{ name: "weather", input_schema: parameters }];
    const question: Anthropic.MessageParam = { role: "user", content: "How is Rome?" };
    const first = await anthropic.messages.stream({ model: "nova", max_tokens: 100, tools, messages: [question] }).finalMessage();
    expect(first.stop_reason).toBe("tool_use");
    const call = first.content.find((block) => block.type === "tool_use");
    expect(call).toMatchObject({ id: "tooluse_1", name: "weather", input: { town: "Rome" } });

    frames = hello;
    const result: Anthropic.MessageParam = {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: call?.id ?? "", content: "Sunny." }],
    };
    const messages = [question, { role: "assistant" as const, content: first.content }, result];
    const second = await anthropic.messages.stream({ model: "nova", max_tokens: 100, tools, messages }).finalMessage();
    expect(second.content).toMatchObject([{ type: "text", text: "Hello wörld" }]);
    const replayed = asked.at(-1)?.body["messages"] as readonly { role: string; content: readonly Body[] }[];
    expect(replayed.map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
    expect(replayed[1]?.content).toEqual([
      { reasoningContent: { reasoningText: { text: "I look it up.", signature: "c2lnbmF0dXJl" } } },
      { toolUse: { toolUseId: "tooluse_1", name: "weather", input: { town: "Rome" } } },
    ]);
    expect(replayed[2]?.content).toEqual([{ toolResult: { toolUseId: "tooluse_1", content: [{ text: "Sunny." }] } }]);
  });

  test("serves the Responses API", async () => {
    frames = calling;
    const tools: OpenAI.Responses.FunctionTool[] = [{ type: "function", name: "weather", parameters, strict: false }];
    const response = await openai.responses.stream({ model: "nova", input: "How is Rome?", tools }).finalResponse();
    const call = response.output.find((item) => item.type === "function_call");
    expect(call).toMatchObject({ name: "weather", arguments: '{"town":"Rome"}' });
  });

  test("whose stream begins with an exception gives way to the next", async () => {
    frames = hello;
    const message = await anthropic.messages
      .stream({ model: "pair", max_tokens: 100, messages: [{ role: "user", content: "Hi." }] })
      .finalMessage();
    expect(message.content).toMatchObject([{ text: "Hello wörld" }]);
    expect(asked.map(({ path }) => path)).toEqual(["/model/throttled/converse-stream", "/model/eu.amazon.nova-pro-v1%3A0/converse-stream"]);
  });
});
