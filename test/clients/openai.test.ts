import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import OpenAI, {
  APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  UnprocessableEntityError,
} from "openai";
import { LengthFinishReasonError } from "openai/core/error";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { chatBehaviours, openWorld, type World } from "../support/client-world.ts";
import { eventually } from "../support/eventually.ts";

setDefaultTimeout(60_000);

type Params = OpenAI.ChatCompletionCreateParams;

const refusals = {
  "status-400": "fault:status@400",
  "status-401": "fault:status@401",
  "status-403": "fault:status@403",
  "status-404": "fault:status@404",
  "status-413": "fault:status@413",
  "status-422": "fault:status@422",
  "status-429": "fault:status@429",
  "status-500": "fault:status@500",
  "status-502": "fault:status-html@502",
  "status-503": "fault:status@503",
  "status-529": "fault:status@529",
  reset: "fault:rst-before-headers",
  "not-json": "fault:html-200",
  "error-in-200": "fault:error-in-200",
  "context-length": "fault:context-length",
};

let world: World;
let client: OpenAI;

beforeAll(async () => {
  world = await openWorld(chatBehaviours(refusals));
  client = new OpenAI({ apiKey: world.key, baseURL: world.baseURL });
});

afterAll(async () => {
  await world.close();
});

const messages: Params["messages"] = [{ role: "user", content: "Say something." }];

function ask(model: string, more: Record<string, unknown> = {}): OpenAI.ChatCompletionCreateParamsNonStreaming {
  return { model, messages, ...more };
}

function askStream(model: string, more: Record<string, unknown> = {}): OpenAI.ChatCompletionCreateParamsStreaming {
  return { model, messages, stream: true, ...more };
}

async function textOf(chunks: AsyncIterable<OpenAI.ChatCompletionChunk>): Promise<string> {
  let text = "";
  for await (const chunk of chunks) text += chunk.choices[0]?.delta.content ?? "";
  return text;
}

async function errorOf(call: PromiseLike<unknown>): Promise<APIError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof APIError) return error;
    throw error;
  }
  throw new Error("the call succeeded");
}

const weather = {
  type: "function",
  function: {
    name: "weather",
    parameters: { type: "object", properties: { city: { type: "string" }, days: { type: "integer" } }, required: ["city", "days"] },
  },
} as const;

describe("a whole answer", () => {
  test("is the upstream's, with its usage and finish reason", async () => {
    const completion = await client.chat.completions.create(ask("plain"));
    expect(completion.choices[0]?.message.content).toBe(world.sent("plain"));
    expect(completion.choices[0]?.finish_reason).toBe("stop");
    expect(completion.usage).toEqual(JSON.parse(world.lastAttempt("plain").usageSent ?? "") as OpenAI.CompletionUsage);
  });

  test("comes with the request id, which is the one in the access log", async () => {
    const { data, response, request_id } = await client.chat.completions.create(ask("plain")).withResponse();
    expect(request_id).toBe(response.headers.get("x-request-id"));
    expect(data).toMatchObject({ _request_id: request_id });
    expect(await world.gateway.waitForLog((line) => line["id"] === request_id)).toMatchObject({
      event: "call",
      model: "plain",
      status: 200,
    });
    expect(response.headers.get("x-sluice-channel")).toBe("plain");
  });

  test("of several choices has them all", async () => {
    const { choices } = await client.chat.completions.create(ask("plain", { n: 3 }));
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2]);
    expect(choices.map(({ message }) => message.content)).toEqual(world.lastAttempt("plain").choicesSent.map((words) => words.join("")));
  });

  test("carries fields the library does not know, both ways", async () => {
    const raw = {
      id: "x",
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content: "hi", citations: [1] } }],
    };
    const completion = await client.chat.completions.create(ask("plain", { x_raw: JSON.stringify(raw), top_k: 4 }));
    expect(completion as unknown).toMatchObject(raw);
    expect(world.received("plain")["top_k"]).toBe(4);
  });
});

