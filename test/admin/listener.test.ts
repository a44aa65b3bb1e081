// Needs: servers. It uses a real PostgreSQL or Redis.
import { beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { bindingProblem } from "../../src/admin/binding.ts";
import { makeAdminHandler } from "../../src/admin/handler.ts";
import { makeHostCheck } from "../../src/admin/host.ts";
import { bodyBytesMax } from "../../src/admin/json-body.ts";
import { ResultWithHeaders, route, TextResult } from "../../src/admin/route.ts";
import { StorageError } from "../../src/gateway/storage.ts";
import { makeToken } from "../../src/keys/token.ts";
import { codeOf, startAdmin, type AdminWorld, type ErrorBody } from "../support/admin.ts";
import { rawRequest } from "../support/client.ts";
import { makeCertificates, type Certificates, type KeyPair } from "../support/tls.ts";

const base = { access: "public", summary: "For a test.", answer: z.unknown() } as const;
const troubles = ["unavailable", "full", "conflict", "missing", "invalid", "damaged"] as const;
const routes = [
  route({ ...base, method: "GET", path: "/test/bug", handle: () => Promise.reject(new Error("the secret detail")) }),
  route({ ...base, method: "GET", path: "/test/throws", handle: () => raise(new Error("the secret detail")) }),
  route({ ...base, method: "GET", path: "/test/slow", handle: () => new Promise<never>(() => undefined) }),
  route({ ...base, method: "POST", path: "/test/slow", handle: () => new Promise<never>(() => undefined) }),
  route({ ...base, method: "GET", path: "/test/csv", text: "text/csv", handle: () => new TextResult("text/csv", "a,b\n", 'x"y\r\n.csv') }),
  route({ ...base, method: "GET", path: "/test/headed", handle: () => new ResultWithHeaders({ a: 1 }, { "x-one": "1" }) }),
  route({ ...base, method: "GET", path: "/test/named/{id}", handle: ({ params }) => ({ id: params.id }) }),
  route({ ...base, method: "GET", path: "/test/named/fixed", handle: () => ({ fixed: true }) }),
  route({
    ...base,
    method: "GET",
    path: "/test/query",
    query: z.strictObject({ limit: z.coerce.number().int().min(1).max(200).default(50), search: z.string().max(100).optional() }),
    handle: ({ query }) => query,
  }),
  route({
    ...base,
    method: "POST",
    path: "/test/body",
    body: z.strictObject({ name: z.string().max(20), inner: z.strictObject({ count: z.int() }).optional() }),
    handle: ({ body }) => body,
  }),
  route({
    ...base,
    method: "GET",
    path: "/test/trouble/{kind}",
    handle: ({ params }) => raise(new StorageError(params.kind as (typeof troubles)[number], "in the store's words")),
  }),
];

function raise(error: Error): never {
  throw error;
}

const certificates = await makeCertificates();

let world: AdminWorld;

beforeAll(async () => {
  world = await startAdmin({ routes, listen: { answerMs: 200, bodyMs: 300, hostNames: ["admin.example.org"] } });
});

describe("S34, S44, S45: every answer", () => {
  const sent: readonly (readonly [string, string])[] = [
    ["GET", "/healthz"],
    ["GET", "/nowhere"],
    ["GET", "/admin/api/me"],
    ["PUT", "/healthz"],
    ["OPTIONS", "/admin/api/me"],
    ["GET", "/test/bug"],
    ["GET", "/test/csv"],
    ["HEAD", "/test/headed"],
    ["POST", "/test/body"],
  ];
  test.each(sent)(
    "to %s %s forbids framing, sniffing, caching and foreign scripts, and no other origin may read it",
    async (method, path) => {
      const { headers } = await world.call(method, path, {
        headers: { origin: "https://evil.example", "access-control-request-method": "GET" },
      });
      expect(headers.get("content-security-policy")).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; media-src 'self' blob:; base-uri 'none'; " +
          "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'",
      );
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
      expect(headers.get("cross-origin-opener-policy")).toBe("same-origin");
      expect(headers.get("cross-origin-resource-policy")).toBe("same-origin");
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("vary")).toBe("authorization, cookie");
      expect(headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/);
      expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
      expect(headers.get("strict-transport-security")).toBeNull();
    },
  );

  test("has the caller's request id if that is safe, also in an error", async () => {
    const given = await world.call("GET", "/nowhere", { headers: { "x-request-id": "mine-1" } });
    expect(given.headers.get("x-request-id")).toBe("mine-1");
    expect((given.json as ErrorBody).error.request_id).toBe("mine-1");
    const hostile = await world.call("GET", "/nowhere", { headers: { "x-request-id": "<script>" } });
    expect(hostile.headers.get("x-request-id")).toStartWith("req_");
  });

  test("behind TLS has Strict-Transport-Security", async () => {
    const secure = await startAdmin({ listen: { secure: true } });
    expect((await secure.call("GET", "/healthz")).headers.get("strict-transport-security")).toBe("max-age=31536000");
  });
});

