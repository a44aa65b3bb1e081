import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";
import { rawRequest, type RawResponse } from "../support/client.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import {
  customCall,
  eventStream,
  functionCall,
  message,
  reasoning,
  response,
  responseEvents,
  type ScriptedItem,
} from "../support/responses-script.ts";
import { startScripted, type Script, type Scripted } from "../support/scripted-upstream.ts";

setDefaultTimeout(60_000);

const key = "sk-client-of-these-tests";
let upstream: Scripted;
/** Where a call goes on whose first channel failed. */
let reserve: Scripted;
let gateway: Gateway;
let openai: OpenAI;
let anthropic: Anthropic;

beforeAll(async () => {
  upstream = await startScripted(usual);
  reserve = await startScripted(answering([message("From the reserve.")]));
  const channel = { base_url: upstream.url, api_key: "sk-of-the-upstream" };
  gateway = await startGateway({
    config: {
      keys: [{ name: "client", key }],
      channels: [
        { ...channel, name: "both", api: "both", models: { asked: "gpt-5.4" } },
        { ...channel, name: "own", dialect: "openai-responses", models: { own: "some-model" } },
        { ...channel, name: "first", api: "responses", models: ["shared", ...cutModels] },
        { ...channel, name: "second", api: "responses", base_url: reserve.url, tier: 2, models: ["shared", ...cutModels] },
      ],
      routing: { rescue: "error" },
    },
  });
  openai = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  anthropic = new Anthropic({ apiKey: key, authToken: null, baseURL: gateway.url, maxRetries: 0 });
});

beforeEach(() => {
  upstream.requests.length = 0;
  reserve.requests.length = 0;
});

afterAll(async () => {
  await gateway.kill();
  await Promise.all([upstream.close(), reserve.close()]);
});

const cutItems = [reasoning("enc"), message("Hello")];
/** The events of a stream that is cut after each of them in turn. */
const cut = responseEvents(cutItems);
const cutModels = ["responses", "messages", "chat"].flatMap((name) =>
  Array.from({ length: cut.length + 1 }, (_, at) => `${name}-cut-${at}`),
);

/** The name of the model says after how many events it is cut off; others answer. */
const usual: Script = (request) => {
  const count = /-cut-(\d+)$/.exec(String(request.body["model"]))?.[1];
  return (count === undefined ? answering([message("Hello, you.")]) : answering(cutItems, {}, Number(count)))(request);
};

/** Answers with these items, streamed if that is asked for. `events`: only so many of them. */
function answering(items: readonly ScriptedItem[], last: Readonly<Record<string, unknown>> = {}, events = Infinity): Script {
  return ({ body }) =>
    body["stream"] === true
      ? new Response(eventStream(responseEvents(items, last).slice(0, events)), { headers: { "content-type": "text/event-stream" } })
      : Response.json(response(items, last));
}

function refusing(status: number, error: Readonly<Record<string, unknown>>): Script {
  return () => Response.json({ error }, { status });
}

function post(path: string, body: string): Promise<Response> {
  return fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body,
  });
}

const rich = [reasoning("enc-of-the-upstream", "Thinking it over."), functionCall("call_1", "weather", '{"town": "Ulm"}')];

