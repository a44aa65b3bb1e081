// Needs: quiet. Its requests are small, one at a time; what they may cost is counted in the gateway's own processor time.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { fixed, routeOf } from "../../src/http/routes.ts";
import { makeToken } from "../../src/keys/token.ts";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { RawConnection, RawResponse, rawRequest, sseEvents, type RawOptions } from "../support/client.ts";
import { leastCpuMs } from "../support/cpu.ts";
import { startGateway } from "../support/gateway.ts";
import { clientKey, setUp, upstreamKey, type Rig } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const { token: madeKey } = makeToken((count) => crypto.getRandomValues(new Uint8Array(count)));
const narrowKey = "sk-narrow-canary-0123456789abcdef";
const patternKey = "sk-pattern-canary-0123456789abcdef";

let rig: Rig<"a" | "open">;
/** A host that nobody has configured. */
let evil: Chaos;

beforeAll(async () => {
  evil = await startChaos({ name: "evil" });
  rig = await setUp(
    { a: { models: ["plain", "other"], forward_headers: ["x-team"] }, open: {} },
    {
      keys: [
        { name: "tester", key: clientKey },
        { name: "made", key: madeKey },
        { name: "narrow", key: narrowKey, models: ["plain"] },
        { name: "pattern", key: patternKey, models: ["a*a*a*a*a*a*a*a*a*b", "plain"] },
      ],
      // The rows below send many wrong keys from one address, and look at each answer.
      server: { wrong_keys: "off" },
    },
  );
});

afterAll(async () => {
  expect(evil.ledger.connectionsAccepted).toBe(0);
  await evil.close();
  await rig[Symbol.asyncDispose]();
});

const good = JSON.stringify({ model: "plain", messages: [{ role: "user", content: "hi" }] });
const json = { "Content-Type": "application/json" };
const authorised = { Authorization: `Bearer ${clientKey}` };

function ask(options: RawOptions & { readonly path?: string }): Promise<RawResponse> {
  return rawRequest(rig.gateway.url, options);
}

function post(
  headers: Record<string, string> | readonly (readonly [string, string])[],
  body: string | Uint8Array = good,
): Promise<RawResponse> {
  return ask({ path: "/v1/chat/completions", headers, body });
}

function codeOf(response: RawResponse): unknown {
  return (response.json() as { readonly error?: { readonly code?: unknown } }).error?.code;
}

/** All that a client could compare, apart from what names the request and the second. */
function seen(response: RawResponse): unknown {
  const id = response.header("x-request-id") ?? "";
  const headers = response.headers.filter(([name]) => !/^(x-request-id|date)$/i.test(name));
  return { status: response.status, headers, text: response.text.replaceAll(id, "…") };
}

/** Bytes as they are, and every answer that comes back until the connection is closed or falls silent. */
async function say(
  bytes: string | Uint8Array,
): Promise<{ readonly statuses: readonly number[]; readonly closed: boolean; readonly raw: string }> {
  const connection = await RawConnection.open(rig.gateway.url);
  const statuses: number[] = [];
  let closed = true;
  let raw = "";
  const silence = setTimeout(() => {
    closed = false;
    connection.close();
  }, 250);
  await connection.send(Buffer.from(bytes as string, "latin1"));
  for (;;) {
    const response = await connection.receive(new RawResponse());
    raw += Buffer.from(response.raw).toString("latin1");
    if (response.status === 0) break;
    statuses.push(response.status);
  }
  clearTimeout(silence);
  connection.close();
  return { statuses, closed, raw };
}

