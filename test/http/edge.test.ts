// Needs: quiet. It mostly waits for workers to start, and to notice that files have changed.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { mkdtempSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import tls from "node:tls";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { collected } from "../support/bytes-received.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { HeldStream, startScripted, type Scripted } from "../support/scripted-upstream.ts";
import { makeCertificates, type Certificates, type KeyPair } from "../support/tls.ts";

setDefaultTimeout(120_000);

const key = "sk-client-canary-0123456789abcdef";
const leaked = "sk-leaked-canary-0123456789abcdef";
const operator = randomBytes(24).toString("hex");
const certificates = await makeCertificates();
const { authority, valid, renewed } = (certificates ?? {}) as Certificates;
const directory = mkdtempSync(join(tmpdir(), "sluice-edge-"));

const answer = { choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }] };
const chat = JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi ".repeat(200) }] });
const authorised = { authorization: `Bearer ${key}`, "content-type": "application/json" };

let upstream: Scripted;
let egress: Scripted;
let gateway: Gateway;
const held = new HeldStream();

beforeAll(async () => {
  if (certificates === null) return;
  upstream = await startScripted(({ path, body }) => {
    if (path.endsWith("/transcriptions")) return Response.json({ text: "heard" });
    if (body["stream"] !== true) return Response.json(answer);
    return held.answer();
  });
  egress = await startScripted(() => Response.json(answer));
  writeFileSync(join(directory, "token"), operator);
  put(valid);
  const named = [
    { name: "client", key },
    { name: "leaked", key: leaked },
  ];
  gateway = await startGateway({
    args: ["--workers", "2"],
    env: { ADMIN_TOKEN_FILE: join(directory, "token"), NO_PROXY: "127.0.0.1" },
    config: configWith(named),
  });
  await eventually("both workers", () => gateway.logs.filter(({ event }) => event === "worker_ready").length === 2, 60_000);
});

afterAll(async () => {
  if (certificates !== null) {
    await gateway?.kill();
    await Promise.all([upstream?.close(), egress?.close()]);
  }
  rmSync(directory, { recursive: true, force: true });
});

function configWith(keys: readonly { readonly name: string; readonly key: string }[]) {
  return {
    admin: "127.0.0.1:0",
    tls: { cert_file: join(directory, "server.pem"), key_file: join(directory, "server.key") },
    keys,
    channels: [
      { name: "up", base_url: upstream.url, api_key: "sk-up", models: ["m"], capabilities: { operations: ["chat", "transcription"] } },
      { name: "out", base_url: upstream.url, api_key: "sk-out", models: ["proxied"], proxy: new URL(egress.url).origin },
    ],
    server: { trusted_proxies: ["127.0.0.1"], wrong_keys: 6, body_limit: "4MiB", linger: "0ms" },
  };
}

function put({ cert, key: privateKey }: Partial<KeyPair>): void {
  for (const [name, text] of [
    ["server.pem", cert],
    ["server.key", privateKey],
  ] as const) {
    if (text === undefined) continue;
    writeFileSync(join(directory, `${name}.new`), text, { mode: 0o600 });
    renameSync(join(directory, `${name}.new`), join(directory, name));
  }
}

function send(path: string, init: RequestInit): Promise<Response> {
  return fetch(gateway.url + path, { ...init, keepalive: false, tls: { ca: authority } });
}

async function post(body: BodyInit, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return send("/v1/chat/completions", { method: "POST", body, headers: { ...authorised, ...headers } });
}

async function codeOf(response: Response): Promise<[number, unknown]> {
  return [response.status, ((await response.json()) as { error: { code: unknown } }).error.code];
}

function admin(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = { authorization: `Bearer ${operator}`, ...(init.headers as Record<string, string> | undefined) };
  return fetch(gateway.adminUrl + path, { ...init, headers, keepalive: false, tls: { ca: authority } });
}

async function serialAt(url: string): Promise<string> {
  const socket = tls.connect({ port: Number(new URL(url).port), host: "127.0.0.1", ca: authority });
  await new Promise<void>((resolve, reject) => {
    socket.once("secureConnect", resolve);
    socket.once("error", reject);
  });
  const { serialNumber } = socket.getPeerCertificate();
  socket.destroy();
  return serialNumber;
}

