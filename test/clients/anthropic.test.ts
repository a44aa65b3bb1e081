import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import Anthropic, {
  APIConnectionError,
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
} from "@anthropic-ai/sdk";
import { openWorld, type World } from "../support/client-world.ts";

setDefaultTimeout(60_000);

let world: World;
let client: Anthropic;

beforeAll(async () => {
  world = await openWorld({
    plain: "ok",
    dripped: "fault:byte-by-byte+multi-byte",
    length: "fault:finish@length",
    filtered: "fault:finish@content_filter",
    "status-400": "fault:status@400",
    "status-429": "fault:status@429",
    "status-500": "fault:status@500",
    "context-length": "fault:context-length",
    "broken-midway": "fault:rst-after@3",
    "ended-midway": "fault:end-after@3",
    "done-midway": "fault:cut-with-done@3",
    unreasoning: "fault:unsupported-parameter@reasoning_effort",
  });
  client = new Anthropic({ apiKey: world.key, authToken: null, baseURL: world.gateway.url, maxRetries: 0 });
});

afterAll(async () => {
  await world.close();
});

const messages: Anthropic.MessageParam[] = [{ role: "user", content: "Say something." }];

function ask(model: string, more: Record<string, unknown> = {}): Anthropic.MessageCreateParamsNonStreaming {
  return { model, max_tokens: 200, messages, ...more };
}

