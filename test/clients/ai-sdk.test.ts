import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateObject, generateText, Output, stepCountIs, streamText, tool, type LanguageModel } from "ai";
import { z } from "zod";
import { openWorld, type World } from "../support/client-world.ts";
import { eventually } from "../support/eventually.ts";

setDefaultTimeout(60_000);
// `generateObject` is on its way out and says so; whoever still uses it must be served all the same.
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

/** A world for each provider: what one's faults taught the gateway must not decide what the other meets. */
function open(): Promise<World> {
  return openWorld({
    plain: "ok",
    paced: "fault:pace@5+tokens@2000",
    crlf: "fault:crlf",
    commented: "fault:comments",
    dripped: "fault:byte-by-byte+multi-byte",
    "no-done": "fault:no-done",
    "usage-on-finish": "fault:usage-on-finish-chunk",
    "status-400": "fault:status@400",
    "status-401": "fault:status@401",
    "status-500": "fault:status@500",
    "status-503": "fault:status@503",
    "broken-midway": "fault:rst-after@3",
    "ended-midway": "fault:end-after@3",
  });
}

let world: World;

/** The two providers that speak chat completions. */
const providers: Readonly<Record<string, (model: string) => LanguageModel>> = {
  "@ai-sdk/openai-compatible": (model) =>
    createOpenAICompatible({
      name: "sluice",
      apiKey: world.key,
      baseURL: world.baseURL,
      includeUsage: true,
      supportsStructuredOutputs: true,
    })(model),
  "@ai-sdk/openai": (model) => createOpenAI({ apiKey: world.key, baseURL: world.baseURL }).chat(model),
};

const prompt = "Say something.";
const Forecast = z.object({ city: z.string(), high: z.number(), sky: z.enum(["clear", "cloudy"]) });

async function errorOf(call: PromiseLike<unknown>): Promise<unknown> {
  return call.then(
    () => Promise.reject(new Error("the call succeeded")),
    (error: unknown) => error,
  );
}

/** Everything a stream tells: its text, the errors among its parts, how it finished. */
async function collected(result: ReturnType<typeof streamText>): Promise<{ text: string; errors: unknown[]; finish: string | null }> {
  let text = "";
  let finish: string | null = null;
  const errors: unknown[] = [];
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") text += part.text;
    if (part.type === "error") errors.push(part.error);
    if (part.type === "finish") finish = part.finishReason;
  }
  return { text, errors, finish };
}

function tokens(model: string): { inputTokens: number; outputTokens: number; totalTokens: number } {
  const usage = JSON.parse(world.lastAttempt(model).usageSent ?? "") as Record<string, number>;
  return { inputTokens: usage["prompt_tokens"]!, outputTokens: usage["completion_tokens"]!, totalTokens: usage["total_tokens"]! };
}