describe("a stream", () => {
  test.each(["plain", "crlf", "commented", "fields", "dripped", "no-done", "no-blank"])(
    "of an upstream that is %s is iterated to its end",
    async (model) => {
      const stream = await client.chat.completions.create(askStream(model));
      const text = await textOf(stream);
      expect(text).toBe(world.sent(model));
      expect(text).not.toBe("");
    },
  );

  test.each(["plain", "usage-on-finish"])("of an upstream that is %s reports usage to whoever asked for it", async (model) => {
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    const stream = await client.chat.completions.create(askStream(model, { stream_options: { include_usage: true } }));
    for await (const chunk of stream) chunks.push(chunk);
    const usage = chunks.findLast((chunk) => chunk.usage != null)?.usage;
    expect(usage).toEqual(JSON.parse(world.lastAttempt(model).usageSent ?? "") as OpenAI.CompletionUsage);
  });

  test("hides the usage that nobody asked for, and every chunk has a choice", async () => {
    const stream = await client.chat.completions.create(askStream("plain"));
    for await (const chunk of stream) {
      expect(chunk.choices.length).toBe(1);
      expect(chunk.usage ?? null).toBeNull();
    }
    expect(world.lastAttempt("plain").usageSent).not.toBeNull();
  });

  test("has its request id before its first chunk", async () => {
    const { data, request_id } = await client.chat.completions.create(askStream("plain")).withResponse();
    expect(request_id).toMatch(/^\S+$/);
    await textOf(data);
  });

  test("is accumulated by the helper, with every event on the way", async () => {
    const deltas: string[] = [];
    const helper = client.chat.completions.stream({ model: "plain", messages, stream_options: { include_usage: true } });
    helper.on("content", (delta) => deltas.push(delta));
    const completion = await helper.finalChatCompletion();
    expect(completion.choices[0]?.message.content).toBe(world.sent("plain"));
    expect(deltas.join("")).toBe(world.sent("plain"));
    expect(completion.choices[0]?.finish_reason).toBe("stop");
    expect((await helper.totalUsage()).total_tokens).toBeGreaterThan(0);
  });

  test.each(["crlf", "commented", "fields", "dripped", "no-done", "no-blank", "usage-on-finish"])(
    "of an upstream that is %s satisfies the helper",
    async (model) => {
      const helper = client.chat.completions.stream({ model, messages });
      expect(await helper.finalContent()).toBe(world.sent(model));
    },
  );

  test("of several choices is accumulated choice by choice", async () => {
    const helper = client.chat.completions.stream({ model: "plain", messages, n: 2 });
    const { choices } = await helper.finalChatCompletion();
    expect(choices.map(({ message }) => message.content)).toEqual(world.lastAttempt("plain").choicesSent.map((words) => words.join("")));
  });

  test("that the client breaks off is closed at the upstream", async () => {
    const stream = await client.chat.completions.create(askStream("paced"));
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
    await eventually("the upstream sees the departure", () => world.lastAttempt("paced").endedBy === "client_closed", 2_000);
    expect(world.lastAttempt("paced").tokensSent.length).toBeLessThan(2_000);
  });

  test("that the client aborts is closed at the upstream, and the access log says so", async () => {
    const lines = await world.linesDuring(async () => {
      const stream = await client.chat.completions.create(askStream("paced"));
      await stream[Symbol.asyncIterator]().next();
      stream.controller.abort();
      await eventually("the upstream sees the departure", () => world.lastAttempt("paced").endedBy === "client_closed", 2_000);
    });
    expect(lines).toMatchObject([{ model: "paced", state: "abandoned" }]);
  });

  test("that is aborted by its signal before it began raises the library's own abort", async () => {
    const controller = new AbortController();
    controller.abort();
    const call = client.chat.completions.create(askStream("paced"), { signal: controller.signal });
    expect(await errorOf(call)).toBeInstanceOf(APIUserAbortError);
  });
});