describe("S01: a stranger", () => {
  let stranger: unknown;

  beforeAll(async () => {
    stranger = seen(await post(json));
    expect(stranger).toMatchObject({ status: 401 });
    expect((stranger as { readonly text: string }).text).toContain("invalid_api_key");
  });

  test.each([
    ["an empty header", ""],
    ["no scheme", clientKey],
    ["another scheme", `Basic ${btoa(`x:${clientKey}`)}`],
    ["a scheme alone", "Bearer"],
    ["a scheme and spaces", "Bearer    "],
    ["two schemes", `Bearer Bearer ${clientKey}`],
    ["two tokens", `Bearer ${clientKey} ${clientKey}`],
    ["a quote", `Bearer ${clientKey}'`],
    ["SQL", "Bearer ' OR '1'='1' --"],
    ["a tab for a space", `Bearer\t${clientKey}`],
    ["a token in quotes", `Bearer "${clientKey}"`],
    ["a token in the format of OpenAI", "Bearer sk-0123456789abcdefghijklmnopqrstuvwxyz"],
    ["eight kilobytes", `Bearer ${"x".repeat(8 * 1024)}`],
    ["the right token and more", `Bearer ${clientKey}x`],
    ["half of the right token", `Bearer ${clientKey.slice(0, -1)}`],
    ["the right token in capitals", `Bearer ${clientKey.toUpperCase()}`],
    ["what is no ASCII", "Bearer \u00e4\u00f6\u00fc"],
    ["an object", 'Bearer {"$ne":null}'],
  ])("with %s gets the same answer as one without a key", async (_, authorization) => {
    expect(seen(await post({ ...json, Authorization: authorization }))).toEqual(stranger);
  });

  test("with anything at all gets it too, and never an echo", async () => {
    const values = fc
      .string({ unit: fc.integer({ min: 0x21, max: 0xff }).map((code) => String.fromCharCode(code)), minLength: 1, maxLength: 200 })
      .filter((text) => !text.includes(",") && text.trim() === text);
    await fc.assert(
      fc.asyncProperty(values, fc.boolean(), async (value, scheme) => {
        expect(seen(await post({ ...json, Authorization: scheme ? `Bearer ${value}` : value }))).toEqual(stranger);
      }),
      { numRuns: 60 },
    );
  });

  test.each(["Bearer a\0b", "Bearer a\rb", "Bearer a\x7f\x01b"])(
    "with a control character is refused before that (%j)",
    async (authorization) => {
      const { statuses } = await say(`GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n\r\n`);
      expect([400, 401]).toContain(statuses[0] ?? 0);
    },
  );

  test("S03: with a key that is nearly right gets the same answer as one with a wrong one", async () => {
    expect((await post({ ...json, Authorization: `Bearer ${madeKey}` })).status).toBe(200);
    const flipped = (at: number) => madeKey.slice(0, at) + (madeKey[at] === "A" ? "B" : "A") + madeKey.slice(at + 1);
    for (const token of [
      flipped(8),
      flipped(30),
      flipped(madeKey.length - 1),
      madeKey.slice(0, -1),
      `${madeKey}0`,
      madeKey.replace("sk-gw_", "sk-gwa_"),
    ]) {
      expect(seen(await post({ ...json, Authorization: `Bearer ${token}` }))).toEqual(stranger);
    }
  });

  test("knows the scheme in any case", async () => {
    for (const scheme of ["bearer", "BEARER", "Bearer "])
      expect((await post({ ...json, Authorization: `${scheme} ${clientKey}` })).status).toBe(200);
  });
});

describe("S07: two credentials are one too many", () => {
  test.each([
    [
      "two headers",
      [
        ["Authorization", `Bearer ${clientKey}`],
        ["Authorization", `Bearer ${narrowKey}`],
      ],
    ],
    [
      "the same twice",
      [
        ["Authorization", `Bearer ${clientKey}`],
        ["authorization", `Bearer ${clientKey}`],
      ],
    ],
    ["a list", [["Authorization", `Bearer ${clientKey}, Bearer ${narrowKey}`]]],
    [
      "another header that disagrees",
      [
        ["Authorization", `Bearer ${clientKey}`],
        ["x-api-key", narrowKey],
      ],
    ],
    [
      "two other headers that disagree",
      [
        ["x-api-key", clientKey],
        ["api-key", narrowKey],
      ],
    ],
  ] as const)("%s", async (_, headers) => {
    const response = await post([["Content-Type", "application/json"], ...headers]);
    expect([response.status, codeOf(response)]).toEqual([400, "ambiguous_credentials"]);
  });

  test("unless they are the same", async () => {
    expect((await post({ ...json, ...authorised, "x-api-key": clientKey })).status).toBe(200);
    expect((await post({ ...json, "x-api-key": clientKey, "api-key": clientKey })).status).toBe(200);
  });

  test.each(["api_key", "key", "access_token", "API_KEY"])("a key in the URL is refused, whatever else there is (?%s=)", async (name) => {
    const response = await ask({ path: `/v1/models?x=1&${name}=${clientKey}`, headers: authorised });
    expect([response.status, codeOf(response)]).toEqual([400, "key_in_url"]);
    expect(response.text).not.toContain(clientKey);
  });

  test.each(["keys", "api_keys", "monkey=1", "x=key="])("no other part of a URL is taken for a key (?%s)", async (query) => {
    expect((await ask({ path: `/v1/models?${query}`, headers: authorised })).status).toBe(200);
  });
});

