import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import OpenAI, { APIError, AuthenticationError, BadRequestError, InternalServerError, NotFoundError, RateLimitError } from "openai";
import { openWorld, type World } from "../support/client-world.ts";

setDefaultTimeout(60_000);

let world: World;
let client: OpenAI;

beforeAll(async () => {
  world = await openWorld({
    plain: "ok",
    dripped: "fault:byte-by-byte+multi-byte",
    length: "fault:finish@length",
    "status-400": "fault:status@400",
    "status-429": "fault:status@429",
    "status-500": "fault:status@500",
    "broken-midway": "fault:rst-after@3",
    "ended-midway": "fault:end-after@3",
    "done-midway": "fault:cut-with-done@3",
  });
  client = new OpenAI({ apiKey: world.key, baseURL: world.baseURL, maxRetries: 0 });
});

afterAll(async () => {
  await world.close();
});

type Params = OpenAI.Responses.ResponseCreateParamsNonStreaming;

function ask(model: string, more: Partial<Params> = {}): Params {
  return { model, input: "Say something.", ...more };
}

/** What a call was refused with; null where it was not. */
async function failureOf(calling: PromiseLike<unknown>): Promise<APIError | null> {
  return calling.then(
    () => null,
    (error: unknown) => error as APIError,
  );
}

const weather: OpenAI.Responses.FunctionTool = {
  type: "function",
  name: "weather",
  description: "The weather of a town.",
  parameters: { type: "object", properties: { town: { type: "string" } }, required: ["town"] },
  strict: false,
};
const patch: OpenAI.Responses.CustomTool = { type: "custom", name: "apply_patch", description: "Patches files." };

describe("the official client of the Responses API, over a channel that speaks chat completions", () => {
  test("gets an answer, with its usage", async () => {
    const response = await client.responses.create(ask("plain"));
    expect(response.output_text).toBe(world.sent("plain"));
    expect(response).toMatchObject({ object: "response", status: "completed", error: null, store: true });
    expect(response.usage?.total_tokens).toBe(response.usage!.input_tokens + response.usage!.output_tokens);
  });

  test.each(["plain", "dripped"])("gets a stream of %s that adds up to the same", async (model) => {
    const stream = client.responses.stream({ model, input: "Say something." });
    let streamed = "";
    let last = -1;
    for await (const event of stream) {
      expect(event.sequence_number).toBeGreaterThan(last);
      last = event.sequence_number;
      if (event.type === "response.output_text.delta") streamed += event.delta;
    }
    const response = await stream.finalResponse();
    expect(response.output_text).toBe(world.sent(model));
    expect(streamed).toBe(response.output_text);
    expect(response.status).toBe("completed");
  });

  test("sends what it says in the other API, at its place", async () => {
    await client.responses.create(
      ask("plain", {
        instructions: "Be brief.",
        max_output_tokens: 50,
        reasoning: { effort: "low" },
        text: { format: { type: "json_schema", name: "a", schema: { type: "object" }, strict: true } },
        input: [
          { role: "developer", content: "Politely." },
          { role: "user", content: [{ type: "input_image", image_url: "https://example.com/a.png", detail: "low" }] },
        ],
      }),
    );
    expect(world.received("plain")).toMatchObject({
      model: "plain",
      max_tokens: 50,
      reasoning_effort: "low",
      response_format: { type: "json_schema", json_schema: { name: "a", schema: { type: "object" }, strict: true } },
      messages: [
        { role: "system", content: "Be brief." },
        { role: "system", content: "Politely." },
        { role: "user", content: [{ type: "image_url", image_url: { url: "https://example.com/a.png", detail: "low" } }] },
      ],
    });
  });

  test.each([false, true])("calls tools and answers with their results (streamed: %p)", async (streamed) => {
    const params = ask("plain", { tools: [weather], tool_choice: "required" });
    const response = streamed
      ? await client.responses.stream({ ...params, stream: true }).finalResponse()
      : await client.responses.create(params);
    const call = (response.output as OpenAI.Responses.ResponseOutputItem[]).find((item) => item.type === "function_call")!;
    expect(call).toMatchObject({ name: "weather", status: "completed" });
    expect(JSON.parse(call.arguments)).toHaveProperty("town");
    const after = await client.responses.create(
      ask("plain", {
        tools: [weather],
        input: [
          { role: "user", content: "Weather?" },
          ...(response.output as OpenAI.Responses.ResponseInputItem[]),
          { type: "function_call_output", call_id: call.call_id, output: "sunny" },
        ],
      }),
    );
    expect(after.output_text).toBe(world.sent("plain"));
    expect((world.received("plain")["messages"] as readonly unknown[]).slice(1)).toEqual([
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: call.call_id, type: "function", function: { name: "weather", arguments: call.arguments } }],
      },
      { role: "tool", tool_call_id: call.call_id, content: "sunny" },
    ]);
  });

  test.each([false, true])("gives custom tools their text (streamed: %p)", async (streamed) => {
    const params = ask("plain", { tools: [patch], tool_choice: "required" });
    const response = streamed
      ? await client.responses.stream({ ...params, stream: true }).finalResponse()
      : await client.responses.create(params);
    const call = (response.output as OpenAI.Responses.ResponseOutputItem[]).find((item) => item.type === "custom_tool_call")!;
    expect(call.name).toBe("apply_patch");
    expect(call.input).not.toContain('"input"');
    expect(call.input.length).toBeGreaterThan(0);
  });

  test("is told that an answer was cut to its length", async () => {
    expect(await client.responses.create(ask("length"))).toMatchObject({
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
    });
    const types: string[] = [];
    for await (const { type } of client.responses.stream({ model: "length", input: "x" })) types.push(type);
    expect(types.at(-1)).toBe("response.incomplete");
  });

  test("gets a failure, and no completion, where a stream breaks off", async () => {
    for (const model of ["broken-midway", "ended-midway", "done-midway"]) {
      const types: string[] = [];
      for await (const { type } of await client.responses.create({ model, input: "x", stream: true })) types.push(type);
      expect(types.at(-1)).toBe("response.failed");
      expect(types).not.toContain("response.completed");
    }
  });

  test.each([
    ["status-400", BadRequestError],
    ["status-429", RateLimitError],
    ["status-500", InternalServerError],
    ["no-such-model", NotFoundError],
  ] as const)("gets its own errors: %s", async (model, kind) => {
    const failed = await failureOf(client.responses.create(ask(model)));
    expect(failed).toBeInstanceOf(kind);
    expect(failed?.message).not.toBe("");
  });

  test("is told what is not stored here", async () => {
    const failed = await failureOf(client.responses.create(ask("plain", { previous_response_id: "resp_1" })));
    expect(failed).toBeInstanceOf(BadRequestError);
    expect(failed?.param).toBe("previous_response_id");
    expect(failed?.message).toContain("Send the whole conversation");
  });

  test("does not open with a wrong key", async () => {
    const wrong = new OpenAI({ apiKey: "sk-wrong", baseURL: world.baseURL, maxRetries: 0 });
    expect(await failureOf(wrong.responses.create(ask("plain")))).toBeInstanceOf(AuthenticationError);
  });
});