describe("a client of the Responses API, over a channel that speaks it", () => {
  test.each([true, false])("exchanges the bytes with it (streamed: %p)", async (stream) => {
    const asked = `{ "input": [{"role":"user","content":"h\\u00e9"}], "model" : "asked", "unknown_field": 1.0, "tools": [{"type":"web_search"}],\n "stream": ${stream} }`;
    let sent = "";
    upstream.next(async (request) => {
      const answer = await answering([...rich, message("Grüß Gott 🚰")])(request);
      sent = await answer.clone().text();
      return answer;
    });
    const answer = await post("/v1/responses", asked);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe(sent);
    expect(upstream.requests.map(({ path, text }) => [path, text])).toEqual([["/v1/responses", asked.replace('"asked"', '"gpt-5.4"')]]);
    await gateway.waitForLog((line) => line["event"] === "call" && line["id"] === answer.headers.get("x-request-id"));
    expect(gateway.accessLines().find((line) => line["id"] === answer.headers.get("x-request-id"))).toMatchObject({
      status: 200,
      prompt_tokens: 40,
      completion_tokens: 12,
    });
  });

  test("is not told that its tools were left out: they ran at the upstream", async () => {
    const answer = await post("/v1/responses", '{"model":"asked","input":"x","tools":[{"type":"web_search"}]}');
    expect(answer.headers.get("x-sluice-dropped-params")).toBeNull();
    await answer.arrayBuffer();
  });

  test.each(["asked", "own"])("reads the answers of %s with the official client, streamed and whole", async (model) => {
    const items = [...rich, customCall("call_2", "apply_patch", "*** Begin"), functionCall("call_3", "find", "{}", "crm")];
    for (const stream of [true, false]) {
      upstream.next(answering(items));
      const answer = stream
        ? await openai.responses.stream({ model, input: "x" }).finalResponse()
        : await openai.responses.create({ model, input: "x" });
      expect(answer.output).toMatchObject(items);
      expect(answer.usage).toMatchObject({ input_tokens: 40, output_tokens: 12 });
    }
  });

  test("does not send reasoning there that the gateway sealed for another channel", async () => {
    const sealed = { type: "reasoning", id: "rs_sluice_1", summary: [], encrypted_content: "sluice-v1.another" };
    const input = [{ role: "user", content: "x" }, sealed, { role: "user", content: "y" }];
    await (await post("/v1/responses", JSON.stringify({ model: "asked", input }))).arrayBuffer();
    expect(upstream.bodies).toEqual([{ model: "gpt-5.4", input: [input[0], input[2]] }]);
  });

  test("does not have a tool run twice that ran at an upstream which failed", async () => {
    upstream.next(() => new Response("oops", { status: 500 }));
    const answer = await post("/v1/responses", '{"model":"shared","input":"x","tools":[{"type":"web_search"}]}');
    expect(answer.status).toBeGreaterThanOrEqual(500);
    expect([upstream.requests.length, reserve.requests.length]).toEqual([1, 0]);
    await answer.arrayBuffer();
    upstream.next(() => new Response("oops", { status: 500 }));
    expect((await openai.responses.create({ model: "shared", input: "x" })).status).toBe("completed");
  });
});

test.each([true, false])("the default of the AI SDK works over it, in a tool loop with reasoning (streamed: %p)", async (stream) => {
  const model = createOpenAI({ apiKey: key, baseURL: `${gateway.url}/v1` })("asked");
  const weather = tool({ description: "The weather.", inputSchema: z.object({ town: z.string() }), execute: () => "sunny" });
  const call = {
    model,
    prompt: "Weather?",
    tools: { weather },
    stopWhen: stepCountIs(2),
    providerOptions: { openai: { store: false, include: ["reasoning.encrypted_content"] } },
  };
  upstream.next(answering(rich));
  const text = stream ? await streamText(call).text : (await generateText(call)).text;
  expect(text).toBe("Hello, you.");
  expect(upstream.bodies).toHaveLength(2);
  expect(upstream.bodies[1]?.["input"]).toContainEqual(
    expect.objectContaining({ type: "reasoning", encrypted_content: "enc-of-the-upstream" }),
  );
  expect(upstream.bodies[1]?.["input"]).toContainEqual(expect.objectContaining({ type: "function_call_output", call_id: "call_1" }));
});

