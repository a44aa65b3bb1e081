// Needs: quiet. It mostly waits for deadlines of its own connections.
import { heapStats } from "bun:jsc";
import { afterAll, afterEach, describe, expect, setDefaultTimeout, spyOn, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, readFileSync, readdirSync, readlinkSync } from "node:fs";
import net, { type AddressInfo, type Socket } from "node:net";
import tls from "node:tls";
import zlib from "node:zlib";
import fc from "fast-check";
import type { Channel } from "../../src/channels/channel.ts";
import type { Exchange, Reply, TraceHeaders } from "../../src/gateway/ports.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import { makeReply, type BodySource } from "../../src/net/client/reply.ts";
import { makeSend } from "../../src/net/client/send.ts";
import { digBlackHole } from "../support/black-hole.ts";
import { eventually } from "../support/eventually.ts";
import { numRuns } from "../support/properties.ts";
import { makeCertificates } from "../support/tls.ts";

// Real sockets on a busy machine; no clock is judged here.
setDefaultTimeout(60_000);

/** A request as it stood on the wire. */
interface Received {
  readonly head: string;
  readonly body: Buffer;
  /** Which one it is on its connection, from 1. */
  readonly nth: number;
}

/** The upstream's side of one connection. */
class Peer {
  closed = false;
  requests = 0;
  #parts: Buffer[] = [];
  #head: string | null = null;
  #left = 0;