describe("S08: no spelling of a path leads anywhere else", () => {
  const spellings = [
    "//v1/models",
    "/v1//models",
    "/v1/./models",
    "/v1/../v1/models",
    "/v1/%2e%2e/v1/models",
    "/v1/..%2fv1/models",
    "/v1/%2e/models",
    "/V1/models",
    "/v1/MODELS",
    "/v1/models;x=1",
    "/v1/models;/../x",
    "/v1\\models",
    "/v1/%6dodels",
    "/v1%2fmodels",
    "/v1/models%00",
    "/v1/models/",
    "/v1/models#x",
    "http://evil/v1/models",
    "http://evil:80/v1/models",
    "//evil/v1/models",
    "/v1/models/../../healthz/../v1/models",
  ];

  test.each(spellings)("%s tells a stranger nothing", async (path) => {
    const { statuses, raw } = await say(`GET ${path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n`);
    expect([400, 401, 404]).toContain(statuses[0] ?? 0);
    expect(raw).not.toContain('"list"');
  });

  test.each([
    "/admin",
    "//admin",
    "/v1/../admin",
    "/v1/%2e%2e/admin",
    "/v1/..%2fadmin",
    "/v1/..;/admin",
    "/v1\\..\\admin",
    "/Admin",
    "http://127.0.0.1:4401/admin",
    "/api/keys",
    "/metrics",
    "/debug",
    "/console",
    "/.env",
    "/v1/keys",
    "/v1/admin",
    "/healthz/../admin",
    "/favicon.ico",
  ])("%s is nowhere, even with a key", async (path) => {
    for (const host of ["gateway", "127.0.0.1:4401", "admin", "evil"]) {
      const { statuses } = await say(
        `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${clientKey}\r\nConnection: close\r\n\r\n`,
      );
      expect([400, 404]).toContain(statuses[0] ?? 0);
    }
  });

  test("nor does a header that other servers use as the path, the method or the address", async () => {
    const tricks = {
      "X-Original-URL": "/healthz",
      "X-Rewrite-URL": "/healthz",
      "X-HTTP-Method-Override": "GET",
      "X-Method-Override": "GET",
      "X-Forwarded-Host": "admin",
      "X-Forwarded-Prefix": "/admin",
      Forwarded: "host=admin",
      "X-Forwarded-For": "127.0.0.1",
    };
    expect((await ask({ path: "/v1/models", headers: tricks })).status).toBe(401);
    expect((await ask({ path: "/admin", headers: { ...tricks, ...authorised } })).status).toBe(404);
    expect((await ask({ path: "/v1/models", method: "POST", headers: { ...tricks, ...authorised }, body: "{}" })).status).toBe(405);
  });
});

describe("S09: an ambiguous request is refused, and its connection closed", () => {
  const length = Buffer.byteLength(good);
  const chunked = `${length.toString(16)}\r\n${good}\r\n0\r\n\r\n`;
  const smuggled = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
  const start = `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer ${clientKey}\r\n`;

  test.each([
    ["a length and chunks", `Content-Length: ${length}\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}`],
    ["chunks and a shorter length", `Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n${chunked}${smuggled}`],
    ["no chunks and a longer length", `Content-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ["two lengths", `Content-Length: ${length}\r\nContent-Length: ${length + 1}\r\n\r\n${good}`],
    ["two lengths in one", `Content-Length: ${length}, ${length}\r\n\r\n${good}`],
    ["a length with a sign", `Content-Length: +${length}\r\n\r\n${good}`],
    ["a negative length", `Content-Length: -1\r\n\r\n${good}`],
    ["a length in hexadecimal", `Content-Length: 0x10\r\n\r\n${good}`],
    ["a space before the colon", `Transfer-Encoding : chunked\r\n\r\n${chunked}`],
    ["chunks that are not last", `Transfer-Encoding: chunked, identity\r\n\r\n${chunked}`],
    ["an encoding nobody knows", `Transfer-Encoding: xchunked\r\n\r\n${chunked}`],
    ["chunks twice", `Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}`],
    ["one encoding hidden behind another", `Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}`],
    ["a folded header", `X-A: b\r\n Transfer-Encoding: chunked\r\nContent-Length: ${length}\r\n\r\n${good}`],
    ["a bare return in a header", `X-A: b\rTransfer-Encoding: chunked\r\nContent-Length: ${length}\r\n\r\n${good}`],
    ["a chunk larger than numbers", `Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n${good}\r\n0\r\n\r\n`],
    ["a chunk of no size", `Transfer-Encoding: chunked\r\n\r\nzz\r\n${good}\r\n0\r\n\r\n`],
    ["a chunk of negative size", `Transfer-Encoding: chunked\r\n\r\n-5\r\n${good}\r\n0\r\n\r\n`],
    ["chunks with bare line feeds", `Transfer-Encoding: chunked\r\n\r\n${length.toString(16)}\n${good}\n0\n\n`],
  ])("%s", async (_, rest) => {
    const before = rig.upstream.a.ledger.attempts.length;
    const { statuses, closed } = await say(start + rest);
    expect([statuses, closed]).toEqual([[400], true]);
    expect(rig.upstream.a.ledger.attempts.length).toBe(before);
  });

  test("bare line feeds throughout", async () => {
    const { statuses, closed } = await say((start + `Content-Length: ${length}\r\n\r\n`).replaceAll("\r\n", "\n") + good);
    expect([statuses.length === 1 && statuses[0]! >= 400, closed]).toEqual([true, true]);
  });

  test("a credential in a trailer does not count", async () => {
    const { statuses } = await say(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n${chunked.slice(0, -2)}Authorization: Bearer ${clientKey}\r\n\r\n`,
    );
    expect([400, 401]).toContain(statuses[0] ?? 0);
    expect(statuses).not.toContain(200);
  });
});

