import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { startGateway, type Gateway } from "../support/gateway.ts";
import {
  messageEvents,
  messageStream,
  redacted,
  scriptedMessage,
  text,
  thinking,
  toolUse,
  type ScriptedBlock,
} from "../support/messages-script.ts";
import { startScripted, type Script, type Scripted } from "../support/scripted-upstream.ts";

setDefaultTimeout(60_000);

const key = "sk-client-of-these-tests";
let upstream: Scripted;
/** Speaks chat completions: where a call goes on whose first channel failed. */
let reserve: Scripted;
let gateway: Gateway;
let openai: OpenAI;
let anthropic: Anthropic;

beforeAll(async () => {
  upstream = await startScripted(usual);
  reserve = await startScripted(completing("From the reserve."));
  const channel = { base_url: upstream.url, api_key: "sk-of-the-upstream" };
  gateway = await startGateway({
    config: {
      keys: [{ name: "client", key }],
      channels: [
        { ...channel, name: "own", provider: "anthropic", models: { asked: "claude-opus-5-5", older: "claude-sonnet-4-5" } },
        // A channel of the dialect alone, whose address ends before the version.
        { ...channel, name: "other", dialect: "anthropic", base_url: upstream.url.slice(0, -"/v1".length), models: ["compatible"] },
        { ...channel, name: "first", provider: "anthropic", models: ["shared", "failing", ...cutModels] },
        { ...channel, name: "second", base_url: reserve.url, tier: 2, models: ["shared", "failing", "back", ...cutModels] },
        { ...channel, name: "third", provider: "anthropic", tier: 3, models: ["back"] },
        { ...channel, name: "low", provider: "anthropic", max_tokens_ceiling: 2000, models: ["low"] },
      ],
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

const cutBlocks = [thinking("Hm, let me see.", "sig"), text("Hello there, you over there.")];
/** The events of a stream that is cut after each of them in turn. */
const cut = messageEvents(cutBlocks);
const cutModels = ["messages", "responses", "chat"].flatMap((name) =>
  Array.from({ length: cut.length + 1 }, (_, at) => `${name}-cut-${at}`),
);

/** The name of the model says after how many events it is cut off; others answer. */
const usual: Script = (request) => {
  const count = /-cut-(\d+)$/.exec(String(request.body["model"]))?.[1];
  if (request.body["model"] === "failing") return refusing(529, "overloaded_error", "Overloaded")(request);
  return (count === undefined ? answering([text("Hello, you.")]) : answering(cutBlocks, {}, Number(count)))(request);
};

/** Answers with these blocks, streamed if that is asked for. `events`: only so many of them. */
function answering(blocks: readonly ScriptedBlock[], last: Readonly<Record<string, unknown>> = {}, events = Infinity): Script {
  return ({ body }) =>
    body["stream"] === true
      ? new Response(messageStream(messageEvents(blocks, last).slice(0, events)), { headers: { "content-type": "text/event-stream" } })
      : Response.json(scriptedMessage(blocks, last));
}

/** An upstream that speaks chat completions. */
function completing(content: string): Script {
  return ({ body }) => {
    if (body["model"] === "back") return new Response("oops", { status: 500 });
    const choice = (fields: object): object => ({ id: "c", created: 1, model: "reserve", choices: [{ index: 0, ...fields }] });
    if (body["stream"] !== true) {
      return Response.json({ ...choice({ message: { role: "assistant", content }, finish_reason: "stop" }), object: "chat.completion" });
    }
    const chunks = [choice({ delta: { role: "assistant", content } }), choice({ delta: {}, finish_reason: "stop" })];
    const frames = chunks.map((chunk) => `data: ${JSON.stringify({ ...chunk, object: "chat.completion.chunk" })}\n\n`);
    return new Response(`${frames.join("")}data: [DONE]\n\n`, { headers: { "content-type": "text/event-stream" } });
  };
}

function refusing(status: number, type: string, message: string, headers: Readonly<Record<string, string>> = {}): Script {
  return () => Response.json({ type: "error", error: { type, message }, request_id: "req_1" }, { status, headers });
}

function post(path: string, body: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body,
  });
}

const rich = [
  thinking("Thinking it over.", "sig+of/the=upstream"),
  redacted("encrypted"),
  text("Grüß Gott 🚰"),
  toolUse("toolu_1", "weather", { town: "Ulm" }),
];

describe("a client of the Messages API, over a channel that speaks it", () => {
  test.each([true, false])("exchanges the bytes with it (streamed: %p)", async (stream) => {
    const asked = `{ "messages": [{"role":"user","content":"h\\u00e9"}], "model" : "asked", "unknown_field": 1.0, "max_tokens":50,\n "tools": [{"type":"web_search_20250305","name":"web_search"}], "stream": ${stream} }`;
    let sent = "";
    upstream.next(async (request) => {
      const answer = await answering([...rich, { type: "server_tool_use", id: "s", name: "web_search", input: {} }])(request);
      sent = await answer.clone().text();
      return answer;
    });
    const answer = await post("/v1/messages?beta=true", asked, { "anthropic-version": "2026-10-21", "anthropic-beta": "a-1,b-2" });
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe(sent);
    expect(upstream.requests.map(({ path, text: body }) => [path, body])).toEqual([
      ["/v1/messages", asked.replace('"asked"', '"claude-opus-5-5"')],
    ]);
    const { headers } = upstream.requests[0]!;
    expect(["x-api-key", "authorization", "anthropic-version", "anthropic-beta"].map((name) => headers.get(name))).toEqual([
      "sk-of-the-upstream",
      null,
      "2026-10-21",
      "a-1,b-2",
    ]);
    const line = await gateway.waitForLog((one) => one["event"] === "call" && one["id"] === answer.headers.get("x-request-id"));
    expect(line).toMatchObject({ status: 200, prompt_tokens: 60, completion_tokens: 12 });
  });

  test.each(["asked", "compatible"])("reads the answers of %s with the official client, streamed and whole", async (model) => {
    const params = { model, max_tokens: 50, messages: [{ role: "user" as const, content: "x" }] };
    for (const stream of [true, false]) {
      upstream.next(answering(rich));
      const message = stream ? await anthropic.messages.stream(params).finalMessage() : await anthropic.messages.create(params);
      expect(message).toMatchObject({ id: "msg_of_the_upstream", content: rich, stop_reason: "tool_use" });
      expect(message.usage).toMatchObject({ input_tokens: 10, cache_read_input_tokens: 30, output_tokens: 12 });
    }
    expect(upstream.requests.map(({ path }) => path)).toEqual(["/v1/messages", "/v1/messages"]);
  });

  test("does not send thoughts there that nobody signed, or that the gateway sealed for another channel", async () => {
    const thought = (signature: string): object => ({ type: "thinking", thinking: "t", signature });
    const messages = (...blocks: readonly object[]): object[] => [
      { role: "user", content: "x" },
      { role: "assistant", content: [...blocks, { type: "text", text: "y" }] },
      { role: "user", content: "z" },
    ];
    const all = messages(thought("own"), thought(""), thought("sluice-v1.x"));
    const asked = (model: string): string => JSON.stringify({ model, max_tokens: 9, messages: all });
    for (const model of ["asked", "compatible"]) await (await post("/v1/messages", asked(model))).arrayBuffer();
    // Another maker's model may not sign its thoughts, and need them back.
    expect(upstream.bodies.map((body) => body["messages"])).toEqual([messages(thought("own")), messages(thought("own"), thought(""))]);
  });

  test("asks for no more tokens than the channel allows, for thinking neither", async () => {
    const params = { model: "low", messages: [{ role: "user" as const, content: "x" }] };
    await anthropic.messages.create({ ...params, max_tokens: 8000, thinking: { type: "enabled", budget_tokens: 4000 } });
    await anthropic.messages.create({ ...params, max_tokens: 1500 });
    expect(upstream.bodies.map(({ max_tokens, thinking: asked }) => [max_tokens, asked])).toEqual([
      [2000, { type: "enabled", budget_tokens: 1999 }],
      [1500, undefined],
    ]);
  });

  test("is answered by a channel that speaks another API where that one fails, and back", async () => {
    const ask = (model: string, stream: boolean): Promise<Anthropic.Message> => {
      const params = { model, max_tokens: 50, messages: [{ role: "user" as const, content: "x" }] };
      return stream ? anthropic.messages.stream(params).finalMessage() : anthropic.messages.create(params);
    };
    for (const stream of [true, false]) {
      expect((await ask("failing", stream)).content).toMatchObject([{ type: "text", text: "From the reserve." }]);
      expect((await ask("back", stream)).content).toMatchObject([{ type: "text", text: "Hello, you." }]);
    }
  });
});

describe("a client of the Responses API, over a channel that speaks Messages", () => {
  const tools: OpenAI.Responses.Tool[] = [
    { type: "function", name: "weather", description: "The weather.", parameters: { type: "object", properties: {} }, strict: false },
  ];
  const params = { model: "asked", tools, reasoning: { effort: "high" as const }, include: ["reasoning.encrypted_content" as const] };
  const question: OpenAI.Responses.EasyInputMessage = { role: "user", content: "Weather?" };

  test.each([true, false])("keeps the thoughts over a tool loop (streamed: %p)", async (stream) => {
    const ask = (input: OpenAI.Responses.ResponseInput): Promise<OpenAI.Responses.Response> =>
      stream ? openai.responses.stream({ ...params, input }).finalResponse() : openai.responses.create({ ...params, input });
    upstream.next(answering(rich));
    const first = await ask([{ role: "developer", content: "Be brief." }, question]);
    expect(first.output.map(({ type }) => type)).toEqual(["reasoning", "reasoning", "message", "function_call"]);
    expect(JSON.stringify(first.output)).not.toContain("sig+of/the=upstream");
    expect(first.usage).toMatchObject({ input_tokens: 60, input_tokens_details: { cached_tokens: 30 }, output_tokens: 12 });
    const result: OpenAI.Responses.ResponseInputItem = { type: "function_call_output", call_id: "toolu_1", output: "sunny" };
    const second = await ask([
      { role: "developer", content: "Be brief." },
      question,
      ...(first.output as OpenAI.Responses.ResponseInputItem[]),
      result,
    ]);
    expect(second.output_text).toBe("Hello, you.");
    const [sent, again] = upstream.bodies as [Record<string, unknown>, Record<string, unknown>];
    expect(sent).toMatchObject({
      model: "claude-opus-5-5",
      max_tokens: 128_000,
      system: [{ type: "text", text: "Be brief." }],
      messages: [{ role: "user", content: [{ type: "text", text: "Weather?" }] }],
      tools: [{ name: "weather", description: "The weather.", input_schema: { type: "object", properties: {} } }],
      thinking: { type: "adaptive" },
      output_config: { effort: "high" },
    });
    expect(upstream.requests.map(({ headers }) => headers.get("anthropic-version"))).toEqual(["2023-06-01", "2023-06-01"]);
    expect(again["messages"]).toEqual([
      { role: "user", content: [{ type: "text", text: "Weather?" }] },
      { role: "assistant", content: rich },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "sunny" }] }] },
    ]);
    expect({ ...again, messages: null }).toEqual({ ...sent, messages: null });
  });

  test.each([
    ["max_tokens", { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }],
    ["refusal", { status: "incomplete", incomplete_details: { reason: "content_filter" } }],
  ] as const)("is told that an answer ended early: %s", async (reason, expected) => {
    upstream.next(answering([text("Hel")], { stop_reason: reason }));
    expect(await openai.responses.create({ model: "asked", input: "x" })).toMatchObject(expected);
  });

  test("gives custom tools their text", async () => {
    upstream.next(answering([toolUse("toolu_2", "apply_patch", { input: "*** Begin\n" })]));
    const stream = openai.responses.stream({ model: "asked", input: "x", tools: [{ type: "custom", name: "apply_patch" }] });
    expect((await stream.finalResponse()).output).toMatchObject([{ type: "custom_tool_call", name: "apply_patch", input: "*** Begin\n" }]);
  });
});