  constructor(
    readonly socket: Socket,
    behaviour: Behaviour,
  ) {
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.on("close", () => (this.closed = true));
    socket.on("data", (bytes: Buffer) => this.#take(bytes, behaviour));
    behaviour.accepted?.(this);
  }

  say(text: string | Uint8Array): void {
    this.socket.write(typeof text === "string" ? Buffer.from(text, "latin1") : text);
  }

  #take(bytes: Buffer, behaviour: Behaviour): void {
    this.#parts.push(bytes);
    if (this.#head === null) {
      const all = Buffer.concat(this.#parts);
      const end = all.indexOf("\r\n\r\n");
      if (end < 0) return void (this.#parts = [all]);
      this.#head = all.toString("latin1", 0, end);
      this.#left = Number(/^content-length: (\d+)$/im.exec(this.#head)?.[1] ?? 0);
      const rest = all.subarray(end + 4);
      this.#parts = [rest];
      this.#left -= rest.length;
      this.requests += 1;
      behaviour.began?.(this, this.#head);
    } else {
      this.#left -= bytes.length;
    }
    if (this.#left > 0) return;
    const received = { head: this.#head, body: Buffer.concat(this.#parts), nth: this.requests };
    this.#parts = [];
    this.#head = null;
    behaviour.asked?.(this, received);
  }
}

interface Behaviour {
  readonly accepted?: (peer: Peer) => void;
  /** The head of a request is here. */
  readonly began?: (peer: Peer, head: string) => void;
  /** The whole request is here. */
  readonly asked?: (peer: Peer, request: Received) => void;
}

class Upstream {
  readonly peers: Peer[] = [];

  private constructor(
    readonly url: string,
    readonly stop: () => void,
  ) {}

  static async start(behaviour: Behaviour, secured: tls.TlsOptions | null = null): Promise<Upstream> {
    const accept = (socket: Socket): void => void upstream.peers.push(new Peer(socket, behaviour));
    const server = secured === null ? net.createServer(accept) : tls.createServer(secured, accept);
    await new Promise<void>((resolve) => server.listen({ port: 0, host: "127.0.0.1", backlog: 1024 }, resolve));
    const { port } = server.address() as AddressInfo;
    const upstream = new Upstream(`http${secured === null ? "" : "s"}://127.0.0.1:${port}`, () => {
      server.close();
      for (const { socket } of upstream.peers) socket.destroy();
    });
    stops.push(upstream.stop);
    return upstream;
  }

  get requests(): number {
    return this.peers.reduce((sum, peer) => sum + peer.requests, 0);
  }

  get open(): number {
    return this.peers.filter(({ closed }) => !closed).length;
  }

  allClosed(): Promise<void> {
    return eventually("the upstream's connections are closed", () => this.open === 0);
  }
}

const stops: (() => void)[] = [];
const tellsDescriptors = existsSync("/proc/self/fd");
const socketsAtFirst = socketsHeld();
afterEach(async () => {
  for (const stop of stops.splice(0)) stop();
  await eventually("no socket is left of the test", () => socketsHeld() <= socketsAtFirst);
});

const timeouts = { connectMs: 10_000, firstByteMs: 1e6, firstContentMs: 1e6, idleMs: 1e6, progressMs: 1e6, totalMs: 1e6 };

/** What a sender looks at in a channel. */
function channelTo(url: string, changes: Partial<Channel> & { readonly authHeader?: string }): Channel {
  const { authHeader = "authorization", ...rest } = changes;
  const authPrefix = authHeader === "authorization" ? "Bearer " : "";
  return {
    name: "a",
    address: { baseUrl: url, host: new URL(url).host, authHeader, authPrefix },
    timeouts,
    proxy: null,
    ...rest,
  } as Channel;
}

interface Question {
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | null;
  readonly channel?: Parameters<typeof channelTo>[1];
  readonly trace?: TraceHeaders;
}

/** A sender with connections of its own, and a clock that only moves when it is told to. */
class Client {
  nowMs = 1_000;
  secret: string | undefined;
  readonly #send = makeSend(
    () => this.secret,
    () => this.nowMs,
  );

  send(url: string, { path = "/v1/chat", headers = {}, body = null, channel = {}, trace }: Question = {}): Exchange {
    const method = body === null ? "GET" : "POST";
    return this.#send({ method, url: url + path, headers, body }, channelTo(url, channel), "key", trace);
  }

  async reply(url: string, question: Question = {}): Promise<Reply> {
    const reply = await this.send(url, question).reply;
    if (isFailure(reply)) throw new Error(`expected a reply, but: ${reply.kind}, ${reply.detail}`);
    return reply;
  }

  /** The whole answer as text. */
  async ask(url: string, question: Question = {}): Promise<string> {
    return textOf(await this.reply(url, question));
  }

  /** What went wrong, before the head or inside the body. */
  async fail(url: string, question: Question = {}): Promise<Failure> {
    const reply = await this.send(url, question).reply;
    if (isFailure(reply)) return reply;
    const body = await reply.bytes(bytesMax);
    if (isFailure(body)) return body;
    throw new Error(`expected a failure, but: ${reply.status}, ${body.length} bytes`);
  }
}

const bytesMax = 64 * 1024 * 1024;

async function textOf(reply: Reply): Promise<string> {
  const body = await reply.bytes(bytesMax);
  if (isFailure(body)) throw new Error(`expected a body, but: ${body.kind}, ${body.detail}`);
  return Buffer.from(body).toString("latin1");
}

function answer(body: string | Uint8Array = "ok", headers = "", status = "200 OK"): Buffer {
  const bytes = Buffer.from(body as string, "latin1");
  return Buffer.concat([Buffer.from(`HTTP/1.1 ${status}\r\n${headers}content-length: ${bytes.length}\r\n\r\n`, "latin1"), bytes]);
}

const keepsAnswering: Behaviour = { asked: (peer, { nth }) => peer.say(answer(`${nth}`)) };

function digest(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** How many sockets this process holds, both ends of every connection; none where the system does not say. */
function socketsHeld(): number {
  if (!tellsDescriptors) return 0;
  return readdirSync("/proc/self/fd").filter((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`).startsWith("socket:");
    } catch {
      return false;
    }
  }).length;
}

describe("a connection", () => {
  test("is used again and again, also after errors and answers without a body", async () => {
    const client = new Client();
    const answers = [
      answer("a"),
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
      "HTTP/1.1 204 No Content\r\n\r\n",
      answer("a", "", "500 Internal Server Error"),
      answer(""),
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n",
      "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\na",
    ];
    const upstream = await Upstream.start({ asked: (peer, { nth }) => peer.say(answers[nth % answers.length]!) });
    for (let call = 0; call < 40; call++) await client.ask(upstream.url, { body: call % 2 === 0 ? null : Buffer.from("{}") });
    expect(upstream.peers.map(({ requests }) => requests)).toEqual([40]);
  });

  test("carries one request at a time, and the one used last is the next to be used", async () => {
    const client = new Client();
    const waiting: (() => void)[] = [];
    const upstream = await Upstream.start({ asked: (peer) => void waiting.push(() => peer.say(answer())) });
    for (let round = 0; round < 3; round++) {
      const asks = Array.from({ length: 8 }, () => client.ask(upstream.url));
      await eventually("all are asked", () => waiting.length === 8);
      for (const say of waiting.splice(0)) say();
      await Promise.all(asks);
      expect(upstream.peers.map(({ requests }) => requests)).toEqual(Array.from({ length: 8 }, () => round + 1));
    }
    const last = client.ask(upstream.url);
    await eventually("one is asked", () => waiting.length === 1);
    waiting[0]!();
    await last;
    void client.send(upstream.url);
    await eventually("the same one is asked", () => upstream.peers.some(({ requests }) => requests === 5));
  });

  test("leads to one origin only", async () => {
    const client = new Client();
    const [one, two] = [
      await Upstream.start({ asked: (peer) => peer.say(answer("one")) }),
      await Upstream.start({ asked: (peer) => peer.say(answer("two")) }),
    ];
    for (let call = 0; call < 3; call++) {
      expect(await client.ask(one.url)).toBe("one");
      expect(await client.ask(two.url)).toBe("two");
    }
    expect([one.peers.length, two.peers.length]).toEqual([1, 1]);
  });

  test("is one of 512 at most that wait for another request", async () => {
    const client = new Client();
    const waiting: Peer[] = [];
    const upstream = await Upstream.start({ asked: (peer) => void waiting.push(peer) });
    const asks: Promise<string>[] = [];
    // By tens: the system's queue of connections to be accepted is short.
    while (asks.length < 530) {
      for (let count = 0; count < 10; count++) asks.push(client.ask(upstream.url));
      await eventually("all are asked", () => waiting.length === asks.length);
    }
    for (const peer of waiting) peer.say(answer());
    await Promise.all(asks);
    await eventually("the rest is closed", () => upstream.open === 512);
  });
});

const hangUps: Readonly<Record<string, Behaviour>> = {
  "closed when the request comes": { asked: (peer, { nth }) => (nth === 1 ? peer.say(answer("fresh")) : peer.socket.destroy()) },
  "half closed when the request comes": { asked: (peer, { nth }) => (nth === 1 ? peer.say(answer("fresh")) : peer.socket.end()) },
  "reset when the request comes": { asked: (peer, { nth }) => (nth === 1 ? peer.say(answer("fresh")) : peer.socket.resetAndDestroy()) },
  "closed behind its first answer": { asked: (peer) => peer.socket.end(answer("fresh")) },
  "reset behind its first answer": {
    asked: (peer) => peer.socket.write(answer("fresh"), () => setImmediate(() => peer.socket.resetAndDestroy())),
  },
};

async function askStale(upstream: Upstream, calls: number): Promise<void> {
  const client = new Client();
  for (let call = 0; call < calls; call++) {
    const body = call % 3 === 0 ? null : Buffer.alloc(call % 3 === 1 ? 10 : 100_000, "b");
    expect(await client.ask(upstream.url, { body })).toBe("fresh");
    // At this moment, or a moment later: the close may come before the next request, with it or behind it.
    if (call % 4 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  expect(upstream.peers.length).toBeGreaterThan(calls / 2);
  await eventually("nothing but the last one is left", () => upstream.open <= 1);
}

test("a stream that goes on does not hold its request in memory", async () => {
  const client = new Client();
  const upstream = await Upstream.start({ asked: (peer) => peer.say("HTTP/1.1 200 OK\r\n\r\nfirst words") });
  const bodies: WeakRef<Buffer>[] = [];
  const open = async (): Promise<Exchange> => {
    const body = Buffer.alloc(50_000);
    bodies.push(new WeakRef(body));
    const exchange = client.send(upstream.url, { body });
    await ((await exchange.reply) as Reply).next();
    return exchange;
  };
  const exchanges: Exchange[] = [];
  for (let count = 0; count < 20; count++) exchanges.push(await open());
  // A few may still lie where the collector cannot tell.
  await eventually("most requests are gone", () => {
    Bun.gc(true);
    return bodies.filter((body) => body.deref() !== undefined).length < 5;
  });
  for (const exchange of exchanges) exchange.abort();
  await upstream.allClosed();
});

describe("a kept connection that the upstream closes in the moment of reuse", () => {
  test.each(Object.entries(hangUps))("is replaced without a word, 120 times over: %s", async (_, behaviour) => {
    await askStale(await Upstream.start(behaviour), 120);
  });

  test("is replaced once: where the fresh one is closed as well, that is a failure", async () => {
    const client = new Client();
    let closing = false;
    const upstream = await Upstream.start({ asked: (peer) => (closing ? peer.socket.destroy() : peer.say(answer())) });
    // Two wait for reuse; the second must not be taken for the first one's replacement.
    const reply = [client.reply(upstream.url), client.reply(upstream.url)];
    for (const one of reply) await textOf(await one);
    closing = true;
    expect((await client.fail(upstream.url)).kind).toBe("disconnected");
    expect(upstream.peers.map(({ requests }) => requests).toSorted((a, b) => a - b)).toEqual([1, 1, 2]);
  });

  test.each([
    ["a byte", "H"],
    ["an interim response", "HTTP/1.1 100 Continue\r\n\r\n"],
    ["half a head", "HTTP/1.1 200 OK\r\ncontent-le"],
    ["half a body", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe"],
  ])("is not replaced once it gave %s: the request was seen, and is not sent again", async (_, said) => {
    const client = new Client();
    const upstream = await Upstream.start({ asked: (peer, { nth }) => (nth === 1 ? peer.say(answer()) : peer.socket.end(said)) });
    await client.ask(upstream.url);
    expect((await client.fail(upstream.url)).kind).toBe("disconnected");
    expect(upstream.requests).toBe(2);
  });
});

describe("a fresh connection that breaks", () => {
  const breaks: Readonly<Record<string, Behaviour>> = {
    "is closed before it is asked": { accepted: (peer) => peer.socket.destroy() },
    "is closed when it is asked": { asked: (peer) => peer.socket.destroy() },
    "is reset when it is asked": { asked: (peer) => peer.socket.resetAndDestroy() },
    "is closed inside the head": { asked: (peer) => peer.socket.end("HTTP/1.1 200 OK\r\ncontent-") },
    "is closed inside the body": { asked: (peer) => peer.socket.end("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell") },
    "is closed inside a chunk": { asked: (peer) => peer.socket.end("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhell") },
    "is closed before the last chunk": {
      asked: (peer) => peer.socket.end("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"),
    },
    "is reset inside a body that only the close ends": {
      asked: (peer) => peer.socket.write("HTTP/1.1 200 OK\r\n\r\nhell", () => setTimeout(() => peer.socket.resetAndDestroy(), 20)),
    },
  };

  test.each(Object.entries(breaks))("fails and is not asked again where it %s", async (_, behaviour) => {
    const client = new Client();
    const upstream = await Upstream.start(behaviour);
    expect(await client.fail(upstream.url)).toMatchObject({ kind: "disconnected", blame: "channel" });
    expect(upstream.peers.length).toBe(1);
    await upstream.allClosed();
  });

  test("gives what arrived before, and then its failure, as often as it is asked", async () => {
    const client = new Client();
    const upstream = await Upstream.start({ asked: (peer) => peer.socket.end("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello") });
    const reply = await client.reply(upstream.url);
    await upstream.allClosed();
    expect(Buffer.from((await reply.next()) as Uint8Array).toString()).toBe("hello");
    for (let read = 0; read < 3; read++) expect(await reply.next()).toMatchObject({ kind: "disconnected" });
  });

  test("ends a body properly where nothing but the close was to end it", async () => {
    const client = new Client();
    const upstream = await Upstream.start({ asked: (peer) => peer.socket.end("HTTP/1.1 200 OK\r\n\r\nhello") });
    const reply = await client.reply(upstream.url);
    expect(await textOf(reply)).toBe("hello");
    for (let read = 0; read < 3; read++) expect(await reply.next()).toBeNull();
  });

  test("that was refused is a value, and so is one that was not made in time", async () => {
    const client = new Client();
    const gone = await Upstream.start({});
    gone.stop();
    expect(await client.fail(gone.url)).toMatchObject({ kind: "unreachable" });
    const stalled = await Upstream.start({});
    const channel = { timeouts: { ...timeouts, connectMs: 50 } };
    expect(await client.fail(stalled.url.replace("http", "https"), { channel })).toMatchObject({ kind: "connect_timeout" });
    await eventually("it was seen", () => stalled.peers.length === 1);
    await stalled.allClosed();
  });
});

describe("a connection is closed, and not used again,", () => {
  const poison = answer("poison");
  const large = Buffer.alloc(8 * 1024 * 1024);
  const rows: Readonly<Record<string, Behaviour & { readonly body?: Uint8Array }>> = {
    "with another answer behind the answer": { asked: (peer) => peer.say(Buffer.concat([answer("mine"), poison])) },
    "with garbage behind the answer": { asked: (peer) => peer.say(Buffer.concat([answer("mine"), Buffer.from("x")])) },
    "with a blank line behind the answer": { asked: (peer) => peer.say(Buffer.concat([answer("mine"), Buffer.from("\r\n")])) },
    "with bytes behind the last chunk": {
      asked: (peer) => peer.say(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nmine\r\n0\r\n\r\n${poison.toString("latin1")}`),
    },
    "when the upstream says so": { asked: (peer) => peer.say(answer("mine", "Connection: close\r\n")) },
    "when the upstream says so among other things": { asked: (peer) => peer.say(answer("mine", "Connection: x, Close\r\n")) },
    "with a version that does not keep connections": { asked: (peer) => peer.say("HTTP/1.0 200 OK\r\ncontent-length: 4\r\n\r\nmine") },
    "when it answered before it took the request": {
      body: large,
      began: (peer) => {
        peer.socket.pause();
        peer.say(answer("mine"));
      },
    },
  };

  test.each(Object.entries(rows))("%s", async (_, { body = null, ...behaviour }) => {
    const client = new Client();
    const upstream = await Upstream.start(behaviour);
    for (let call = 1; call <= 5; call++) {
      expect(await client.ask(upstream.url, { body })).toBe("mine");
      // A peer that does not read learns of the close when it does.
      upstream.peers.at(-1)?.socket.resume();
      await upstream.allClosed();
      expect(upstream.peers.length).toBe(call);
    }
  });

  test.each([
    ["another answer", poison],
    ["a byte", Buffer.from("H")],
    ["a farewell", answer("", "connection: close\r\n", "408 Request Timeout")],
  ])("when it says something while nobody asks: %s", async (_, said) => {
    const client = new Client();
    const upstream = await Upstream.start({ asked: (peer) => peer.say(answer("mine")) });
    for (let call = 1; call <= 5; call++) {
      expect(await client.ask(upstream.url)).toBe("mine");
      upstream.peers.at(-1)!.say(said);
      await upstream.allClosed();
      expect(upstream.peers.length).toBe(call);
    }
  });

  test("when the upstream closes it while nobody asks", async () => {
    const client = new Client();
    const upstream = await Upstream.start(keepsAnswering);
    for (let call = 1; call <= 5; call++) {
      expect(await client.ask(upstream.url)).toBe("1");
      upstream.peers.at(-1)!.socket.end();
      await upstream.allClosed();
      expect(upstream.peers.length).toBe(call);
    }
  });

  test("when its trailers are refused at the very end", async () => {
    const client = new Client();
    const trailers = `${"t:12345\r\n".repeat(3640)}t:123\r\n`;
    const upstream = await Upstream.start({
      asked: (peer) => peer.say(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nmine\r\n0\r\n${trailers}\r\n`),
    });
    expect((await client.fail(upstream.url)).kind).toBe("bad_response");
    await upstream.allClosed();
  });
});

describe("a kept connection waits", () => {
  /** Whether a connection that has waited for so long is used again. */
  async function survives(waitMs: number, headers: string): Promise<boolean> {
    const client = new Client();
    const upstream = await Upstream.start({ asked: (peer) => peer.say(answer("ok", headers)) });
    await client.ask(upstream.url);
    client.nowMs += waitMs;
    await client.ask(upstream.url);
    if (upstream.peers.length === 1) return true;
    // It is closed when it is passed over, not forgotten.
    await eventually("the old one is closed", () => upstream.peers[0]!.closed);
    return false;
  }

  test.each([
    ["", 25_000],
    ["Keep-Alive: timeout=5\r\n", 3_000],
    ["keep-alive: timeout=10, max=100\r\n", 8_000],
    ["Keep-Alive: timeout=600\r\n", 25_000],
    ["Keep-Alive: timeout=1\r\n", 0],
    ["Keep-Alive: max=100\r\n", 25_000],
  ])("%j: for %d ms", async (headers, longestMs) => {
    expect(await survives(longestMs, headers)).toBe(true);
    expect(await survives(longestMs + 1, headers)).toBe(false);
  });

  test("no longer than that even where nobody asks again", async () => {
    const sweeps: (() => void)[] = [];
    const timer = spyOn(globalThis, "setInterval").mockImplementation(((sweep: () => void) => {
      sweeps.push(sweep);
      return { unref() {} };
    }) as unknown as typeof setInterval);
    try {
      const client = new Client();
      const upstream = await Upstream.start(keepsAnswering);
      await Promise.all([client.ask(upstream.url), client.ask(upstream.url)]);
      expect(sweeps.length).toBe(1);
      client.nowMs += 25_000;
      sweeps[0]!();
      expect(await client.ask(upstream.url)).toBe("2");
      client.nowMs += 1;
      sweeps[0]!();
      await eventually("the one that was not used again is closed", () => upstream.open === 1);
      client.nowMs += 25_000;
      sweeps[0]!();
      await upstream.allClosed();
    } finally {
      timer.mockRestore();
    }
  });
});

describe("an exchange that is aborted", () => {
  /** Runs it and expects that every socket it opened, at either end, is gone again. */
  async function leavingNothing(run: () => Promise<void>): Promise<void> {
    const before = socketsHeld();
    await run();
    await eventually("every socket is closed", () => socketsHeld() <= before);
  }

  async function expectAborted(exchange: Exchange): Promise<void> {
    exchange.abort();
    expect(await exchange.reply).toMatchObject({ kind: "client_gone" });
    exchange.abort();
  }

  test("while it connects, where the connection is neither taken nor refused, gives its descriptor back", async () => {
    const hole = await digBlackHole();
    try {
      const client = new Client();
      const { origin } = new URL(hole.url);
      const before = socketsHeld();
      const exchange = client.send(origin);
      if (tellsDescriptors) await eventually("it is connecting", () => socketsHeld() > before);
      await expectAborted(exchange);
      await eventually("its socket is closed", () => socketsHeld() <= before);
      // The same when its time is over.
      const late = await client.fail(origin, { channel: { timeouts: { ...timeouts, connectMs: 60 } } });
      expect(late.kind).toBe("connect_timeout");
      await eventually("its socket is closed", () => socketsHeld() <= before);
    } finally {
      await hole.end();
    }
  });

  test("in the very moment it begins leaves nothing behind", async () => {
    const upstream = await Upstream.start({});
    await leavingNothing(async () => {
      for (let count = 0; count < 50; count++) await expectAborted(new Client().send(upstream.url));
      for (let count = 0; count < 10; count++) await expectAborted(new Client().send(upstream.url.replace("http", "https")));
    });
    expect(upstream.requests).toBe(0);
  });

  test("in a TLS handshake that does not go on closes the connection", async () => {
    const upstream = await Upstream.start({});
    await leavingNothing(async () => {
      const exchange = new Client().send(upstream.url.replace("http", "https"));
      await eventually("the handshake has begun", () => upstream.peers.some(({ socket }) => socket.bytesRead > 0));
      await expectAborted(exchange);
      await upstream.allClosed();
    });
  });

  test.each([
    ["waits for the head", ""],
    ["has half a head", "HTTP/1.1 200 OK\r\ncontent-"],
    ["has an interim response", "HTTP/1.1 100 Continue\r\n\r\n"],
  ])("while it %s closes the connection", async (_, said) => {
    const upstream = await Upstream.start({ asked: (peer) => peer.say(said) });
    await leavingNothing(async () => {
      const client = new Client();
      for (let count = 0; count < 20; count++) {
        const exchange = client.send(upstream.url);
        await eventually("it is asked", () => upstream.requests === count + 1);
        await expectAborted(exchange);
        await upstream.allClosed();
      }
    });
  });

  test("while the request is still being sent closes the connection", async () => {
    const upstream = await Upstream.start({ began: (peer) => void peer.socket.pause() });
    await leavingNothing(async () => {
      const exchange = new Client().send(upstream.url, { body: Buffer.alloc(16 * 1024 * 1024) });
      await eventually("it is asked", () => upstream.requests === 1);
      await expectAborted(exchange);
      upstream.peers[0]!.socket.resume();
      await upstream.allClosed();
    });
  });

  const framings = ["content-length: 100000000", "transfer-encoding: chunked", "x: y"];
  const endings: Readonly<Record<string, (exchange: Exchange, reply: Reply) => void>> = {
    abort: (exchange) => exchange.abort(),
    cancel: (_, reply) => reply.cancel(),
  };
  for (const [ending, end] of Object.entries(endings)) {
    test.each(framings)(`inside the body (${ending}), while somebody waits for more, closes the connection: %s`, async (framing) => {
      const upstream = await Upstream.start({ asked: (peer) => peer.say(`HTTP/1.1 200 OK\r\n${framing}\r\n\r\n5\r\nhello\r\n`) });
      await leavingNothing(async () => {
        const exchange = new Client().send(upstream.url);
        const reply = (await exchange.reply) as Reply;
        expect(Buffer.from((await reply.next()) as Uint8Array).toString()).toContain("hello");
        const waiting = reply.next();
        end(exchange, reply);
        expect(await waiting).toMatchObject({ kind: "client_gone" });
        expect(await reply.next()).toMatchObject({ kind: "client_gone" });
        await upstream.allClosed();
      });
    });

    test(`inside a body that nobody reads (${ending}) closes the connection`, async () => {
      const upstream = await Upstream.start({
        asked: (peer) => {
          peer.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
          flood(peer, Buffer.from(`10000\r\n${"x".repeat(65_536)}\r\n`));
        },
      });
      await leavingNothing(async () => {
        const exchange = new Client().send(upstream.url);
        const reply = (await exchange.reply) as Reply;
        await eventually("the upstream has to wait", () => upstream.peers[0]!.socket.writableNeedDrain);
        end(exchange, reply);
        await upstream.allClosed();
      });
    });

    test(`inside a compressed body (${ending}) closes the connection`, async () => {
      const upstream = await Upstream.start({
        asked: (peer) => {
          peer.say("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n");
          const gzip = zlib.createGzip();
          gzip.on("data", (bytes: Buffer) => peer.say(bytes));
          gzip.write("hello");
          gzip.flush();
        },
      });
      await leavingNothing(async () => {
        const exchange = new Client().send(upstream.url);
        const reply = (await exchange.reply) as Reply;
        expect(Buffer.from((await reply.next()) as Uint8Array).toString()).toBe("hello");
        const waiting = reply.next();
        end(exchange, reply);
        await upstream.allClosed();
        // Nobody is told that this was the end.
        expect(await waiting).toMatchObject({ kind: "client_gone" });
        expect(await reply.next()).toMatchObject({ kind: "client_gone" });
      });
    });
  }

  test("after its end has no effect on the connection, which may be somebody else's by now", async () => {
    const client = new Client();
    const held: Peer[] = [];
    const upstream = await Upstream.start({ asked: (peer, { nth }) => (nth === 1 ? peer.say(answer("first")) : void held.push(peer)) });
    const exchange = client.send(upstream.url);
    const reply = (await exchange.reply) as Reply;
    expect(await textOf(reply)).toBe("first");
    const next = client.ask(upstream.url);
    exchange.abort();
    reply.cancel();
    await eventually("the next one is asked", () => held.length === 1);
    exchange.abort();
    held[0]!.say(answer("second"));
    expect(await next).toBe("second");
    expect(upstream.peers.length).toBe(1);
  });

  test("after its end, before its body was read, still has its body", async () => {
    const client = new Client();
    const upstream = await Upstream.start(keepsAnswering);
    const exchange = client.send(upstream.url);
    const reply = (await exchange.reply) as Reply;
    exchange.abort();
    expect(await textOf(reply)).toBe("1");
    expect(await client.ask(upstream.url)).toBe("2");
  });
});

/** Writes without an end, as fast as it is taken. */
function flood(peer: Peer, piece: Uint8Array): void {
  const more = (): void => {
    while (!peer.closed && peer.socket.write(piece));
  };
  peer.socket.on("drain", more);
  more();
}

const mebibyte = 1024 * 1024;
/** What the system itself may hold between two sockets on this machine. */
const heldBySystem = existsSync("/proc/sys/net/ipv4/tcp_rmem")
  ? ["tcp_rmem", "tcp_wmem"].reduce(
      (sum, name) => sum + Number(/\d+$/.exec(readFileSync(`/proc/sys/net/ipv4/${name}`, "utf8").trim())?.[0]),
      0,
    )
  : 16 * mebibyte;

const floods: Behaviour = {
  asked: (peer) => {
    peer.say("HTTP/1.1 200 OK\r\n\r\n");
    flood(peer, Buffer.alloc(65_536, "abcdefgh"));
  },
};

/** Lets a flood wait, reads so much of it, and aborts it. */
async function readFlood(
  exchange: Exchange,
  upstream: Upstream,
  bytes = 8 * mebibyte,
  onRead?: (read: number) => Promise<void>,
): Promise<void> {
  const reply = (await exchange.reply) as Reply;
  await eventually("the upstream has to wait", () => upstream.peers[0]!.socket.writableNeedDrain);
  let read = 0;
  while (read < bytes) {
    const part = (await reply.next()) as Uint8Array;
    for (let at = 0; at < part.length; at += 1_009)
      if (part[at] !== 0x61 + ((read + at) % 8)) throw new Error(`byte ${read + at} is wrong`);
    read += part.length;
    await onRead?.(read);
  }
  exchange.abort();
  await upstream.allClosed();
}

describe("a body", () => {
  const framings: Readonly<
    Record<string, (bytes: Buffer) => { readonly head: string; readonly frame: (piece: Buffer) => Buffer; readonly last: string }>
  > = {
    "with a length": (bytes) => ({ head: `content-length: ${bytes.length}\r\n`, frame: (piece) => piece, last: "" }),
    "in chunks": () => ({
      head: "transfer-encoding: chunked\r\n",
      frame: (piece) => Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n")]),
      last: "0\r\n\r\n",
    }),
    "up to the close": () => ({ head: "", frame: (piece) => piece, last: "" }),
  };

  test.each(Object.entries(framings))("%s that nobody reads makes the upstream wait, and is whole when it is read", async (_, frameOf) => {
    const client = new Client();
    const pattern = randomBytes(mebibyte);
    const whole = Buffer.concat(Array.from({ length: Math.ceil(heldBySystem / mebibyte) + 24 }, () => pattern));
    const { head, frame, last } = frameOf(whole);
    let taken = 0;
    const upstream = await Upstream.start({
      asked: (peer) => {
        peer.say(`HTTP/1.1 200 OK\r\n${head}\r\n`);
        let at = 0;
        const more = (): void => {
          if (at >= whole.length) return last === "" && head === "" ? void peer.socket.end() : peer.say(last);
          const piece = whole.subarray(at, (at += 60_000));
          peer.socket.write(frame(piece), () => {
            taken += piece.length;
            more();
          });
        };
        more();
      },
    });
    const reply = await client.reply(upstream.url);
    await standsStill(() => taken);
    expect(taken).toBeLessThan(heldBySystem + 2 * mebibyte);
    // A little is read, and the rest waits again: nothing is read ahead without a bound.
    const hash = createHash("sha256");
    let read = 0;
    for (let part = await reply.next(); part !== null; part = await reply.next()) {
      if (isFailure(part)) throw new Error(part.detail);
      hash.update(part);
      const before = read;
      read += part.length;
      if (Math.floor(before / (8 * mebibyte)) === Math.floor(read / (8 * mebibyte))) continue;
      expect(taken - read).toBeLessThan(heldBySystem + 2 * mebibyte);
    }
    expect(read).toBe(whole.length);
    expect(hash.digest("hex")).toBe(digest(whole));
  });

  test("is whole however it comes, however slowly it is read, and as late as its parts are looked at", async () => {
    const client = new Client();
    const piece = fc.oneof(
      fc.integer({ min: 1, max: 1_200 }),
      fc.integer({ min: 48_000, max: 66_000 }),
      fc.integer({ min: 1, max: 200_000 }),
    );
    const pauses = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 12 }), pauses, async (pieces, waits) => {
        const bytes = randomBytes(pieces.reduce((sum, length) => sum + length, 0));
        const upstream = await Upstream.start({
          asked: (peer) => {
            peer.say(`HTTP/1.1 200 OK\r\ncontent-length: ${bytes.length}\r\n\r\n`);
            let at = 0;
            const more = (nth: number): void => {
              if (nth === pieces.length) return;
              peer.say(bytes.subarray(at, (at += pieces[nth]!)));
              setTimeout(() => more(nth + 1), waits[nth % waits.length]);
            };
            more(0);
          },
        });
        const reply = await client.reply(upstream.url);
        const parts: Uint8Array[] = [];
        for (let part = await reply.next(); part instanceof Uint8Array; part = await reply.next()) {
          parts.push(part);
          await new Promise((resolve) => setTimeout(resolve, waits[parts.length % waits.length]! * 2));
        }
        upstream.stop();
        expect(digest(Buffer.concat(parts))).toBe(digest(bytes));
      }),
      { numRuns: numRuns(60) },
    );
  });

  test("of single bytes, each a chunk of its own, is whole", async () => {
    const client = new Client();
    const text = randomBytes(30_000).toString("hex");
    const upstream = await Upstream.start({
      asked: (peer) =>
        peer.say(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${[...text].map((one) => `1\r\n${one}\r\n`).join("")}0\r\n\r\n`),
    });
    for (let call = 0; call < 3; call++) expect(await client.ask(upstream.url)).toBe(text);
    expect(upstream.peers.length).toBe(1);
  });

  test("is still there when the headers were given up", async () => {
    const parts: (Uint8Array | null)[] = [Buffer.from("body"), null];
    const source: BodySource = { next: () => Promise.resolve(parts.shift()!), cancel() {} };
    const reply = makeReply(200, { get: (name) => (name === "x-any" ? "some" : null) }, source);
    expect(reply.header("x-any")).toBe("some");
    reply.dropHeaders!();
    expect(reply.header("x-any")).toBeNull();
    expect(await reply.bytes(100)).toEqual(Buffer.from("body"));
  });

  describe("of single bytes, each a chunk of its own, is not held as so many parts", () => {
    const ones = Buffer.from("1\r\nx\r\n".repeat(10_000));
    /** Parts that are still alive, whoever holds them. */
    const partsHeld = (): number => {
      Bun.gc(true);
      return heapStats().objectTypeCounts["Uint8Array"] ?? 0;
    };

    test("while it is gathered, however slowly it comes", async () => {
      const memory = new Uint8Array(200_000).fill(0x78);
      let at = 0;
      let held = 0;
      const source: BodySource = {
        next: () => {
          if (at < memory.length) return Promise.resolve(memory.subarray(at, ++at));
          held = partsHeld();
          return Promise.resolve(null);
        },
        cancel() {},
      };
      expect(await makeReply(200, { get: () => null }, source).bytes(bytesMax)).toEqual(memory);
      expect(held).toBeLessThan(50_000);
    });

    test("while nobody reads it", async () => {
      const client = new Client();
      const upstream = await Upstream.start({
        asked: (peer) => {
          peer.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
          flood(peer, ones);
        },
      });
      const reply = await client.reply(upstream.url);
      await standsStill(() => upstream.peers[0]!.socket.bytesWritten);
      expect(partsHeld()).toBeLessThan(50_000);
      reply.cancel();
    });
  });

  test("larger than it may be is a failure, announced or not, and closes the connection", async () => {
    const client = new Client();
    const upstream = await Upstream.start({
      asked: (peer) => {
        peer.say("HTTP/1.1 200 OK\r\n\r\n");
        flood(peer, Buffer.alloc(65_536));
      },
    });
    const reply = await client.reply(upstream.url);
    expect(await reply.bytes(100_000)).toMatchObject({ kind: "bad_response" });
    await upstream.allClosed();
    const honest = await Upstream.start({ asked: (peer) => peer.say("HTTP/1.1 200 OK\r\ncontent-length: 100001\r\n\r\n") });
    expect(await (await client.reply(honest.url)).bytes(100_000)).toMatchObject({ kind: "bad_response" });
    await honest.allClosed();
    const just = await Upstream.start({ asked: (peer) => peer.say(answer("x".repeat(100_000))) });
    expect((await (await client.reply(just.url)).bytes(100_000)) as Uint8Array).toHaveLength(100_000);
  });

  test("that is complete before anybody reads it leaves its connection to others", async () => {
    const client = new Client();
    // Large enough to make an upstream wait, small enough to come in one piece.
    const bodies = Array.from({ length: 20 }, () => randomBytes(50_000).toString("hex"));
    let said = 0;
    const upstream = await Upstream.start({
      asked: (peer, { head }) => peer.say(head.includes("/plain") ? answer("plain") : answer(bodies[said++])),
    });
    const replies: Reply[] = [];
    for (const _ of bodies) {
      replies.push(await client.reply(upstream.url));
      expect(await client.ask(upstream.url, { path: "/plain" })).toBe("plain");
    }
    for (const [index, reply] of replies.entries())
      expect(digest(Buffer.from(await textOf(reply)))).toBe(digest(Buffer.from(bodies[index]!)));
  });

  test("that passes any cut of the network is the same", async () => {
    const client = new Client();
    const response = Buffer.from("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6;x\r\n world\r\n0\r\n\r\n");
    let at = 0;
    const upstream = await Upstream.start({
      asked: (peer) => peer.socket.write(response.subarray(0, at), () => setImmediate(() => peer.say(response.subarray(at)))),
    });
    for (at = 1; at < response.length; at++) expect(await client.ask(upstream.url)).toBe("hello world");
    expect(upstream.peers.length).toBe(1);
  });
});

/** Waits until a count has not changed for a while. Where it only seems so, the bound that follows holds all the more. */
async function standsStill(count: () => number): Promise<void> {
  let last = -1;
  let polls = 0;
  await eventually(
    "it stands still",
    () => {
      polls = count() === last ? polls + 1 : 0;
      last = count();
      return polls > 30;
    },
    20_000,
  );
}

describe("a request", () => {
  test("of eight mebibytes arrives whole at an upstream that reads slowly", async () => {
    const client = new Client();
    const body = randomBytes(8 * 1024 * 1024);
    const arrived: string[] = [];
    const upstream = await Upstream.start({
      accepted: ({ socket }) =>
        socket.on("data", () => {
          socket.pause();
          setTimeout(() => socket.resume(), 1);
        }),
      asked: (peer, received) => {
        arrived.push(digest(received.body));
        peer.say(answer());
      },
    });
    expect(await client.ask(upstream.url, { body })).toBe("ok");
    expect(await client.ask(upstream.url, { body })).toBe("ok");
    expect(arrived).toEqual([digest(body), digest(body)]);
    expect(upstream.peers.length).toBe(1);
  });

  test.each([0, 1, 65_535, 65_536, 65_537, 1_000_000])("of %d bytes arrives whole", async (length) => {
    const client = new Client();
    const body = randomBytes(length);
    const arrived: Received[] = [];
    const upstream = await Upstream.start({
      asked: (peer, received) => {
        arrived.push(received);
        peer.say(answer());
      },
    });
    for (let call = 0; call < 3; call++) await client.ask(upstream.url, { body });
    expect(arrived.map(({ body }) => digest(body))).toEqual(Array.from({ length: 3 }, () => digest(body)));
    for (const { head } of arrived) expect(head.toLowerCase().match(/content-length/g)).toEqual(["content-length"]);
    expect(upstream.peers.length).toBe(1);
  });

  const refusal = answer("too large", "", "413 Payload Too Large");
  const early: Readonly<Record<string, (peer: Peer) => void>> = {
    "and stays": (peer) => {
      peer.socket.pause();
      peer.say(refusal);
    },
    "and reads on": (peer) => peer.say(refusal),
    "and says that it closes": (peer) => {
      peer.socket.pause();
      peer.say(answer("too large", "connection: close\r\n", "413 Payload Too Large"));
    },
    "and closes its side": (peer) => peer.socket.end(refusal),
    "and hangs up": (peer) => {
      peer.socket.pause();
      peer.socket.write(refusal, () => peer.socket.destroy());
    },
  };
  test.each(Object.entries(early))("that is answered before it is sent has its answer: the upstream refuses %s", async (_, refuse) => {
    const client = new Client();
    const body = Buffer.alloc(32 * 1024 * 1024, "b");
    const upstream = await Upstream.start({ began: refuse });
    for (let call = 0; call < 3; call++) {
      const reply = await client.reply(upstream.url, { body });
      expect(reply.status).toBe(413);
      expect(await textOf(reply)).toBe("too large");
    }
    for (const { socket } of upstream.peers) socket.resume();
    await upstream.allClosed();
  });

  const ownNames = ["host", "authorization", "accept-encoding", "user-agent"];

  function linesOf(head: string): readonly (readonly [name: string, value: string])[] {
    const [, ...lines] = head.split("\r\n");
    return lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)] as const);
  }

  test("cannot be given another header line by a value or a credential, whatever characters they hold", async () => {
    const client = new Client();
    let head = "";
    const upstream = await Upstream.start({
      asked: (peer, received) => {
        head = received.head;
        peer.say(answer());
      },
    });
    const nasty = fc.constantFrom(
      "\r\n",
      "\r",
      "\n",
      "\0",
      "\r\n\r\n",
      "\u010a\u010d",
      "\u2028",
      "\x85",
      "\x7f",
      "\ud83d",
      "x-evil: 1",
      "a",
      " ",
      "\t",
      "é",
    );
    const value = fc.oneof(
      fc.array(nasty, { maxLength: 6 }).map((all) => all.join("")),
      fc.array(fc.nat(0xffff), { maxLength: 12 }).map((codes) => String.fromCharCode(...codes)),
    );
    await fc.assert(
      fc.asyncProperty(value, value, async (given, secret) => {
        client.secret = `k${secret}`;
        await client.ask(upstream.url, { headers: { "x-given": given }, body: Buffer.from("{}") });
        // A receiver may end its lines at either character, so neither may be left.
        expect(head.replaceAll("\r\n", "")).not.toMatch(/[\r\n\0]/);
        expect(
          linesOf(head)
            .map(([name]) => name)
            .toSorted(),
        ).toEqual([...ownNames, "content-length", "x-given"].toSorted());
        const kept = (text: string): string => text.replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, "");
        expect(linesOf(head)).toContainEqual(["x-given", kept(given)]);
        expect(linesOf(head)).toContainEqual(["authorization", `Bearer k${kept(secret)}`]);
      }),
      { numRuns: 150 },
    );
    expect(upstream.peers.length).toBe(1);
  });

