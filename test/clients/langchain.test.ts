import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { AIMessage, HumanMessage, ToolMessage, type AIMessageChunk } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, type ChatOpenAIFields } from "@langchain/openai";
import { z } from "zod";
import { openWorld, type World } from "../support/client-world.ts";
import { eventually } from "../support/eventually.ts";

setDefaultTimeout(60_000);

let world: World;

beforeAll(async () => {
  world = await openWorld({
    plain: "ok",
    paced: "fault:pace@5+tokens@2000",
    crlf: "fault:crlf",
    commented: "fault:comments",
    "no-done": "fault:no-done",
    "usage-on-finish": "fault:usage-on-finish-chunk",
    "status-400": "fault:status@400",
    "status-500": "fault:status@500",
    "status-401": "fault:status@401",
    "status-429": "fault:status@429",
    "context-length": "fault:context-length",
    "broken-midway": "fault:rst-after@3",
  });
});

afterAll(async () => {
  await world.close();
});

/** With the library's own default of retries. */
function model(name: string, fields: ChatOpenAIFields = {}): ChatOpenAI {
  return new ChatOpenAI({ model: name, apiKey: world.key, configuration: { baseURL: world.baseURL }, ...fields });
}

async function gathered(chunks: AsyncIterable<AIMessageChunk>): Promise<AIMessageChunk> {
  let whole: AIMessageChunk | null = null;
  for await (const chunk of chunks) whole = whole === null ? chunk : whole.concat(chunk);
  if (whole === null) throw new Error("the stream was empty");
  return whole;
}

async function errorOf(call: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  return call.then(
    () => Promise.reject(new Error("the call succeeded")),
    (error: Error & Record<string, unknown>) => error,
  );
}

interface SentUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

function usageSent(name: string): Record<string, number> {
  const usage = JSON.parse(world.lastAttempt(name).usageSent ?? "") as SentUsage;
  return { input_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens, total_tokens: usage.total_tokens };
}

const weather = tool(({ city }) => `sunny in ${city}`, {
  name: "weather",
  description: "The weather of a city.",
  schema: z.object({ city: z.string() }),
});

describe("invoke", () => {
  test("gives the upstream's answer as an assistant message, with usage", async () => {
    const message = await model("plain").invoke("Say something.");
    expect(message).toBeInstanceOf(AIMessage);
    expect(message.text).toBe(world.sent("plain"));
    expect(message.usage_metadata).toMatchObject(usageSent("plain"));
    expect(message.response_metadata["finish_reason"]).toBe("stop");
  });
});

describe("stream", () => {
  test.each(["plain", "crlf", "commented", "no-done"])("of an upstream that is %s is gathered whole", async (name) => {
    const message = await gathered(await model(name).stream("Say something."));
    expect(message.text).toBe(world.sent(name));
    expect(message.getType()).toBe("ai");
  });

  test.each(["plain", "usage-on-finish"])("of an upstream that is %s has usage", async (name) => {
    const message = await gathered(await model(name).stream("Say something."));
    expect(message.usage_metadata).toMatchObject(usageSent(name));
  });

  test("that is broken off raises an error after what came before, and is asked for once", async () => {
    let text = "";
    const lines = await world.linesDuring(async () => {
      const error = await errorOf(
        (async () => {
          for await (const chunk of await model("broken-midway").stream("Say something.")) text += chunk.text;
        })(),
      );
      expect(error.message).toContain("interrupted");
    });
    expect(text).toBe(world.sent("broken-midway"));
    expect(lines.length).toBe(1);
  });

  test("that the client aborts is closed at the upstream", async () => {
    const controller = new AbortController();
    const reading = (async () => {
      for await (const chunk of await model("paced").stream("Say something.", { signal: controller.signal }))
        if (chunk.text !== "") controller.abort();
    })();
    await errorOf(reading);
    await eventually("the upstream sees the departure", () => world.lastAttempt("paced").endedBy === "client_closed", 2_000);
  });
});

describe("tools", () => {
  test.each([false, true])("are called, run and answered (streamed: %p)", async (streamed) => {
    const bound = model("plain").bindTools([weather], { tool_choice: "weather" });
    const question = new HumanMessage("How is the weather?");
    const called = streamed ? await gathered(await bound.stream([question])) : await bound.invoke([question]);
    expect(called.tool_calls).toMatchObject([{ name: "weather", type: "tool_call" }]);
    expect(called.tool_calls?.[0]?.args["city"]).toBeString();

    const [call] = called.tool_calls ?? [];
    const result: ToolMessage = await weather.invoke(call!);
    expect(result).toBeInstanceOf(ToolMessage);
    const answer = await model("plain").invoke([question, called, result]);
    expect(answer.text).toBe(world.sent("plain"));
    const sent = world.received("plain")["messages"] as readonly Record<string, unknown>[];
    expect(sent.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
    expect(sent.at(-1)).toMatchObject({ tool_call_id: call?.id, content: expect.stringContaining("sunny in") as unknown });
  });
});

describe("structured output", () => {
  const Forecast = z.object({ city: z.string(), high: z.number(), sky: z.enum(["clear", "cloudy"]) });

  test.each(["jsonSchema", "functionCalling"] as const)("by %s fulfils its schema", async (method) => {
    const forecast = await model("plain").withStructuredOutput(Forecast, { method, name: "forecast" }).invoke("How will it be?");
    expect(forecast).toMatchObject({ high: 1.5, sky: "clear" });
  });
});

describe("an error", () => {
  test.each([
    ["status-400", 400],
    ["status-401", 502],
    ["status-500", 502],
  ])("%s keeps its status", async (name, status) => {
    const error = await errorOf(model(name, { maxRetries: 0 }).invoke("Say something."));
    expect(error["status"]).toBe(status);
  });

  test("of a context that is too long is known as one", async () => {
    const error = await errorOf(model("context-length", { maxRetries: 0 }).invoke("Say something."));
    expect(error.constructor.name).toBe("ContextOverflowError");
  });

  test("of the client's own making is not repeated by the library's retries", async () => {
    const lines = await world.linesDuring(() => errorOf(model("status-400").invoke("Say something.")));
    expect(lines.length).toBe(1);
  });

  test("of a rate limit says how long to wait", async () => {
    const error = await errorOf(model("status-429", { maxRetries: 0 }).invoke("Say something."));
    expect(error["status"]).toBe(429);
    expect(Number((error["headers"] as Headers).get("retry-after"))).toBeGreaterThanOrEqual(1);
  });
});