describe.skipIf(certificates === null)("TLS", () => {
  test("serves both listeners, and says when the certificate expires", async () => {
    expect([gateway.url, gateway.adminUrl].map((url) => new URL(url).protocol)).toEqual(["https:", "https:"]);
    expect(await (await post(chat)).json()).toMatchObject(answer);
    const health = (await (await admin("/admin/api/health")).json()) as Record<string, unknown>;
    expect(health["certificate"]).toMatchObject({ days_left: 1 });
    expect(await (await admin("/metrics")).text()).toMatch(/^sluice_tls_certificate_expiry_seconds\{worker="1"\} \d+$/m);
    expect(gateway.logs.filter(({ event }) => event === "certificate_expires").length).toBe(2);
  });

  test("changes its certificate under a running stream, and keeps the old one while the files do not match, which holds up no other change", async () => {
    const response = await post(JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "hi" }] }));
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    let text = Buffer.from((await reader.read()).value ?? []).toString();
    const before = await serialAt(gateway.url);

    put({ cert: renewed.cert });
    const rejected = (): number => gateway.logs.filter(({ event }) => event === "certificate_rejected").length;
    await eventually("both workers refuse half of a pair", () => rejected() >= 2, 30_000);
    expect([await serialAt(gateway.url), await serialAt(gateway.adminUrl)]).toEqual([before, before]);
    // A key must be revocable although the certificate cannot be used.
    const ofLeaked = { authorization: `Bearer ${leaked}` };
    expect((await post(chat, ofLeaked)).status).toBe(200);
    await gateway.rewriteConfig(configWith([{ name: "client", key }]));
    await eventually("both workers have read the keys", () => gateway.logs.filter(({ event }) => event === "reloaded").length >= 2, 30_000);
    expect((await post(chat, ofLeaked)).status).toBe(401);
    expect((await post(chat)).status).toBe(200);
    expect(await serialAt(gateway.url)).toBe(before);

    put({ key: renewed.key });
    const count = (): number => gateway.logs.filter(({ event }) => event === "certificate_renewed").length;
    await eventually("both workers have the new one", () => count() >= 2, 30_000);
    const after = await serialAt(gateway.url);
    expect(after).not.toBe(before);
    for (let attempt = 0; attempt < 10; attempt++) expect(await serialAt(gateway.url)).toBe(after);
    expect(await serialAt(gateway.adminUrl)).toBe(after);

    held.finish();
    for (let next = await reader.read(); !next.done; next = await reader.read()) text += Buffer.from(next.value).toString();
    expect(text).toContain("begun");
    expect(text).toContain("and ended");
    expect(text).toEndWith("data: [DONE]\n\n");
    expect(await (await admin("/admin/api/health")).json()).toMatchObject({ certificate: { days_left: 89 } });
  });
});

test.skipIf(certificates === null)("SIGHUP makes every worker read the certificate, also while its files never come to rest", async () => {
  const before = await serialAt(gateway.url);
  const renewals = (): number => gateway.logs.filter(({ event }) => event === "certificate_renewed").length;
  const known = renewals();
  put(valid);
  // Whoever watches the files waits for the end of this.
  const touching = setInterval(() => {
    for (const name of ["server.pem", "server.key"]) utimesSync(join(directory, name), new Date(), new Date());
  }, 50);
  try {
    gateway.signal("SIGHUP");
    await eventually("both workers have read it", () => renewals() >= known + 2, 20_000);
  } finally {
    clearInterval(touching);
  }
  expect(await serialAt(gateway.url)).not.toBe(before);
});