  test("says of itself what the gateway says, once, whatever else it was given", async () => {
    const client = new Client();
    const heads: string[] = [];
    const upstream = await Upstream.start({
      asked: (peer, { head }) => {
        heads.push(head);
        peer.say(answer());
      },
    });
    client.secret = "secret";
    const headers = { "user-agent": "somebody", "accept-encoding": "gzip", "x-key": "theirs", accept: "text/event-stream" };
    await client.ask(upstream.url, { path: "/v1/x?y=z", headers, channel: { authHeader: "x-key" } });
    const expected = {
      host: new URL(upstream.url).host,
      "x-key": "secret",
      "accept-encoding": "identity",
      "user-agent": "sluice",
      accept: "text/event-stream",
    };
    expect(heads[0]).toStartWith("GET /v1/x?y=z HTTP/1.1\r\n");
    expect(linesOf(heads[0]!)).toHaveLength(5);
    expect(Object.fromEntries(linesOf(heads[0]!))).toEqual(expected);
    // Without a credential of ours, the header that would carry it is one like any other.
    client.secret = undefined;
    await client.ask(upstream.url, { path: "", headers: { "x-key": "theirs" }, channel: { authHeader: "x-key" } });
    expect(heads[1]).toStartWith("GET / HTTP/1.1\r\n");
    expect(linesOf(heads[1]!)).toContainEqual(["x-key", "theirs"]);
  });