describe("tools", () => {
  test("are called in a whole answer", async () => {
    const completion = await client.chat.completions.create(ask("plain", { tools: [weather], tool_choice: "required" }));
    const [choice] = completion.choices;
    expect(choice?.finish_reason).toBe("tool_calls");
    expect(choice?.message.content).toBeNull();
    expect(choice?.message.tool_calls).toMatchObject([{ type: "function", function: { name: "weather" } }]);
    const [call] = choice?.message.tool_calls ?? [];
    expect(JSON.parse(call?.type === "function" ? call.function.arguments : "")).toMatchObject({ days: 1 });
  });

  test("are called in a stream, two at once, and accumulated by the helper", async () => {
    const time = { type: "function", function: { ...weather.function, name: "time" } } as const;
    const helper = client.chat.completions.stream(Object.assign({ model: "plain", messages, tools: [weather, time] }, { x_tool: 2 }));
    const message = await helper.finalMessage();
    expect(message.tool_calls?.map((call) => (call.type === "function" ? call.function.name : ""))).toEqual(["weather", "time"]);
    for (const call of message.tool_calls ?? []) {
      expect(JSON.parse(call.type === "function" ? call.function.arguments : "")).toMatchObject({ days: 1 });
    }
  });

  test.each([false, true])("are run in a loop until the model has spoken (streamed: %p)", async (streamed) => {
    const cities: string[] = [];
    const tool = zodFunction({
      name: "weather",
      parameters: z.object({ city: z.string() }),
      function: ({ city }) => {
        cities.push(city);
        return "sunny";
      },
    });
    const params = { model: "plain", messages: [...messages], tools: [tool], x_tool: "first" };
    const runner = streamed ? client.chat.completions.runTools({ ...params, stream: true }) : client.chat.completions.runTools(params);
    expect(await runner.finalContent()).toBe(world.sent("plain"));
    expect(cities.length).toBe(1);
    const sent = world.received("plain")["messages"] as readonly Record<string, unknown>[];
    expect(sent.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
    expect(sent.at(-1)?.["content"]).toBe("sunny");
  });
});

describe("structured output", () => {
  const Forecast = z.object({ city: z.string(), days: z.array(z.object({ high: z.number(), sky: z.enum(["clear", "cloudy"]) })) });

  test("is parsed from a whole answer", async () => {
    const completion = await client.chat.completions.parse({
      model: "plain",
      messages,
      response_format: zodResponseFormat(Forecast, "forecast"),
    });
    expect(completion.choices[0]?.message.parsed).toMatchObject({ days: [{ high: 1.5, sky: "clear" }] });
    expect(world.received("plain")["response_format"]).toMatchObject({
      type: "json_schema",
      json_schema: { name: "forecast", strict: true },
    });
  });

  test("is parsed from a stream", async () => {
    const helper = client.chat.completions.stream({ model: "plain", messages, response_format: zodResponseFormat(Forecast, "forecast") });
    const completion = await helper.finalChatCompletion();
    expect(Forecast.parse(completion.choices[0]?.message.parsed).days.length).toBe(1);
  });

  test("gives parsed arguments of a strict tool", async () => {
    const tool = zodFunction({ name: "forecast", parameters: Forecast });
    const completion = await client.chat.completions.parse({ model: "plain", messages, tools: [tool], tool_choice: "required" });
    const [call] = completion.choices[0]?.message.tool_calls ?? [];
    expect(Forecast.parse(call?.type === "function" ? call.function.parsed_arguments : null).days.length).toBe(1);
  });

  test("that was cut at the token limit raises the library's own error", async () => {
    const call = client.chat.completions.parse({ model: "length", messages, response_format: zodResponseFormat(Forecast, "forecast") });
    const raised: unknown = await call.then(
      () => null,
      (error: unknown) => error,
    );
    expect(raised).toBeInstanceOf(LengthFinishReasonError);
  });
});

test("images reach the upstream as they were sent", async () => {
  const content = [
    { type: "text" as const, text: "What is this?" },
    { type: "image_url" as const, image_url: { url: `data:image/png;base64,${"iVBORw0KGgo".repeat(2_000)}`, detail: "low" as const } },
  ];
  const completion = await client.chat.completions.create(ask("plain", { messages: [{ role: "user", content }] }));
  expect(completion.choices[0]?.message.content).toBe(world.sent("plain"));
  expect(world.received("plain")["messages"]).toEqual([{ role: "user", content }]);
});

describe("models", () => {
  test("are listed, as many as the key may use", async () => {
    const names: string[] = [];
    for await (const model of client.models.list()) names.push(model.id);
    expect(new Set(names)).toEqual(new Set(world.upstreams.keys()));
    const narrow = client.withOptions({ apiKey: world.narrowKey });
    expect((await narrow.models.list()).data.map(({ id }) => id)).toEqual(["sentinel"]);
  });

  test("are shown one by one", async () => {
    expect(await client.models.retrieve("plain")).toMatchObject({ id: "plain", object: "model" });
    expect(await errorOf(client.models.retrieve("no/such model"))).toBeInstanceOf(NotFoundError);
  });
});

describe("an error", () => {
  const refusals = [
    ["a mistake in the request", "status-400", BadRequestError, 400],
    ["a request that cannot be processed", "status-422", UnprocessableEntityError, 422],
    ["a request that is too large", "status-413", APIError, 413],
    ["a context that is too long", "context-length", BadRequestError, 400],
    // An upstream that refuses our credential or does not know its model is no fault of the client's.
    ["an upstream's 401", "status-401", InternalServerError, 502],
    ["an upstream's 403", "status-403", InternalServerError, 502],
    ["an upstream's 404", "status-404", InternalServerError, 502],
    ["an upstream's 500", "status-500", InternalServerError, 502],
    ["an upstream's 502", "status-502", InternalServerError, 502],
    ["an upstream's 503", "status-503", InternalServerError, 503],
    ["an upstream's 529", "status-529", InternalServerError, 503],
    ["a connection that breaks", "reset", InternalServerError, 502],
    ["an answer that is no JSON", "not-json", InternalServerError, 502],
    ["an error that came as a success", "error-in-200", InternalServerError, 502],
  ] as const;

  test.each(refusals)("for %s has its class, streamed or not, and the library asks only once", async (_, model, Class, status) => {
    let errors: readonly APIError[] = [];
    const lines = await world.linesDuring(async () => {
      errors = await Promise.all([
        errorOf(client.chat.completions.create(ask(model))),
        errorOf(client.chat.completions.create(askStream(`${model}-streamed`))),
      ]);
    });
    for (const error of errors) {
      expect(error).toBeInstanceOf(Class);
      expect(error.status).toBe(status);
      expect(error.headers?.get("x-should-retry")).toBe("false");
      expect(error.message).toStartWith(`${status} `);
      expect(error.type).toBeString();
    }
    expect(errors.map(({ requestID }) => String(requestID)).toSorted()).toEqual(lines.map(({ id }) => String(id)).toSorted());
    expect(lines.length).toBe(2);
  });

  test("of a wrong key is an AuthenticationError", async () => {
    const stranger = client.withOptions({ apiKey: "sk-nobody-knows-this-key" });
    const error = await errorOf(stranger.chat.completions.create(ask("plain")));
    expect(error).toBeInstanceOf(AuthenticationError);
    expect(error).toMatchObject({ status: 401, code: "invalid_api_key" });
    expect(await errorOf(stranger.models.list())).toBeInstanceOf(AuthenticationError);
  });

  test("of a key that may not use the model is a PermissionDeniedError", async () => {
    const error = await errorOf(client.withOptions({ apiKey: world.narrowKey }).chat.completions.create(ask("plain")));
    expect(error).toBeInstanceOf(PermissionDeniedError);
    expect(error).toMatchObject({ status: 403, code: "model_not_allowed", param: "model" });
  });

  test("of an unknown model is a NotFoundError", async () => {
    const error = await errorOf(client.chat.completions.create(ask("no-such-model")));
    expect(error).toBeInstanceOf(NotFoundError);
    expect(error).toMatchObject({ status: 404, code: "model_not_found", param: "model" });
  });

  test("of a missing field is a BadRequestError that names it", async () => {
    const error = await errorOf(client.chat.completions.create(ask("plain", { messages: undefined })));
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error).toMatchObject({ code: "missing_required_parameter", param: "messages" });
  });

  test("of a rate limit is a RateLimitError with a wait that the library obeys", async () => {
    const error = await errorOf(client.chat.completions.create(ask("status-429"), { maxRetries: 0 }));
    expect(error).toBeInstanceOf(RateLimitError);
    expect(error).toMatchObject({ status: 429, code: "rate_limit_exceeded", type: "rate_limit_error" });
    expect(Number(error.headers?.get("retry-after"))).toBeGreaterThanOrEqual(1);
    expect(Number(error.headers?.get("retry-after-ms"))).toBeGreaterThanOrEqual(1000);
    expect(error.headers?.get("x-should-retry")).toBeNull();
  });

  test.each(["broken-midway", "ended-midway", "error-midway"])(
    "in the middle of a stream that is %s is raised after what came before",
    async (model) => {
      let text = "";
      const lines = await world.linesDuring(async () => {
        const stream = await client.chat.completions.create(askStream(model));
        const error = await errorOf(
          (async () => {
            for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
          })(),
        );
        expect(error).toMatchObject({ status: undefined, code: "upstream_stream_interrupted", type: "upstream_error" });
      });
      expect(text).toBe(world.sent(model));
      expect(lines).toMatchObject([{ model, state: "interrupted" }]);
    },
  );

  test("in the middle of a stream reaches the helper too, and no answer is made up", async () => {
    const helper = client.chat.completions.stream({ model: "broken-midway", messages });
    const error = await errorOf(helper.finalChatCompletion());
    expect(error.code).toBe("upstream_stream_interrupted");
  });
});