describe.each(Object.entries(providers))("%s", (_, provide) => {
  beforeAll(async () => {
    world = await open();
  });

  afterAll(async () => {
    await world.close();
  });

  test("generates text, with usage", async () => {
    const result = await generateText({ model: provide("plain"), prompt });
    expect(result.text).toBe(world.sent("plain"));
    expect(result.finishReason).toBe("stop");
    expect(result.usage).toMatchObject(tokens("plain"));
    expect(result.response.headers?.["x-request-id"]).toBeString();
  });

  test.each(["plain", "crlf", "commented", "dripped", "no-done", "usage-on-finish"])(
    "streams text from an upstream that is %s, and no part is an error",
    async (model) => {
      const result = streamText({ model: provide(model), prompt });
      expect(await collected(result)).toEqual({ text: world.sent(model), errors: [], finish: "stop" });
      expect(await result.usage).toMatchObject(tokens(model));
    },
  );

  test.each([false, true])("calls tools and goes on to an answer (streamed: %p)", async (streamed) => {
    const cities: string[] = [];
    const options = {
      model: provide("plain"),
      prompt,
      tools: {
        weather: tool({
          inputSchema: z.object({ city: z.string() }),
          execute: async ({ city }) => {
            cities.push(city);
            return "sunny";
          },
        }),
      },
      stopWhen: stepCountIs(3),
      // The upstream calls a tool when it is told to, and talks when it is not.
      prepareStep: ({ stepNumber }: { stepNumber: number }) => ({
        toolChoice: stepNumber === 0 ? ("required" as const) : ("auto" as const),
      }),
    };
    const result = streamed ? streamText(options) : await generateText(options);
    expect(await result.text).toBe(world.sent("plain"));
    expect((await result.steps).map((step) => step.finishReason)).toEqual(["tool-calls", "stop"]);
    expect(cities.length).toBe(1);
    const sent = world.received("plain")["messages"] as readonly Record<string, unknown>[];
    expect(sent.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
  });

  test("generates an object that fulfils its schema", async () => {
    const { object } = await generateObject({ model: provide("plain"), schema: Forecast, prompt });
    expect(object).toMatchObject({ high: 1.5, sky: "clear" });
    expect(world.received("plain")["response_format"]).toMatchObject({ type: "json_schema" });
  });

  test("streams an object that fulfils its schema", async () => {
    const result = streamText({ model: provide("plain"), output: Output.object({ schema: Forecast }), prompt });
    for await (const partial of result.partialOutputStream) expect(partial).toBeObject();
    expect(await result.output).toMatchObject({ high: 1.5, sky: "clear" });
  });

  test("shows an image to the upstream", async () => {
    const image = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
    await generateText({
      model: provide("plain"),
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            { type: "file", mediaType: "image/png", data: image },
          ],
        },
      ],
    });
    expect(world.received("plain")["messages"]).toMatchObject([
      { content: [{ type: "text" }, { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } }] },
    ]);
  });

  test.each([
    ["status-400", 400, false],
    ["status-401", 502, true],
    ["status-500", 502, true],
    ["status-503", 503, true],
  ])("raises %s with its status and message", async (model, statusCode, isRetryable) => {
    const error = await errorOf(generateText({ model: provide(model), prompt, maxRetries: 0 }));
    if (!APICallError.isInstance(error)) throw error;
    expect(error).toMatchObject({ statusCode, isRetryable });
    const { error: envelope } = JSON.parse(error.responseBody ?? "") as { error: { message: string } };
    expect(error.message).toBe(envelope.message);
  });

  test("asks once where the request itself is the mistake", async () => {
    const lines = await world.linesDuring(() => errorOf(generateText({ model: provide("status-400"), prompt })));
    expect(lines.length).toBe(1);
  });

  test.each(["broken-midway", "ended-midway"])("tells of a stream that is %s, after what came before", async (model) => {
    const { text, errors, finish } = await collected(streamText({ model: provide(model), prompt, onError: () => {} }));
    expect(text).toBe(world.sent(model));
    expect(errors.length).toBe(1);
    expect(finish).toBe("error");
  });

  test("closes the upstream when it is aborted", async () => {
    const controller = new AbortController();
    const result = streamText({ model: provide("paced"), prompt, abortSignal: controller.signal });
    for await (const part of result.fullStream) if (part.type === "text-delta") controller.abort();
    await eventually("the upstream sees the departure", () => world.lastAttempt("paced").endedBy === "client_closed", 2_000);
  });
});

describe("a user of the AI SDK", () => {
  beforeAll(async () => {
    world = await openWorld({ plain: "ok" });
  });

  afterAll(async () => {
    await world.close();
  });

  test("who calls @ai-sdk/openai without .chat() uses the Responses API", async () => {
    const model = createOpenAI({ apiKey: world.key, baseURL: world.baseURL })("plain");
    const { text, usage } = await generateText({ model, prompt });
    expect(text).toBe(world.sent("plain"));
    expect(usage.totalTokens).toBeGreaterThan(0);
    let streamed = "";
    for await (const piece of streamText({ model, prompt }).textStream) streamed += piece;
    expect(streamed).toBe(world.sent("plain"));
  });

  test("gets reasoning as a part of its own from the compatible provider", async () => {
    const delta = (value: object, finish: string | null = null): string =>
      `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta: value, finish_reason: finish }] })}\n\n`;
    const raw = `${delta({ role: "assistant", reasoning_content: "let me " })}${delta({ reasoning_content: "think" })}${delta({ content: "done" })}${delta({}, "stop")}data: [DONE]\n\n`;
    const model = createOpenAICompatible({ name: "sluice", apiKey: world.key, baseURL: world.baseURL })("plain");
    const result = streamText({ model, prompt, providerOptions: { sluice: { x_raw: raw } } });
    expect(await result.text).toBe("done");
    expect(await result.reasoningText).toBe("let me think");
  });
});
