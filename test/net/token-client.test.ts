import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Channel } from "../../src/channels/channel.ts";
import type { Send } from "../../src/gateway/ports.ts";
import { withCredentials } from "../../src/net/credentials/authenticated-send.ts";
import { TokenCache } from "../../src/net/credentials/token-cache.ts";
import { makeObtainToken } from "../../src/net/credentials/token-client.ts";
import type { TokenAuth } from "../../src/net/credentials/token-request.ts";
import { failure, isFailure } from "../../src/operations/failure.ts";
import { channel as planned } from "../support/plan-world.ts";

setDefaultTimeout(60_000);

const server = Bun.serve({ port: 0, hostname: "127.0.0.1", idleTimeout: 60, fetch: respond });
const silent: (() => void)[] = [];
afterAll(async () => {
  for (const wake of silent) wake();
  await server.stop(true);
});

async function respond(request: Request): Promise<Response> {
  switch (new URL(request.url).pathname) {
    case "/silent":
      await new Promise<void>((resolve) => silent.push(resolve));
      return new Response();
    case "/huge":
      return Response.json({ access_token: "t".repeat(1_000_000), expires_in: 3600 });
    case "/elsewhere":
      return new Response(null, { status: 307, headers: { location: `http://127.0.0.1:${server.port}/token` } });
    default:
      return Response.json({ access_token: "issued", expires_in: 3600 });
  }
}

const channel: Channel = { ...planned("cloud"), timeouts: { ...planned("cloud").timeouts, connectMs: 5000 }, proxy: null };
const auth = (path: string): TokenAuth => ({ kind: "entra", scope: "s/.default", tokenUrl: `http://127.0.0.1:${server.port}${path}` });
const clock = { wallMs: () => 0, nowMs: () => performance.now(), timeoutMs: 300 };
const secret = "tenant:client:secret-of-the-client";

describe("a request for a token", () => {
  test("gets one", async () => {
    expect(await makeObtainToken({ ...clock, timeoutMs: 30_000 })(auth("/token"), secret, channel)).toEqual({
      value: "issued",
      lifetimeMs: 3_600_000,
    });
  });

  test.each([
    ["/silent", "timed_out"],
    ["/huge", "bad_response"],
    ["/elsewhere", "unauthorized"],
  ] as const)("to %s is a failure of the credential: %s", async (path, kind) => {
    const timeoutMs = path === "/silent" ? 300 : 30_000;
    const outcome = await makeObtainToken({ ...clock, timeoutMs })(auth(path), secret, channel);
    expect(outcome).toMatchObject({ kind, scope: "credential" });
    expect(JSON.stringify(outcome)).not.toContain("secret-of-the-client");
  });

  test("to nobody is a failure of the credential", async () => {
    const nobody: TokenAuth = { kind: "entra", scope: "s", tokenUrl: "http://127.0.0.1:1/token" };
    expect(await makeObtainToken({ ...clock, timeoutMs: 30_000 })(nobody, secret, channel)).toMatchObject({ scope: "credential" });
  });

  test("of a channel that was added at run time goes to public addresses only", async () => {
    const outcome = await makeObtainToken({ ...clock, timeoutMs: 30_000 })(auth("/token"), secret, { ...channel, reach: "public" });
    expect(outcome).toMatchObject({ kind: "misconfigured", scope: "credential" });
  });
});

describe("a request that waits for its token", () => {
  const sent: unknown[] = [];
  const send: Send = (request) => {
    sent.push(request);
    return { reply: Promise.resolve(failure("unreachable", "nobody is there")), abort: () => {} };
  };

  test("can be aborted, and is then never sent", async () => {
    const { promise, resolve } = Promise.withResolvers<{ value: string; lifetimeMs: number }>();
    const sending = withCredentials(send, {
      secret: () => secret,
      wallMs: () => 0,
      tokens: new TokenCache(() => 0),
      obtain: () => promise,
    });
    const request = { method: "POST", url: "https://up.example/", headers: {}, body: null } as const;
    const exchange = sending(request, { ...channel, auth: auth("/token") }, "cloud#1");
    exchange.abort();
    const reply = await exchange.reply;
    expect(isFailure(reply) && reply.kind).toBe("client_gone");
    expect(exchange.isUnsent).toBe(true);
    resolve({ value: "late", lifetimeMs: 1000 });
    await promise;
    await Promise.resolve();
    expect(sent).toEqual([]);
  });

  test("is not sent without one", async () => {
    const cause = failure("unauthorized", "the token service answered 400", { scope: "credential" });
    const sending = withCredentials(send, {
      secret: () => secret,
      wallMs: () => 0,
      tokens: new TokenCache(() => 0),
      obtain: () => Promise.resolve(cause),
    });
    const request = { method: "POST", url: "https://up.example/", headers: {}, body: null } as const;
    expect(await sending(request, { ...channel, auth: auth("/token") }, "cloud#1").reply).toBe(cause);
    expect(sent).toEqual([]);
  });

  test.each([auth("/token"), { kind: "aws", region: "r", service: "s" }] as const)("is sent with its trace (case %#)", async (proof) => {
    const traces: unknown[] = [];
    const noting: Send = (...[, , , trace]) => {
      traces.push(trace);
      return { reply: Promise.resolve(failure("unreachable", "nobody is there")), abort: () => {} };
    };
    const token = "id:key";
    const sending = withCredentials(noting, {
      secret: () => undefined,
      wallMs: () => 0,
      tokens: new TokenCache(() => 0),
      obtain: () => Promise.resolve({ value: token, lifetimeMs: 1000 }),
    });
    const trace = { traceparent: "00-a-1-01", tracestate: null };
    const request = { method: "POST", url: "https://up.example/", headers: {}, body: null } as const;
    await sending(request, { ...channel, auth: proof }, "cloud#1", trace).reply;
    expect(traces).toEqual([trace]);
  });

  test("is not sent unsigned", async () => {
    const sending = withCredentials(send, {
      secret: () => undefined,
      wallMs: () => 0,
      tokens: new TokenCache(() => 0),
      obtain: () => Promise.resolve({ value: "no-keys", lifetimeMs: 1000 }),
    });
    const request = { method: "POST", url: "https://up.example/", headers: {}, body: null } as const;
    const exchange = sending(request, { ...channel, auth: { kind: "aws", region: "r", service: "s" } }, "cloud#1");
    expect(await exchange.reply).toMatchObject({ kind: "misconfigured", scope: "credential" });
    expect(sent).toEqual([]);
  });
});