describe("S08: a path", () => {
  test.each([
    "//admin/api/me",
    "/admin//api/me",
    "/Admin/api/me",
    "/admin/api/me/",
    "/admin/api/me;x=1",
    "/admin%2fapi/me",
    "/admin/api/%6de",
    "/admin/api",
    "/v1/models",
    "/v1/chat/completions",
    "/test/named/",
    "/test/named/%00",
    "/test/named/%ff",
    "/test/named/a/b",
    `/test/named/${"x".repeat(600)}`,
  ])("%p is not another's", async (path) => {
    const response = await rawRequest(world.url, { path });
    expect(response.status).toBe(404);
    expect((JSON.parse(response.text) as ErrorBody).error.code).toBe("unknown_route");
  });

  test("that the runtime has normalised is authorised as the resulting route", async () => {
    for (const path of ["/x/../admin/api/me", "/healthz/%2e%2e/admin/api/me", "/admin\\api/me", "http://evil.example/admin/api/me"]) {
      expect((await rawRequest(world.url, { path })).status).toBe(401);
    }
  });

  test("is not changed by headers such as X-Original-URL", async () => {
    const headers = { "x-original-url": "/admin/api/me", "x-rewrite-url": "/admin/api/me", "x-http-method-override": "DELETE" };
    const { status, text } = await world.call("GET", "/healthz", { headers });
    expect([status, text]).toEqual([200, "ok\n"]);
  });

  test("in full goes before one with a parameter, whose segment is decoded once", async () => {
    expect((await world.call("GET", "/test/named/fixed")).json).toEqual({ fixed: true });
    expect((await world.call("GET", "/test/named/a%2Fb%2520c")).json).toEqual({ id: "a/b%20c" });
  });
});

describe("a method", () => {
  test("that a path does not support gets 405 and the supported ones", async () => {
    for (const method of ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]) {
      const response = await rawRequest(world.url, { method, path: "/test/slow" });
      expect(response.status).toBe(405);
      expect(response.header("allow")).toBe("GET, HEAD, POST");
    }
    expect((await world.call("GET", "/test/body")).headers.get("allow")).toBe("POST");
  });

  test("HEAD is GET without the body", async () => {
    const whole = await world.call("GET", "/test/headed");
    const head = await world.call("HEAD", "/test/headed");
    expect([head.status, head.text]).toEqual([200, ""]);
    expect(head.headers.get("content-length")).toBe(String(whole.text.length));
    expect(head.headers.get("x-one")).toBe("1");
  });
});

describe("S46: a host", () => {
  test.each([
    "evil.example",
    "evil.example:4401",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "",
    "a, b",
    "127.0.0.1@evil.example",
    "10.0.0.9",
  ])("of another name is refused: %p", async (host) => {
    const response = await rawRequest(world.url, { path: "/healthz", headers: { Host: host } });
    expect(response.status).toBe(421);
    expect((JSON.parse(response.text) as ErrorBody).error.code).toBe("host_not_allowed");
  });

  test("given twice or not at all is refused", async () => {
    const twice = await rawRequest(world.url, {
      bytes: "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
    });
    expect(twice.status).toBe(421);
    const none = await rawRequest(world.url, { bytes: "GET /healthz HTTP/1.0\r\n\r\n" });
    expect(none.status).toBe(421);
  });

  test.each(["localhost", "LOCALHOST:9999", "127.0.0.1:1", "[::1]:4401", "admin.example.org", "Admin.Example.org:443"])(
    "of ours is served: %p",
    async (host) => {
      expect((await rawRequest(world.url, { path: "/healthz", headers: { Host: host } })).status).toBe(200);
    },
  );

  test("may be any IP address if the listener is bound to all addresses, but no other name", () => {
    for (const bound of ["0.0.0.0", "::"]) {
      const allowed = makeHostCheck(bound, []);
      expect(["192.168.1.5:4401", "[fe80::1]:4401", "localhost"].map(allowed)).toEqual([true, true, true]);
      expect(["evil.example", "1.2.3.4.evil.example", "1.2.3", "[::1].evil.example", "[evil.example]"].map(allowed)).toEqual([
        false,
        false,
        false,
        false,
        false,
      ]);
    }
    expect(makeHostCheck("192.168.1.5", [])("192.168.1.6")).toBe(false);
    expect(makeHostCheck("::1", [])("[::1]:80")).toBe(true);
  });
});