  test("is never sent on to where a redirect points", async () => {
    const client = new Client();
    client.secret = "secret";
    const elsewhere = await Upstream.start(keepsAnswering);
    for (const status of [301, 302, 307, 308]) {
      const upstream = await Upstream.start({
        asked: (peer) => peer.say(answer("", `location: ${elsewhere.url}/\r\n`, `${status} Found`)),
      });
      const reply = await client.reply(upstream.url, { body: Buffer.from("{}") });
      expect(reply.status).toBe(status);
      expect(reply.header("location")).toBe(`${elsewhere.url}/`);
      expect(await textOf(reply)).toBe("");
    }
    expect(elsewhere.peers.length).toBe(0);
  });

  test("that is answered with something else than HTTP fails, blames the channel and closes the connection", async () => {
    const client = new Client();
    const rubbish: Readonly<Record<string, string>> = {
      "SSH-2.0-OpenSSH_9.9\r\n": "bad_response",
      "\x15\x03\x01\0\x02\x02\x16": "bad_response",
      "HTTP/1.1 200 OK\ncontent-length: 0\n\n": "bad_response",
      "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n": "bad_response",
      "HTTP/1.1 200 OK\r\ncontent-encoding: constructor\r\n\r\nhello": "bad_response",
      "HTTP/1.1 200 OK\r\ncontent-encoding: __proto__\r\n\r\nhello": "bad_response",
      "HTTP/1.1 200 OK\r\ncontent-encoding: compress\r\n\r\nhello": "bad_response",
      "HTTP/1.1 200 OK\r\ncontent-encoding: gzip, gzip\r\n\r\nhello": "bad_response",
      "HTTP/1.1 101 Switching Protocols\r\n\r\n": "misconfigured",
    };
    for (const [said, kind] of Object.entries(rubbish)) {
      const upstream = await Upstream.start({ asked: (peer) => peer.say(said) });
      expect(await client.fail(upstream.url)).toMatchObject({ kind, blame: "channel" });
      await upstream.allClosed();
    }
  });
});