describe("a client of chat completions, over a channel that speaks Messages", () => {
  const weather = { type: "function" as const, function: { name: "weather", parameters: { type: "object", properties: {} } } };
  const question = { role: "user" as const, content: "Weather?" };

  test.each([true, false])("keeps the thoughts over a tool loop (streamed: %p)", async (stream) => {
    const params = { model: "older", reasoning_effort: "low" as const, tools: [weather], max_completion_tokens: 9000 };
    const ask = async (messages: OpenAI.ChatCompletionMessageParam[]): Promise<OpenAI.ChatCompletionMessage> => {
      const completion = stream
        ? await openai.chat.completions.stream({ ...params, messages, stream_options: { include_usage: true } }).finalChatCompletion()
        : await openai.chat.completions.create({ ...params, messages });
      expect(completion.usage).toMatchObject({ prompt_tokens: 60, completion_tokens: 12 });
      return completion.choices[0]!.message;
    };
    upstream.next(answering(rich));
    const first = await ask([question]);
    expect(first).toMatchObject({
      content: "Grüß Gott 🚰",
      tool_calls: [{ id: "toolu_1", type: "function", function: { name: "weather", arguments: '{"town":"Ulm"}' } }],
    });
    const second = await ask([question, first, { role: "tool", tool_call_id: "toolu_1", content: "sunny" }]);
    expect(second.content).toBe("Hello, you.");
    const [sent, again] = upstream.bodies as [Record<string, unknown>, Record<string, unknown>];
    expect(sent).toMatchObject({ model: "claude-sonnet-4-5", max_tokens: 9000, thinking: { type: "enabled", budget_tokens: 4904 } });
    expect(again["messages"]).toMatchObject([
      { role: "user" },
      { role: "assistant", content: rich },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "sunny" }] }] },
    ]);
  });

  test("is told what could not be carried", async () => {
    const { response } = await openai.chat.completions
      .create({ model: "asked", messages: [question], temperature: 0.5, seed: 7 })
      .withResponse();
    expect(response.headers.get("x-sluice-dropped-params")?.split(/,\s*/)).toEqual(["temperature", "seed"]);
  });
});