describe("a body", () => {
  test.each([
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json; charset=latin1",
    "application/json;\tcharset=utf-8",
    "application/json, text/plain",
    "application/jsonx",
    "",
  ])("of the type %p is refused", async (type) => {
    const { status, json } = await world.call("POST", "/test/body", { raw: '{"name":"a"}', headers: { "content-type": type } });
    expect([status, (json as ErrorBody).error.code]).toEqual([415, "unsupported_media_type"]);
  });

  test("may name UTF-8, in any case", async () => {
    for (const type of ["application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"']) {
      expect((await world.call("POST", "/test/body", { raw: '{"name":"a"}', headers: { "content-type": type } })).json).toEqual({
        name: "a",
      });
    }
  });

  test("that is compressed is refused", async () => {
    const headers = { "content-type": "application/json", "content-encoding": "gzip" };
    expect((await world.call("POST", "/test/body", { raw: Bun.gzipSync('{"name":"a"}'), headers })).status).toBe(415);
  });

  test("above the limit is refused with an error object, with a length and without one", async () => {
    const body = JSON.stringify({ name: "x".repeat(bodyBytesMax) });
    const headers = { "Content-Type": "application/json" };
    for (const chunked of [false, true]) {
      const response = await rawRequest(world.url, { method: "POST", path: "/test/body", headers, body, chunked });
      expect([response.status, (JSON.parse(response.text) as ErrorBody).error.code]).toEqual([413, "request_too_large"]);
    }
  });

  test("that does not arrive in time is refused", async () => {
    const head = "POST /test/body HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    for (const rest of ['Content-Length: 100\r\n\r\n{"name', 'Transfer-Encoding: chunked\r\n\r\n6\r\n{"name\r\n']) {
      const response = await rawRequest(world.url, { bytes: head + rest, timeoutMs: 5000 });
      expect([response.status, (JSON.parse(response.text) as ErrorBody).error.code]).toEqual([408, "request_timeout"]);
    }
  });

  test("that is invalid JSON, not an object, or missing is refused, and not repeated in the error", async () => {
    const headers = { "content-type": "application/json" };
    const bad = ["", "{", "nonsense", "[", '{"name":"a"}}', new Uint8Array([0x22, 0xff, 0x22]), "[".repeat(100_000)];
    for (const raw of bad) {
      const called = await world.call("POST", "/test/body", { raw, headers });
      expect([called.status, codeOf(called)]).toEqual([400, "invalid_json"]);
      expect(called.text).not.toContain("nonsense");
    }
    for (const raw of ["[]", "null", "1", '"x"']) {
      const called = await world.call("POST", "/test/body", { raw, headers });
      expect([called.status, codeOf(called)]).toEqual([400, "invalid_value"]);
    }
  });

  test("with an unknown field is refused by its name, at any depth", async () => {
    const cases: readonly (readonly [string, string])[] = [
      ['{"name":"a","is_admin":true}', "is_admin"],
      ['{"name":"a","inner":{"count":1,"owner":"x"}}', "inner.owner"],
      ['{"name":"a","__proto__":{"x":1}}', "__proto__"],
      ['{"name":"a","constructor":1}', "constructor"],
    ];
    for (const [raw, name] of cases) {
      const called = await world.call("POST", "/test/body", { raw, headers: { "content-type": "application/json" } });
      expect((called.json as ErrorBody).error).toMatchObject({ code: "unknown_field", param: name });
      expect(called.status).toBe(400);
    }
  });

  test("with a wrong value is refused with the field's name and without the value", async () => {
    const called = await world.call("POST", "/test/body", { body: { name: "top-secret-and-much-too-long-for-this" } });
    expect((called.json as ErrorBody).error).toMatchObject({ code: "invalid_value", param: "name" });
    expect(called.text).not.toContain("top-secret");
  });

  test("whatever it is, never breaks the listener", async () => {
    await fc.assert(
      fc.asyncProperty(fc.json({ maxDepth: 5 }), async (raw) => {
        const { status } = await world.call("POST", "/test/body", { raw, headers: { "content-type": "application/json" } });
        expect([200, 400]).toContain(status);
      }),
      { numRuns: 100 },
    );
  });
});

describe("a query", () => {
  test("is checked and completed by its schema", async () => {
    expect((await world.call("GET", "/test/query")).json).toEqual({ limit: 50 });
    expect((await world.call("GET", "/test/query?limit=200&search=%25%25__")).json).toEqual({ limit: 200, search: "%%__" });
  });

  test.each([
    ["limit=1e9", "invalid_value", "limit"],
    ["limit=0", "invalid_value", "limit"],
    ["limit=1.5", "invalid_value", "limit"],
    ["limit=x", "invalid_value", "limit"],
    [`search=${"x".repeat(10_240)}`, "invalid_value", "search"],
    ["sort=1", "unknown_parameter", "sort"],
    ["limit=1&limit=2", "invalid_value", "limit"],
    ["__proto__=1", "unknown_parameter", "__proto__"],
  ])("%p is refused", async (query, code, param) => {
    const called = await world.call("GET", `/test/query?${query}`);
    expect(called.status).toBe(400);
    expect((called.json as ErrorBody).error).toMatchObject({ code, param });
  });
});

describe("an internal error", () => {
  test.each(["/test/bug", "/test/throws"])("of %s is a 500 without detail, and the log has it", async (path) => {
    world.bugs.length = 0;
    const called = await world.call("GET", path);
    expect([called.status, codeOf(called)]).toEqual([500, "internal_error"]);
    expect(called.text).not.toContain("secret");
    expect(world.bugs.map(String)).toEqual(["Error: the secret detail"]);
  });

  test("of the store says what to do", async () => {
    const statuses = { unavailable: 503, full: 507, conflict: 409, missing: 404, invalid: 400, damaged: 500 };
    const codes = {
      unavailable: "store_unavailable",
      full: "storage_full",
      conflict: "conflict",
      missing: "not_found",
      invalid: "invalid_value",
      damaged: "internal_error",
    };
    for (const kind of troubles) {
      const called = await world.call("GET", `/test/trouble/${kind}`);
      expect([called.status, codeOf(called)]).toEqual([statuses[kind], codes[kind]]);
    }
    expect((await world.call("GET", "/test/trouble/unavailable")).headers.get("retry-after")).toBe("1");
  });

  test("that takes too long ends with an answer", async () => {
    const question = await world.call("GET", "/test/slow");
    expect([question.status, codeOf(question)]).toEqual([400, "query_too_slow"]);
    const change = await world.call("POST", "/test/slow", { body: {} });
    expect([change.status, codeOf(change)]).toEqual([504, "timed_out"]);
  });
});

test("a text answer has its own type, and a file name that cannot break out of its header", async () => {
  const { text, headers } = await world.call("GET", "/test/csv");
  expect(text).toBe("a,b\n");
  expect(headers.get("content-type")).toBe("text/csv");
  expect(headers.get("content-disposition")).toBe('attachment; filename="x_y__.csv"');
});

test("the address of a caller is that of the connection, whatever a header claims", async () => {
  const shows = route({ ...base, method: "GET", path: "/test/address", handle: ({ address, actor }) => ({ address, actor }) });
  const world = await startAdmin({ routes: [shows] });
  const headers = { "x-forwarded-for": "1.2.3.4", forwarded: "for=1.2.3.4", "x-real-ip": "1.2.3.4" };
  expect((await world.call("GET", "/test/address", { headers })).json).toEqual({
    address: "127.0.0.1",
    actor: { kind: "admin", name: "stranger", address: "127.0.0.1" },
  });
});

describe("a token", () => {
  const fuzz = [
    "Bearer",
    "Bearer ",
    "bearer '",
    'Bearer "; drop table keys; --',
    "Bearer ' or 1=1 --",
    "Basic YWRtaW46YWRtaW4=",
    "sk-gwa_0123456789AB",
    `Bearer ${"x".repeat(8000)}`,
    "Bearer a, Bearer b",
    "Bearer\ttab",
    'Bearer ["a"]',
    "Bearer sk-gwa_0123456789AB_CDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrs0MQBaE",
  ];

  test("that is invalid gets the same answer each time, which does not repeat it", async () => {
    const bodies = new Set<string>();
    for (const authorization of fuzz) {
      const called = await world.call("GET", "/admin/api/me", { headers: { authorization, "x-request-id": "same" } });
      expect([called.status, codeOf(called)]).toEqual([401, "invalid_api_key"]);
      bodies.add(called.text);
    }
    bodies.add((await world.call("GET", "/admin/api/me", { headers: { "x-request-id": "same" } })).text);
    expect(bodies.size).toBe(1);
  });

  test("S48: of a client does not work here, not even if its digest were in the wrong table", async () => {
    const { token } = makeToken(world.services.randomBytes);
    await world.storage.accounts.createToken(
      { name: "swapped", role: "admin", mark: { digest: world.services.adminDigest(token), last4: "xxxx" } },
      { kind: "cli", name: "x" },
    );
    expect((await world.call("GET", "/admin/api/me", { headers: { authorization: `Bearer ${token}` } })).status).toBe(401);
  });

  test("allows what its role allows, until it is revoked", async () => {
    const headers = await world.token("viewer");
    const me = await world.call("GET", "/admin/api/me", { headers });
    expect(me.json).toMatchObject({ kind: "token", role: "viewer", csrf_token: null });
    await world.storage.accounts.revokeToken((me.json as { name: string }).name, { kind: "cli", name: "x" });
    expect((await world.call("GET", "/admin/api/me", { headers })).status).toBe(401);
  });

  test("in ADMIN_TOKEN_FILE has the role admin, and is not stored", async () => {
    const given = "f3a9c1d27be84f60a5d8e21c97b3046f";
    const world = await startAdmin({ listen: { operatorToken: given } });
    const me = await world.call("GET", "/admin/api/me", { headers: { authorization: `Bearer ${given}` } });
    expect(me.json).toMatchObject({ kind: "token", role: "admin", name: "given at start" });
    expect((await world.call("GET", "/admin/api/me", { headers: { authorization: `Bearer ${given}0` } })).status).toBe(401);
    expect(await world.storage.accounts.tokens()).toEqual([]);
  });
});

test("S40: listening beyond loopback needs an account or a token first", () => {
  for (const host of ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
    expect(bindingProblem({ host, accounts: 0, tokenGiven: false, hasProvider: false })).toBeNull();
  for (const host of ["0.0.0.0", "::", "192.168.0.1", "127.0.0.1.example", "example.org"]) {
    expect(bindingProblem({ host, accounts: 0, tokenGiven: false, hasProvider: false })).toContain("ADMIN_TOKEN_FILE");
    expect(bindingProblem({ host, accounts: 1, tokenGiven: false, hasProvider: false })).toBeNull();
    expect(bindingProblem({ host, accounts: 0, tokenGiven: true, hasProvider: false })).toBeNull();
    expect(bindingProblem({ host, accounts: 0, tokenGiven: false, hasProvider: true })).toBeNull();
  }
});

describe.skipIf(certificates === null)("with a certificate", () => {
  const { authority, valid, renewed, wrongName, selfSigned } = (certificates ?? {}) as Certificates;

  async function statusFor(url: string, pair: Partial<KeyPair>): Promise<number | null> {
    const answer = await fetch(`${url}/healthz`, { keepalive: false, tls: { ca: authority, ...pair } }).catch(() => null);
    return answer?.status ?? null;
  }

  test("it speaks TLS, and clients show theirs where they must", async () => {
    const required = { ...valid, clientCa: authority, isClientRequired: true };
    const { url } = await startAdmin({ listen: { tls: required, secure: true } });
    expect(url).toStartWith("https://");
    const statuses = [await statusFor(url, {}), await statusFor(url, wrongName), await statusFor(url, selfSigned)];
    expect(statuses).toEqual([null, 200, null]);
    // A wrong certificate cannot be told from none here, so that optional ones are not asked for.
    const { url: lenient } = await startAdmin({ listen: { tls: { ...required, isClientRequired: false }, secure: true } });
    expect([await statusFor(lenient, {}), await statusFor(lenient, selfSigned)]).toEqual([200, 200]);
  });

  test("it takes another one, and its port stays", async () => {
    const { url, listener } = await startAdmin({ listen: { tls: { ...selfSigned, clientCa: null, isClientRequired: false } } });
    expect(await statusFor(url, {})).toBeNull();
    listener.renew({ ...renewed, clientCa: null, isClientRequired: false });
    expect(await statusFor(url, {})).toBe(200);
  });
});

test("a connection is kept open for a route whose answer may take longer than silence is allowed, and for no other", async () => {
  const patient = route({ ...base, method: "GET", path: "/test/patient", answerMs: 1000, handle: () => ({}) });
  const handler = makeAdminHandler({ host: "127.0.0.1", services: world.services, routes: [...routes, patient], onBug: () => undefined });
  const kept: string[] = [];
  for (const path of ["/test/patient", "/test/headed", "/test/missing"]) {
    const request = new Request(`http://127.0.0.1${path}`, { headers: { host: "127.0.0.1" } });
    await handler.handle(request, "127.0.0.1", () => kept.push(path));
  }
  expect(kept).toEqual(["/test/patient"]);
});