describe("whatever an upstream sends", () => {
  test("an exchange ends with an answer or a failure, and leaves the next one alone", async () => {
    const client = new Client();
    let said: Uint8Array = Buffer.alloc(0);
    const upstream = await Upstream.start({
      asked: (peer, { head }) => {
        if (head.includes("/plain")) return peer.say(answer("plain"));
        peer.socket.end(said);
      },
    });
    const word = fc.constantFrom(
      ...[
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 204 No\r\n\r\n",
        "HTTP/1.1 100 Go\r\n\r\n",
        "HTTP/1.0 200 OK\r\n",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\0",
      ],
      ...[
        "content-length: 5\r\n",
        "transfer-encoding: chunked\r\n",
        "connection: close\r\n",
        "keep-alive: timeout=9\r\n",
        "location: /\r\n",
      ],
      ...[
        "5\r\nhello\r\n",
        "0\r\n\r\n",
        "hello",
        "content-encoding: ",
        "constructor\r\n",
        "toString\r\n",
        "__proto__\r\n",
        "gzip\r\n",
        "br\r\n",
      ],
    );
    const soup = fc.array(word, { maxLength: 9 }).map((words) => Buffer.from(`HTTP/1.1 200 OK\r\n${words.join("")}`, "latin1"));
    const garbage = fc.uint8Array({ maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(soup, garbage), { minLength: 1, maxLength: 3 }), async (chunks) => {
        said = Buffer.concat(chunks);
        const reply = await client.send(upstream.url).reply;
        if (!isFailure(reply)) await reply.bytes(bytesMax);
        expect(await client.ask(upstream.url, { path: "/plain" })).toBe("plain");
      }),
      { numRuns: 400 },
    );
    await eventually("nothing but the last one is left", () => upstream.open <= 1);
  });
});