describe("S10: of a client's headers", () => {
  const strange: readonly (readonly [string, string])[] = [
    ["Cookie", "a=b"],
    ["X-Forwarded-For", "1.2.3.4"],
    ["X-Forwarded-Host", "evil"],
    ["Via", "1.1 evil"],
    ["OpenAI-Organization", "org-x"],
    ["OpenAI-Project", "proj-x"],
    ["Accept-Encoding", "gzip, br"],
    ["User-Agent", "curl/8"],
    ["X-Stainless-Lang", "js"],
    ["Connection", "keep-alive, X-Hop"],
    ["X-Hop", "1"],
    ["Keep-Alive", "timeout=1"],
    ["TE", "trailers"],
    ["Proxy-Authorization", "Basic eA=="],
    ["Range", "bytes=0-1"],
    ["X-Portkey-Custom-Host", "http://evil"],
    ["__proto__", "x"],
    ["constructor", "x"],
  ];

  test("only the allowed ones reach the upstream, each once", async () => {
    const response = await post([...Object.entries({ ...json, ...authorised }), ...strange]);
    expect(response.status).toBe(200);
    const { headers } = rig.upstream.a.ledger.chats.at(-1)!;
    // Our own word on the connection may be there or not; the client's never is.
    const names = headers
      .filter(([name, value]) => `${name}:${value}`.toLowerCase() !== "connection:keep-alive")
      .map(([name]) => name.toLowerCase());
    expect(names.toSorted()).toEqual([
      "accept",
      "accept-encoding",
      "authorization",
      "content-length",
      "content-type",
      "host",
      "user-agent",
    ]);
    const value = (name: string) => headers.find(([candidate]) => candidate.toLowerCase() === name)?.[1];
    expect(value("authorization")).toBe(`Bearer ${upstreamKey("a")}`);
    expect([value("host"), value("content-length"), value("accept-encoding")]).toEqual([
      new URL(rig.upstream.a.url).host,
      String(good.length),
      "identity",
    ]);
  });

  test("one that the operator forwards is forwarded once, in any case", async () => {
    await post([...Object.entries({ ...json, ...authorised }), ["X-Team", "r\u00e9d"], ["x-team", "blue"]]);
    const sent = rig.upstream.a.ledger.chats.at(-1)!.headers.filter(([name]) => name.toLowerCase() === "x-team");
    expect(sent.length).toBe(1);
  });
});

describe("S11: malformed HTTP", () => {
  const large = (bytes: number) => "x".repeat(bytes);
  test.each([
    ["version 0.9", "GET /healthz\r\n\r\n", [400, 505]],
    ["version 2.0 in words", "GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n", [400, 505]],
    ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400, 505]],
    ["TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", [400]],
    ["two Hosts", "GET /v1/models HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", [400]],
    ["no Host", "GET /v1/models HTTP/1.1\r\n\r\n", [400]],
    ["250 headers", `GET /healthz HTTP/1.1\r\nHost: x\r\n${Array.from({ length: 250 }, (_, at) => `X-${at}: 1\r\n`).join("")}\r\n`, [431]],
    ["a header of 17 KiB", `GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ${large(17 * 1024)}\r\n\r\n`, [431]],
    ["a megabyte of header", `GET /healthz HTTP/1.1\r\nHost: x\r\nUser-Agent: ${large(1024 * 1024)}\r\n\r\n`, [431]],
    ["a path of 20 KiB", `GET /${large(20 * 1024)} HTTP/1.1\r\nHost: x\r\n\r\n`, [414, 431]],
    ["CONNECT", "CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n\r\n", [400, 404, 405]],
    ["TRACE", "TRACE /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n", [405]],
    ["OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", [400, 404, 405]],
  ])("%s is refused", async (_, bytes, allowed) => {
    const { statuses, raw } = await say(bytes);
    expect(allowed).toContain(statuses[0] ?? 0);
    expect(raw).not.toContain("X-A");
    // RFC 9110, 15.5.6.
    if (statuses[0] === 405) expect(raw.toLowerCase()).toContain("\r\nallow: ");
  });

  test.each(["h2c", "websocket"])("an upgrade to %s is ignored", async (protocol) => {
    const { statuses } = await say(
      `GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: ${protocol}\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`,
    );
    expect(statuses).toEqual([200]);
  });

  test("a client that sends Expect: 100-continue is refused before it sends its body", async () => {
    // The runtime says `100 Continue` by itself, before anybody has looked at the request.
    const { statuses } = await say(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n",
    );
    expect(statuses).toEqual([401]);
  });
});