function textOf({ content }: Anthropic.Message): string {
  return content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

/** What a call was refused with; null where it was not. */
async function failureOf(calling: PromiseLike<unknown>): Promise<APIError | null> {
  return calling.then(
    () => null,
    (error: unknown) => error as APIError,
  );
}

const weather: Anthropic.Tool = {
  name: "weather",
  description: "The weather of a town.",
  input_schema: { type: "object", properties: { town: { type: "string" } }, required: ["town"] },
};

describe("the official client of the Messages API, over a channel that speaks chat completions", () => {
  test("gets an answer, with its usage", async () => {
    const message = await client.messages.create(ask("plain"));
    expect(textOf(message)).toBe(world.sent("plain"));
    expect(message).toMatchObject({ type: "message", role: "assistant", stop_reason: "end_turn" });
    expect(message.usage.input_tokens).toBeGreaterThan(0);
    expect(message.usage.output_tokens).toBeGreaterThan(0);
  });

  test.each(["plain", "dripped"])("gets a stream of %s that adds up to the same", async (model) => {
    const stream = client.messages.stream(ask(model));
    let streamed = "";
    stream.on("text", (text) => void (streamed += text));
    const message = await stream.finalMessage();
    expect(textOf(message)).toBe(world.sent(model));
    expect(streamed).toBe(textOf(message));
    expect(message.stop_reason).toBe("end_turn");
    expect(message.usage.output_tokens).toBeGreaterThan(0);
  });

  test("is answered by a model that cannot think, whatever it asks for; what that refused is not sent to it again", async () => {
    for (const requests of [2, 3]) {
      const { data, response } = await client.messages.create(ask("unreasoning", { thinking: { type: "adaptive" } })).withResponse();
      expect(textOf(data)).toBe(world.sent("unreasoning"));
      expect(response.headers.get("x-sluice-dropped-params")).toBe("reasoning_effort");
      expect(world.upstream("unreasoning").ledger.chats).toHaveLength(requests);
    }
  });

  test("sends what it says in the other API, at its place", async () => {
    await client.messages.create(
      ask("plain", {
        system: "Be brief.",
        temperature: 0.5,
        stop_sequences: ["END"],
        metadata: { user_id: "u1" },
        messages: [
          { role: "user", content: [{ type: "text", text: "hi" }] },
          { role: "assistant", content: [{ type: "text", text: "hello" }] },
          { role: "user", content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } }] },
        ],
      }),
    );
    expect(world.received("plain")).toMatchObject({
      model: "plain",
      max_tokens: 200,
      temperature: 0.5,
      stop: ["END"],
      user: "u1",
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "hi" },
        { role: "assistant", content: "hello" },
        { role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }] },
      ],
    });
  });

  test.each([false, true])("calls tools and answers with their results (streamed: %p)", async (streamed) => {
    const params = ask("plain", { tools: [weather], tool_choice: { type: "tool", name: "weather" } });
    const message = streamed ? await client.messages.stream(params).finalMessage() : await client.messages.create(params);
    expect(message.stop_reason).toBe("tool_use");
    const call = message.content.find((block) => block.type === "tool_use")!;
    expect(call).toMatchObject({ name: "weather", input: { town: expect.any(String) as string } });
    const after = await client.messages.create(
      ask("plain", {
        tools: [weather],
        messages: [
          ...messages,
          { role: "assistant", content: message.content },
          { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "sunny" }] },
        ],
      }),
    );
    expect(textOf(after)).toBe(world.sent("plain"));
    expect((world.received("plain")["messages"] as readonly unknown[]).slice(1)).toEqual([
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: call.id, type: "function", function: { name: "weather", arguments: JSON.stringify(call.input) } }],
      },
      { role: "tool", tool_call_id: call.id, content: "sunny" },
    ]);
  });

  test.each([
    ["length", "max_tokens"],
    ["filtered", "refusal"],
  ] as const)("is told why an answer ended: %s", async (model, reason) => {
    expect((await client.messages.create(ask(model))).stop_reason).toBe(reason);
    expect((await client.messages.stream(ask(model)).finalMessage()).stop_reason).toBe(reason);
  });

  test("gets an error, and no end, where a stream breaks off", async () => {
    for (const model of ["broken-midway", "ended-midway", "done-midway"]) {
      const stream = client.messages.stream(ask(model));
      const events: string[] = [];
      stream.on("streamEvent", ({ type }) => void events.push(type));
      const failed = await failureOf(stream.finalMessage());
      expect(failed).toBeInstanceOf(APIError);
      expect(failed).not.toBeInstanceOf(APIConnectionError);
      expect(events).not.toContain("message_stop");
    }
  });

  test.each([
    ["status-400", BadRequestError, "invalid_request_error"],
    ["status-429", RateLimitError, "rate_limit_error"],
    ["status-500", InternalServerError, "api_error"],
    ["context-length", BadRequestError, "invalid_request_error"],
    ["no-such-model", NotFoundError, "not_found_error"],
  ] as const)("gets its own errors: %s", async (model, kind, type) => {
    const failed = await failureOf(client.messages.create(ask(model)));
    expect(failed).toBeInstanceOf(kind);
    expect(failed?.type).toBe(type);
    expect(failed?.requestID).toBeTruthy();
  });

  test("is told what is wrong with a request", async () => {
    const wrong = { role: "user", content: [{ type: "image", source: { type: "base64" } }] } as unknown as Anthropic.MessageParam;
    const failed = await failureOf(client.messages.create(ask("plain", { messages: [wrong] })));
    expect(failed).toBeInstanceOf(BadRequestError);
    expect(failed?.message).toContain("messages.0.content.0.source");
  });

  test("opens with either header, and not with a wrong key", async () => {
    const bearer = new Anthropic({ apiKey: null, authToken: world.key, baseURL: world.gateway.url, maxRetries: 0 });
    expect(textOf(await bearer.messages.create(ask("plain")))).toBe(world.sent("plain"));
    const wrong = new Anthropic({ apiKey: "sk-wrong", authToken: null, baseURL: world.gateway.url, maxRetries: 0 });
    expect(await failureOf(wrong.messages.create(ask("plain")))).toBeInstanceOf(AuthenticationError);
    const narrow = new Anthropic({ apiKey: world.narrowKey, authToken: null, baseURL: world.gateway.url, maxRetries: 0 });
    expect(await failureOf(narrow.messages.create(ask("plain")))).toBeInstanceOf(PermissionDeniedError);
  });

  test("lists models and counts tokens", async () => {
    const models = await client.models.list({ limit: 1000 });
    expect(models.data.map(({ id }) => id)).toContain("plain");
    expect((await client.models.retrieve("plain")).id).toBe("plain");
    expect((await client.messages.countTokens({ model: "plain", messages })).input_tokens).toBeGreaterThan(0);
  });

  test("a request to count tokens is read compressed, and refused in a coding that is not known, broken, or not JSON", async () => {
    const body = JSON.stringify({ model: "plain", messages: [{ role: "user", content: "Hello" }] });
    const count = async (sent: string | Uint8Array<ArrayBuffer>, headers: Record<string, string>): Promise<number> => {
      const { status } = await fetch(`${world.gateway.url}/v1/messages/count_tokens`, {
        method: "POST",
        headers: { "x-api-key": world.key, "content-type": "application/json", ...headers },
        body: sent,
      });
      return status;
    };
    expect(await count(Bun.gzipSync(body), { "content-encoding": "gzip" })).toBe(200);
    expect(await count(body, { "content-encoding": "gzip" })).toBe(400);
    expect(await count(body, { "content-encoding": "compress" })).toBe(415);
    expect(await count(body, { "content-type": "text/plain" })).toBe(415);
  });

  test("has its calls in the log like any other", async () => {
    const lines = await world.linesDuring(() => client.messages.create(ask("plain")));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ operation: "chat", model: "plain", status: 200 });
  });

  test("learns which fields were not carried", async () => {
    const { response } = await client.messages.create(ask("plain", { top_k: 5 })).withResponse();
    expect(response.headers.get("x-sluice-dropped-params")).toBe("top_k");
  });
});

test("somebody answers at the root, where one client looks first", async () => {
  expect((await fetch(world.gateway.url, { method: "HEAD" })).status).toBe(200);
});
