import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import net, { type AddressInfo, type Socket } from "node:net";
import type { StreamedBody } from "../../src/dialects/dialect.ts";
import { isFailure } from "../../src/operations/failure.ts";
import { startExchange } from "../../src/net/client/exchange.ts";
import { Pool } from "../../src/net/client/pool.ts";
import { eventually } from "../support/eventually.ts";

setDefaultTimeout(60_000);

type Act = (socket: Socket, nth: number) => void;

/** An upstream that answers the first request of each connection, and does as it is told with those that follow. */
class Upstream {
  /** Of each request, its number on its connection. */
  readonly requests: number[] = [];
  /** Bytes of bodies that came in. */
  bytes = 0;
  readonly #server: net.Server;
  readonly #sockets = new Set<Socket>();

  private constructor(act: { readonly head?: Act; readonly whole?: Act }) {
    this.#server = net.createServer((socket) => {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      let nth = 0;
      let got = Buffer.alloc(0);
      let isHeadTold = false;
      socket.on("data", (chunk: Buffer) => {
        got = Buffer.concat([got, chunk]);
        const end = got.indexOf("\r\n\r\n") + 4;
        if (end < 4) return;
        const length = Number(/content-length: (\d+)/i.exec(got.toString("latin1", 0, end))?.[1] ?? 0);
        if (!isHeadTold) {
          isHeadTold = true;
          this.requests.push((nth += 1));
          act.head?.(socket, nth);
        }
        this.bytes = got.length - end;
        if (got.length < end + length) return;
        got = Buffer.alloc(0);
        isHeadTold = false;
        if (nth === 1) socket.write(answer);
        else act.whole?.(socket, nth);
      });
    });
  }

  static async start(act: { readonly head?: Act; readonly whole?: Act }): Promise<Upstream> {
    const upstream = new Upstream(act);
    await new Promise<void>((resolve) => upstream.#server.listen(0, "127.0.0.1", resolve));
    stops.push(() => {
      upstream.#server.close();
      for (const socket of upstream.#sockets) socket.destroy();
    });
    return upstream;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }
}

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

const answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const tooLong = "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 4\r\n\r\nidle";

/** A client whose clock only the test moves, with one connection in its pool. */
class Client {
  nowMs = 1_000;
  standstillMs = 0;
  readonly #pool = new Pool(() => this.nowMs);

  constructor(private readonly upstream: Upstream) {}

  async ask(content: Uint8Array | StreamedBody | null): Promise<string> {
    const origin = { key: "a", hostname: "127.0.0.1", port: this.upstream.port, secure: false, reach: "any", socketPath: null } as const;
    const clock = { nowMs: () => this.nowMs, standstillMs: () => this.standstillMs };
    const exchange = startExchange({ origin, pool: this.#pool, connectMs: 30_000, clock }, head, content);
    const reply = await exchange.reply;
    if (isFailure(reply)) return reply.kind;
    const body = await reply.bytes(1_000);
    return isFailure(body) ? body.kind : `${reply.status} ${Buffer.from(body).toString()}`;
  }
}

const head = Buffer.from("POST / HTTP/1.1\r\nhost: a\r\n");
const small = Buffer.from("hello");
const large = Buffer.alloc(300_000, "b");

function streamed(gate: Promise<void> = Promise.resolve()): StreamedBody & { begun: number } {
  const body = {
    length: 5,
    begun: 0,
    async *parts() {
      body.begun += 1;
      if (body.begun === 1) await gate;
      yield new Uint8Array(5).fill(97);
    },
  };
  return body;
}

test("a request is unsent until its connection is made, and one that is aborted before stays so", async () => {
  await using upstream = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: (socket) => void socket.write(answer) } });
  const origin = { key: "a", hostname: "127.0.0.1", port: upstream.port, secure: false, reach: "any", socketPath: null } as const;
  const target = { origin, pool: new Pool(() => 0), connectMs: 30_000 };
  const aborted = startExchange(target, head, small);
  expect(aborted.isUnsent).toBe(true);
  aborted.abort();
  await aborted.reply;
  expect(aborted.isUnsent).toBe(true);
  const whole = startExchange(target, head, small);
  expect(isFailure(await whole.reply)).toBe(false);
  expect(whole.isUnsent).toBe(false);
  whole.abort();
});

