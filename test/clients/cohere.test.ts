import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { startGateway, type Gateway } from "../support/gateway.ts";

setDefaultTimeout(60_000);

const key = "client-key-0123456789abcdef";
type Body = Readonly<Record<string, unknown>>;
const asked: { path: string; key: string | null; body: Body }[] = [];
let events: readonly unknown[] = [];
let server: ReturnType<typeof Bun.serve>;
let gateway: Gateway;

beforeAll(async () => {
  server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: respond });
  gateway = await startGateway({
    config: {
      keys: [{ name: "client", key }],
      channels: [{ name: "main", provider: "cohere", base_url: `http://127.0.0.1:${server.port}`, api_key: "upstream-key" }],
    },
  });
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
  if (pathname === "/v1/models") return Response.json({ models: [{ name: "command-a" }] });
  asked.push({ path: pathname, key: request.headers.get("authorization"), body: (await request.json()) as Body });
  return new Response(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""), {
    headers: { "content-type": "text/event-stream" },
  });
}

const start = { id: "c1", type: "message-start", delta: { message: { role: "assistant" } } };
const usage = { billed_units: { input_tokens: 5, output_tokens: 2 }, tokens: { input_tokens: 500, output_tokens: 5 } };
const end = (reason: string) => ({ type: "message-end", delta: { finish_reason: reason, usage } });
const text = (value: string) => ({ type: "content-delta", index: 0, delta: { message: { content: { text: value } } } });
const call = { id: "look_1", type: "function", function: { name: "look", arguments: "" } };
const calling = [
  start,
  { type: "tool-plan-delta", delta: { message: { tool_plan: "I look." } } },
  { type: "tool-call-start", index: 0, delta: { message: { tool_calls: call } } },
  { type: "tool-call-end", index: 0 },
  end("TOOL_CALL"),
];

describe("a channel of Cohere", () => {
  test("serves a model that it lists, as a stream of chat completions", async () => {
    events = [start, text("Hel"), text("lo"), end("COMPLETE")];
    const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    const stream = client.chat.completions.stream({
      model: "command-a",
      stream_options: { include_usage: true },
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "Hi." },
      ],
    });
    const completion = await stream.finalChatCompletion();
    expect(completion.choices[0]).toMatchObject({ message: { content: "Hello" }, finish_reason: "stop" });
    expect(completion.usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 2 });
    expect(asked).toMatchObject([
      {
        path: "/v2/chat",
        key: "Bearer upstream-key",
        body: {
          model: "command-a",
          stream: true,
          messages: [
            { role: "system", content: "Be brief." },
            { role: "user", content: "Hi." },
          ],
        },
      },
    ]);
  });

  test("carries a tool loop of the Messages API", async () => {
    events = calling;
    const client = new Anthropic({ apiKey: key, authToken: null, baseURL: gateway.url, maxRetries: 0 });
    const tools: Anthropic.Tool[] = [{ name: "look", input_schema: { type: "object" } }];
    const question: Anthropic.MessageParam = { role: "user", content: "What is there?" };
    const first = await client.messages.stream({ model: "command-a", max_tokens: 100, tools, messages: [question] }).finalMessage();
    expect(first.stop_reason).toBe("tool_use");
    expect(first.content.at(-1)).toMatchObject({ type: "tool_use", id: "look_1", name: "look", input: {} });

    events = [start, text("A cat."), end("COMPLETE")];
    const result: Anthropic.MessageParam = { role: "user", content: [{ type: "tool_result", tool_use_id: "look_1", content: "cat" }] };
    const messages = [question, { role: "assistant" as const, content: first.content }, result];
    const second = await client.messages.stream({ model: "command-a", max_tokens: 100, tools, messages }).finalMessage();
    expect(second.content).toMatchObject([{ text: "A cat." }]);
    const replayed = asked[1]?.body["messages"] as readonly unknown[] | undefined;
    expect(replayed?.slice(-2)).toMatchObject([
      { role: "assistant", tool_calls: [{ id: "look_1", function: { name: "look", arguments: "{}" } }] },
      { role: "tool", tool_call_id: "look_1", content: "cat" },
    ]);
  });
});