describe("a content coding that nobody asked for", () => {
  interface Coding {
    readonly pack: (bytes: Uint8Array) => Buffer;
    readonly stream: () => zlib.Gzip | zlib.Deflate | zlib.BrotliCompress | zlib.ZstdCompress;
    readonly flush: number;
  }
  const codings: Readonly<Record<string, Coding>> = {
    gzip: { pack: (bytes) => zlib.gzipSync(bytes), stream: () => zlib.createGzip(), flush: zlib.constants.Z_SYNC_FLUSH },
    deflate: { pack: (bytes) => zlib.deflateSync(bytes), stream: () => zlib.createDeflate(), flush: zlib.constants.Z_SYNC_FLUSH },
    br: {
      pack: (bytes) => zlib.brotliCompressSync(bytes, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } }),
      stream: () => zlib.createBrotliCompress(),
      flush: zlib.constants.BROTLI_OPERATION_FLUSH,
    },
    zstd: { pack: (bytes) => zlib.zstdCompressSync(bytes), stream: () => zlib.createZstdCompress(), flush: zlib.constants.ZSTD_e_flush },
  };

  describe.each(Object.entries(codings))("%s", (name, { pack, stream, flush }) => {
    test("is undone as it comes: what was flushed can be read before anything follows", async () => {
      const client = new Client();
      const coder = stream();
      const upstream = await Upstream.start({
        asked: (peer) => {
          peer.say(`HTTP/1.1 200 OK\r\ncontent-encoding: ${name}\r\n\r\n`);
          coder.on("data", (bytes: Buffer) => peer.say(bytes));
          coder.on("end", () => peer.socket.end());
        },
      });
      const reply = await client.reply(upstream.url);
      let text = "";
      for (let event = 0; event < 5; event++) {
        coder.write(`event ${event}\n`);
        coder.flush(flush);
        while (!text.includes(`event ${event}\n`)) {
          const part = await reply.next();
          if (part === null || isFailure(part)) throw new Error("it ended");
          text += Buffer.from(part).toString();
        }
      }
      coder.end();
      expect(await reply.next()).toBeNull();
      expect(text).toBe("event 0\nevent 1\nevent 2\nevent 3\nevent 4\n");
    });

    test("gives the same bytes, also for large bodies, and the connection serves again", async () => {
      const client = new Client();
      const plain = Buffer.concat([randomBytes(700_000), Buffer.alloc(300_000, "x")]);
      const packed = pack(plain);
      const upstream = await Upstream.start({ asked: (peer) => peer.say(answer(packed, `Content-Encoding: ${name.toUpperCase()}\r\n`)) });
      for (let call = 0; call < 3; call++) {
        const reply = await client.reply(upstream.url);
        const body = await reply.bytes(bytesMax);
        if (isFailure(body)) throw new Error(body.detail);
        expect(digest(body)).toBe(digest(plain));
      }
      expect(upstream.peers.length).toBe(1);
    });

    test("that ends too early, at whatever byte, is a failure and never a shorter answer", async () => {
      const client = new Client();
      const packed = pack(Buffer.from("an answer, an answer, and another"));
      let length = 0;
      const upstream = await Upstream.start({
        asked: (peer) => peer.say(answer(packed.subarray(0, length), `content-encoding: ${name}\r\n`)),
      });
      const taken: number[] = [];
      for (length = 1; length < packed.length; length++) {
        const body = await (await client.reply(upstream.url)).bytes(bytesMax);
        if (isFailure(body)) expect(body.kind).toBe("bad_response");
        else taken.push(length);
      }
      expect(taken).toEqual([]);
      length = packed.length;
      expect(await client.ask(upstream.url)).toBe("an answer, an answer, and another");
    });

    test("that breaks off with its connection is a disconnection", async () => {
      const client = new Client();
      const packed = pack(randomBytes(10_000));
      const head = `HTTP/1.1 200 OK\r\ncontent-encoding: ${name}\r\ncontent-length: ${packed.length}\r\n\r\n`;
      const upstream = await Upstream.start({
        asked: (peer) => peer.socket.end(Buffer.concat([Buffer.from(head), packed.subarray(0, 5_000)])),
      });
      expect((await client.fail(upstream.url)).kind).toBe("disconnected");
    });

    test("that is not what it says is a failure, and closes the connection", async () => {
      const client = new Client();
      const upstream = await Upstream.start({
        asked: (peer) => peer.say(`HTTP/1.1 200 OK\r\ncontent-encoding: ${name}\r\n\r\n{"plain": "text that goes on and on"}`),
      });
      expect((await client.fail(upstream.url)).kind).toBe("bad_response");
      await upstream.allClosed();
    });

    test("that makes much of a little is refused before it is unpacked, and closes the connection", async () => {
      const client = new Client();
      const bomb = pack(Buffer.alloc(48 * 1024 * 1024));
      const upstream = await Upstream.start({
        asked: (peer) => {
          peer.say(`HTTP/1.1 200 OK\r\ncontent-encoding: ${name}\r\n\r\n`);
          peer.say(bomb);
        },
      });
      const reply = await client.reply(upstream.url);
      let read = 0;
      let last: Failure | null = null;
      while (last === null) {
        const part = await reply.next();
        if (part === null) throw new Error("it was unpacked");
        if (isFailure(part)) last = part;
        else read += part.length;
      }
      expect(last.kind).toBe("bad_response");
      expect(read).toBeLessThanOrEqual(8 * 1024 * 1024);
      await upstream.allClosed();
    });
  });

  test("called identity is none", async () => {
    const client = new Client();
    const upstream = await Upstream.start({ asked: (peer) => peer.say(answer("plain", "content-encoding: Identity\r\n")) });
    expect(await client.ask(upstream.url)).toBe("plain");
  });
});

