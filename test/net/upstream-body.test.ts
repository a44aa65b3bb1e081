// Needs: quiet. It mostly waits for upstreams that do not read; the memory that it measures is its own.
import { afterAll, afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, readdirSync, readlinkSync } from "node:fs";
import net, { type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import tls from "node:tls";
import fc from "fast-check";
import type { StreamedBody } from "../../src/dialects/dialect.ts";
import type { Channel } from "../../src/channels/channel.ts";
import type { Exchange, Reply } from "../../src/gateway/ports.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import { startExchange } from "../../src/net/client/exchange.ts";
import { Pool } from "../../src/net/client/pool.ts";
import { makeSend } from "../../src/net/client/send.ts";
import { untilRead } from "../support/chaos/unread.ts";
import { eventually } from "../support/eventually.ts";
import { makeCertificates } from "../support/tls.ts";
import { slowed } from "../support/slowed.ts";

// Real sockets on a busy machine; where a clock is judged, the test says so.
setDefaultTimeout(60_000);

const kibibyte = 1024;
const mebibyte = 1024 * 1024;

const certificates = await makeCertificates();
const authoritiesBefore = tls.getCACertificates("default");
if (certificates !== null) tls.setDefaultCACertificates([...authoritiesBefore, certificates.authority]);
afterAll(() => tls.setDefaultCACertificates(authoritiesBefore));

/** The upstream's side of one connection: it counts and hashes what comes, so that a large body costs no memory. */
class Peer {
  closed = false;
  head: string | null = null;
  /** Bytes of the body that is coming in. */
  bytes = 0;
  requests = 0;
  #begin = Buffer.alloc(0);
  #left = 0;
  #hash = createHash("sha256");

  constructor(
    readonly socket: Socket,
    readonly behaviour: Behaviour,
  ) {
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.on("close", () => (this.closed = true));
    socket.on("data", (bytes: Buffer) => this.#take(bytes));
  }

  say(text: string | Uint8Array): void {
    this.socket.write(text);
  }

  #take(bytes: Buffer): void {
    if (this.head !== null) return this.#count(bytes);
    this.#begin = Buffer.concat([this.#begin, bytes]);
    const end = this.#begin.indexOf("\r\n\r\n");
    if (end < 0) return;
    this.head = this.#begin.toString("latin1", 0, end);
    this.#left = Number(/^content-length: (\d+)$/im.exec(this.head)?.[1] ?? 0);
    const rest = this.#begin.subarray(end + 4);
    this.#begin = Buffer.alloc(0);
    this.bytes = 0;
    this.requests++;
    this.behaviour.began?.(this);
    this.#count(rest);
  }

  #count(bytes: Buffer): void {
    const before = this.bytes;
    this.bytes += bytes.length;
    this.#left -= bytes.length;
    this.#hash.update(bytes);
    this.behaviour.received?.(this, before);
    if (this.#left > 0) return;
    const received = { head: this.head!, digest: this.#hash.digest("hex"), bytes: this.bytes, nth: this.requests };
    this.#hash = createHash("sha256");
    this.head = null;
    this.behaviour.asked?.(this, received);
  }
}

interface Received {
  readonly head: string;
  readonly digest: string;
  readonly bytes: number;
  /** Which one it is on its connection, from 1. */
  readonly nth: number;
}

interface Behaviour {
  /** The head of a request is here. */
  readonly began?: (peer: Peer) => void;
  /** More of the body is here; before it there were so many bytes. */
  readonly received?: (peer: Peer, before: number) => void;
  /** The whole request is here. */
  readonly asked?: (peer: Peer, request: Received) => void;
}

class Upstream {
  readonly peers: Peer[] = [];

  private constructor(readonly url: string) {}

  static async start(behaviour: Behaviour, secured: tls.TlsOptions | null = null): Promise<Upstream> {
    const accept = (socket: Socket): void => void upstream.peers.push(new Peer(socket, behaviour));
    const server = secured === null ? net.createServer(accept) : tls.createServer(secured, accept);
    await new Promise<void>((resolve) => server.listen({ port: 0, host: "127.0.0.1" }, resolve));
    const { port } = server.address() as AddressInfo;
    const upstream = new Upstream(`http${secured === null ? "" : "s"}://127.0.0.1:${port}`);
    stops.push(() => {
      server.close();
      for (const { socket } of upstream.peers) socket.destroy();
    });
    return upstream;
  }

  get open(): number {
    return this.peers.filter(({ closed }) => !closed).length;
  }

  get requests(): number {
    return this.peers.reduce((sum, peer) => sum + peer.requests, 0);
  }

  allClosed(withinMs?: number): Promise<void> {
    return eventually("the upstream's connections are closed", () => this.open === 0, withinMs);
  }
}

const stops: (() => void)[] = [];
const socketsAtFirst = socketsHeld();
afterEach(async () => {
  for (const stop of stops.splice(0)) stop();
  await eventually("no socket is left of the test", () => socketsHeld() <= socketsAtFirst);
});

/** How many sockets this process holds, both ends of every connection; none where the system does not say. */
function socketsHeld(): number {
  if (!existsSync("/proc/self/fd")) return 0;
  return readdirSync("/proc/self/fd").filter((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`).startsWith("socket:");
    } catch {
      return false;
    }
  }).length;
}

/** What a sender looks at in a channel. */
function channelTo(url: string, proxy: string | null): Channel {
  return {
    name: "a",
    address: { baseUrl: url, host: new URL(url).host, authHeader: "authorization", authPrefix: "Bearer " },
    timeouts: { connectMs: 10_000 },
    proxy,
  } as Channel;
}

class Client {
  proxy: string | null = null;
  readonly #send = makeSend(
    () => undefined,
    () => 1_000,
  );

  send(url: string, body: StreamedBody | Uint8Array | null): Exchange {
    const request = { method: body === null ? "GET" : "POST", url: `${url}/v1/audio`, headers: { "x-given": "1" }, body } as const;
    return this.#send(request, channelTo(url, this.proxy), "key");
  }

  async reply(url: string, body: StreamedBody | Uint8Array | null): Promise<Reply> {
    const reply = await this.send(url, body).reply;
    if (isFailure(reply)) throw new Error(`expected a reply, but: ${reply.kind}, ${reply.detail}`);
    return reply;
  }

  async ask(url: string, body: StreamedBody | Uint8Array | null): Promise<string> {
    const bytes = await (await this.reply(url, body)).bytes(mebibyte);
    if (isFailure(bytes)) throw new Error(`expected a body, but: ${bytes.kind}, ${bytes.detail}`);
    return Buffer.from(bytes).toString("latin1");
  }

  async fail(url: string, body: StreamedBody | Uint8Array | null): Promise<Failure> {
    const reply = await this.send(url, body).reply;
    if (isFailure(reply)) return reply;
    const bytes = await reply.bytes(mebibyte);
    if (isFailure(bytes)) return bytes;
    throw new Error(`expected a failure, but: ${reply.status}, ${bytes.length} bytes`);
  }
}

/** A body that knows how much of it was asked for, how often it was begun, and whether every reading of it is over. */
class Body implements StreamedBody {
  given = 0;
  begun = 0;
  finished = 0;
  readonly length: number;

  constructor(
    readonly content: readonly Uint8Array[],
    length?: number,
    readonly between: () => Promise<void> = () => Promise.resolve(),
  ) {
    this.length = length ?? content.reduce((sum, part) => sum + part.length, 0);
  }

  async *parts(): AsyncGenerator<Uint8Array> {
    this.begun++;
    try {
      for (const part of this.content) {
        await this.between();
        this.given += part.length;
        // A part is the reader's own, and gone once it was sent. A very large one is only sent once here.
        yield part.length > 1024 * kibibyte ? part : new Uint8Array(part);
      }
    } finally {
      this.finished++;
    }
  }

  get digest(): string {
    const hash = createHash("sha256");
    for (const part of this.content) hash.update(part);
    return hash.digest("hex");
  }

  get isOver(): boolean {
    return this.begun === this.finished;
  }
}

/** One part over and over: a body of any size that weighs nothing. */
function large(bytes: number, partBytes = 64 * kibibyte): Body {
  const part = randomBytes(partBytes);
  return new Body(Array.from({ length: Math.ceil(bytes / partBytes) }, () => part));
}

function answer(body = "ok", headers = "", status = "200 OK"): string {
  return `HTTP/1.1 ${status}\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`;
}

const keepsAnswering: Behaviour = { asked: (peer, { nth }) => peer.say(answer(`${nth}`)) };

/** Waits until a count has not changed for a while. Where it only seems so, the bound that follows holds all the more. */
async function standsStill(count: () => number): Promise<void> {
  let last = -1;
  let polls = 0;
  const isStill = (): boolean => {
    polls = count() === last ? polls + 1 : 0;
    last = count();
    return polls > 30;
  };
  await eventually("it stands still", isStill, 20_000);
}

describe("a streamed body", () => {
  test("arrives whole behind its head, with its length, however it is cut, and its connection is used again", async () => {
    const client = new Client();
    const arrived: Received[] = [];
    const upstream = await Upstream.start({
      asked: (peer, received) => {
        arrived.push(received);
        peer.say(answer());
      },
    });
    const part = fc.oneof(
      fc.uint8Array({ maxLength: 50 }),
      fc.nat(400_000).map((length) => randomBytes(length)),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 8 }), fc.boolean(), async (content, slow) => {
        const body = new Body(content, undefined, slow ? () => new Promise((resolve) => setImmediate(resolve)) : undefined);
        expect(await client.ask(upstream.url, body)).toBe("ok");
        expect(arrived.at(-1)).toMatchObject({ digest: body.digest, bytes: body.length });
        expect(
          arrived
            .at(-1)!
            .head.toLowerCase()
            .match(/content-length: \d+/g),
        ).toEqual([`content-length: ${body.length}`]);
        expect(arrived.at(-1)!.head).not.toMatch(/transfer-encoding/i);
        expect(body.begun).toBe(1);
        await eventually("it was read to its end", () => body.isOver);
      }),
      { numRuns: 60 },
    );
    expect(upstream.peers.length).toBe(1);
  });

  test("of nothing has arrived with its head: its connection is used again, also where its end is found late", async () => {
    const client = new Client();
    const upstream = await Upstream.start(keepsAnswering);
    for (const nth of ["1", "2"]) {
      const ended = Promise.withResolvers<void>();
      const body = new Body([new Uint8Array()], undefined, () => ended.promise);
      expect(await client.ask(upstream.url, body)).toBe(nth);
      ended.resolve();
      await eventually("it was read to its end", () => body.isOver);
    }
  });

  test.skipIf(certificates === null)("arrives whole over TLS at an upstream that reads slowly", async () => {
    const client = new Client();
    const arrived: Received[] = [];
    const upstream = await Upstream.start(
      {
        received: ({ socket }) => {
          socket.pause();
          setTimeout(() => socket.resume(), 1);
        },
        asked: (peer, received) => {
          arrived.push(received);
          peer.say(answer());
        },
      },
      { ...certificates?.valid },
    );
    const body = large(6 * mebibyte, 300 * kibibyte);
    expect(await client.ask(upstream.url, body)).toBe("ok");
    expect(await client.ask(upstream.url, body)).toBe("ok");
    expect(arrived.map(({ digest }) => digest)).toEqual([body.digest, body.digest]);
    expect(upstream.peers.length).toBe(1);
  });

  test("begins to leave before its second part can be read", async () => {
    const client = new Client();
    let goOn: () => void = () => {};
    const upstream = await Upstream.start(keepsAnswering);
    let parts = 0;
    const body = new Body([randomBytes(10), randomBytes(10)], undefined, () =>
      parts++ === 0 ? Promise.resolve() : new Promise((resolve) => (goOn = resolve)),
    );
    const text = client.ask(upstream.url, body);
    await eventually("the first part is there", () => upstream.peers[0]?.bytes === 10);
    goOn();
    expect(await text).toBe("1");
  });

  test.each([
    ["parts of 64 KiB", 64 * kibibyte],
    ["one part of 96 MiB", 96 * mebibyte],
  ])("waits while the upstream does not read, and costs no memory: %s", async (_, partBytes) => {
    const client = new Client();
    let paused = true;
    const arrived: Received[] = [];
    const upstream = await Upstream.start({
      began: ({ socket }) => void (paused && socket.pause()),
      asked: (peer, received) => {
        arrived.push(received);
        peer.say(answer());
      },
    });
    const body = large(96 * mebibyte, partBytes);
    // A part that is not copied is gone once it was sent.
    const { digest, length } = body;
    Bun.gc(true);
    const before = process.memoryUsage.rss();
    const text = client.ask(upstream.url, body);
    await eventually("it is asked", () => upstream.requests === 1);
    await standsStill(() => body.given);
    // What the system holds between two sockets of this machine is not ours.
    if (partBytes < mebibyte) expect(body.given).toBeLessThan(24 * mebibyte);
    Bun.gc(true);
    expect(process.memoryUsage.rss() - before).toBeLessThan(16 * mebibyte);
    paused = false;
    upstream.peers[0]!.socket.resume();
    expect(await text).toBe("ok");
    expect(arrived[0]).toMatchObject({ digest, bytes: length });
    expect(body.begun).toBe(1);
    if (partBytes > mebibyte) await eventually("its memory is given back", () => body.content[0]?.length === 0);
  });
});

describe("a streamed body that is not taken", () => {
  const sendMs = 500;

  function send(url: string, body: StreamedBody): Exchange {
    const { hostname, port } = new URL(url);
    const origin = { key: url, hostname, port: Number(port), secure: false, reach: "any" as const, socketPath: null };
    const lines = Buffer.from("POST / HTTP/1.1\r\nhost: x\r\n");
    return startExchange({ origin, pool: new Pool(() => 1_000), connectMs: 10_000, sendMs }, lines, body);
  }

  test("fails as an upstream that is too late, from its beginning or from the middle, and nobody reads it on", async () => {
    for (const bytes of [0, 20 * mebibyte]) {
      let over = false;
      const stops = (peer: Peer): void => void (!over && peer.bytes >= bytes && peer.socket.pause());
      const upstream = await Upstream.start({ began: stops, received: stops });
      const body = large(256 * mebibyte);
      const exchange = send(upstream.url, body);
      const startedMs = performance.now();
      expect(await exchange.reply).toMatchObject({ kind: "timed_out", detail: `nothing of the upload was taken for ${sendMs} ms` });
      expect(performance.now() - startedMs).toBeGreaterThan(sendMs * 0.9);
      await eventually("nobody reads it any more", () => body.isOver);
      expect(body.given).toBeLessThan(body.length);
      over = true;
      upstream.peers[0]!.socket.resume();
      await upstream.allClosed();
    }
  });

  test("is waited for as long as some of it is taken, and as long as its own parts are late", async () => {
    const upstream = await Upstream.start({ asked: (peer, { bytes }) => peer.say(answer(`${bytes}`)) });
    let parts = 0;
    const late = new Body([randomBytes(10), randomBytes(10), randomBytes(10)], undefined, async () => {
      if (parts++ > 0) await Bun.sleep(1.5 * sendMs);
    });
    const reply = (await send(upstream.url, late).reply) as Reply;
    expect(Buffer.from((await reply.bytes(100)) as Uint8Array).toString()).toBe("30");

    // It takes a few mebibytes at a time, with pauses that are longer than the bound only all together.
    const slow = await Upstream.start({
      received: ({ socket, bytes }, before) => {
        if (Math.floor(bytes / (4 * mebibyte)) === Math.floor(before / (4 * mebibyte))) return;
        socket.pause();
        setTimeout(() => socket.resume(), sendMs / 4);
      },
      asked: (peer, { bytes }) => peer.say(answer(`${bytes}`)),
    });
    const startedMs = performance.now();
    const answered = (await send(slow.url, large(64 * mebibyte)).reply) as Reply;
    expect(Buffer.from((await answered.bytes(100)) as Uint8Array).toString()).toBe(`${64 * mebibyte}`);
    expect(performance.now() - startedMs).toBeGreaterThan(2 * sendMs);
  });

  test("does not break an answer that has begun", async () => {
    const upstream = await Upstream.start({
      began: (peer) => {
        peer.socket.pause();
        peer.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n");
        setTimeout(() => peer.say("2\r\nho\r\n0\r\n\r\n"), 2 * sendMs);
      },
    });
    const body = large(256 * mebibyte);
    const reply = (await send(upstream.url, body).reply) as Reply;
    expect(Buffer.from((await reply.bytes(100)) as Uint8Array).toString()).toBe("hiho");
    await eventually("nobody reads it any more", () => body.isOver);
  });
});

describe("a streamed body that is wrong", () => {
  const one = randomBytes(100 * kibibyte);
  const wrong: Readonly<Record<string, StreamedBody>> = {
    "ends early": new Body([one, one], 2 * one.length + 1),
    "is empty and should not be": new Body([], 5),
    "is longer, by a part": new Body([one, one, Buffer.from("x")], 2 * one.length),
    "is longer, inside a part": new Body([one, one], one.length + 1),
    "is not empty and should be": new Body([Buffer.from("x")], 0),
    "throws at once": {
      length: 10,
      parts: () => {
        throw Object.assign(new Error("secret words"), { code: "EMFILE" });
      },
    },
    "throws in the middle": {
      length: 2 * one.length,
      async *parts() {
        yield new Uint8Array(one);
        await Promise.resolve();
        throw Object.assign(new Error("secret words"), { code: "EIO" });
      },
    },
    "throws behind its last part": {
      length: one.length,
      async *parts() {
        yield new Uint8Array(one);
        await Promise.resolve();
        throw new Error("secret words");
      },
    },
  };

  test.each(Object.entries(wrong))("is our own failure, closes the connection, and is never a whole request: it %s", async (_, body) => {
    const client = new Client();
    let asked = 0;
    const upstream = await Upstream.start({ asked: (peer) => peer.say(answer(`${++asked}`)) });
    // On a fresh connection and on one that was used before.
    expect(await client.fail(upstream.url, body)).toMatchObject({ kind: "internal", blame: "gateway" });
    await upstream.allClosed();
    await client.ask(upstream.url, Buffer.from("{}"));
    const failure = await client.fail(upstream.url, body);
    expect(failure).toMatchObject({ kind: "internal" });
    expect(failure.detail).not.toContain("secret");
    await upstream.allClosed();
    // Nothing can be held back of a body of no bytes.
    expect(asked).toBe(body.length === 0 ? 3 : 1);
    expect(upstream.peers.length).toBe(2);
  });
});

describe("a streamed body that is answered before it is sent", () => {
  const refusal = answer("too large", "", "413 Payload Too Large");
  const early: Readonly<Record<string, (peer: Peer) => void>> = {
    "stays and reads no more": (peer) => {
      peer.socket.pause();
      peer.say(refusal);
    },
    "reads on": (peer) => peer.say(refusal),
    "says that it closes": (peer) => {
      peer.socket.pause();
      peer.say(answer("too large", "connection: close\r\n", "413 Payload Too Large"));
    },
    "closes its side": (peer) => peer.socket.end(refusal),
    "hangs up": (peer) => {
      peer.socket.pause();
      peer.socket.write(refusal, () => peer.socket.destroy());
    },
    resets: (peer) => {
      peer.socket.pause();
      peer.socket.write(refusal, () => void untilRead(peer.socket, 5).then(() => peer.socket.resetAndDestroy()));
    },
    "says it in two pieces": (peer) => {
      peer.say(refusal.slice(0, -4));
      setTimeout(() => peer.say(refusal.slice(-4)), 20);
    },
  };

  test.each(Object.entries(early))("has its answer, is not sent on, and its connection is closed: the upstream %s", async (_, refuse) => {
    const client = new Client();
    const upstream = await Upstream.start({ received: (peer, before) => void (before === 0 && refuse(peer)) });
    for (let call = 0; call < 12; call++) {
      const body = large(64 * mebibyte);
      const reply = await client.reply(upstream.url, body);
      const { given } = body;
      expect(reply.status).toBe(413);
      expect(Buffer.from((await reply.bytes(1000)) as Uint8Array).toString()).toBe("too large");
      await eventually("nobody reads it any more", () => body.isOver);
      expect(body.given - given).toBeLessThan(256 * kibibyte);
      expect(body.begun).toBe(1);
      upstream.peers.at(-1)!.socket.resume();
      await upstream.allClosed();
      expect(upstream.peers.length).toBe(call + 1);
    }
  });

  test("has its answer also where the upstream closes while more is written", async () => {
    const child = Bun.spawn([process.execPath, join(import.meta.dir, "../support/early-refuser.ts")], { stdout: "pipe" });
    stops.push(() => child.kill());
    const { value } = await child.stdout.getReader().read();
    const url = `http://127.0.0.1:${Number(new TextDecoder().decode(value))}`;
    const client = new Client();
    const calls = 60;
    let rejected = 0;
    for (let call = 0; call < calls; call++) {
      const reply = await client.send(url, large(16 * mebibyte)).reply;
      if (!isFailure(reply) && reply.status === 413) rejected += 1;
    }
    // Where a reset comes in the very moment of a write, the runtime is the first to know.
    expect(rejected).toBeGreaterThan(calls * 0.8);
  });

  test("goes on where the answer is no refusal: it may be made of what is still to come", async () => {
    const client = new Client();
    const upstream = await Upstream.start({
      began: (peer) => peer.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n"),
      asked: (peer, { bytes }) => peer.say(`8\r\n${bytes}\r\n0\r\n\r\n`),
    });
    for (let call = 0; call < 3; call++) expect(await client.ask(upstream.url, large(16 * mebibyte))).toBe(`hi${16 * mebibyte}`);
    expect(upstream.peers.length).toBe(1);
  });

  test("is not mistaken for answered by an interim response", async () => {
    const client = new Client();
    const upstream = await Upstream.start({
      began: (peer) => peer.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n"),
      asked: (peer, { bytes }) => peer.say(answer(`${bytes}`)),
    });
    expect(await client.ask(upstream.url, large(4 * mebibyte))).toBe(`${4 * mebibyte}`);
  });
});

describe("a connection that breaks under a streamed body", () => {
  const breaks: Readonly<Record<string, (peer: Peer) => void>> = {
    "is closed": (peer) => peer.socket.destroy(),
    "is reset": (peer) => peer.socket.resetAndDestroy(),
    "is closed on its side": (peer) => peer.socket.end(),
    "is closed on its side by an upstream that reads no more": (peer) => {
      peer.socket.pause();
      peer.socket.end();
    },
    "is closed inside the head of a refusal": (peer) => peer.socket.end("HTTP/1.1 413 Payload Too Large\r\ncontent-le"),
    "is closed inside the body of a refusal": (peer) => peer.socket.end("HTTP/1.1 413 Payload Too Large\r\ncontent-length: 5\r\n\r\nhe"),
  };

  test.each(Object.entries(breaks))("is a failure where it was fresh, and the body is not sent again: it %s", async (_, hurt) => {
    const client = new Client();
    const upstream = await Upstream.start({ received: (peer, before) => void (before < mebibyte && peer.bytes >= mebibyte && hurt(peer)) });
    const body = large(64 * mebibyte);
    expect(await client.fail(upstream.url, body)).toMatchObject({ kind: "disconnected", blame: "channel" });
    await eventually("nobody reads it any more", () => body.isOver);
    expect(body.begun).toBe(1);
    expect(upstream.peers.length).toBe(1);
  });

  const stale: Readonly<Record<string, Behaviour>> = {
    "closed when the head comes": { began: (peer) => void (peer.requests > 1 && peer.socket.destroy()) },
    "reset when the head comes": { began: (peer) => void (peer.requests > 1 && peer.socket.resetAndDestroy()) },
    "closed in the middle of the body": {
      received: (peer, before) => void (peer.requests > 1 && before < mebibyte && peer.bytes >= mebibyte && peer.socket.destroy()),
    },
    "closed behind its first answer": { asked: (peer, { bytes }) => peer.socket.end(answer(`${bytes}`)) },
  };

  test.each(Object.entries(stale))("is replaced once where it waited in the pool, and the body is read again: %s", async (_, behaviour) => {
    const client = new Client();
    const upstream = await Upstream.start({ asked: (peer, { bytes }) => peer.say(answer(`${bytes}`)), ...behaviour });
    for (let call = 0; call < 20; call++) {
      expect(await client.ask(upstream.url, null)).toBe("0");
      const body = large(3 * mebibyte);
      expect(await client.ask(upstream.url, body)).toBe(`${body.length}`);
      expect(body.begun).toBeLessThanOrEqual(2);
      await eventually("every reading is over", () => body.isOver);
    }
    expect(upstream.peers.length).toBeGreaterThan(10);
  });

  test("is replaced once only", async () => {
    const client = new Client();
    let closing = false;
    const upstream = await Upstream.start({
      began: (peer) => void (closing && peer.socket.destroy()),
      asked: (peer) => peer.say(answer()),
    });
    await Promise.all([client.ask(upstream.url, null), client.ask(upstream.url, null)]);
    closing = true;
    const body = large(mebibyte);
    expect((await client.fail(upstream.url, body)).kind).toBe("disconnected");
    expect(body.begun).toBe(2);
    expect(upstream.requests).toBe(4);
  });
});

describe("a streamed body whose exchange is aborted", () => {
  /** How long it takes until our socket is closed, in milliseconds; the upstream's may have much to read before it knows. */
  async function abort(exchange: Exchange, body: Body): Promise<number> {
    const before = socketsHeld();
    const abortedMs = performance.now();
    exchange.abort();
    expect(await exchange.reply).toMatchObject({ kind: "client_gone" });
    if (before > 0) await eventually("our end is closed", () => socketsHeld() < before);
    const tookMs = performance.now() - abortedMs;
    const { given } = body;
    await eventually("nobody reads it any more", () => body.isOver);
    expect(body.given).toBe(given);
    return tookMs;
  }

  const transports: readonly (readonly [string, tls.TlsOptions | null])[] = [
    ["", null],
    [" over TLS", { ...certificates?.valid }],
  ];
  test.each(transports.slice(0, certificates === null ? 1 : 2))(
    "in the middle of the upload closes its socket within 50 ms%s",
    async (_, secured) => {
      const upstream = await Upstream.start({}, secured);
      const tookMs: number[] = [];
      for (let call = 0; call < 11; call++) {
        const body = large(2048 * mebibyte);
        const exchange = new Client().send(upstream.url, body);
        await eventually("it is under way", () => (upstream.peers[call]?.bytes ?? 0) > mebibyte);
        tookMs.push(await abort(exchange, body));
        await upstream.allClosed();
      }
      // A single one may have met somebody else's moment on a busy machine.
      expect(tookMs.toSorted((a, b) => a - b)[5]).toBeLessThan(slowed(50));
    },
  );

  test("while the upstream does not read gives its socket back at once", async () => {
    const upstream = await Upstream.start({ began: ({ socket }) => void socket.pause() });
    const body = large(256 * mebibyte);
    const exchange = new Client().send(upstream.url, body);
    await eventually("it is asked", () => upstream.requests === 1);
    await standsStill(() => body.given);
    await abort(exchange, body);
    expect(upstream.open).toBe(1);
    upstream.peers[0]!.socket.resume();
    await upstream.allClosed();
  });

  test("while its next part is not there yet closes the connection, and the part is not sent when it comes", async () => {
    let goOn: () => void = () => {};
    let parts = 0;
    const body = new Body([randomBytes(10), randomBytes(10), randomBytes(10)], undefined, () =>
      parts++ === 0 ? Promise.resolve() : new Promise((resolve) => (goOn = resolve)),
    );
    const upstream = await Upstream.start({});
    const exchange = new Client().send(upstream.url, body);
    await eventually("the first part is there", () => upstream.peers[0]?.bytes === 10);
    exchange.abort();
    expect(await exchange.reply).toMatchObject({ kind: "client_gone" });
    await upstream.allClosed();
    goOn();
    await eventually("nobody reads it any more", () => body.isOver);
    expect(body.given).toBe(20);
    expect(upstream.peers[0]!.bytes).toBe(10);
  });

  test("before it is connected is never read", async () => {
    const upstream = await Upstream.start({});
    const body = large(mebibyte);
    const exchange = new Client().send(upstream.url, body);
    exchange.abort();
    expect(await exchange.reply).toMatchObject({ kind: "client_gone" });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(body.begun).toBe(0);
  });

  test("inside an answer that came early closes the connection", async () => {
    const upstream = await Upstream.start({
      began: (peer) => peer.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n"),
    });
    const body = large(2048 * mebibyte);
    const exchange = new Client().send(upstream.url, body);
    const reply = (await exchange.reply) as Reply;
    expect(Buffer.from((await reply.next()) as Uint8Array).toString()).toBe("hi");
    const waiting = reply.next();
    reply.cancel();
    expect(await waiting).toMatchObject({ kind: "client_gone" });
    await upstream.allClosed();
    await eventually("nobody reads it any more", () => body.isOver);
  });
});

describe("a streamed body through a proxy", () => {
  /** A proxy that carries plain requests itself and opens tunnels for the others. */
  async function startProxy(): Promise<string> {
    const sockets: Socket[] = [];
    const server = net.createServer((client) => {
      sockets.push(client);
      client.on("error", () => {});
      client.once("data", (first: Buffer) => {
        const line = first.toString("latin1", 0, first.indexOf("\r\n"));
        const target = line.startsWith("CONNECT") ? `http://${line.split(" ")[1]}` : line.split(" ")[1]!;
        const { hostname, port } = new URL(target);
        const upstream = net.connect({ host: hostname, port: Number(port) });
        sockets.push(upstream);
        upstream.on("error", () => client.destroy());
        client.on("close", () => upstream.destroy());
        upstream.on("close", () => client.end());
        if (line.startsWith("CONNECT")) client.write("HTTP/1.1 200 OK\r\n\r\n");
        else upstream.write(first);
        client.pipe(upstream);
        upstream.pipe(client);
      });
    });
    await new Promise<void>((resolve) => server.listen({ port: 0, host: "127.0.0.1" }, resolve));
    stops.push(() => {
      server.close();
      for (const socket of sockets) socket.destroy();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  test("arrives whole and with its length", async () => {
    const client = new Client();
    client.proxy = await startProxy();
    const arrived: Received[] = [];
    const upstream = await Upstream.start({
      asked: (peer, received) => {
        arrived.push(received);
        peer.say(answer());
      },
    });
    for (const body of [large(5 * mebibyte, 300 * kibibyte), new Body([]), new Body([randomBytes(1)])]) {
      expect(await client.ask(upstream.url, body)).toBe("ok");
      expect(arrived.at(-1)).toMatchObject({ digest: body.digest, bytes: body.length });
      expect(
        arrived
          .at(-1)!
          .head.toLowerCase()
          .match(/content-length: \d+/g),
      ).toEqual([`content-length: ${body.length}`]);
    }
  });

  test("waits while the upstream does not read", async () => {
    const client = new Client();
    client.proxy = await startProxy();
    const upstream = await Upstream.start({ began: ({ socket }) => void socket.pause(), asked: (peer) => peer.say(answer()) });
    const body = large(128 * mebibyte);
    const text = client.ask(upstream.url, body);
    await eventually("it is asked", () => upstream.requests === 1);
    await standsStill(() => body.given);
    expect(body.given).toBeLessThan(64 * mebibyte);
    upstream.peers[0]!.socket.resume();
    expect(await text).toBe("ok");
  });

  test("that is wrong is our own failure and never a whole request", async () => {
    const client = new Client();
    client.proxy = await startProxy();
    let asked = 0;
    const upstream = await Upstream.start({ asked: (peer) => peer.say(answer(`${++asked}`)) });
    const one = randomBytes(100 * kibibyte);
    const throwing: StreamedBody = {
      length: 2 * one.length,
      async *parts() {
        yield new Uint8Array(one);
        await Promise.resolve();
        throw new Error("secret words");
      },
    };
    for (const body of [new Body([one, one], 2 * one.length + 1), new Body([one, one], one.length), throwing]) {
      expect(await client.fail(upstream.url, body)).toMatchObject({ kind: "internal" });
    }
    await upstream.allClosed();
    expect(asked).toBe(0);
  });

  test("that is refused early has its answer", async () => {
    const client = new Client();
    client.proxy = await startProxy();
    const upstream = await Upstream.start({
      began: (peer) => {
        peer.socket.pause();
        peer.say(answer("no", "connection: close\r\n", "401 Unauthorized"));
      },
    });
    const body = large(128 * mebibyte);
    const reply = await client.reply(upstream.url, body);
    expect(reply.status).toBe(401);
    expect(Buffer.from((await reply.bytes(1000)) as Uint8Array).toString()).toBe("no");
    await eventually("nobody reads it any more", () => body.isOver);
  });

  test("never meets a connection that the proxy has closed in the meantime", async () => {
    const client = new Client();
    const proxy = await Upstream.start({
      began: (peer) => void (peer.requests > 1 && peer.socket.destroy()),
      asked: (peer, { bytes }) => peer.say(answer(`${bytes}`)),
    });
    client.proxy = proxy.url;
    for (let call = 0; call < 5; call++) {
      expect(await client.ask("http://upstream.test", new Body([randomBytes(10)]))).toBe("10");
      expect(await client.ask("http://upstream.test", large(mebibyte))).toBe(`${mebibyte}`);
    }
    expect(proxy.peers.length).toBe(10);
  });

  test("that is aborted closes the connection", async () => {
    const client = new Client();
    client.proxy = await startProxy();
    const upstream = await Upstream.start({});
    const body = large(2048 * mebibyte);
    const exchange = client.send(upstream.url, body);
    await eventually("it is under way", () => (upstream.peers[0]?.bytes ?? 0) > mebibyte);
    exchange.abort();
    expect(await exchange.reply).toMatchObject({ kind: "client_gone" });
    await upstream.allClosed();
    await eventually("nobody reads it any more", () => body.isOver);
  });
});