test("a client of a slow upstream is kept waiting by what it takes for nothing, before the response begins and after", async () => {
  await using slow = await startScripted(({ body }) => {
    const events = responseEvents([message(`Hello from ${String(body["model"])}`)]);
    const pieces = [events.slice(0, 5), events.slice(5)].map(eventStream);
    return new Response(
      new ReadableStream({
        pull: async (controller) => {
          await Bun.sleep(400);
          const piece = pieces.shift();
          if (piece === undefined) controller.close();
          else controller.enqueue(new TextEncoder().encode(piece));
        },
      }),
      { headers: { "content-type": "text/event-stream" } },
    );
  });
  await using waiting = await startGateway({
    config: {
      keys: [{ name: "client", key }],
      channels: [{ name: "a", base_url: slow.url, api: "responses", models: ["m"] }],
      server: { keep_alive: "50ms", early_headers: "50ms" },
    },
  });
  const raw = await fetch(`${waiting.url}/v1/responses`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "m", input: "x", stream: true }),
  });
  const sent = await raw.text();
  expect(sent).toStartWith(":");
  expect(sent).toContain("event: keepalive");
  const stream = new OpenAI({ apiKey: key, baseURL: `${waiting.url}/v1`, maxRetries: 0 }).responses.stream({ model: "m", input: "x" });
  expect((await stream.finalResponse()).output_text).toBe("Hello from m");
});

test("a client that was kept waiting is told of a failure before the response began", async () => {
  await using failing = await startScripted(async () => {
    await Bun.sleep(400);
    return Response.json({ error: { message: "no", code: "invalid_value", type: "invalid_request_error" } }, { status: 400 });
  });
  await using waiting = await startGateway({
    config: {
      keys: [{ name: "client", key }],
      channels: [{ name: "a", base_url: failing.url, api: "responses", models: ["m"] }],
      server: { keep_alive: "50ms", early_headers: "50ms" },
    },
  });
  const seen: unknown[] = [];
  const stream = new OpenAI({ apiKey: key, baseURL: `${waiting.url}/v1`, maxRetries: 0 }).responses.stream({ model: "m", input: "x" });
  for await (const event of stream) seen.push([event.type, event.sequence_number, "response" in event ? event.response.status : null]);
  expect(seen).toEqual([
    ["response.created", 0, "in_progress"],
    ["response.failed", 1, "failed"],
  ]);
});

test("a client that asks for a WebSocket is told to go on over HTTP, and one that offers HTTP/2 is served", async () => {
  const upgrade = (method: string, protocol: string): Promise<RawResponse> =>
    rawRequest(gateway.url, {
      method,
      path: "/v1/responses",
      headers: { Authorization: `Bearer ${key}`, Connection: "Upgrade", Upgrade: protocol, "Content-Type": "application/json" },
      ...(method === "POST" ? { body: JSON.stringify({ model: "asked", input: "hello" }) } : undefined),
    });
  const refused = await upgrade("GET", "websocket");
  expect([refused.status, refused.header("upgrade")]).toEqual([426, "HTTP/1.1"]);
  expect(refused.json()).toMatchObject({ error: { code: "upgrade_required" } });
  expect((await upgrade("POST", "h2c")).status).toBe(200);
});