describe("S12, S62: a hostile body", () => {
  const wrap = (value: string) => `{"model":"plain","messages":[{"role":"user","content":"hi"}],"x":${value}}`;
  const keys = (count: number, key: (at: number) => string) => `{${Array.from({ length: count }, (_, at) => `"${key(at)}":0`).join(",")}}`;

  test.each([
    ["ten megabytes of opening brackets", wrap("[".repeat(10_000_000))],
    ["a hundred thousand brackets, closed", wrap("[".repeat(100_000) + "]".repeat(100_000))],
    ["four megabytes of empty objects", wrap(`[${"{},".repeat(1_300_000)}{}]`)],
    ["50 001 keys", wrap(keys(50_001, (at) => `k${at}`))],
    ["a million keys", wrap(keys(1_000_000, (at) => `k${at}`))],
    ["a schema of ten thousand levels", wrap(`${'{"properties":'.repeat(10_000)}1${"}".repeat(10_000)}`)],
  ])("%s is refused as too complex within 20 ms, and holds nobody up for 50", async (_, body) => {
    const { pid } = rig.gateway;
    const refuse = async (text: string, code: string | null): Promise<void> => {
      const response = await post({ ...json, ...authorised }, text);
      expect([response.status, codeOf(response)]).toEqual([400, code]);
    };
    const cost = await leastCpuMs(pid, 4, () => refuse(body, "json_too_complex"));
    // As many bytes that are wrong from the first on: what it takes to receive them is the network's.
    const received = await leastCpuMs(pid, 4, () => refuse(`x${body.slice(1)}`, null));
    expect(cost - received).toBeLessThan(slowed(20));
    // All of it together, and so each turn of it.
    expect(cost).toBeLessThan(slowed(50));
  });

  test.each([
    ["a byte order mark", `\uFEFF${good}`],
    ["an open string", '{"model":"plain","messages":["'],
    ["two documents", good + good],
    ["a trailing comma", good.replace("}]}", "}],}")],
    ["a comment", `/* x */${good}`],
    ["NaN", wrap("NaN")],
    ["a lone high byte", Buffer.concat([Buffer.from('{"model":"plain","messages":["'), Buffer.from([0xff]), Buffer.from('"]}')])],
    ["UTF-16", Buffer.from(good, "utf16le")],
    ["a raw control character", wrap('"\u0001"')],
    ["nothing", ""],
    ["a list", `[${good}]`],
    ["null", "null"],
  ])("%s is refused as no request", async (_, body) => {
    const response = await post({ ...json, ...authorised }, body);
    expect([response.status, (response.json() as { error: { type: string } }).error.type]).toEqual([400, "invalid_request_error"]);
  });

  test.each([
    ["numbers beyond all measure", wrap("[1e400,-1e400,9007199254740993]")],
    ["the same key over and over", wrap(`{${Array.from({ length: 1_000 }, () => '"k":1').join(",")}}`)],
    ["keys that hash alike", wrap(keys(10_000, (at) => String(at * 4_294_967_296)))],
    ["lone surrogates", wrap('"\\ud800"')],
    ["names of what every object has", wrap('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}')],
    ["a schema that refers to itself", wrap('{"$ref":"#","$defs":{"a":{"$ref":"#/$defs/a"}}}')],
    [
      "a tool called __proto__",
      good.replace("}]}", '}],"tools":[{"type":"function","function":{"name":"__proto__","parameters":{"__proto__":1}}}]}'),
    ],
    ["text that looks like code", wrap('"${process.env}; DROP TABLE keys; <script>"')],
  ])("%s is passed on", async (_, body) => {
    const response = await post({ ...json, ...authorised }, body);
    expect(response.status).toBe(200);
    expect(Buffer.from(rig.upstream.a.ledger.chats.at(-1)!.body).toString()).toBe(body);
  });

  test("S13: and leaves no trace in what others get", async () => {
    await post(
      { ...json, ...authorised },
      '{"__proto__":{"polluted":1,"status":599},"constructor":{"prototype":{"polluted":1}},"model":"plain","messages":[1]}',
    );
    await ask({ path: "/v1/models?__proto__[polluted]=1&constructor.prototype.polluted=1", headers: authorised });
    const others = [await post(json), await post({ ...json, ...authorised }), await ask({ path: "/v1/models", headers: authorised })];
    for (const response of others) expect(response.text + JSON.stringify(response.headers)).not.toContain("polluted");
    expect(rig.gateway.running).toBe(true);
  });
});

describe("S15: a hostile model name", () => {
  test.each([
    ["a run that almost fits a pattern", "a".repeat(500)],
    ["text of every direction", "\u202e\u0000\u200d".repeat(100)],
    ["thousands of combining marks", "e" + "\u0301".repeat(500)],
    ["characters that grow in capitals", "ß".repeat(500)],
    ["a line break", "plain\n\ndata: [DONE]"],
  ])("costs less than 10 ms: %s", async (_, model) => {
    const refuse = async (): Promise<void> => {
      const response = await post({ ...json, Authorization: `Bearer ${patternKey}` }, JSON.stringify({ model, messages: [1] }));
      expect([400, 403, 404]).toContain(response.status);
    };
    expect(await leastCpuMs(rig.gateway.pid, 3, refuse)).toBeLessThan(slowed(10));
  });
});