describe("a request on a connection from the pool that is closed without an answer", () => {
  /** Lets so much time pass between the write and the close. */
  async function closedAfter(
    ms: number,
    content: Uint8Array | StreamedBody | null,
    standstillMs = 0,
  ): Promise<readonly [string, Upstream]> {
    const upstream = await Upstream.start({
      whole: (socket) => {
        client.nowMs += ms;
        client.standstillMs = standstillMs;
        socket.end();
      },
    });
    const client = new Client(upstream);
    expect(await client.ask(small)).toBe("200 ok");
    return [await client.ask(content), upstream];
  }

  const bodies: readonly (readonly [string, () => Uint8Array | StreamedBody])[] = [
    ["small", () => small],
    ["large", () => large],
    ["streamed", () => streamed()],
  ];

  test.each(bodies)("within 50 ms is sent again on a fresh one, for the upstream had closed before it saw it: %s", async (_, body) => {
    const [outcome, upstream] = await closedAfter(50, body());
    expect([outcome, upstream.requests]).toEqual(["200 ok", [1, 2, 1]]);
  });

  test.each(bodies)("later, though it was delivered, is a failure and is not sent again: %s", async (_, body) => {
    const [outcome, upstream] = await closedAfter(51, body());
    expect([outcome, upstream.requests]).toEqual(["disconnected", [1, 2]]);
  });

  test("later, where nobody looked at the connections meanwhile, may have been closed at once", async () => {
    expect((await closedAfter(400, small, 360))[0]).toBe("200 ok");
    expect((await closedAfter(400, small, 340))[0]).toBe("disconnected");
  });

  test("whenever it was, is sent again where it has no body: it asks for nothing that costs", async () => {
    expect((await closedAfter(5_000, null))[0]).toBe("200 ok");
  });

  test("whenever it was, is sent again where only its head had been taken", async () => {
    const upstream = await Upstream.start({
      head: (socket, nth) => {
        if (nth === 1) return;
        client.nowMs += 5_000;
        socket.end();
      },
    });
    const client = new Client(upstream);
    expect(await client.ask(small)).toBe("200 ok");
    const gate = Promise.withResolvers<void>();
    const body = streamed(gate.promise);
    expect(await client.ask(body)).toBe("200 ok");
    gate.resolve();
    expect([body.begun, upstream.requests]).toEqual([2, [1, 2, 1]]);
  });

  test("is sent again once only", async () => {
    const upstream = await Upstream.start({ head: (socket) => void (closes && socket.destroy()) });
    const client = new Client(upstream);
    let closes = false;
    expect(await client.ask(small)).toBe("200 ok");
    closes = true;
    expect(await client.ask(small)).toBe("disconnected");
    expect(upstream.requests.length).toBe(3);
  });
});

describe("408", () => {
  const pieces = [tooLong.slice(0, 20), tooLong.slice(20, -2), tooLong.slice(-2)];
  const say = (socket: Socket, said: readonly string[]): void => {
    said.forEach((piece, index) => setTimeout(() => socket.write(piece), index * 5));
  };
  const bodies: readonly (readonly [string, () => Uint8Array | StreamedBody])[] = [
    ["small", () => small],
    ["large", () => large],
    ["streamed", () => streamed()],
  ];

  /** Lets so much time pass between the write and the answer. */
  async function refusedAfter(
    ms: number,
    content: Uint8Array | StreamedBody | null,
    { said = [tooLong], standstillMs = 0 }: { readonly said?: readonly string[]; readonly standstillMs?: number } = {},
  ): Promise<readonly [string, Upstream]> {
    const upstream = await Upstream.start({
      whole: (socket) => {
        client.nowMs += ms;
        client.standstillMs = standstillMs;
        say(socket, said);
      },
    });
    const client = new Client(upstream);
    expect(await client.ask(small)).toBe("200 ok");
    return [await client.ask(content), upstream];
  }

  test.each([
    ["in one piece", [tooLong]],
    ["in pieces", pieces],
  ])(
    "at once on a connection from the pool says that it had been idle for too long: the request goes out on a fresh one, %s",
    async (_, said) => {
      const [outcome, upstream] = await refusedAfter(50, large, { said });
      expect([outcome, upstream.requests]).toEqual(["200 ok", [1, 2, 1]]);
      await eventually("the fresh one has the whole body", () => upstream.bytes === large.length);
    },
  );

  test.each(bodies)("later is the answer, and the request is not sent again: the upstream may have worked on it: %s", async (_, body) => {
    const [outcome, upstream] = await refusedAfter(51, body());
    expect([outcome, upstream.requests]).toEqual(["408 idle", [1, 2]]);
  });

  test("later, where nobody looked at the connections meanwhile, may have come at once", async () => {
    expect((await refusedAfter(400, small, { standstillMs: 360 }))[0]).toBe("200 ok");
    expect((await refusedAfter(400, small, { standstillMs: 340 }))[0]).toBe("408 idle");
  });

  test("whenever it comes, is no answer to a request without a body: it asks for nothing that costs", async () => {
    expect((await refusedAfter(5_000, null))[0]).toBe("200 ok");
  });

  test.each([
    ["in one piece", [tooLong]],
    ["in pieces", pieces],
  ])("whenever it comes, is no answer to a request of which only the head had been taken, %s", async (_, said) => {
    const upstream = await Upstream.start({
      head: (socket, nth) => {
        if (nth === 1) return;
        client.nowMs += 5_000;
        say(socket, said);
      },
    });
    const client = new Client(upstream);
    expect(await client.ask(small)).toBe("200 ok");
    const gate = Promise.withResolvers<void>();
    const body = streamed(gate.promise);
    expect(await client.ask(body)).toBe("200 ok");
    gate.resolve();
    expect([body.begun, upstream.requests]).toEqual([2, [1, 2, 1]]);
    await eventually("the fresh one has the whole body", () => upstream.bytes === body.length);
  });

  test("on a fresh connection is the answer", async () => {
    const upstream = await Upstream.start({ head: (socket) => void socket.write(tooLong) });
    expect(await new Client(upstream).ask(small)).toBe("408 idle");
    expect(upstream.requests).toEqual([1]);
  });
});
