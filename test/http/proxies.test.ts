// Needs: quiet. It mostly waits for proxies to start and for parts of streams.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import http2 from "node:http2";
import net from "node:net";
import tls from "node:tls";
import { parse } from "yaml";
import { collected } from "../support/bytes-received.ts";
import { eventually } from "../support/eventually.ts";
import { configurationOf, frontProxies, lacking, startFrontProxy, type FrontProxy } from "../support/front-proxies.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { HeldStream, startScripted, type Scripted } from "../support/scripted-upstream.ts";
import { makeCertificates, type Certificates } from "../support/tls.ts";

setDefaultTimeout(120_000);

const key = "sk-client-canary-0123456789abcdef";
const certificates = await makeCertificates();
const { authority, renewed } = (certificates ?? {}) as Certificates;
const isTried = (name: (typeof frontProxies)[number]): boolean => certificates !== null && lacking(name) === "";

let upstream: Scripted;
let gateway: Gateway;
const held = new HeldStream();

beforeAll(async () => {
  if (!frontProxies.some(isTried)) return;
  upstream = await startScripted(({ path, text }) => {
    if (path.endsWith("/transcriptions")) return Response.json({ text: `heard ${text.length}` });
    return held.answer();
  });
  gateway = await startGateway({
    config: {
      keys: [{ name: "client", key }],
      channels: [
        { name: "up", base_url: upstream.url, api_key: "sk-up", models: ["m"], capabilities: { operations: ["chat", "transcription"] } },
      ],
      server: { trusted_proxies: ["127.0.0.1"], wrong_keys: 5 },
    },
  });
});

afterAll(async () => {
  if (!frontProxies.some(isTried)) return;
  await gateway.kill();
  await upstream.close();
});

describe.each(frontProxies.map((name) => [name, lacking(name)] as const))("%s%s", (name) => {
  describe.skipIf(!isTried(name))("with its configuration", () => {
    let proxy: FrontProxy;

    beforeAll(async () => {
      proxy = await startFrontProxy(name, new URL(gateway.url).host, renewed);
    });

    afterAll(() => proxy.stop());

    test("speaks HTTP/2, and passes a stream on as it comes", async () => {
      const session = http2.connect(`https://127.0.0.1:${proxy.port}`, { ca: authority });
      session.on("error", () => {});
      const body = JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "hi" }] });
      const headers = {
        ":method": "POST",
        ":path": "/v1/chat/completions",
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
      };
      const request = session.request(headers);
      let text = "";
      const ended = new Promise((resolve) => request.once("close", resolve));
      request.on("data", (part: Buffer) => (text += part.toString()));
      request.end(body);
      // The upstream ends the stream only after this has come.
      await eventually("the first token", () => text.includes("begun"), 30_000);
      expect(session.alpnProtocol).toBe("h2");
      held.finish();
      await ended;
      expect(text).toContain("and ended");
      expect(text).toEndWith("data: [DONE]\n\n");
      session.close();
    });

    test("passes large uploads on, and hides the metrics", async () => {
      const form = new FormData();
      form.set("model", "m");
      form.set("file", new File([Buffer.alloc(8 * 1024 * 1024, "sound")], "a.wav"));
      const options = { method: "POST", body: form, headers: { authorization: `Bearer ${key}` }, tls: { ca: authority } };
      const response = await fetch(`https://127.0.0.1:${proxy.port}/v1/audio/transcriptions`, options);
      expect([response.status, await response.text()]).toEqual([200, expect.stringMatching(/heard 8\d{6}/)]);
      expect((await fetch(`https://127.0.0.1:${proxy.port}/metrics`, { tls: { ca: authority } })).status).toBe(404);
    });

    test("tells the address of a client, whatever the client says", async () => {
      // An address for each proxy: the gateway remembers those with wrong keys for a while.
      const last = 10 + 2 * frontProxies.indexOf(name);
      let claim = 0;
      const wrong = async (from: string): Promise<number> => {
        const socket = net.connect({ port: proxy.port, host: "127.0.0.1", localAddress: from });
        const secure = tls.connect({ socket, ca: authority, servername: "localhost" });
        const received = collected(secure);
        const lies = `x-forwarded-for: 203.0.113.${claim++ % 250}\r\nforwarded: for=203.0.113.9\r\n`;
        secure.write(`GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer sk-wrong\r\n${lies}connection: close\r\n\r\n`);
        return Number(/^HTTP\/1\.1 (\d+)/.exec((await received).toString("latin1"))?.[1]);
      };
      await eventually("wrong keys of one client are slowed down", async () => (await wrong(`127.0.0.${last}`)) === 429, 30_000);
      expect(await wrong(`127.0.0.${last + 1}`)).toBe(401);
    });
  });
});

describe("the configurations of proxies", () => {
  test("pass streams on unbuffered, wait longer than the gateway, and repeat nothing", () => {
    const nginx = configurationOf("nginx");
    for (const line of ["proxy_buffering off;", "proxy_request_buffering off;", "proxy_read_timeout 650s;", "proxy_next_upstream off;"]) {
      expect(nginx).toContain(line);
    }
    const caddy = configurationOf("caddy");
    for (const line of ["flush_interval -1", "response_header_timeout 650s", "lb_try_duration 0", "header_up -Forwarded"]) {
      expect(caddy).toContain(line);
    }
    const envoy = JSON.stringify(parse(configurationOf("envoy")));
    for (const part of [
      '"timeout":"0s"',
      '"stream_idle_timeout":"650s"',
      '"use_remote_address":true',
      '"alpn_protocols":["h2","http/1.1"]',
    ]) {
      expect(envoy).toContain(part);
    }
    expect(envoy).not.toContain("retry_policy");
  });

  test("let TLS 1.2 and later in, and keep the metrics inside", () => {
    expect(configurationOf("nginx")).toContain("ssl_protocols TLSv1.2 TLSv1.3;");
    expect(configurationOf("envoy")).toContain("tls_minimum_protocol_version: TLSv1_2");
    for (const name of frontProxies) expect(configurationOf(name)).toContain("/metrics");
  });
});