describe("S21, S28: an address in a request", () => {
  test("is never called and never replaces a configured one", async () => {
    const url = evil.url;
    const fields = {
      api_base: url,
      base_url: url,
      custom_host: url,
      api_key: "sk-x",
      api_version: "x",
      extra_headers: { Host: "evil" },
      user_config: { url },
      fallbacks: [{ model: "x", api_base: url }],
      model_list: [{ litellm_params: { api_base: url } }],
      proxy: url,
      webhook: url,
      callback_url: url,
    };
    const content = [
      { type: "image_url", image_url: { url: `${url}/image.png` } },
      { type: "file", file: { file_url: `${url}/file.pdf` } },
      { type: "input_audio", input_audio: { url: `${url}/sound.mp3` } },
      { type: "video_url", video_url: { url: "http://169.254.169.254/latest/meta-data" } },
    ];
    const body = JSON.stringify({ model: "plain", messages: [{ role: "user", content }], ...fields });
    const headers = { "x-portkey-custom-host": url, "x-base-url": url, "x-api-base": url, "x-upstream": url, "helicone-target-url": url };
    const response = await post({ ...json, ...authorised, ...headers }, body);
    expect(response.status).toBe(200);
    // Nothing is stripped, and nothing of it is acted upon.
    expect(Buffer.from(rig.upstream.a.ledger.chats.at(-1)!.body).toString()).toBe(body);
    expect(evil.ledger.connectionsAccepted).toBe(0);
  });

  test("in a redirect is not followed, and gets no key", async () => {
    const reply = await rig.chat({ model: `fault:redirect@307,${evil.url}/chat/completions` });
    expect([reply.status, reply.error?.code]).toEqual([502, "upstream_redirect"]);
    expect(reply.response.header("location")).toBe(null);
    expect(evil.ledger.connectionsAccepted).toBe(0);
  });
});

test("S30: an upstream that repeats its key in an error is not quoted", async () => {
  await using own = await setUp({ a: {}, b: {} });
  for (const status of [400, 401, 403, 404, 422, 429, 500]) {
    for (const stream of [false, true]) {
      const reply = await own.chat({ model: `fault:leak-key@${status}` }, { stream });
      expect(reply.status).toBeGreaterThanOrEqual(400);
    }
  }
  // Every byte of every answer and of the log is searched for the keys.
  await own.check();
});

describe("S34: no answer may be cached", () => {
  test("every answer is private to its key", async () => {
    const streamed = JSON.stringify({ ...(JSON.parse(good) as object), stream: true });
    const answers = [
      await post({ ...json, ...authorised }),
      await post({ ...json, ...authorised }, streamed),
      await post(json),
      await post({ ...json, ...authorised }, "{}"),
      await post({ "Content-Type": "text/plain", ...authorised }),
      await ask({ path: "/v1/models", headers: authorised }),
      await ask({ path: "/v1/models/none", headers: authorised }),
      await ask({ path: "/nowhere" }),
      await ask({ path: "/v1/models", method: "DELETE", headers: authorised }),
    ];
    for (const response of answers) {
      expect(response.header("cache-control")).toContain("no-store");
      expect(response.header("vary")?.toLowerCase()).toContain("authorization");
      expect(response.header("x-content-type-options")).toBe("nosniff");
      expect(response.header("x-request-id")).not.toBe(null);
      expect(response.header("access-control-allow-origin")).toBe(null);
    }
  });
});

test("S35: a key that may not use a model cannot tell whether it exists", async () => {
  const answers = await Promise.all(
    ["other", "no-such"].map((model) => post({ ...json, Authorization: `Bearer ${narrowKey}` }, JSON.stringify({ model, messages: [1] }))),
  );
  const [forbidden, unknown] = answers.map((response) => JSON.stringify(seen(response)).replaceAll(/other|no-such/g, "…"));
  expect(forbidden!.replace(/"content-length","\d+"/i, "")).toBe(unknown!.replace(/"content-length","\d+"/i, ""));
});

