import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { HumanMessage, ToolMessage, type AIMessageChunk } from "@langchain/core/messages";
import { tool as langchainTool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { generateText, stepCountIs, streamText, tool, type LanguageModel } from "ai";
import OpenAI, { APIConnectionError, APIError, BadRequestError, InternalServerError } from "openai";
import { z } from "zod";
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
/** Speaks the Messages API. */
let claude: Scripted;
/** Speaks the client's own API. */
let native: Scripted;
let gateway: Gateway;
let client: OpenAI;

beforeAll(async () => {
  claude = await startScripted(answering([text("Hello, you.")]));
  native = await startScripted(() => Response.json(completion("native")));
  const messages = { dialect: "anthropic", base_url: claude.url.replace(/\/v1$/, ""), api_key: "sk-of-the-upstream" };
  const chat = { base_url: native.url, api_key: "sk-of-the-other" };
  const models = { mixed: "claude-sonnet-4-5" };
  gateway = await startGateway({
    config: {
      keys: [{ name: "client", key }],
      channels: [
        { ...messages, name: "claude", models: { asked: "claude-sonnet-4-5" } },
        { ...messages, name: "first", models },
        { ...chat, name: "second", tier: 2, models },
        { ...chat, name: "front", models: { back: "claude-sonnet-4-5" } },
        { ...messages, name: "rear", tier: 2, models: { back: "claude-sonnet-4-5" } },
      ],
    },
  });
  client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
});

beforeEach(() => {
  claude.requests.length = 0;
  native.requests.length = 0;
});

afterAll(async () => {
  await gateway.kill();
  await Promise.all([claude.close(), native.close()]);
});

/** Answers with a message, streamed if that is asked for. `events`: only so many of them. */
function answering(blocks: readonly ScriptedBlock[], more: Readonly<Record<string, unknown>> = {}, events = Infinity): Script {
  return ({ body }) =>
    body["stream"] === true
      ? eventsResponse([messageStream(messageEvents(blocks, more).slice(0, events))])
      : Response.json(scriptedMessage(blocks, more));
}

function eventsResponse(events: readonly string[]): Response {
  return new Response(events.join(""), { headers: { "content-type": "text/event-stream" } });
}

function completion(...answers: readonly string[]): object {
  const choices = answers.map((content, index) => ({ index, message: { role: "assistant", content }, finish_reason: "stop" }));
  return { id: "chatcmpl-native", object: "chat.completion", created: 1, model: "claude-sonnet-4-5", choices };
}

const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Say something." }];
const weather: OpenAI.ChatCompletionTool = {
  type: "function",
  function: { name: "weather", parameters: { type: "object", properties: { town: { type: "string" } }, required: ["town"] } },
};

async function failureOf(calling: PromiseLike<unknown>): Promise<unknown> {
  return calling.then(
    () => null,
    (error: unknown) => error,
  );
}

type Asked = Omit<OpenAI.ChatCompletionCreateParamsNonStreaming, "stream">;

/** The answer to a request, whole or put together by the client from a stream. */
async function answerTo(asked: Asked, stream: boolean): Promise<OpenAI.ChatCompletion> {
  if (!stream) return client.chat.completions.create(asked);
  return client.chat.completions.stream({ ...asked, stream: true, stream_options: { include_usage: true } }).finalChatCompletion();
}

describe("the official client of the chat API, over a channel that speaks the Messages API", () => {
  test.each([false, true])("gets an answer, with its usage (streamed: %p)", async (stream) => {
    const { choices, usage, object, id } = await answerTo({ model: "asked", messages, max_completion_tokens: 100 }, stream);
    expect(choices[0]).toMatchObject({ index: 0, finish_reason: "stop", message: { role: "assistant", content: "Hello, you." } });
    expect(object).toMatch(/^chat\.completion/);
    expect(id).toMatch(/^chatcmpl-/);
    // Here, what went through a cache is a part of the prompt.
    expect(usage).toMatchObject({
      ...{ prompt_tokens: 60, completion_tokens: 12, total_tokens: 72 },
      prompt_tokens_details: { cached_tokens: 30, cache_write_tokens: 20 },
    });
    expect(claude.requests[0]?.path).toBe("/v1/messages");
    expect(claude.bodies[0]).toMatchObject({ model: "claude-sonnet-4-5", max_tokens: 100, messages: [{ role: "user" }] });
  });

  test("streams no usage that it did not ask for", async () => {
    const stream = await client.chat.completions.create({ model: "asked", messages, stream: true });
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("")).toBe("Hello, you.");
    expect(chunks.some((chunk) => "usage" in chunk)).toBe(false);
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
  });

  test.each([false, true])("calls several tools at once (streamed: %p)", async (stream) => {
    const calls = ["Ulm", "Zürich"].map((town, index) => ({ id: `toolu_${index}`, name: "weather", input: { town } }));
    claude.next(answering([text("Let me see."), ...calls.map(({ id, name, input }) => toolUse(id, name, input))]));
    const { choices } = await answerTo({ model: "asked", messages, tools: [weather], tool_choice: "required" }, stream);
    expect(choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: {
        content: "Let me see.",
        tool_calls: calls.map(({ id, name, input }) => ({ id, type: "function", function: { name, arguments: JSON.stringify(input) } })),
      },
    });
    expect(claude.bodies[0]).toMatchObject({ tools: [{ name: "weather" }], tool_choice: { type: "any" } });
  });

  test.each([false, true])("returns every thought with its signature, through five turns with tools (streamed: %p)", async (stream) => {
    const history: OpenAI.ChatCompletionMessageParam[] = [...messages];
    for (let turn = 0; turn < 5; turn++) {
      claude.next(answering(thinkingTurn(turn)));
      const { choices } = await answerTo({ model: "asked", messages: history, tools: [weather], reasoning_effort: "high" }, stream);
      const { message } = choices[0]!;
      const call = message.tool_calls![0]!;
      history.push(message, { role: "tool", tool_call_id: call.id, content: `result ${turn}` });
    }
    await answerTo({ model: "asked", messages: history, tools: [weather], reasoning_effort: "high" }, stream);
    const sent = claude.bodies[5]!["messages"] as readonly { role: string; content: readonly Record<string, unknown>[] }[];
    const answers = sent.filter(({ role }) => role === "assistant");
    expect(answers.map(({ content }) => content.filter(({ type }) => type !== "text"))).toEqual(
      [0, 1, 2, 3, 4].map((turn) => [...thinkingTurn(turn)]),
    );
    // What was sent before is the beginning of what is sent now: the upstream's cache and its signatures depend on it.
    for (const [turn, body] of claude.bodies.slice(0, 5).entries()) {
      expect(JSON.stringify(sent.slice(0, 1 + 2 * turn))).toBe(JSON.stringify(body["messages"]));
    }
  });

  test("is told why an answer ended", async () => {
    for (const stream of [false, true]) {
      claude.next(answering([text("Once")], { stop_reason: "max_tokens" }));
      expect((await answerTo({ model: "asked", messages }, stream)).choices[0]?.finish_reason).toBe("length");
    }
  });

  test("gets its own errors", async () => {
    const refusing = (status: number, type: string): Script => {
      return () => Response.json({ type: "error", error: { type, message: "No." } }, { status });
    };
    claude.next(refusing(400, "invalid_request_error"));
    expect(await failureOf(client.chat.completions.create({ model: "asked", messages }))).toBeInstanceOf(BadRequestError);
    const usual = refusing(529, "overloaded_error");
    for (let attempt = 0; attempt < 3; attempt++) claude.next(usual);
    expect(await failureOf(client.chat.completions.create({ model: "asked", messages }))).toBeInstanceOf(InternalServerError);
  });

  test("gets an error, and no end, where a stream breaks off", async () => {
    claude.next(answering([text("Hello, you.")], {}, 4));
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    const failed = await failureOf(
      (async () => {
        for await (const chunk of await client.chat.completions.create({ model: "asked", messages, stream: true })) chunks.push(chunk);
      })(),
    );
    expect(failed).toBeInstanceOf(APIError);
    expect(failed).not.toBeInstanceOf(APIConnectionError);
    expect(chunks.length).toBeGreaterThan(0);
    expect(chunks.some(({ choices }) => choices[0]?.finish_reason != null)).toBe(false);
  });

  test("is told what was left out, and what cannot be done", async () => {
    const { response } = await client.chat.completions
      .create({ model: "asked", messages, logit_bias: { "5": 1 }, store: true })
      .withResponse();
    expect(response.headers.get("x-sluice-dropped-params")?.split(", ").toSorted()).toEqual(["logit_bias", "store"]);
    const failed = (await failureOf(client.chat.completions.create({ model: "asked", messages, n: 2 }))) as APIError;
    expect(failed).toBeInstanceOf(BadRequestError);
    expect(failed).toMatchObject({ param: "n", code: "unsupported_parameter" });
    expect(claude.requests).toHaveLength(1);
  });
});