describe("a client of the Messages API, over a channel that speaks Responses", () => {
  const tools: Anthropic.Tool[] = [{ name: "weather", description: "The weather.", input_schema: { type: "object", properties: {} } }];
  const params = { model: "asked", max_tokens: 4000, thinking: { type: "enabled" as const, budget_tokens: 2000 }, tools };
  const question: Anthropic.MessageParam = { role: "user", content: "Weather?" };

  test.each([true, false])("keeps the reasoning over a tool loop (streamed: %p)", async (stream) => {
    const ask = (messages: Anthropic.MessageParam[]): Promise<Anthropic.Message> =>
      stream ? anthropic.messages.stream({ ...params, messages }).finalMessage() : anthropic.messages.create({ ...params, messages });
    upstream.next(answering(rich));
    const first = await ask([question]);
    expect(first.stop_reason).toBe("tool_use");
    expect(first.content).toMatchObject([
      { type: "thinking", thinking: "Thinking it over." },
      { type: "tool_use", id: "call_1", name: "weather", input: { town: "Ulm" } },
    ]);
    expect(first.usage).toMatchObject({ cache_read_input_tokens: 30, output_tokens: 12 });
    const second = await ask([
      question,
      { role: "assistant", content: first.content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "sunny" }] },
    ]);
    expect(second.content).toMatchObject([{ type: "text", text: "Hello, you." }]);
    expect(upstream.bodies.map(({ model, store, include, stream: streamed }) => [model, store, include, streamed ?? false])).toEqual([
      ["gpt-5.4", false, ["reasoning.encrypted_content"], stream],
      ["gpt-5.4", false, ["reasoning.encrypted_content"], stream],
    ]);
    expect(upstream.bodies[1]?.["input"]).toEqual([
      { type: "message", role: "user", content: [{ type: "input_text", text: "Weather?" }] },
      { type: "reasoning", summary: [{ type: "summary_text", text: "Thinking it over." }], encrypted_content: "enc-of-the-upstream" },
      { type: "function_call", call_id: "call_1", name: "weather", arguments: '{"town":"Ulm"}' },
      { type: "function_call_output", call_id: "call_1", output: "sunny" },
    ]);
    expect(JSON.stringify(upstream.bodies[1]?.["input"])).toStartWith(JSON.stringify(upstream.bodies[0]?.["input"]).slice(0, -1));
  });

  test("sends no signature of the upstream's reasoning to the client in the open", async () => {
    upstream.next(answering(rich));
    const { content } = await anthropic.messages.create({ ...params, messages: [question] });
    expect(JSON.stringify(content)).not.toContain("enc-of-the-upstream");
  });

  test.each([
    ["max_output_tokens", "max_tokens"],
    ["content_filter", "refusal"],
  ])("is told that an answer ended early: %s as %s", async (reason, stopReason) => {
    const last = { status: "incomplete", incomplete_details: { reason } };
    upstream.next(answering([message("Hel")], last));
    expect(await anthropic.messages.create({ ...params, messages: [question] })).toMatchObject({ stop_reason: stopReason });
    upstream.next(answering([message("Hel")], last));
    expect(await anthropic.messages.stream({ ...params, messages: [question] }).finalMessage()).toMatchObject({ stop_reason: stopReason });
  });
});

describe("a client of chat completions, over a channel that speaks both APIs", () => {
  const weather = { type: "function" as const, function: { name: "weather", parameters: { type: "object", properties: {} } } };
  const question = { role: "user" as const, content: "Weather?" };

  test.each([true, false])("gets tools with reasoning from the Responses API, and keeps the reasoning (streamed: %p)", async (stream) => {
    type Message = OpenAI.ChatCompletionMessage;
    const params = { model: "asked", reasoning_effort: "high" as const, tools: [weather] };
    const ask = async (messages: OpenAI.ChatCompletionMessageParam[]): Promise<Message> => {
      const completion = stream
        ? await openai.chat.completions.stream({ ...params, messages }).finalChatCompletion()
        : await openai.chat.completions.create({ ...params, messages });
      return completion.choices[0]!.message;
    };
    upstream.next(answering(rich));
    const first = await ask([question]);
    expect(first.tool_calls).toMatchObject([{ id: "call_1", function: { name: "weather", arguments: '{"town": "Ulm"}' } }]);
    const second = await ask([question, first, { role: "tool", tool_call_id: "call_1", content: "sunny" }]);
    expect(second.content).toBe("Hello, you.");
    expect(upstream.requests.map(({ path }) => path)).toEqual(["/v1/responses", "/v1/responses"]);
    expect(upstream.bodies[0]).toMatchObject({ reasoning: { effort: "high" }, store: false });
    expect(upstream.bodies[1]?.["input"]).toMatchObject([
      { type: "message", role: "user" },
      { type: "reasoning", encrypted_content: "enc-of-the-upstream" },
      { type: "function_call", call_id: "call_1" },
      { type: "function_call_output", call_id: "call_1", output: "sunny" },
    ]);
  });

  test("gives custom tools their text, and their grammar to the upstream", async () => {
    const grammar = { definition: "start: /.+/", syntax: "lark" as const };
    upstream.next(answering([customCall("call_2", "apply_patch", "*** Begin")]));
    const { choices } = await openai.chat.completions.create({
      model: "asked",
      reasoning_effort: "low",
      messages: [question],
      tools: [{ type: "custom", custom: { name: "apply_patch", format: { type: "grammar", grammar } } }],
    });
    expect(choices[0]?.message.tool_calls).toMatchObject([{ type: "custom", custom: { name: "apply_patch", input: "*** Begin" } }]);
    expect(upstream.bodies[0]?.["tools"]).toEqual([{ type: "custom", name: "apply_patch", format: { type: "grammar", ...grammar } }]);
  });

  test("exchanges bytes with its chat completions otherwise", async () => {
    upstream.next(({ body }) =>
      Response.json({
        id: "c",
        object: "chat.completion",
        created: 1,
        model: body["model"],
        choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }],
      }),
    );
    expect((await openai.chat.completions.create({ model: "asked", messages: [question] })).choices[0]?.message.content).toBe("Hi.");
    expect(upstream.requests.map(({ path }) => path)).toEqual(["/v1/chat/completions"]);
  });
});

