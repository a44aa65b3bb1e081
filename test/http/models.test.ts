// Needs: quiet. It mostly waits for lists that upstreams are slow to send.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { operations } from "../../src/operations/operation.ts";
import { rawRequest, type RawResponse } from "../support/client.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

const narrowKey = "sk-narrow-canary-0123456789abcdef";
const listenerKey = "sk-listen-canary-0123456789abcdef";
const mergedKey = "sk-family-canary-0123456789abcdef";

const startedMs = Date.now();
let rig: Rig<"mapped" | "listed" | "discovered" | "second">;

beforeAll(async () => {
  rig = await setUp(
    {
      mapped: { models: { fast: "upstream/secret-name", "vendor/model:1@eu": "x" } },
      listed: { models: ["llama-3", "llama-4", "a%2Fb"] },
      discovered: (upstream) => {
        upstream.models = ["org/found-1", "found 2", "fünf", "fast"];
        return { models: undefined };
      },
      second: { models: ["fast"] },
    },
    {
      keys: [
        { name: "all", key: clientKey },
        { name: "narrow", key: narrowKey, models: ["fast", "never-heard-of"] },
        { name: "family", key: mergedKey, models: ["llama*", "org/*"] },
        { name: "listener", key: listenerKey, operations: ["transcription"] },
      ],
    },
  );
});

afterAll(async () => {
  await rig.check();
  await rig[Symbol.asyncDispose]();
});

function get(path: string, key: string | null = clientKey, method = "GET"): Promise<RawResponse> {
  const headers = key === null ? {} : { Authorization: `Bearer ${key}` };
  return rawRequest(rig.gateway.url, { method, path, headers });
}

async function idsFor(key: string): Promise<readonly string[]> {
  const list = (await get("/v1/models", key)).json() as { readonly data: readonly { readonly id: string }[] };
  return list.data.map(({ id }) => id);
}

test("a client that sends its version gets an empty catalogue of its own form besides the list", async () => {
  const list = (await get("/v1/models?client_version=0.166.0")).json() as Readonly<Record<string, unknown>>;
  expect(list).toEqual({ ...((await get("/v1/models")).json() as object), models: [] });
});

describe("GET /v1/models", () => {
  test("lists each model once, named, listed or discovered, in the format of the OpenAI API", async () => {
    const response = await get("/v1/models");
    expect([response.status, response.header("content-type")]).toEqual([200, expect.stringMatching(/^application\/json/)]);
    const list = response.json() as { readonly object: string; readonly data: readonly Record<string, unknown>[] };
    expect(list.object).toBe("list");
    for (const entry of list.data) {
      expect(entry).toEqual({
        id: expect.any(String),
        object: "model",
        created: expect.any(Number),
        owned_by: expect.any(String),
        operations: [...operations],
      });
      expect(Number.isInteger(entry["created"])).toBe(true);
      expect(entry["created"]).toBeWithin(Math.floor(startedMs / 1000), Math.floor(Date.now() / 1000) + 1);
    }
    const ids = list.data.map(({ id }) => String(id)).filter((id) => id !== "rehearsal");
    expect(ids.toSorted()).toEqual(
      ["a%2Fb", "fast", "found 2", "fünf", "llama-3", "llama-4", "org/found-1", "vendor/model:1@eu"].toSorted(),
    );
  });

  test("says what the key may do with each, and keeps the time since when it is there", async () => {
    const list = async (key: string) =>
      ((await get("/v1/models", key)).json() as { readonly data: readonly Record<string, unknown>[] }).data;
    const [heard, all] = [await list(listenerKey), await list(clientKey)];
    expect(new Set(heard.map(({ operations }) => JSON.stringify(operations)))).toEqual(new Set(['["transcription"]']));
    expect(heard.map(({ created }) => created)).toEqual(all.map(({ created }) => created));
  });

  test("never tells what the upstreams call their models", async () => {
    expect((await get("/v1/models")).text).not.toContain("secret-name");
  });

  test("lists what the calling key may use, and nothing else", async () => {
    expect(await idsFor(narrowKey)).toEqual(["fast"]);
    expect((await idsFor(mergedKey)).toSorted()).toEqual(["llama-3", "llama-4", "org/found-1"]);
  });

  test.each([
    ["without a key", null],
    ["with a wrong one", "sk-unknown-key-0123456789"],
  ])("tells a client %s nothing", async (_, key) => {
    for (const path of ["/v1/models", "/v1/models/fast", "/v1/models/no-such-model"]) {
      const response = await get(path, key);
      expect(response.status).toBe(401);
      expect(response.json()).toMatchObject({ error: { code: "invalid_api_key", type: "invalid_request_error" } });
    }
  });

  test("answers HEAD without a body", async () => {
    const response = await get("/v1/models", clientKey, "HEAD");
    expect([response.status, response.bodyLength]).toEqual([200, 0]);
  });
});