test.skipIf(certificates === null)(
  "required client certificates are asked for on both listeners, and those of an authority that was replaced are refused from then on",
  async () => {
    const { selfSigned } = certificates as Certificates;
    const { authority: otherAuthority, valid: ofOther } = (await makeCertificates()) as Certificates;
    const folder = mkdtempSync(join(tmpdir(), "sluice-clients-"));
    const inFolder = (name: string, text: string): string => {
      writeFileSync(join(folder, `${name}.new`), text, { mode: 0o600 });
      renameSync(join(folder, `${name}.new`), join(folder, name));
      return join(folder, name);
    };
    const files = { cert_file: inFolder("server.pem", renewed.cert), key_file: inFolder("server.key", renewed.key) };
    const clientCa = { client_ca_file: inFolder("clients.pem", authority), client_certificates: "required" };
    try {
      await using served = await startGateway({
        env: { ADMIN_TOKEN_FILE: join(directory, "token") },
        config: { ...configWith([{ name: "client", key }]), tls: { ...files, ...clientCa } },
      });
      /** The status on a new connection, or null for one without an answer. */
      const status = async (url: string, token: string, shown: Partial<KeyPair>, session?: Buffer): Promise<number | null> => {
        const socket = tls.connect({ port: Number(new URL(url).port), host: "127.0.0.1", ca: authority, session, ...shown });
        if (url === served.url) socket.on("session", (known) => sessions.push(known));
        const received = collected(socket);
        const path = url === served.url ? "/v1/models" : "/admin/api/health";
        socket.write(`GET ${path} HTTP/1.1\r\nhost: ${new URL(url).host}\r\nauthorization: Bearer ${token}\r\nconnection: close\r\n\r\n`);
        const [, found] = /^HTTP\/1\.1 (\d+)/.exec((await received).toString("latin1")) ?? [];
        return found === undefined ? null : Number(found);
      };
      const sessions: Buffer[] = [];
      const onBoth = (shown: Partial<KeyPair>): Promise<readonly (number | null)[]> =>
        Promise.all([status(served.url, key, shown), status(served.adminUrl, operator, shown)]);
      const refused = [null, null];
      expect(await onBoth({})).toEqual(refused);
      expect(await onBoth(valid)).toEqual([200, 200]);
      expect(await onBoth(selfSigned)).toEqual(refused);
      expect(await onBoth(ofOther)).toEqual(refused);
      // It opens the connection and nothing more.
      expect(await status(served.url, "sk-wrong", valid)).toBe(401);

      const known = sessions.splice(0);
      inFolder("clients.pem", otherAuthority);
      await served.waitForLog(({ event }) => event === "certificate_renewed", 30_000);
      expect(await onBoth(valid)).toEqual(refused);
      expect(await onBoth(ofOther)).toEqual([200, 200]);
      expect(await onBoth({})).toEqual(refused);
      // Nor does a session of before open what its certificate no longer opens.
      expect(known.length).toBeGreaterThan(0);
      for (const session of known) expect(await status(served.url, key, valid, session)).toBeNull();
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
);

test.skipIf(certificates === null)("a client that leaves an encrypted stream cancels the upstream's", async () => {
  const before = held.cancelled;
  const leaving = new AbortController();
  const body = JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "hi" }] });
  const response = await send("/v1/chat/completions", { method: "POST", body, headers: authorised, signal: leaving.signal });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  leaving.abort();
  await reader.closed.catch(() => {});
  await eventually("the upstream is left", () => held.cancelled > before, 30_000);
});

test.skipIf(certificates === null)("a channel with a proxy is asked through it, whatever NO_PROXY says", async () => {
  const asked = upstream.requests.length;
  expect((await post(chat.replace('"m"', '"proxied"'))).status).toBe(200);
  expect([egress.requests.length, upstream.requests.length]).toEqual([1, asked]);
});

describe.skipIf(certificates === null)("a compressed request body", () => {
  test.each([
    ["gzip", gzipSync(chat)],
    ["deflate", deflateSync(chat)],
    ["br", brotliCompressSync(chat)],
    ["zstd", zstdCompressSync(chat)],
    ["gzip, zstd", zstdCompressSync(gzipSync(chat))],
  ])("in %s reaches the upstream as it was, and without its encoding", async (encoding, body) => {
    expect((await post(body, { "content-encoding": encoding })).status).toBe(200);
    const last = upstream.requests.at(-1);
    expect(last?.body["messages"]).toEqual(JSON.parse(chat).messages);
    expect(last?.headers.get("content-encoding")).toBeNull();
  });

  test("may be an upload", async () => {
    const form = new FormData();
    form.set("model", "m");
    form.set("file", new File([Buffer.alloc(300_000, "RIFF sound ")], "a.wav"));
    const plain = new Response(form);
    const type = plain.headers.get("content-type") ?? "";
    const body = gzipSync(Buffer.from(await plain.arrayBuffer()));
    const headers = { authorization: `Bearer ${key}`, "content-type": type, "content-encoding": "gzip" };
    const response = await send("/v1/audio/transcriptions", { method: "POST", body, headers });
    expect([response.status, await response.json()]).toEqual([200, { text: "heard" }]);
    expect(upstream.requests.at(-1)?.text).toContain("RIFF sound RIFF sound");
  });

  test("that is damaged, too large when unpacked, or a bomb is refused in words", async () => {
    const gzip = { "content-encoding": "gzip" };
    expect(await codeOf(await post(gzipSync(chat).subarray(0, 40), gzip))).toEqual([400, "invalid_encoding"]);
    expect(await codeOf(await post(chat, gzip))).toEqual([400, "invalid_encoding"]);
    expect(await codeOf(await post(gzipSync(Buffer.alloc(64 * 1024 * 1024)), gzip))).toEqual([413, "request_too_large"]);
    // Half of it is left, which is below the limit that all of it exceeds.
    const digits = randomBytes(3 * 1024 * 1024).toString("hex");
    expect(await codeOf(await post(zstdCompressSync(digits), { "content-encoding": "zstd" }))).toEqual([413, "request_too_large"]);
    const unknown = await post(chat, { "content-encoding": "compress" });
    expect(unknown.headers.get("accept-encoding")).toBe("gzip, deflate, br, zstd");
    expect(await codeOf(unknown)).toEqual([415, "unsupported_encoding"]);
    expect((await post(chat)).status).toBe(200);
  });
});

