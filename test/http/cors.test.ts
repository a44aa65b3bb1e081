import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { loadConfig } from "../../src/config/load.ts";
import { rawRequest, type RawResponse } from "../support/client.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { startScripted, type Scripted } from "../support/scripted-upstream.ts";

setDefaultTimeout(60_000);

const key = "sk-client-of-these-tests";
const page = "https://app.example.com";
const stranger = "https://evil.example.com";

let upstream: Scripted;
let listed: Gateway;
let open: Gateway;
let closed: Gateway;

beforeAll(async () => {
  upstream = await startScripted(({ body }) =>
    body["stream"] === true
      ? new Response('data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n', {
          headers: { "content-type": "text/event-stream" },
        })
      : Response.json({ choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }] }),
  );
  const config = {
    keys: [{ name: "client", key }],
    channels: [{ name: "up", base_url: upstream.url, api_key: "sk-up", models: ["m"] }],
  };
  [listed, open, closed] = await Promise.all([
    startGateway({ config: { ...config, cors: { origins: [page, "app://desktop"] } } }),
    startGateway({ config: { ...config, cors: { origins: ["*"] } } }),
    startGateway({ config }),
  ]);
});

afterAll(async () => {
  await Promise.all([listed.kill(), open.kill(), closed.kill()]);
  await upstream.close();
});

function ask(gateway: Gateway, origin: string | null, facts: AskFacts = {}): Promise<RawResponse> {
  const { method = "POST", path = "/v1/chat/completions", headers = {}, body } = facts;
  const own = { ...(origin === null ? {} : { origin }), ...headers };
  return rawRequest(gateway.url, { method, path, headers: own, ...(body === undefined ? {} : { body }) });
}

interface AskFacts {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const json = { "content-type": "application/json" };
const authorised = { ...json, authorization: `Bearer ${key}` };
const chat = '{"model":"m","messages":[{"role":"user","content":"hi"}]}';
const preflight = {
  method: "OPTIONS",
  headers: { "access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type,x-stainless-os" },
};

/** Every response that a page may meet, whatever it is. */
const responses: readonly (readonly [about: string, status: number, facts: AskFacts])[] = [
  ["an answer", 200, { headers: authorised, body: chat }],
  ["a stream", 200, { headers: authorised, body: chat.replace("{", '{"stream":true,') }],
  ["a list", 200, { method: "GET", path: "/v1/models", headers: authorised }],
  ["a wrong key", 401, { headers: json, body: chat }],
  ["a mistake", 400, { headers: authorised, body: "{}" }],
  ["an unknown model", 404, { headers: authorised, body: chat.replace('"m"', '"none"') }],
  ["an unknown path", 404, { path: "/v1/nothing", headers: authorised, body: "{}" }],
  ["a wrong method", 405, { method: "GET", headers: authorised }],
  ["a key in the URL", 400, { method: "GET", path: "/v1/models?key=x", headers: authorised }],
  ["health", 200, { method: "GET", path: "/healthz" }],
];

describe("a page of a listed origin", () => {
  test.each(responses)("may read %s (%p)", async (_, status, facts) => {
    const response = await ask(listed, page, facts);
    expect([response.status, response.header("access-control-allow-origin")]).toEqual([status, page]);
    expect(response.header("access-control-expose-headers")).toBe("*");
    expect(response.header("access-control-allow-credentials")).toBeNull();
    const vary = response.headers.filter(([name]) => name.toLowerCase() === "vary").map(([, value]) => value.toLowerCase());
    expect(vary.join(",")).toContain("origin");
  });

  test("is told before what it may send, without a key", async () => {
    const response = await ask(listed, page, preflight);
    expect([response.status, response.bodyLength]).toEqual([200, 0]);
    expect(response.header("access-control-allow-origin")).toBe(page);
    expect(response.header("access-control-allow-methods")).toBe("GET, POST");
    expect(response.header("access-control-allow-headers")).toBe("authorization,content-type,x-stainless-os");
    expect(response.header("access-control-allow-credentials")).toBeNull();
    expect(Number(response.header("access-control-max-age"))).toBeGreaterThan(0);
    expect((await ask(listed, "app://desktop", preflight)).header("access-control-allow-origin")).toBe("app://desktop");
  });

  test("gets no header names back that are none", async () => {
    const headers = { ...preflight.headers, "access-control-request-headers": 'x";<script>' };
    const response = await ask(listed, page, { ...preflight, headers });
    expect([response.status, response.header("access-control-allow-headers")]).toEqual([200, null]);
  });
});

describe("a page of another origin", () => {
  test.each([stranger, "null", `${page}.evil.com`, `${page}:8080`, "http://app.example.com", page.toUpperCase(), ""])(
    "such as %j may read nothing",
    async (origin) => {
      for (const facts of [preflight, ...responses.map(([, , each]) => each)]) {
        const response = await ask(listed, origin, facts);
        expect(response.headers.filter(([name]) => name.toLowerCase().startsWith("access-control-"))).toEqual([]);
      }
      expect((await ask(listed, origin, preflight)).status).toBe(405);
    },
  );

  test("may read everything where any may, and never with the credentials of the browser", async () => {
    for (const facts of [preflight, ...responses.map(([, , each]) => each)]) {
      const response = await ask(open, stranger, facts);
      expect(response.header("access-control-allow-origin")).toBe("*");
      expect(response.header("access-control-allow-credentials")).toBeNull();
    }
  });
});

test("without the setting nothing is different for a page", async () => {
  for (const facts of [preflight, ...responses.map(([, , each]) => each)]) {
    const response = await ask(closed, page, facts);
    expect(response.headers.filter(([name]) => name.toLowerCase().startsWith("access-control-"))).toEqual([]);
  }
  expect((await ask(closed, page, preflight)).status).toBe(405);
});

describe("an origin in the configuration", () => {
  async function problemOf(origins: string): Promise<string | null> {
    const loaded = await loadConfig({ path: null, text: `cors: { origins: ${origins} }\nchannels: []\n`, env: {}, nofile: 20_000 });
    const own = loaded.ok ? [] : loaded.problems.filter(({ path }) => path.startsWith("cors"));
    return own[0] === undefined ? null : `${own[0].reason}: ${own[0].fix}`;
  }

  test.each(['["https://a.example", "http://localhost:3000"]', '["*"]', '["app://obsidian.md"]', '["http://[::1]:3000"]'])(
    "%s is taken",
    async (origins) => {
      expect(await problemOf(origins)).toBeNull();
    },
  );

  test.each([
    ['["https://a.example/"]', "without a path"],
    ['["https://a.example:443"]', "write https://a.example"],
    ['["https://A.example"]', "write https://a.example"],
    ['["a.example"]', "is not an origin"],
    ['["null"]', "is not an origin"],
    ['["https://*.example"]', "is not an origin"],
    ["[5]", "origin"],
    ["https://a.example", "list"],
  ])("%s is a mistake that says how to write it", async (origins, message) => {
    expect(await problemOf(origins)).toContain(message);
  });
});