describe("an upstream that breaks off", () => {
  const firstOutput = cut.findIndex(
    ({ type, item }) => type === "response.output_item.done" && (item as { type: string }).type === "reasoning",
  );

  /** What a client of each API took for an answer; null where it was told of a failure. */
  const clients: Readonly<Record<string, (model: string) => Promise<string | null>>> = {
    responses: async (model) => {
      const stream = openai.responses.stream({ model, input: "x" });
      let last = -1;
      let id: string | null = null;
      for await (const event of stream) {
        expect(event.sequence_number).toBe(last + 1);
        last = event.sequence_number;
        if (event.type === "response.created") id = event.response.id;
        if (event.type !== "response.failed") continue;
        expect(event.response).toMatchObject({ id, status: "failed", error: { code: "server_error" } });
        return null;
      }
      return (await stream.finalResponse()).output_text;
    },
    messages: async (model) => {
      const { content } = await anthropic.messages
        .stream({ model, max_tokens: 50, messages: [{ role: "user", content: "x" }] })
        .finalMessage();
      return content.map((block) => (block.type === "text" ? block.text : "")).join("");
    },
    chat: async (model) => {
      const answer = await openai.chat.completions.stream({ model, messages: [{ role: "user", content: "x" }] }).finalChatCompletion();
      return answer.choices[0]?.message.content ?? "";
    },
  };

  /** The other clients throw where they are told of a failure. */
  function ignoreErrorsOf(name: string): (error: unknown) => null {
    return (error) => {
      if (name === "responses") throw error;
      return null;
    };
  }

  test.each(Object.entries(clients))("after any event is followed by another channel, or told to a client of %s", async (name, ask) => {
    for (let count = 0; count < cut.length; count += 1) {
      const answer = await ask(`${name}-cut-${count}`).catch(ignoreErrorsOf(name));
      expect([count, answer]).toEqual([count, count <= firstOutput ? "From the reserve." : null]);
    }
    expect(await ask(`${name}-cut-${cut.length}`)).toBe("Hello");
  });
});