describe("an upstream that breaks off", () => {
  const firstOutput = cut.findIndex(({ type }) => type === "content_block_delta");
  const firstText = cut.findLastIndex(({ type }) => type === "content_block_start") + 1;
  const lastEvent = cut.length - 1;

  /** What a client of each API took for an answer; null where it was told of a failure. */
  const clients: Readonly<Record<string, (model: string) => Promise<string | null>>> = {
    messages: async (model) => {
      const stream = anthropic.messages.stream({ model, max_tokens: 50, messages: [{ role: "user", content: "x" }] });
      const open: number[] = [];
      for await (const event of stream) {
        if (event.type === "content_block_start") expect(event.index).toBe(open.push(event.index) - 1);
      }
      return (await stream.finalMessage()).content.map((block) => (block.type === "text" ? block.text : "")).join("");
    },
    responses: async (model) => {
      const stream = openai.responses.stream({ model, input: "x" });
      for await (const event of stream) if (event.type === "response.failed") return null;
      return (await stream.finalResponse()).output_text;
    },
    chat: async (model) => {
      const answer = await openai.chat.completions.stream({ model, messages: [{ role: "user", content: "x" }] }).finalChatCompletion();
      return answer.choices[0]?.message.content ?? "";
    },
  };

  test.each(Object.entries(clients))("after any event is followed by another channel, or told to a client of %s", async (name, ask) => {
    for (let count = 0; count <= cut.length; count += 1) {
      const answer = await ask(`${name}-cut-${count}`).catch(() => null);
      // Thoughts are followed by another answer; a text that the reserve does not continue is broken off.
      const expected = count >= lastEvent ? "Hello there, you over there." : count <= firstText ? "From the reserve." : null;
      expect([count, count <= firstOutput, answer]).toEqual([count, count <= firstOutput, expected]);
    }
  });

  const fallback: ScriptedBlock = { type: "fallback", from: { model: "claude-x" }, to: { model: "claude-y" } };

  test.each([
    ["", []],
    [", also after a block that no other API has", [fallback]],
  ])("in the middle of a text is continued by a channel that speaks another API%s", async (_, before) => {
    const begun = "Once upon a time there was a king who had three daughters, and the youngest";
    const events = messageEvents([...before, text(begun)]).slice(0, 5 + 2 * before.length);
    const stream = async (): Promise<Anthropic.Message> =>
      anthropic.messages.stream({ model: "shared", max_tokens: 500, messages: [{ role: "user", content: "x" }] }).finalMessage();
    upstream.next(() => new Response(messageStream(events), { headers: { "content-type": "text/event-stream" } }));
    reserve.next((request) => {
      const asked = (request.body["messages"] as { content: string }[]).at(-1)!.content;
      const end = /-----\n([^]*)\n-----/.exec(asked)?.[1] ?? "";
      return completing(`${end} was very beautiful.`)(request);
    });
    expect((await stream()).content as object[]).toMatchObject([...before, { type: "text", text: `${begun} was very beautiful.` }]);
  });
});