const certificates = await makeCertificates();
const authoritiesBefore = tls.getCACertificates("default");
afterAll(() => tls.setDefaultCACertificates(authoritiesBefore));

describe.skipIf(certificates === null)("over TLS", () => {
  const start = (behaviour: Behaviour): Promise<Upstream> => {
    const { authority, valid } = certificates!;
    tls.setDefaultCACertificates([...authoritiesBefore, authority]);
    return Upstream.start(behaviour, { ...valid });
  };

  test("a connection is used again, replaced when it is stale, and closed when it is aborted", async () => {
    const client = new Client();
    let closing = false;
    const upstream = await start({
      asked: (peer, { nth }) => {
        if (closing && nth > 1) return peer.socket.destroy();
        peer.say(answer("fresh"));
      },
    });
    for (let call = 0; call < 5; call++) expect(await client.ask(upstream.url, { body: Buffer.alloc(100_000) })).toBe("fresh");
    expect(upstream.peers.length).toBe(1);
    closing = true;
    for (let call = 0; call < 30; call++) expect(await client.ask(upstream.url)).toBe("fresh");
    expect(upstream.peers.length).toBe(31);
  });

  test.each(Object.entries(hangUps))("a connection is replaced without a word, 60 times over: %s", async (_, behaviour) => {
    await askStale(await start(behaviour), 60);
  });

  test("a body that nobody reads makes the upstream wait, is whole when it is read, and closes when it is aborted", async () => {
    const client = new Client();
    const upstream = await start(floods);
    const exchange = client.send(upstream.url);
    await readFlood(exchange, upstream);
  });

  test("a certificate that nobody vouches for is a failure, and nothing is sent", async () => {
    const client = new Client();
    const upstream = await Upstream.start(keepsAnswering, { ...certificates!.selfSigned });
    expect(await client.fail(upstream.url)).toMatchObject({ kind: "tls_failed" });
    expect(upstream.requests).toBe(0);
  });
});

describe("the headers of a trace", () => {
  test("are those of each request, where the others are prepared once for all", async () => {
    const heads: string[] = [];
    const upstream = await Upstream.start({
      asked: (peer, { head }) => {
        heads.push(head);
        peer.say(answer());
      },
    });
    const send = makeSend(
      () => undefined,
      () => 1_000,
    );
    const channel = channelTo(upstream.url, {});
    const request = { method: "POST", url: `${upstream.url}/v1/chat`, headers: { "x-given": "given" }, body: Buffer.from("{}") } as const;
    const traces = [
      { traceparent: "00-a-1-00", tracestate: null },
      null,
      { traceparent: "00-b-2-01", tracestate: "vendor=1\u2028" },
      { traceparent: "00-c-3-00", tracestate: null },
    ];
    for (const trace of traces) {
      const reply = await send(request, channel, "key", trace).reply;
      expect(isFailure(reply)).toBe(false);
      if (!isFailure(reply)) await textOf(reply);
    }
    expect(heads.map((head) => head.split("\r\n").filter((line) => line.startsWith("trace")))).toEqual([
      ["traceparent: 00-a-1-00"],
      [],
      ["traceparent: 00-b-2-01", "tracestate: vendor=1"],
      ["traceparent: 00-c-3-00"],
    ]);
    for (const head of heads) expect(head.split("\r\n")).toContain("x-given: given");
  });
});

describe("a channel with a proxy", () => {
  interface Proxy {
    readonly upstream: Upstream;
    readonly seen: string[];
  }

  /** Forwards what is asked for in absolute form, and tunnels what is asked for by CONNECT. */
  async function startProxy(): Promise<Proxy> {
    const seen: string[] = [];
    const upstream = await Upstream.start({
      asked: (peer, { head, body }) => {
        const [line = "", ...rest] = head.split("\r\n");
        seen.push(line);
        const [method = "", target = ""] = line.split(" ");
        const { hostname, port, pathname, search } = new URL(method === "CONNECT" ? `http://${target}` : target);
        const onward = net.connect({ host: hostname, port: Number(port) });
        onward.on("error", () => peer.socket.destroy());
        peer.socket.on("close", () => onward.destroy());
        if (method === "CONNECT") return peer.socket.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
        onward.write(
          Buffer.concat([Buffer.from([`${method} ${pathname}${search} HTTP/1.1`, ...rest, "", ""].join("\r\n"), "latin1"), body]),
        );
        onward.pipe(peer.socket);
      },
    });
    return { upstream, seen };
  }

  test("goes through it with the whole request, and brings the answer back", async () => {
    const proxy = await startProxy();
    const client = new Client();
    client.secret = "secret";
    const received: Received[] = [];
    const packed = zlib.gzipSync("the answer");
    const origin = await Upstream.start({
      asked: (peer, request) => {
        received.push(request);
        peer.say(answer(packed, "content-encoding: gzip\r\nx-one: 1\r\n", "201 Created"));
      },
    });
    const body = randomBytes(300_000);
    const headers = { "x-given": "given", "user-agent": "somebody" };
    const trace = { traceparent: "00-a-1-01", tracestate: "vendor=1" };
    const reply = await client.reply(origin.url, { path: "/v1/chat?x=y", headers, body, channel: { proxy: proxy.upstream.url }, trace });
    expect([reply.status, reply.header("x-one"), await textOf(reply)]).toEqual([201, "1", "the answer"]);
    expect(proxy.seen).toEqual([`POST ${origin.url}/v1/chat?x=y HTTP/1.1`]);
    const head = received[0]!.head.toLowerCase();
    for (const line of ["authorization: bearer secret", "accept-encoding: identity", "user-agent: sluice", "x-given: given"]) {
      expect(head.split("\r\n")).toContain(line);
    }
    for (const line of ["traceparent: 00-a-1-01", "tracestate: vendor=1"]) expect(head.split("\r\n")).toContain(line);
    expect(digest(received[0]!.body)).toBe(digest(body));
  });

  test("streams through it: what is here can be read before anything follows, and an abort closes the connection", async () => {
    const proxy = await startProxy();
    const client = new Client();
    const origin = await Upstream.start({
      asked: (peer) => peer.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"),
    });
    for (const end of ["abort", "cancel"]) {
      const exchange = client.send(origin.url, { channel: { proxy: proxy.upstream.url } });
      const reply = (await exchange.reply) as Reply;
      expect(Buffer.from((await reply.next()) as Uint8Array).toString()).toBe("hello");
      const waiting = reply.next();
      if (end === "abort") exchange.abort();
      else reply.cancel();
      expect(await waiting).toMatchObject({ kind: "client_gone" });
      await proxy.upstream.allClosed();
      await origin.allClosed();
    }
  });

  test("that is aborted while it waits is a failure, and its connection is closed", async () => {
    const proxy = await startProxy();
    const origin = await Upstream.start({});
    const exchange = new Client().send(origin.url, { channel: { proxy: proxy.upstream.url } });
    await eventually("it is asked", () => origin.requests === 1);
    exchange.abort();
    expect(await exchange.reply).toMatchObject({ kind: "client_gone" });
    await proxy.upstream.allClosed();
  });

  test("never follows a redirect", async () => {
    const proxy = await startProxy();
    const elsewhere = await Upstream.start(keepsAnswering);
    const origin = await Upstream.start({
      asked: (peer) => peer.say(answer("", `location: ${elsewhere.url}/\r\n`, "307 Temporary Redirect")),
    });
    const reply = await new Client().reply(origin.url, { body: Buffer.from("{}"), channel: { proxy: proxy.upstream.url } });
    expect(reply.status).toBe(307);
    expect(elsewhere.peers.length).toBe(0);
  });

  test("cannot be given another header line by a value or a credential", async () => {
    const proxy = await startProxy();
    const heads: string[] = [];
    const origin = await Upstream.start({
      asked: (peer, { head }) => {
        heads.push(head);
        peer.say(answer());
      },
    });
    const channel = { proxy: proxy.upstream.url };
    for (const value of ["a\r\nx-evil: 1", "a\nx-evil: 1", "a\rx-evil: 1", "a\0b", "\u010d\u010ax-evil: 1"]) {
      const client = new Client();
      for (const secret of ["secret", value]) {
        client.secret = secret;
        const reply = await client.send(origin.url, { headers: { "x-given": value }, channel }).reply;
        // Refused, or sent without what was wrong with it: never with a line more.
        if (!isFailure(reply)) await textOf(reply);
      }
    }
    for (const head of heads) expect(head).not.toMatch(/^x-evil/im);
  });

  const failures: Readonly<Record<string, () => Promise<{ readonly proxy: string; readonly url: string }>>> = {
    "a proxy that is not there": async () => {
      const [gone, origin] = [await Upstream.start({}), await Upstream.start(keepsAnswering)];
      gone.stop();
      return { proxy: gone.url, url: origin.url };
    },
    "a proxy that hangs up": async () => {
      const [rude, origin] = [await Upstream.start({ asked: (peer) => peer.socket.destroy() }), await Upstream.start(keepsAnswering)];
      return { proxy: rude.url, url: origin.url };
    },
    "a proxy that does not let it pass": async () => ({ proxy: (await startProxy()).upstream.url, url: "https://127.0.0.1:9" }),
    "a proxy that speaks no HTTP": async () => {
      const strange = await Upstream.start({ accepted: (peer) => peer.say("SSH-2.0-OpenSSH_9.9\r\n\r\n\r\n") });
      return { proxy: strange.url, url: "http://127.0.0.1:9" };
    },
    "an upstream that is not there": async () => {
      const gone = await Upstream.start({});
      gone.stop();
      return { proxy: (await startProxy()).upstream.url, url: gone.url };
    },
    "an upstream that hangs up inside its answer": async () => {
      const origin = await Upstream.start({ asked: (peer) => peer.socket.end("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello") });
      return { proxy: (await startProxy()).upstream.url, url: origin.url };
    },
  };
  test.each(Object.entries(failures))("has a failure that is a value: %s", async (_, arrange) => {
    const { proxy, url } = await arrange();
    const failed = await new Client().fail(url, { channel: { proxy } });
    expect(failed.blame).toBe("channel");
    expect(failed.detail).not.toBe("");
  });
});

