// Needs: quiet. It mostly waits for handshakes and for connections to be closed.
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import tls from "node:tls";
import { Connections } from "../../src/net/server/connections.ts";
import { ResponseHead, type HttpResponse, type ResponseWriter } from "../../src/net/server/http-response.ts";
import type { IncomingRequest } from "../../src/net/server/incoming-request.ts";
import type { ServerTls } from "../../src/net/server/server-tls.ts";
import { removeStaleSocket } from "../../src/net/server/unix-socket.ts";
import { collected } from "../support/bytes-received.ts";
import { eventually } from "../support/eventually.ts";
import { makeCertificates, type Certificates, type KeyPair } from "../support/tls.ts";

setDefaultTimeout(60_000);

const certificates = await makeCertificates();
const directory = mkdtempSync(join(tmpdir(), "sluice-edge-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** A real listener with a clock that only the test moves. */
class Edge {
  readonly server: Connections;
  readonly bugs: unknown[] = [];
  readonly streams: ResponseWriter[] = [];
  nowMs = 1_000_000;

  constructor(tlsOf: ServerTls | null, socket: { readonly path: string; readonly mode: number } | null = null) {
    const plain = (body: Uint8Array | string, status = 200): HttpResponse => ({ status, head: new ResponseHead("r"), body });
    this.server = new Connections(
      { host: "127.0.0.1", port: 0, socket, reusePort: tlsOf !== null, tls: tlsOf, connectionsMax: 1000 },
      {
        handle: (request) => this.#answer(request, plain),
        parseError: (problem, status) => plain(`refused: ${problem}`, status ?? 400),
        onBug: (error) => {
          this.bugs.push(error);
          return plain("bug", 500);
        },
        nowMs: () => this.nowMs,
      },
    );
  }

  get port(): number {
    return Number(new URL(this.server.url).port);
  }

  /** Lets time pass, and has it look at its connections. */
  pass(ms: number): void {
    this.nowMs += ms;
    this.server["checkTimeouts"]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.close();
    expect(this.bugs).toEqual([]);
  }

  #answer(request: IncomingRequest, plain: (body: Uint8Array | string) => HttpResponse): HttpResponse | Promise<HttpResponse> {
    if (request.target === "/large") return plain(large);
    if (request.target === "/stream") {
      const body = {
        begin: (out: ResponseWriter) => void this.streams.push(out),
        onClose: () => {},
        onDrain: () => {},
        sendKeepAlive: () => false,
      };
      return { status: 200, head: new ResponseHead("r"), body };
    }
    return (async () => {
      let bytes = 0;
      for (;;) {
        const part = await request.body.next();
        if (part === null) return plain(`${request.address} sent ${bytes}`);
        if (part === "gone") return plain("gone");
        bytes += part.length;
      }
    })();
  }
}

const large = Buffer.alloc(8 * 1024 * 1024, "0123456789abcdef\n");

function secured({ key, cert }: KeyPair, client: "none" | "optional" | "required" = "none"): ServerTls {
  const { authority } = certificates as Certificates;
  return { key, cert, clientCa: client === "none" ? null : authority, isClientRequired: client === "required" };
}

/** Connects, and sends a request on the connection. */
async function connect(port: number, options: tls.ConnectionOptions = {}): Promise<tls.TLSSocket> {
  const socket = tls.connect({ port, host: "127.0.0.1", ca: certificates?.authority ?? "", ...options });
  await new Promise<void>((resolve, reject) => {
    socket.once("secureConnect", resolve);
    socket.once("error", reject);
  });
  return socket;
}

async function ask(
  port: number,
  options: tls.ConnectionOptions = {},
  request = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
): Promise<string> {
  try {
    const socket = await connect(port, options);
    socket.write(request);
    return (await collected(socket)).toString("latin1");
  } catch (error) {
    return `failed: ${String((error as { code?: string }).code)}`;
  }
}

/** The first message of a client that speaks this version at most, with ciphers that all of them have. */
function clientHello(version: string): Buffer {
  const extensions = [
    "000a 0004 0002 0017", // Groups: secp256r1.
    "000b 0002 0100", // Points: uncompressed.
    "000d 0004 0002 0403", // Signatures: ecdsa_secp256r1_sha256.
  ].join("");
  // ECDHE-ECDSA with AES-128 and AES-256, no session and no compression.
  const hello = `${version} ${"07".repeat(32)} 00 0004 c009 c00a 01 00 ${withLength(extensions, 2)}`;
  return Buffer.from(bare(`16 0301 ${withLength(`01 ${withLength(hello, 3)}`, 2)}`), "hex");
}

function withLength(hex: string, lengthBytes: number): string {
  return (bare(hex).length / 2).toString(16).padStart(2 * lengthBytes, "0") + hex;
}

const bare = (hex: string): string => hex.replaceAll(" ", "");

/** A fatal alert, `protocol_version`, and nothing after it. */
const refusesVersion = /^1503..00020246$/;

function serverHello(version: string): RegExp {
  return new RegExp(`^16.{8}02.{6}${version}`);
}

/** What a server says to that: the beginning of its own hello, or all that it says before it closes the connection. */
async function answerTo(port: number, hello: Buffer): Promise<string> {
  const socket = net.connect(port, "127.0.0.1");
  const received = collected(socket);
  let bytes = 0;
  socket.on("data", (part: Buffer) => {
    bytes += part.length;
    if (bytes >= 11) socket.destroy();
  });
  socket.write(hello);
  return (await received).toString("hex");
}

/** Whoever answers with this certificate, told by its serial number. */
async function presented(port: number): Promise<string> {
  const socket = await connect(port);
  const { serialNumber } = socket.getPeerCertificate();
  socket.destroy();
  return serialNumber;
}

describe.skipIf(certificates === null)("a listener with a certificate", () => {
  const { valid, renewed, wrongName, selfSigned } = (certificates ?? {}) as Certificates;

  test("serves requests, knows the address of its clients, and says https", async () => {
    await using edge = new Edge(secured(valid));
    expect(edge.server.url).toStartWith("https://127.0.0.1:");
    expect(await ask(edge.port)).toContain("127.0.0.1 sent 0");
  });

  test("carries large bodies both ways, whole and in order", async () => {
    await using edge = new Edge(secured(valid));
    const head = `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${large.length}\r\nconnection: close\r\n\r\n`;
    expect(await ask(edge.port, {}, head + large.toString("latin1"))).toContain(`sent ${large.length}`);
    const answer = await ask(edge.port, {}, "GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    expect(Buffer.from(answer.slice(answer.indexOf("\r\n\r\n") + 4), "latin1").equals(large)).toBe(true);
  });

  test("sends nothing in the clear", async () => {
    await using edge = new Edge(secured(valid));
    const socket = net.connect(edge.port, "127.0.0.1");
    socket.write("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    expect((await collected(socket)).toString("latin1")).not.toContain("HTTP/");
  });

  test.each([
    ["TLS 1.0", "0301"],
    ["TLS 1.1", "0302"],
  ])("refuses a client that speaks %s at most, because of that version alone", async (_, version) => {
    await using edge = new Edge(secured(valid));
    expect(await answerTo(edge.port, clientHello(version))).toMatch(refusesVersion);
    // The same client is served here with TLS 1.2, and elsewhere with its own version.
    expect(await answerTo(edge.port, clientHello("0303"))).toMatch(serverHello("0303"));
    const tolerant = tls.createServer({ ...valid, minVersion: "TLSv1" });
    try {
      await new Promise<void>((resolve) => tolerant.listen(0, "127.0.0.1", resolve));
      const { port } = tolerant.address() as net.AddressInfo;
      expect(await answerTo(port, clientHello(version))).toMatch(serverHello(version));
    } finally {
      tolerant.close();
    }
  });

  test.each(["TLSv1.2", "TLSv1.3"] as const)("serves a client that speaks %s alone", async (version) => {
    await using edge = new Edge(secured(valid));
    const socket = await connect(edge.port, { minVersion: version, maxVersion: version });
    expect(socket.getProtocol()).toBe(version);
    socket.write("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    expect((await collected(socket)).toString("latin1")).toContain("HTTP/1.1 200");
  });

  test("gets another one without ending a stream, and new connections get the new one", async () => {
    await using edge = new Edge(secured(valid));
    const { port } = edge;
    const running = await connect(port);
    const received = collected(running);
    running.write("GET /stream HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    await eventually("the stream began", () => edge.streams.length === 1);
    edge.streams[0]?.write(Buffer.from("before "));
    const before = await presented(port);

    edge.server.renew(secured(renewed));
    const after = await presented(port);
    expect(after).not.toBe(before);
    for (let attempt = 0; attempt < 20; attempt++) expect(await presented(port)).toBe(after);
    edge.streams[0]?.write(Buffer.from("after"));
    edge.streams[0]?.end();
    const answer = (await received).toString("latin1");
    expect(answer).toContain("before ");
    expect(answer).toContain("after");
    expect(answer).toEndWith("0\r\n\r\n");
  });

  test.each([
    ["none", { none: true, ours: true, strange: true }],
    ["optional", { none: true, ours: true, strange: false }],
    ["required", { none: false, ours: true, strange: false }],
  ] as const)("and client certificates: %s", async (policy, served) => {
    await using edge = new Edge(secured(valid, policy));
    const asked = async (pair: KeyPair | null): Promise<boolean> =>
      (await ask(edge.port, pair === null ? {} : { key: pair.key, cert: pair.cert })).includes("HTTP/1.1 200");
    // Anything that the authority has issued is a client of ours.
    expect({ none: await asked(null), ours: await asked(wrongName), strange: await asked(selfSigned) }).toEqual(served);
  });

  test("does not wait for a handshake for longer than for the head of a request", async () => {
    await using edge = new Edge(secured(valid));
    const silent = net.connect(edge.port, "127.0.0.1");
    const begun = net.connect(edge.port, "127.0.0.1");
    begun.write(Buffer.from("160301", "hex"));
    const ended = Promise.all([collected(silent), collected(begun)]);
    await eventually("both are connected", () => edge.server["open"].size === 2);
    edge.pass(13_000);
    expect(edge.server["open"].size).toBe(2);
    edge.pass(2_000);
    edge.pass(3_000);
    await ended;
    await eventually("both are gone", () => edge.server["open"].size === 0);
  });

  test("survives damaged records and clients that leave in the handshake", async () => {
    await using edge = new Edge(secured(valid));
    const raw = net.connect(edge.port, "127.0.0.1");
    const socket = tls.connect({ socket: raw, ca: certificates?.authority ?? "", host: "127.0.0.1" });
    await new Promise((resolve) => socket.once("secureConnect", resolve));
    socket.on("error", () => {});
    raw.write(Buffer.from("17030300100123456789abcdef0123456789abcdef", "hex"));
    const left = net.connect(edge.port, "127.0.0.1");
    left.write(Buffer.from("16030100c8010000c40303", "hex"), () => left.resetAndDestroy());
    left.on("error", () => {});
    await eventually("both are gone", () => edge.server["open"].size === 0);
    expect(await ask(edge.port)).toContain("sent 0");
  });
});

describe("a listener on a unix socket", () => {
  const path = join(directory, "edge.sock");

  test("serves requests with the mode that was asked for, and removes the file when it ends", async () => {
    {
      await using edge = new Edge(null, { path, mode: 0o600 });
      expect(edge.server.url).toBe(`unix:${path}`);
      expect((await Bun.file(path).stat()).mode & 0o777).toBe(0o600);
      const response = await fetch("http://localhost/", { unix: path, method: "POST", body: "12345" });
      expect(await response.text()).toBe("unix sent 5");
    }
    expect(await Bun.file(path).exists()).toBe(false);
  });

  test("takes over what a killed process has left, but nothing else", async () => {
    const code = `Bun.listen({ unix: ${JSON.stringify(path)}, socket: { data() {} } }); console.log("up"); setInterval(() => {}, 1000);`;
    const child = Bun.spawn([process.execPath, "-e", code], { stdout: "pipe" });
    await child.stdout.getReader().read();
    await expect(removeStaleSocket(path)).rejects.toMatchObject({ code: "EADDRINUSE" });
    child.kill("SIGKILL");
    await child.exited;
    await removeStaleSocket(path);
    await using edge = new Edge(null, { path, mode: 0o660 });
    expect(edge.bugs).toEqual([]);

    const file = join(directory, "notes.txt");
    writeFileSync(file, "mine");
    await expect(removeStaleSocket(file)).rejects.toMatchObject({ code: "ENOTSOCK" });
    expect(await Bun.file(file).text()).toBe("mine");
    await removeStaleSocket(join(directory, "nothing.sock"));
  });
});