describe("S38: nothing an upstream says becomes more than data", () => {
  const chunk = (content: string) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;
  const finish = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}\n\ndata: [DONE]\n\n`;

  test.each([
    ["text with line breaks and fields", chunk("a\n\ndata: [DONE]\n\nevent: x\nretry: 1\r\n\r\n") + finish],
    ["fields of its own", `retry: 1\nid: 7\nevent: ping\ndata: {}\n\nevent: message\nid: 9\n${chunk("a")}${finish}`],
    ["comments with a message", `: hello\n: data: x\n\n${chunk("a")}: bye\n${finish}`],
    ["carriage returns as line ends", (chunk("a") + finish).replaceAll("\n", "\r")],
    ["unknown fields and empty data", `data:\n\ndata\n\n${chunk("a")}x-evil: 1\n\nfoo\n\n${finish}`],
    ["more after the end", `${chunk("a")}${finish}${chunk("late")}data: [DONE]\n\n`],
    ["line and paragraph separators", chunk("a\u2028data: x\u2029\u0085") + finish],
  ])("%s", async (_, raw) => {
    const reply = await rig.chat({ model: "plain", x_raw: raw }, { stream: true });
    const events = sseEvents(reply.response.body);
    expect([reply.status, reply.done, reply.finishReason, reply.error]).toEqual([200, true, "stop", null]);
    expect([events.others, events.trailing]).toEqual([[], ""]);
    expect(reply.events.filter((event) => event === "[DONE]").length).toBe(1);
    expect(reply.content).not.toContain("late");
    expect(reply.content).toStartWith("a");
  });
});

describe("S39: headers", () => {
  test.each(["a b", "ä", "x".repeat(65), "../../etc/passwd", "<script>", "a\tb", "{}", "a,b"])(
    "an id such as %j is replaced",
    async (id) => {
      const response = await post({ ...json, ...authorised, "x-request-id": id });
      expect(response.header("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/);
    },
  );

  test.each(["a", "req-1.2_3", "x".repeat(64)])("an id such as %j is kept", async (id) => {
    expect((await post({ ...json, ...authorised, "x-request-id": id })).header("x-request-id")).toBe(id);
  });

  test.each([false, true])("of an upstream stay with the gateway (stream %p)", async (stream) => {
    const answer = stream
      ? 'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
      : '{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}';
    const talkative = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () =>
        new Response(answer, {
          headers: {
            "content-type": stream ? "text/event-stream" : "application/json",
            "set-cookie": "session=1",
            location: "http://evil",
            link: "<http://evil>; rel=preload",
            "alt-svc": 'h3="evil:443"',
            server: "upstream/1.0",
            "strict-transport-security": "max-age=1",
            "openai-organization": "org-secret",
            "x-internal": "10.0.0.1",
            "access-control-allow-origin": "*",
            "cf-ray": "x",
            "x-request-id": "the-upstreams-own",
            "content-disposition": "attachment",
            refresh: "0;url=http://evil",
          },
        }),
    });
    await using gateway = await startGateway({
      config: {
        keys: [{ name: "tester", key: clientKey }],
        channels: [{ name: "a", base_url: `http://127.0.0.1:${talkative.port}/v1`, models: ["plain"] }],
      },
    });
    const response = await rawRequest(`${gateway.url}/v1/chat/completions`, {
      headers: { ...json, ...authorised },
      body: JSON.stringify({ ...(JSON.parse(good) as object), stream }),
    });
    await talkative.stop(true);
    expect(response.status).toBe(200);
    const names = response.headers.map(([name]) => name.toLowerCase()).toSorted();
    // A stream that is over at once is sent with its length.
    const framing = [names.includes("content-length") ? "content-length" : "transfer-encoding", ...(stream ? ["x-accel-buffering"] : [])];
    expect(names).toEqual(
      [
        "cache-control",
        "content-type",
        "date",
        "vary",
        "x-content-type-options",
        "x-request-id",
        "x-sluice-attempts",
        "x-sluice-channel",
        ...framing,
      ].toSorted(),
    );
    expect(response.header("x-request-id")).toMatch(/^req_/);
  });
});

test("S56: nothing that is logged breaks a line, colours a terminal or grows without end", async () => {
  const names = ["a\nb", "\u001b[31mred\u001b[0m", '","level":"error","event":"bug', "\u2028\u2029", "x".repeat(512), "\u202e evil"];
  for (const model of names) await rig.chat({ model });
  await rig.chat({ model: `fault:status@500,x=y` });
  for (const model of names.slice(0, 4)) await rig.chat({ model, x_reply: "hi" }, { headers: { "user-agent": "\u001b[2J" } });
  await rig.gateway.waitForLog(({ model }) => model === names[0]);
  const lines = rig.gateway.text
    .slice(rig.gateway.text.indexOf('{"time"'))
    .split("\n")
    .filter((line) => line.startsWith('{"time"') || line.includes("\u001b"));
  for (const line of lines) {
    const fields = JSON.parse(line) as Record<string, unknown>;
    expect(line).not.toMatch(/[\u0000-\u001f]/);
    for (const value of Object.values(fields)) if (typeof value === "string") expect(value.length).toBeLessThanOrEqual(1024);
  }
  expect(rig.gateway.logs.some(({ event }) => event === "bug")).toBe(false);
});