function thinkingTurn(turn: number): readonly ScriptedBlock[] {
  return [
    thinking(`Thought ${turn}.`, `sig/${turn}+==`),
    redacted(`redacted-${turn}`),
    toolUse(`toolu_${turn}`, "weather", { town: `town ${turn}` }),
  ];
}

describe("over a channel of the Messages API and one of its own", () => {
  test("it gets several answers from the one that can", async () => {
    native.next(() => Response.json(completion("one", "two")));
    const { choices } = await client.chat.completions.create({ model: "mixed", messages, n: 2 });
    expect(choices.map(({ message }) => message.content)).toEqual(["one", "two"]);
    expect(claude.requests).toHaveLength(0);
  });

  test("the other goes on with a text that breaks off, whichever is first", async () => {
    const chunk = (delta: object, finish_reason: string | null = null): string =>
      `data: ${JSON.stringify({ id: "chatcmpl-native", object: "chat.completion.chunk", created: 1, model: "n", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
    const told = "Once upon a time there was a fountain in the middle of the town";
    const rest = ", and it never ran dry.";
    const nativeEvents = [chunk({ role: "assistant", content: told }), chunk({ content: rest }), chunk({}, "stop"), "data: [DONE]\n\n"];

    claude.next(answering([text(told)], {}, 4));
    native.next(() => eventsResponse(nativeEvents));
    const first = await client.chat.completions.stream({ model: "mixed", messages }).finalChatCompletion();
    expect(first.choices[0]?.message).toMatchObject({ role: "assistant", content: told + rest });

    native.next(() => eventsResponse(nativeEvents.slice(0, 1)));
    claude.next(answering([text(told + rest)]));
    const ids = new Set<string>();
    const stream = client.chat.completions.stream({ model: "back", messages });
    stream.on("chunk", ({ id }) => void ids.add(id));
    const second = await stream.finalChatCompletion();
    expect(second.choices[0]).toMatchObject({ finish_reason: "stop", message: { role: "assistant", content: told + rest } });
    expect([...ids]).toEqual(["chatcmpl-native"]);
  });

  test("what was sealed for the one is not sent to the other", async () => {
    claude.next(answering(thinkingTurn(0)));
    const { choices } = await client.chat.completions.create({ model: "mixed", messages, tools: [weather], reasoning_effort: "high" });
    const { message } = choices[0]!;
    expect(message).toMatchObject({ reasoning_details: [{ type: "reasoning.encrypted" }, { type: "reasoning.encrypted" }] });
    const history: OpenAI.ChatCompletionMessageParam[] = [
      ...messages,
      message,
      { role: "tool", tool_call_id: "toolu_0", content: "sunny" },
    ];
    await client.chat.completions.create({ model: "back", messages: history });
    expect(JSON.stringify(native.bodies[0])).not.toContain("sluice-v1.");
    expect(native.bodies[0]).toMatchObject({ messages: [{}, { tool_calls: [{ id: "toolu_0" }] }, { tool_call_id: "toolu_0" }] });
  });
});

describe("other clients of the chat API, over a channel that speaks the Messages API", () => {
  const providers: Readonly<Record<string, (baseURL: string) => LanguageModel>> = {
    "@ai-sdk/openai-compatible": (baseURL) => createOpenAICompatible({ name: "sluice", apiKey: key, baseURL, includeUsage: true })("asked"),
    "@ai-sdk/openai": (baseURL) => createOpenAI({ apiKey: key, baseURL }).chat("asked"),
  };

  test.each(Object.entries(providers))("%s calls a tool and goes on to an answer, streamed and whole", async (name, provide) => {
    for (const stream of [false, true]) {
      const towns: string[] = [];
      claude.next(answering(thinkingTurn(0)));
      const execute = async ({ town }: { town: string }): Promise<string> => {
        towns.push(town);
        return "sunny";
      };
      const options = {
        model: provide(`${gateway.url}/v1`),
        prompt: "Weather?",
        tools: { weather: tool({ inputSchema: z.object({ town: z.string() }), execute }) },
        stopWhen: stepCountIs(3),
      };
      const errors: unknown[] = [];
      const result = stream ? streamText({ ...options, onError: ({ error }) => void errors.push(error) }) : await generateText(options);
      expect(await result.text).toBe("Hello, you.");
      expect(await result.finishReason).toBe("stop");
      expect(errors).toEqual([]);
      expect(towns).toEqual(["town 0"]);
      const [first] = await result.steps;
      expect(first?.finishReason).toBe("tool-calls");
      if (name.endsWith("compatible")) expect(first?.reasoningText).toBe("Thought 0.");
      expect(first?.usage).toMatchObject({ inputTokens: 60, outputTokens: 12 });
      expect(claude.bodies.at(-1)).toMatchObject({
        messages: [{ role: "user" }, { role: "assistant" }, { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_0" }] }],
      });
    }
  });

  test("LangChain calls a tool and goes on to an answer, streamed and whole", async () => {
    const declared = langchainTool(() => "sunny", { name: "weather", description: "d", schema: z.object({ town: z.string() }) });
    const chat = new ChatOpenAI({ model: "asked", apiKey: key, maxRetries: 0, configuration: { baseURL: `${gateway.url}/v1` } });
    const model = chat.bindTools([declared]);
    const gathered = async (chunks: AsyncIterable<AIMessageChunk>): Promise<AIMessageChunk> => {
      let whole: AIMessageChunk | null = null;
      for await (const chunk of chunks) whole = whole === null ? chunk : whole.concat(chunk);
      if (whole === null) throw new Error("the stream was empty");
      return whole;
    };
    for (const stream of [false, true]) {
      claude.next(answering(thinkingTurn(0)));
      const asked = [new HumanMessage("Weather?")];
      const called = stream ? await gathered(await model.stream(asked)) : await model.invoke(asked);
      expect(called.tool_calls).toMatchObject([{ id: "toolu_0", name: "weather", args: { town: "town 0" } }]);
      expect(called.usage_metadata).toMatchObject({ input_tokens: 60, output_tokens: 12, input_token_details: { cache_read: 30 } });
      const result = new ToolMessage({ content: "sunny", tool_call_id: "toolu_0" });
      const answered = stream
        ? await gathered(await model.stream([...asked, called, result]))
        : await model.invoke([...asked, called, result]);
      expect(answered.text).toBe("Hello, you.");
    }
  });
});
