import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { AzureOpenAI, OpenAI, toFile } from "openai";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { startScripted, type Scripted } from "../support/scripted-upstream.ts";

setDefaultTimeout(60_000);

const key = "sk-client-of-these-tests";
const narrowKey = "sk-narrow-client-of-these-tests";

let upstream: Scripted;
let gateway: Gateway;
let client: AzureOpenAI;

beforeAll(async () => {
  upstream = await startScripted(answer);
  gateway = await startGateway({
    config: {
      keys: [
        { name: "client", key },
        { name: "narrow", key: narrowKey, models: ["other"] },
      ],
      channels: [{ name: "up", base_url: upstream.url, api_key: "sk-up", models: { "my/model": "upstream-model", other: "other" } }],
    },
  });
  client = new AzureOpenAI({ endpoint: gateway.url, apiKey: key, apiVersion: "2024-10-21", maxRetries: 0 });
});

afterAll(async () => {
  await gateway.kill();
  await upstream.close();
});

function answer({ path }: { readonly path: string }): Response {
  if (path.endsWith("/chat/completions"))
    return Response.json({ choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }] });
  if (path.endsWith("/embeddings")) return Response.json({ data: [{ index: 0, embedding: [1] }] });
  return path.endsWith("/audio/transcriptions") ? Response.json({ text: "heard" }) : Response.json({ error: {} }, { status: 404 });
}

function post(path: string, body: string, headers: Record<string, string> = { "api-key": key }): Promise<Response> {
  return fetch(`${gateway.url}${path}`, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });
}

const messages = [{ role: "user", content: "hi" }] as const;

describe("the official client of Azure OpenAI", () => {
  test("finds what it asks for under its own paths, with its own header", async () => {
    const chat = await client.chat.completions.create({ model: "my/model", messages: [...messages] });
    expect(chat.choices[0]?.message.content).toBe("hello");
    expect(upstream.bodies.at(-1)).toMatchObject({ model: "upstream-model" });
    const embedding = await client.embeddings.create({ model: "my/model", input: "x", encoding_format: "float" });
    expect(embedding.data[0]?.embedding).toEqual([1]);
    const file = await toFile(wav(), "a.wav");
    expect((await client.audio.transcriptions.create({ model: "my/model", file })).text).toBe("heard");
    const { data } = await client.models.list();
    expect(data.map(({ id }) => id)).toEqual(["my/model", "other"]);
  });

  test("is refused what its key may not use", async () => {
    const narrow = new AzureOpenAI({ endpoint: gateway.url, apiKey: narrowKey, apiVersion: "2024-10-21", maxRetries: 0 });
    const refused = narrow.chat.completions.create({ model: "my/model", messages: [...messages] }).then(
      () => null,
      (error: unknown) => error,
    );
    expect(await refused).toMatchObject({ status: 403, code: "model_not_allowed" });
  });
});

describe("a path with a deployment", () => {
  test.each([
    ['{"messages":[{"role":"user","content":"hi"}]}', '{"model":"upstream-model","messages":[{"role":"user","content":"hi"}]}'],
    [
      '{ "model": "other", "messages" : [ { } ] , "model":"x"}',
      '{ "model": "upstream-model", "messages" : [ { } ] , "model":"upstream-model"}',
    ],
  ])("decides on the model of %s, whatever the body says", async (body, sent) => {
    let received = "";
    upstream.next((request) => {
      received = request.text;
      return answer(request);
    });
    for (const path of ["my%2Fmodel", "my/model"]) {
      const response = await post(`/openai/deployments/${path}/chat/completions?api-version=1`, body);
      expect([response.status, await response.text()]).toEqual([200, expect.stringContaining("hello")]);
    }
    expect(received).toBe(sent);
  });

  test("is judged by the rules of the key for that model", async () => {
    const body = '{"model":"other","messages":[{"role":"user","content":"hi"}]}';
    const response = await post("/openai/deployments/my%2Fmodel/chat/completions", body, { "api-key": narrowKey });
    expect([response.status, await response.json()]).toMatchObject([403, { error: { code: "model_not_allowed" } }]);
  });

  test.each(["//chat/completions", "/%ff/chat/completions", "/m/chat", "/m", "", "/m/moderations", "/m/models"])(
    "that ends with %s is unknown",
    async (rest) => {
      expect((await post(`/openai/deployments${rest}`, "{}")).status).toBe(404);
    },
  );

  test("tells what is wrong with a body", async () => {
    for (const [body, message] of [
      ["{", "not valid JSON"],
      ["[]", "must be a JSON object"],
      ["{}", "messages"],
    ] as const) {
      const response = await post("/openai/deployments/other/chat/completions", body);
      expect([response.status, await response.text()]).toEqual([400, expect.stringContaining(message)]);
    }
  });
});

test("the usual client may use the path of the newer API", async () => {
  const usual = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/openai/v1`, maxRetries: 0 });
  const chat = await usual.chat.completions.create({ model: "my/model", messages: [...messages] });
  expect(chat.choices[0]?.message.content).toBe("hello");
  expect((await usual.models.retrieve("my/model")).id).toBe("my/model");
});

/** A tenth of a second of silence. */
function wav(): Uint8Array {
  const samples = 1_600;
  const bytes = Buffer.alloc(44 + 2 * samples);
  bytes.write("RIFF", 0);
  bytes.writeUInt32LE(36 + 2 * samples, 4);
  bytes.write("WAVEfmt ", 8);
  bytes.writeUInt32LE(16, 16);
  bytes.writeUInt16LE(1, 20);
  bytes.writeUInt16LE(1, 22);
  bytes.writeUInt32LE(16_000, 24);
  bytes.writeUInt32LE(32_000, 28);
  bytes.writeUInt16LE(2, 32);
  bytes.writeUInt16LE(16, 34);
  bytes.write("data", 36);
  bytes.writeUInt32LE(2 * samples, 40);
  return bytes;
}