describe("GET /v1/models/{id}", () => {
  test.each([
    ["/v1/models/fast", "fast"],
    ["/v1/models/vendor/model:1@eu", "vendor/model:1@eu"],
    ["/v1/models/vendor%2Fmodel%3A1%40eu", "vendor/model:1@eu"],
    ["/v1/models/vendor%2fmodel:1@eu", "vendor/model:1@eu"],
    ["/v1/models/org/found-1", "org/found-1"],
    ["/v1/models/org%2Ffound-1", "org/found-1"],
    ["/v1/models/found%202", "found 2"],
    ["/v1/models/f%C3%BCnf", "fünf"],
    ["/v1/models/a%252Fb", "a%2Fb"],
  ])("%s is %s", async (path, id) => {
    const response = await get(path);
    expect([response.status, response.json()]).toEqual([
      200,
      { id, object: "model", created: expect.any(Number), owned_by: expect.any(String), operations: [...operations] },
    ]);
  });

  test.each([
    "/v1/models/no-such-model",
    "/v1/models/FAST",
    "/v1/models/fast/",
    "/v1/models/fast%00",
    "/v1/models/vendor",
    "/v1/models/..%2fmodels",
    "/v1/models/__proto__",
    "/v1/models/constructor",
  ])("%s does not exist, in the envelope", async (path) => {
    const response = await get(path);
    expect(response.status).toBe(404);
    expect(response.json()).toEqual({
      error: {
        message: expect.any(String),
        type: "invalid_request_error",
        param: "model",
        code: "model_not_found",
        request_id: response.header("x-request-id"),
      },
    });
  });

  test.each(["/v1/models/", "/v1/models/%", "/v1/models/%E0%A4%A"])("%s is no route", async (path) => {
    expect((await get(path)).status).toBe(404);
  });

  test("shows a key the models it may use, and another's as one that does not exist", async () => {
    expect((await get("/v1/models/fast", narrowKey)).status).toBe(200);
    const foreign = await get("/v1/models/llama-3", narrowKey);
    const unknown = await get("/v1/models/no-such-one", narrowKey);
    const outline = ({ status, text }: RawResponse) => [status, text.replaceAll(/llama-3|no-such-one|req_\w+/g, "…")];
    expect(outline(foreign)).toEqual(outline(unknown));
  });
});

describe("a model by its name", () => {
  test.each(["vendor/model:1@eu", "a%2Fb", "org/found-1", "found 2", "fünf"])("%s is served as it is written", async (model) => {
    expect((await rig.chat({ model })).status).toBe(200);
  });

  test.each([
    ["an unknown one", "no-such-model"],
    ["one in another case", "FAST"],
    ["the upstream's own name", "upstream/secret-name"],
    ["what every object has", "__proto__"],
    ["what every object inherits", "toString"],
    ["an empty one", ""],
    ["one without end", "x".repeat(600)],
  ])("%s is not served", async (_, model) => {
    const reply = await rig.chat({ model });
    expect([400, 404]).toContain(reply.status);
    expect(reply.error).toMatchObject({ type: "invalid_request_error", param: "model" });
  });

  test("is refused to a key that may not use it, without asking an upstream", async () => {
    const before = rig.upstream.listed.ledger.chats.length;
    const reply = await rig.chat({ model: "llama-3" }, { key: narrowKey });
    expect([reply.status, reply.error?.code]).toEqual([403, "model_not_allowed"]);
    expect(rig.upstream.listed.ledger.chats.length).toBe(before);
  });
});

describe("with a channel that takes any model", () => {
  const boundKey = "sk-bound-canary-0123456789abcdef";

  test("GET /v1/models/{id} shows what would be served to the key, and the list what is known by name", async () => {
    await using own = await setUp(
      { any: { models: "*" }, named: { models: ["listed"] } },
      {
        keys: [
          { name: "all", key: clientKey },
          { name: "family", key: mergedKey, models: ["llama*"] },
          { name: "bound", key: boundKey, channels: ["named"] },
        ],
      },
    );
    const ask = (path: string, key: string): Promise<RawResponse> =>
      rawRequest(own.gateway.url, { path, headers: { Authorization: `Bearer ${key}` } });
    const statuses = async (id: string): Promise<readonly number[]> =>
      Promise.all([clientKey, mergedKey, boundKey].map(async (key) => (await ask(`/v1/models/${id}`, key)).status));

    const shown = await ask("/v1/models/llama-9%2Fnew", clientKey);
    expect([shown.status, shown.json()]).toEqual([
      200,
      { id: "llama-9/new", object: "model", created: expect.any(Number), owned_by: "any", operations: [...operations] },
    ]);
    expect((await own.chat({ model: "llama-9/new" })).status).toBe(200);
    expect(await statuses("llama-9")).toEqual([200, 200, 404]);
    expect(await statuses("other")).toEqual([200, 404, 404]);
    expect(await statuses("listed")).toEqual([200, 404, 200]);
    expect(await statuses("no%00name")).toEqual([404, 404, 404]);
    expect(await statuses("x".repeat(600))).toEqual([404, 404, 404]);
    const list = (await ask("/v1/models", clientKey)).json() as { readonly data: readonly { readonly id: string }[] };
    expect(list.data.map(({ id }) => id).toSorted()).toEqual(["listed", "rehearsal"]);
    await own.check();
  });
});