describe("an answer in the Responses API that breaks off, where another channel has the same model", () => {
  const text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. The fox goes on.";
  const items = [reasoning("enc-1", "Foxes."), message(text)];
  let world: Gateway;

  beforeAll(async () => {
    const model = { api: "responses", models: ["m"] };
    world = await startGateway({
      config: {
        keys: [{ name: "client", key }],
        channels: [
          { name: "first", base_url: upstream.url, ...model },
          { name: "second", base_url: reserve.url, tier: 2, ...model },
        ],
      },
    });
  });

  afterAll(async () => {
    await world.kill();
  });

  const client = (): OpenAI => new OpenAI({ apiKey: key, baseURL: `${world.url}/v1`, maxRetries: 0 });
  const events = responseEvents(items);
  const count = (type: string, delta?: string): number =>
    events.findIndex((event) => event.type === type && (delta ?? event["delta"]) === event["delta"]);

  test("goes on there as the same response, with the reasoning of the first", async () => {
    upstream.next(answering(items, {}, count("response.output_text.delta", " do") + 1));
    reserve.next(answering([message(text)]));
    const stream = client().responses.stream({ model: "m", input: "x" });
    const types: string[] = [];
    let last = -1;
    let streamed = "";
    for await (const event of stream) {
      expect(event.sequence_number).toBe(last + 1);
      last = event.sequence_number;
      types.push(event.type);
      if (event.type === "response.output_text.delta") streamed += event.delta;
    }
    const answer = await stream.finalResponse();
    expect([streamed, answer.output_text]).toEqual([text, text]);
    expect(answer).toMatchObject({ id: "resp_1", status: "completed" });
    expect(answer.output).toMatchObject([
      { id: "rs_1", encrypted_content: "enc-1" },
      { id: "msg_1", type: "message" },
    ]);
    expect(types.filter((type) => type === "response.created" || type === "response.completed")).toEqual([
      "response.created",
      "response.completed",
    ]);
    expect(reserve.bodies).toHaveLength(1);
  });

  test("is told as a failure where an item is half told that another channel cannot complete", async () => {
    upstream.next(answering(items, {}, count("response.reasoning_summary_text.delta") + 1));
    const types: string[] = [];
    for await (const event of client().responses.stream({ model: "m", input: "x" })) types.push(event.type);
    expect(types.at(-1)).toBe("response.failed");
    expect(reserve.bodies).toEqual([]);
  });
});

describe("an upstream that refuses", () => {
  const errors = [
    [400, { message: "Invalid value: 'x'.", type: "invalid_request_error", param: "input", code: "invalid_value" }, 400],
    [
      400,
      {
        message: "Your input exceeds the context window of this model.",
        type: "invalid_request_error",
        param: "input",
        code: "context_length_exceeded",
      },
      400,
    ],
    [401, { message: "Incorrect API key provided.", type: "invalid_request_error", code: "invalid_api_key" }, 502],
    [429, { message: "Rate limit reached.", type: "tokens", code: "rate_limit_exceeded" }, 429],
    [500, { message: "The server had an error.", type: "server_error", code: null }, 502],
  ] as const;

  /** A channel for each, so that what it taught one call decides no other. */
  const cases = errors.flatMap((error, at) => [true, false].map((stream) => ({ error, stream, model: `refused-${at}-${stream}` })));
  let refuser: Scripted;
  let alone: Gateway;

  beforeAll(async () => {
    refuser = await startScripted((request) => {
      const [status, error] = cases.find(({ model }) => model === request.body["model"])!.error;
      return refusing(status, error)(request);
    });
    const channels = cases.map(({ model }) => ({ name: model, base_url: refuser.url, api: "responses", models: [model] }));
    alone = await startGateway({ config: { keys: [{ name: "client", key }], channels, routing: { attempts: 1 } } });
  });

  afterAll(async () => {
    await alone.kill();
    await refuser.close();
  });

  test.each(errors)("with %d and %j gives a client %d", async (_, error, expected) => {
    const own = cases.filter((one) => one.error[1] === error);
    expect(own).toHaveLength(2);
    for (const { model, stream } of own) {
      const answer = await fetch(`${alone.url}/v1/responses`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({ model, input: "x", stream }),
      });
      expect(answer.status).toBe(expected);
      expect(await answer.json()).toMatchObject({ error: { message: expect.any(String), type: expect.any(String) } });
    }
  });
});
