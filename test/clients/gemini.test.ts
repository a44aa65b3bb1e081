import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import OpenAI from "openai";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { openWorld, type World } from "../support/client-world.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";

setDefaultTimeout(60_000);

type Json = Readonly<Record<string, unknown>>;

const question = { contents: [{ role: "user", parts: [{ text: "Say something." }] }] };
const weather = {
  tools: [{ functionDeclarations: [{ name: "weather", parameters: { type: "OBJECT", properties: { town: { type: "STRING" } } } }] }],
};

/** What the clients of the API send and read; the bodies are those of the official client. */
async function generate(url: string, key: string, model: string, body: object, method = "generateContent"): Promise<Response> {
  const query = method === "streamGenerateContent" ? "?alt=sse" : "";
  return fetch(`${url}/v1beta/models/${model}:${method}${query}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-goog-api-key": key, "x-goog-api-client": "google-genai-sdk/1.0" },
    body: JSON.stringify(body),
  });
}

interface GenerateResponse {
  readonly candidates: readonly {
    readonly content: { readonly role: string; readonly parts: readonly Json[] };
    readonly finishReason?: string;
  }[];
  readonly usageMetadata?: { readonly promptTokenCount: number; readonly candidatesTokenCount: number };
  readonly modelVersion?: string;
  readonly responseId?: string;
  readonly error?: { readonly code: number; readonly status: string; readonly message: string };
}

async function responsesOf(response: Response): Promise<readonly GenerateResponse[]> {
  const text = await response.text();
  return text
    .split("\n\n")
    .filter((event) => event !== "")
    .map((event) => JSON.parse(event.replace(/^data: /, "")) as GenerateResponse);
}

function partsOf(responses: readonly GenerateResponse[]): readonly Json[] {
  return responses.flatMap(({ candidates }) => candidates.flatMap(({ content }) => content.parts));
}

function textOf(responses: readonly GenerateResponse[]): string {
  return partsOf(responses)
    .map(({ text, thought }) => (typeof text === "string" && thought !== true ? text : ""))
    .join("");
}

describe("a client of the Gemini API, over a channel that speaks chat completions", () => {
  let world: World;

  beforeAll(async () => {
    world = await openWorld({
      plain: "ok",
      dripped: "fault:byte-by-byte+multi-byte",
      length: "fault:finish@length",
      "status-429": "fault:status@429",
      "ended-midway": "fault:end-after@3",
    });
  });

  afterAll(async () => {
    await world.close();
  });

  const ask = (model: string, body: object = question, method?: string) => generate(world.gateway.url, world.key, model, body, method);

  test("gets an answer, with its usage", async () => {
    const answer = (await (await ask("plain")).json()) as GenerateResponse;
    expect(textOf([answer])).toBe(world.sent("plain"));
    expect(answer).toMatchObject({ candidates: [{ content: { role: "model" }, finishReason: "STOP", index: 0 }] });
    expect(answer.usageMetadata?.promptTokenCount).toBeGreaterThan(0);
    expect(answer.usageMetadata?.candidatesTokenCount).toBeGreaterThan(0);
  });

  test("gets an answer under the stable version of the API as well", async () => {
    const response = await fetch(`${world.gateway.url}/v1/models/plain:generateContent`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-goog-api-key": world.key },
      body: JSON.stringify(question),
    });
    expect(textOf([(await response.json()) as GenerateResponse])).toBe(world.sent("plain"));
  });

  test.each(["plain", "dripped"])("gets a stream of %s that adds up to the same", async (model) => {
    const response = await ask(model, question, "streamGenerateContent");
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const responses = await responsesOf(response);
    expect(textOf(responses)).toBe(world.sent(model));
    expect(responses.length).toBeGreaterThan(1);
    expect(responses.at(-1)).toMatchObject({ candidates: [{ finishReason: "STOP" }] });
    expect(responses.at(-1)?.usageMetadata?.candidatesTokenCount).toBeGreaterThan(0);
    expect(new Set(responses.map(({ responseId }) => responseId)).size).toBe(1);
  });

  test("gets a stream as a list where it asks for no events", async () => {
    const listed = (model: string): Promise<Response> =>
      fetch(`${world.gateway.url}/v1beta/models/${model}:streamGenerateContent`, {
        method: "POST",
        headers: { "x-goog-api-key": world.key },
        body: JSON.stringify(question),
      });
    const response = await listed("plain");
    expect(response.headers.get("content-type")).toContain("application/json");
    const list = (await response.json()) as readonly GenerateResponse[];
    expect(textOf(list)).toBe(world.sent("plain"));
    expect(list.length).toBeGreaterThan(1);
    const cut = (await (await listed("ended-midway")).json()) as readonly GenerateResponse[];
    expect(textOf(cut.slice(0, -1))).not.toBe("");
    expect(cut.at(-1)?.error).toMatchObject({ status: "UNAVAILABLE" });
  });

  test("says in the other API what it said in its own", async () => {
    await ask("plain", {
      ...question,
      systemInstruction: { parts: [{ text: "Be brief." }] },
      generationConfig: { temperature: 0.5, maxOutputTokens: 200, stopSequences: ["END"] },
    });
    expect(world.received("plain")).toMatchObject({
      model: "plain",
      max_tokens: 200,
      temperature: 0.5,
      stop: ["END"],
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "Say something." },
      ],
    });
  });

  test.each(["generateContent", "streamGenerateContent"])("calls tools and answers with their results (%s)", async (method) => {
    const forced = { ...question, ...weather, toolConfig: { functionCallingConfig: { mode: "ANY" } } };
    const response = await ask("plain", forced, method);
    const parts =
      method === "generateContent" ? partsOf([(await response.json()) as GenerateResponse]) : partsOf(await responsesOf(response));
    const call = parts.find((part) => part["functionCall"] !== undefined)!["functionCall"] as { id: string; name: string; args: Json };
    expect(call).toMatchObject({ name: "weather", args: { town: expect.any(String) as string } });
    const after = await ask("plain", {
      ...weather,
      contents: [
        ...question.contents,
        { role: "model", parts },
        { role: "user", parts: [{ functionResponse: { id: call.id, name: "weather", response: { output: "sunny" } } }] },
      ],
    });
    expect(textOf([(await after.json()) as GenerateResponse])).toBe(world.sent("plain"));
    expect((world.received("plain")["messages"] as readonly unknown[]).slice(1)).toMatchObject([
      { role: "assistant", tool_calls: [{ id: call.id, function: { name: "weather", arguments: JSON.stringify(call.args) } }] },
      { role: "tool", tool_call_id: call.id, content: "sunny" },
    ]);
  });

  test("is told why an answer ended", async () => {
    const answer = (await (await ask("length")).json()) as GenerateResponse;
    expect(answer.candidates[0]?.finishReason).toBe("MAX_TOKENS");
    const cut = await responsesOf(await ask("ended-midway", question, "streamGenerateContent"));
    expect(cut.at(-1)?.error).toMatchObject({ status: "UNAVAILABLE" });
    expect(cut.some(({ candidates }) => candidates?.[0]?.finishReason !== undefined)).toBe(false);
  });

  test("is told of errors as its API tells them", async () => {
    const { url } = world.gateway;
    const errorOf = async (response: Response) => ({
      status: response.status,
      error: ((await response.json()) as { readonly error: Json }).error,
    });
    expect(await errorOf(await generate(url, "sk-wrong", "plain", question))).toMatchObject({
      status: 401,
      error: { code: 401, status: "UNAUTHENTICATED" },
    });
    expect(await errorOf(await ask("unknown"))).toMatchObject({ status: 404, error: { code: 404, status: "NOT_FOUND" } });
    expect(await errorOf(await ask("plain", {}))).toMatchObject({ status: 400, error: { status: "INVALID_ARGUMENT" } });
    expect(await errorOf(await ask("status-429"))).toMatchObject({ status: 429, error: { status: "RESOURCE_EXHAUSTED" } });
    const inUrl = await fetch(`${url}/v1beta/models/plain:generateContent?key=${world.key}`, { method: "POST", body: "{}" });
    expect(await errorOf(inUrl)).toMatchObject({
      status: 400,
      error: { status: "INVALID_ARGUMENT", message: expect.stringContaining("x-goog-api-key") as string },
    });
  });

  test("counts tokens and lists models", async () => {
    const counted = (await (await ask("plain", question, "countTokens")).json()) as { totalTokens: number };
    expect(counted.totalTokens).toBeGreaterThan(3);
    const headers = { "x-goog-api-key": world.key };
    const list = (await (await fetch(`${world.gateway.url}/v1beta/models?pageSize=100`, { headers })).json()) as {
      models: { name: string }[];
    };
    expect(list.models.map(({ name }) => name)).toContain("models/plain");
    expect(await (await fetch(`${world.gateway.url}/v1beta/models/plain`, { headers })).json()).toMatchObject({ name: "models/plain" });
    expect((await fetch(`${world.gateway.url}/v1beta/models/nobody`, { headers })).status).toBe(404);
  });
});

describe("a channel that speaks the Gemini API itself", () => {
  const key = "sk-client-of-the-gemini-tests";
  const signed = { functionCall: { id: "f1", name: "weather", args: { town: "Oslo" } }, thoughtSignature: "c2lnbmF0dXJl" };
  const asked: { readonly path: string; readonly key: string | null; readonly text: string; readonly body: Json }[] = [];
  let gateway: Gateway;
  let upstream: Bun.Server<undefined>;
  let chaos: Chaos;

  /** Calls a tool where there is one that has no result yet, else answers. Half of it has a field that nobody here knows. */
  async function answer(request: Request): Promise<Response> {
    const url = new URL(request.url);
    const text = await request.text();
    const body = JSON.parse(text) as Json;
    asked.push({ path: url.pathname + url.search, key: request.headers.get("x-goog-api-key"), text, body });
    if (text.includes("be refused")) {
      const details = [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "7s" }];
      return Response.json([{ error: { code: 429, status: "RESOURCE_EXHAUSTED", message: "quota", details } }], { status: 429 });
    }
    if (text.includes("break off")) {
      return new Response(`data: {"candidates":[{"content":{"parts":[{"text":"word0 word1"}],"role":"model"},"index":0}]}\r\n\r\n`, {
        headers: { "content-type": "text/event-stream" },
      });
    }
    const calls = body["tools"] !== undefined && !text.includes("functionResponse");
    const parts = calls
      ? [{ text: "Let me see", thought: true }, signed]
      : [{ text: "It is " }, { text: "sunny.", thoughtSignature: "ZW5k" }];
    const response = (some: readonly object[], more: object) => ({
      candidates: [{ content: { parts: some, role: "model" }, index: 0, newField: 1, ...more }],
      usageMetadata: { promptTokenCount: 12, candidatesTokenCount: 5, thoughtsTokenCount: 3, totalTokenCount: 20 },
      modelVersion: "gemini-9-flash-001",
      responseId: "r1",
    });
    if (!url.pathname.endsWith(":streamGenerateContent")) return Response.json(response(parts, { finishReason: "STOP" }));
    const events = [...parts.map((part) => response([part], {})), response([{ text: "" }], { finishReason: "STOP" })];
    return new Response(events.map((event) => `data: ${JSON.stringify(event)}\r\n\r\n`).join(""), {
      headers: { "content-type": "text/event-stream" },
    });
  }

  beforeAll(async () => {
    upstream = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: answer });
    chaos = await startChaos({ behaviour: "fault:same-text" });
    gateway = await startGateway({
      config: {
        keys: [{ name: "client", key }],
        channels: [
          {
            name: "own",
            provider: "gemini",
            dialect: "gemini",
            base_url: `http://127.0.0.1:${upstream.port}/v1beta`,
            api_key: "upstream-key",
            models: { m: "gemini-9-flash", shared: "gemini-9-flash" },
          },
          { name: "other", base_url: chaos.url, api_key: "sk-other", models: ["shared"], tier: 2 },
        ],
        routing: { rescue: "continue" },
      },
    });
  });

  afterAll(async () => {
    await gateway.kill();
    await upstream.stop(true);
    await chaos.close();
  });

  test("gets the bytes of a client that speaks it too, and gives its own back", async () => {
    const body = { ...question, safetySettings: [{ category: "X", threshold: "OFF" }], somethingNew: { a: 1 } };
    const whole = (await (await generate(gateway.url, key, "m", body)).json()) as Json;
    expect(whole).toMatchObject({ responseId: "r1", candidates: [{ newField: 1 }] });
    expect(asked.at(-1)).toMatchObject({
      path: "/v1beta/models/gemini-9-flash:generateContent",
      key: "upstream-key",
      text: JSON.stringify(body),
    });
    const responses = await responsesOf(await generate(gateway.url, key, "m", body, "streamGenerateContent"));
    expect(asked.at(-1)?.path).toBe("/v1beta/models/gemini-9-flash:streamGenerateContent?alt=sse");
    expect(textOf(responses)).toBe("It is sunny.");
    expect(responses.at(-1)).toMatchObject({ responseId: "r1", candidates: [{ newField: 1, finishReason: "STOP" }] });
  });

  test.each([false, true])(
    "serves a client of chat completions, whose loop of tools returns the signature (streamed: %p)",
    async (stream) => {
      const client = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
      const tools: OpenAI.ChatCompletionTool[] = [
        { type: "function", function: { name: "weather", parameters: { type: "object", properties: { town: { type: "string" } } } } },
      ];
      const messages: OpenAI.ChatCompletionMessageParam[] = [
        { role: "system", content: "Be brief." },
        { role: "user", content: "How is the weather?" },
      ];
      const complete = async (): Promise<OpenAI.ChatCompletion.Choice & { usage?: OpenAI.CompletionUsage | undefined }> => {
        const params = { model: "m", messages, tools, reasoning_effort: "low" as const };
        if (!stream) {
          const { choices, usage } = await client.chat.completions.create(params);
          return { ...choices[0]!, usage };
        }
        const final = await client.chat.completions.stream({ ...params, stream_options: { include_usage: true } }).finalChatCompletion();
        return { ...(final.choices[0] as unknown as OpenAI.ChatCompletion.Choice), usage: final.usage };
      };
      const called = await complete();
      expect(called.finish_reason).toBe("tool_calls");
      expect(called.usage).toMatchObject({ prompt_tokens: 12, completion_tokens: 8, completion_tokens_details: { reasoning_tokens: 3 } });
      expect(asked.at(-1)?.body).toMatchObject({
        systemInstruction: { parts: [{ text: "Be brief." }] },
        contents: [{ role: "user", parts: [{ text: "How is the weather?" }] }],
        tools: [{ functionDeclarations: [{ name: "weather" }] }],
        generationConfig: { thinkingConfig: { thinkingLevel: "LOW", includeThoughts: true } },
      });
      const [call] = called.message.tool_calls ?? [];
      expect(call).toMatchObject({ id: "f1", function: { name: "weather", arguments: '{"town":"Oslo"}' } });
      messages.push(called.message, { role: "tool", tool_call_id: "f1", content: "sunny" });
      const answered = await complete();
      expect(answered.message.content).toBe("It is sunny.");
      expect(answered.finish_reason).toBe("stop");
      expect(((asked.at(-1)?.body["contents"] ?? []) as readonly unknown[]).slice(1)).toEqual([
        { role: "model", parts: [signed] },
        { role: "user", parts: [{ functionResponse: { id: "f1", name: "weather", response: { output: "sunny" } } }] },
      ]);
    },
  );

  test("that breaks off is followed by another one that speaks another API, and the client sees one answer", async () => {
    const body = { contents: [{ parts: [{ text: "break off" }] }] };
    const responses = await responsesOf(await generate(gateway.url, key, "shared", body, "streamGenerateContent"));
    expect(textOf(responses)).toBe("word0 word1 word2 word3 word4");
    expect(responses.at(-1)?.candidates[0]?.finishReason).toBe("STOP");
  });

  test("that limits requests is told of as such, and when to come back", async () => {
    const body = { contents: [{ parts: [{ text: "be refused" }] }] };
    const refused = await generate(gateway.url, key, "m", body);
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refused.json()).toMatchObject({ error: { status: "RESOURCE_EXHAUSTED" } });
  });
});