describe("S57, S60, S72: every route", () => {
  const paths = [
    ...fixed.keys(),
    "/v1/models/plain",
    "/v1beta/models/plain",
    "/v1beta/models/plain:generateContent",
    "/v1beta/models/plain:streamGenerateContent",
    "/v1beta/models/plain:countTokens",
    "/openai/models",
    "/openai/v1/models",
    "/openai/v1/chat/completions",
    "/openai/deployments/plain/chat/completions",
    "/openai/deployments/plain/audio/transcriptions",
  ];

  test("is in the table with who may ask, and does as the table says", async () => {
    for (const path of paths) {
      const route = routeOf(path)!;
      expect(["public", "key"]).toContain(route.access);
      const options = { path, method: route.method, ...(route.method === "POST" ? { body: good, headers: json } : {}) };
      const { status } = await ask(options);
      expect([path, status]).toEqual([path, route.access === "public" ? 200 : 401]);
    }
    expect(paths.filter((path) => routeOf(path)?.access === "public")).toEqual(["/", "/healthz", "/health", "/readyz"]);
  });

  test("accepts its own method only, and says which", async () => {
    for (const path of paths) {
      const { method: own } = routeOf(path)!;
      for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]) {
        if (method === own) continue;
        const response = await ask({ path, method, headers: authorised });
        // A method the runtime has never heard of does not get as far as us.
        if (method === "PROPFIND" && response.status === 400) continue;
        expect([path, method, response.status, response.header("allow")]).toEqual([path, method, 405, own]);
      }
      const head = await ask({ path, method: "HEAD", headers: authorised });
      expect([path, head.status, head.bodyLength]).toEqual([path, own === "GET" ? 200 : 405, 0]);
    }
  });

  test("without a key tells no more than that it exists", async () => {
    const health = await ask({ path: "/healthz" });
    expect(health.text).toBe("ok\n");
    expect((await ask({ path: "/" })).text).toBe("sluice\n");
    for (const path of ["/metrics", "/v1/metrics", "/debug/pprof", "/status", "/healthz/all", "/version"])
      expect((await ask({ path, headers: authorised })).status).toBe(404);
  });

  test("of a dialect we do not speak says which one we do", async () => {
    const response = await ask({ path: "/v2/chat", headers: { ...json, ...authorised }, body: "{}" });
    expect([response.status, response.text]).toEqual([404, expect.stringContaining("/v1/chat/completions")]);
  });

  const asMessages = { type: "error", request_id: expect.any(String) as string };
  const version = { "anthropic-version": "2023-06-01" };
  test.each([
    ["POST", "/v1/messages/batches", 404, asMessages, {}],
    ["GET", "/v1/messages", 405, asMessages, {}],
    ["GET", "/v1/messages/count_tokens", 405, asMessages, {}],
    ["GET", "/v1/files", 404, asMessages, version],
    ["DELETE", "/v1/models/plain", 405, asMessages, version],
    ["GET", "/v1beta/cachedContents", 404, { error: expect.objectContaining({ code: 404, status: "NOT_FOUND" }) as object }, {}],
    ["GET", "/v1beta/models/plain:generateContent", 405, { error: expect.objectContaining({ code: 405 }) as object }, {}],
    ["GET", "/v1/files", 404, { error: expect.objectContaining({ code: "unknown_route" }) as object }, {}],
  ] as const)("that is not served says so in the API of its client: %s %s, %d", async (method, path, status, body, headers) => {
    const response = await ask({ method, path, headers: { ...authorised, ...headers } });
    expect([response.status, response.json()]).toEqual([status, expect.objectContaining(body) as object]);
    expect(response.header("request-id") !== null).toBe(body === asMessages);
  });

  test.each(["/v1beta/models/plain:embedContent", "/v1/models/plain:predict"])(
    "of a method that no model has is unknown, and not one that takes another HTTP method: POST %s",
    async (path) => {
      const response = await ask({ method: "POST", path, headers: { ...json, ...authorised }, body: "{}" });
      expect([response.status, response.text]).toEqual([404, expect.stringContaining("POST /v1beta/models/{model}:generateContent")]);
    },
  );
});

describe("S61: a body's type", () => {
  test.each([
    "text/plain",
    "text/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonp",
    "application/json+x",
    "application/ json",
    "text/plain; application/json",
    "application/javascript",
    "json",
  ])("%s is refused", async (type) => {
    const response = await post({ "Content-Type": type, ...authorised });
    expect([response.status, codeOf(response)]).toEqual([415, "unsupported_media_type"]);
  });

  test.each(["application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8", "application/json ; x=y"])(
    "%s is taken",
    async (type) => {
      expect((await post({ "Content-Type": type, ...authorised })).status).toBe(200);
    },
  );

  test("may be left out", async () => {
    expect((await post(authorised)).status).toBe(200);
  });

  test.each(["compress", "gzip, gzip, gzip", "lzma", "gzip;q=1"])("and its encoding must be known (%s)", async (encoding) => {
    const response = await post({ ...json, ...authorised, "Content-Encoding": encoding });
    expect([response.status, codeOf(response)]).toEqual([415, "unsupported_encoding"]);
  });

  test.each(["gzip", "br", "deflate", "zstd", "gzip, identity"])("and must be in it (%s)", async (encoding) => {
    const response = await post({ ...json, ...authorised, "Content-Encoding": encoding });
    expect([response.status, codeOf(response)]).toEqual([400, "invalid_encoding"]);
  });
});

test("after all of this the gateway still works", async () => {
  expect((await rig.chat({ model: "plain" })).status).toBe(200);
  expect([rig.gateway.running, rig.gateway.logs.filter(({ event }) => event === "bug")]).toEqual([true, []]);
  for (const secret of [clientKey, madeKey, narrowKey, upstreamKey("a")]) expect(rig.gateway.text).not.toContain(secret);
});