describe.skipIf(certificates === null)("the address of a client", () => {
  /** A request with a wrong key, from an address of this machine. */
  async function wrong(forwardedFor: string, from = "127.0.0.1"): Promise<number> {
    const socket = net.connect({ port: Number(new URL(gateway.url).port), host: "127.0.0.1", localAddress: from });
    const secure = tls.connect({ socket, ca: authority, servername: "localhost" });
    const received = collected(secure);
    secure.write(
      `GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-wrong\r\nx-forwarded-for: ${forwardedFor}\r\nconnection: close\r\n\r\n`,
    );
    return Number(/^HTTP\/1\.1 (\d+)/.exec((await received).toString("latin1"))?.[1]);
  }

  test("is what a trusted proxy says, so that one client's wrong keys do not harm another", async () => {
    await eventually("this one is slowed down", async () => (await wrong("203.0.113.9")) === 429, 30_000);
    expect(await wrong("203.0.113.10")).toBe(401);
    expect(await wrong("203.0.113.9, 203.0.113.11")).toBe(401);
  });

  test("is not what anybody else says", async () => {
    let host = 0;
    await eventually(
      "another name each time does not help",
      async () => (await wrong(`198.51.100.${host++}`, "127.0.0.2")) === 429,
      30_000,
    );
  });

  test("is in the audit log, and no upstream learns it", async () => {
    const headers = { "content-type": "application/json", "x-forwarded-for": "203.0.113.77" };
    const made = await admin("/admin/api/keys", { method: "POST", body: JSON.stringify({ name: "audited" }), headers });
    expect(made.status).toBe(201);
    expect(await (await admin("/admin/api/audit")).text()).toContain('"address":"203.0.113.77"');
    await post(chat, { "x-forwarded-for": "203.0.113.78", forwarded: "for=203.0.113.78" });
    const sent = JSON.stringify([...(upstream.requests.at(-1)?.headers ?? [])]);
    expect(sent).not.toContain("203.0.113");
  });
});

describe("a unix socket", () => {
  test("serves calls, and belongs to one process", async () => {
    await using spoken = await startScripted(() => Response.json(answer));
    const path = join(directory, "sluice.sock");
    const channels = [{ name: "up", base_url: spoken.url, api_key: "sk-up", models: ["m"] }];
    const config = { listen: `unix:${path}`, listen_mode: "600", keys: [{ name: "client", key }], channels, server: { linger: "0ms" } };
    await using served = await startGateway({ config });
    expect(served.url).toBe(`unix:${path}`);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(served.text).toContain(`curl --unix-socket ${path} http://localhost/v1/chat/completions`);
    const response = await fetch("http://localhost/v1/chat/completions", { unix: path, method: "POST", body: chat, headers: authorised });
    expect(await response.json()).toMatchObject(answer);

    await expect(startGateway({ config })).rejects.toThrow(`Another program listens on ${path}`);
    await expect(startGateway({ config, args: ["--workers", "2"] })).rejects.toThrow("Several workers need a port");
    expect(await served.stop()).toBe(0);
    expect(await Bun.file(path).exists()).toBe(false);
  });
});