describe("an upstream that refuses", () => {
  const errors = [
    [400, "invalid_request_error", "messages.0: no.", 400, "invalid_request_error"],
    [400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", 400, "invalid_request_error"],
    [400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", 502, "api_error"],
    [401, "authentication_error", "invalid x-api-key", 502, "api_error"],
    [404, "not_found_error", "model: claude-nine", 502, "api_error"],
    [413, "request_too_large", "Request exceeds the maximum size", 413, "request_too_large"],
    [429, "rate_limit_error", "Number of request tokens has exceeded your per-minute rate limit", 429, "rate_limit_error"],
    [500, "api_error", "Internal server error", 502, "api_error"],
    [529, "overloaded_error", "Overloaded", 529, "overloaded_error"],
  ] as const;

  /** A channel for each, so that what it taught one call decides no other. */
  const cases = errors.flatMap((error, at) => [true, false].map((stream) => ({ error, stream, model: `refused-${at}-${stream}` })));
  let refuser: Scripted;
  let alone: Gateway;

  beforeAll(async () => {
    refuser = await startScripted((request) => {
      const [status, type, message] = cases.find(({ model }) => model === request.body["model"])!.error;
      return refusing(status, type, message)(request);
    });
    const channels = cases.map(({ model }) => ({
      name: model,
      provider: "anthropic",
      base_url: refuser.url,
      api_key: `sk-of-${model}`,
      models: [model],
    }));
    alone = await startGateway({ config: { keys: [{ name: "client", key }], channels } });
  });

  afterAll(async () => {
    await alone.kill();
    await refuser.close();
  });

  test.each(errors)("with %d %s (%s) gives a client %d", async (...error) => {
    const [, , , expected, expectedType] = error;
    const own = cases.filter((one) => one.error[2] === error[2]);
    expect(own).toHaveLength(2);
    for (const { model, stream } of own) {
      const answer = await fetch(`${alone.url}/v1/messages`, {
        method: "POST",
        headers: { "x-api-key": key, "content-type": "application/json", "anthropic-version": "2023-06-01" },
        body: JSON.stringify({ model, max_tokens: 9, messages: [{ role: "user", content: "x" }], stream }),
      });
      expect([answer.status, await answer.json()]).toMatchObject([expected, { type: "error", error: { type: expectedType } }]);
    }
  });
});

test("the models of a channel are discovered, page by page", async () => {
  const page = (id: string, has_more: boolean): Response => Response.json({ data: [{ type: "model", id }], has_more, last_id: id });
  await using lone = await startListing(({ path, headers }) => {
    if (headers.get("anthropic-version") === null) return new Response("", { status: 400 });
    return path === "/v1/models?limit=1000"
      ? page("claude-a", true)
      : path.endsWith("&after_id=claude-a")
        ? page("claude-b", false)
        : page("x", false);
  });
  const list = async (): Promise<readonly string[]> => {
    const answer = await fetch(`${lone.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
    return ((await answer.json()) as { data: { id: string }[] }).data.map(({ id }) => id);
  };
  for (let tries = 0; tries < 100 && (await list()).length < 2; tries += 1) await Bun.sleep(50);
  expect((await list()).toSorted()).toEqual(["claude-a", "claude-b"]);
});

async function startListing(script: Script): Promise<{ readonly url: string } & AsyncDisposable> {
  const only = await startScripted(script);
  const channels = [{ name: "only", provider: "anthropic", base_url: only.url, api_key: "k" }];
  const alone = await startGateway({ config: { keys: [{ name: "client", key }], channels } });
  return {
    url: alone.url,
    async [Symbol.asyncDispose](): Promise<void> {
      await alone.kill();
      await only.close();
    },
  };
}

describe("a request to count tokens", () => {
  const prompt = { messages: [{ role: "user" as const, content: "hi" }], system: "Be brief." };
  const count = (model: string) => anthropic.messages.countTokens({ model, ...prompt }).withResponse();

  test("is answered by a channel that speaks the API, which gets it as it is", async () => {
    upstream.next(() => Response.json({ input_tokens: 4711 }));
    const { data, response } = await count("asked");
    expect([data.input_tokens, response.headers.get("x-sluice-token-count")]).toEqual([4711, "upstream"]);
    expect(upstream.requests.map(({ path, body }) => [path, body])).toEqual([
      ["/v1/messages/count_tokens", { model: "claude-opus-5-5", ...prompt }],
    ]);
  });

  test.each<[string, Script]>([
    ["refuses it", refusing(404, "not_found_error", "Not found")],
    ["answers with something else", () => Response.json({ input_tokens: "many" })],
  ])("is answered with an estimate where the channel %s, which stays in use", async (_, script) => {
    upstream.next(script);
    const { data, response } = await count("asked");
    expect(data.input_tokens).toBeWithin(5, 50);
    expect(response.headers.get("x-sluice-token-count")).toBe("estimated");
    expect((await anthropic.messages.create({ model: "asked", max_tokens: 5, ...prompt })).type).toBe("message");
  });

  test("is answered with an estimate where the channel that would answer cannot count", async () => {
    const { response } = await count("back");
    expect(response.headers.get("x-sluice-token-count")).toBe("estimated");
    expect([...upstream.requests, ...reserve.requests]).toEqual([]);
  });
});

describe("thoughts whose signature the upstream refuses", () => {
  const refused = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.";
  const refuse = refusing(400, "invalid_request_error", refused);
  const turns = [
    { role: "user" as const, content: "hi" },
    {
      role: "assistant" as const,
      content: [thinking("Hm.", "sig"), text("Hello."), redacted("data")] as unknown as Anthropic.ContentBlock[],
    },
    { role: "user" as const, content: "again" },
  ];
  const ask = () =>
    anthropic.messages.create({
      model: "asked",
      max_tokens: 50,
      messages: turns,
      tools: [{ type: "web_search_20250305", name: "web_search" }],
    });

  test("are left out of a second request to it, which is said", async () => {
    upstream.next(refuse);
    const { data, response } = await ask().withResponse();
    expect(data.content).toEqual([text("Hello, you.")] as unknown as typeof data.content);
    expect(response.headers.get("x-sluice-dropped-params")).toBe("thinking");
    expect(upstream.bodies.map(({ messages }) => messages)).toEqual([
      turns,
      [turns[0], { role: "assistant", content: [text("Hello.")] }, turns[2]],
    ]);
  });

  test("are tried without once and not again: the client reads why", async () => {
    upstream.next(refuse);
    upstream.next(refuse);
    const error = await ask().then(
      () => null,
      (cause: unknown) => cause as InstanceType<typeof Anthropic.APIError>,
    );
    expect([error?.status, error?.message.includes(refused)]).toEqual([400, true]);
    expect(upstream.requests).toHaveLength(2);
  });

  test("are left out for a client of another API, too", async () => {
    upstream.next(answering([thinking("Hm.", "sig"), text("Hello.")]));
    const user = { role: "user" as const, content: "hi" };
    const { choices } = await openai.chat.completions.create({ model: "asked", reasoning_effort: "high", messages: [user] });
    upstream.next(refuse);
    await openai.chat.completions.create({ model: "asked", reasoning_effort: "high", messages: [user, choices[0]!.message, user] });
    const [, first, second] = upstream.requests.map((request) => request.text);
    expect([first?.includes('"sig"'), second?.includes('"sig"'), second?.includes("Hello.")]).toEqual([true, false, true]);
  });
});

test("a client that says how long it waits gets an error in time, if the answer is not streamed", async () => {
  const { promise: never, resolve } = Promise.withResolvers<Response>();
  upstream.next(() => never);
  const body = JSON.stringify({ model: "asked", max_tokens: 5, messages: [{ role: "user", content: "hi" }] });
  const { status } = await post("/v1/messages", body, { "x-stainless-timeout": "1" });
  resolve(new Response());
  expect(status).toBe(504);
  expect(upstream.requests).toHaveLength(1);
});