describe.skipIf(certificates === null)("a channel with a proxy, over TLS,", () => {
  interface Tunnels {
    readonly url: string;
    /** The request lines. */
    readonly seen: string[];
    /** What passed through, both ways. */
    readonly passed: Buffer[];
    readonly clients: readonly Socket[];
    readonly open: () => number;
  }

  /** A proxy that answers CONNECT as it is told, and then passes everything on. */
  async function startTunnels(answers = "HTTP/1.1 200 Connection established\r\n\r\n", secured = false): Promise<Tunnels> {
    const sockets = new Set<Socket>();
    const [seen, passed, clients]: [string[], Buffer[], Socket[]] = [[], [], []];
    const accept = (client: Socket): void => {
      clients.push(client);
      keep(client);
      client.once("data", (first: Buffer) => {
        const line = first.toString("latin1", 0, first.indexOf("\r\n"));
        seen.push(line);
        if (answers === "") return;
        client.write(answers);
        if (!answers.startsWith("HTTP/1.1 200")) return client.end();
        const { hostname, port } = new URL(`http://${line.split(" ")[1]}`);
        const onward = net.connect({ host: hostname, port: Number(port) });
        keep(onward);
        for (const [from, to] of [
          [client, onward],
          [onward, client],
        ] as const) {
          from.on("data", (bytes: Buffer) => passed.length < 1_000 && passed.push(bytes));
          from.pipe(to);
          from.on("close", () => to.destroy());
        }
      });
    };
    const keep = (socket: Socket): void => {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => sockets.delete(socket));
    };
    const server = secured ? tls.createServer({ ...certificates!.valid }, accept) : net.createServer(accept);
    await new Promise<void>((resolve) => server.listen({ port: 0, host: "127.0.0.1" }, resolve));
    stops.push(() => {
      server.close();
      for (const socket of sockets) socket.destroy();
    });
    const url = `http${secured ? "s" : ""}://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return { url, seen, passed, clients, open: () => sockets.size };
  }

  const start = (behaviour: Behaviour, pair = certificates!.valid): Promise<Upstream> => {
    tls.setDefaultCACertificates([...authoritiesBefore, certificates!.authority]);
    return Upstream.start(behaviour, { ...pair });
  };

  const kinds = [
    ["a plain proxy", false],
    ["a proxy that is itself reached over TLS", true],
  ] as const;

  test.each(kinds)("goes through one tunnel again and again, and a stale one is replaced: %s", async (_, secured) => {
    const client = new Client();
    client.secret = "sk-canary";
    let closing = false;
    const upstream = await start({
      asked: (peer, { nth, head, body }) => {
        if (closing && nth > 1) return peer.socket.destroy();
        peer.say(answer(`${head.split("\r\n")[0]} ${body.length}`));
      },
    });
    const tunnels = await startTunnels(undefined, secured);
    const ask = () => client.ask(upstream.url, { body: Buffer.alloc(100_000), channel: { proxy: tunnels.url } });
    for (let call = 0; call < 5; call++) expect(await ask()).toBe("POST /v1/chat HTTP/1.1 100000");
    const { host } = new URL(upstream.url);
    expect(tunnels.seen).toEqual([`CONNECT ${host} HTTP/1.1`]);
    closing = true;
    for (let call = 0; call < 10; call++) expect(await ask()).toBe("POST /v1/chat HTTP/1.1 100000");
    expect([tunnels.seen.length, upstream.peers.length]).toEqual([11, 11]);
    expect(Buffer.concat(tunnels.passed).includes("sk-canary")).toBe(false);
  });

  test.each(kinds)(
    "makes the upstream wait for a body that is read slowly, and closes all of it when it is aborted: %s",
    async (_, secured) => {
      const upstream = await start(floods);
      const tunnels = await startTunnels(undefined, secured);
      const exchange = new Client().send(upstream.url, { channel: { proxy: tunnels.url } });
      let ahead = 0;
      // Slowly, so that the connection is stopped again and again.
      await readFlood(exchange, upstream, 32 * mebibyte, async (read) => {
        ahead = Math.max(ahead, upstream.peers[0]!.socket.bytesWritten - read);
        await new Promise((resolve) => setTimeout(resolve, 1));
      });
      // On both sides of the proxy, which holds little itself.
      expect(ahead).toBeLessThan(2 * heldBySystem + 4 * mebibyte);
      await eventually("the tunnel is closed", () => tunnels.open() === 0);
    },
  );

  test.each(kinds)("is told at once that the connection broke: %s", async (_, secured) => {
    const upstream = await start({ asked: (peer) => peer.say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello") });
    const tunnels = await startTunnels(undefined, secured);
    for (const how of ["end", "resetAndDestroy"] as const) {
      const reply = await new Client().reply(upstream.url, { channel: { proxy: tunnels.url } });
      expect(Buffer.from((await reply.next()) as Uint8Array).toString()).toBe("hello");
      tunnels.clients.at(-1)![how]();
      expect(await reply.next()).toMatchObject({ kind: "disconnected" });
      await eventually("it is closed", () => tunnels.open() === 0);
    }
  });

  test.each(["selfSigned", "wrongName", "expired"] as const)("does not trust a certificate because of its proxy: %s", async (which) => {
    const upstream = await start(keepsAnswering, certificates![which]);
    for (const [, secured] of kinds) {
      const tunnels = await startTunnels(undefined, secured);
      expect(await new Client().fail(upstream.url, { channel: { proxy: tunnels.url } })).toMatchObject({ kind: "tls_failed" });
      expect(upstream.requests).toBe(0);
      await eventually("the tunnel is closed", () => tunnels.open() === 0);
    }
  });

  test("is given up in the time for connecting: where the proxy says nothing, and where the upstream behind it does", async () => {
    const silent = await startTunnels("");
    const stalled = await Upstream.start({});
    const tunnels = await startTunnels();
    for (const [proxy, url] of [
      [silent, "https://127.0.0.1:9"],
      [tunnels, stalled.url.replace("http", "https")],
    ] as const) {
      const channel = { proxy: proxy.url, timeouts: { ...timeouts, connectMs: 100 } };
      const exchange = new Client().send(url, { channel });
      expect([await exchange.reply, exchange.isUnsent]).toMatchObject([{ kind: "connect_timeout" }, true]);
      await eventually("it is closed", () => proxy.open() === 0);
    }
  });

  test("that is aborted while the tunnel is opened leaves nothing behind", async () => {
    const silent = await startTunnels("");
    const exchange = new Client().send("https://127.0.0.1:9", { channel: { proxy: silent.url } });
    await eventually("it is asked", () => silent.seen.length === 1);
    exchange.abort();
    expect(await exchange.reply).toMatchObject({ kind: "client_gone" });
    await eventually("it is closed", () => silent.open() === 0);
  });

  test.each([
    ["HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno", "misconfigured", "the proxy answered 403 to CONNECT"],
    ["HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "misconfigured", "the proxy answered 407 to CONNECT"],
    ["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 502 Bad Gateway\r\n\r\n", "unreachable", "the proxy answered 502 to CONNECT"],
    ["SSH-2.0-OpenSSH_9.9\r\n", "bad_response", "it is not HTTP"],
    ["HTTP/1.1 200 OK\r\n\r\nhello", "bad_response", "sent more"],
    ["HTTP/1.1 2", "disconnected", "closed while it was opened"],
  ])("says what the proxy said instead of opening a tunnel: %j", async (answers, kind, detail) => {
    const refusing = await startTunnels(answers);
    const failed = await new Client().fail("https://127.0.0.1:9", { channel: { proxy: refusing.url } });
    expect(failed).toMatchObject({ kind, blame: "channel", detail: expect.stringContaining(detail) });
    await eventually("it is closed", () => refusing.open() === 0);
  });
});
