import { afterEach, expect, test } from "bun:test";
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";
import fc from "fast-check";
import type { Reply } from "../../src/gateway/ports.ts";
import { Connection, type Origin } from "../../src/net/client/connection.ts";
import { startExchange } from "../../src/net/client/exchange.ts";
import { Pool } from "../../src/net/client/pool.ts";
import { eventually } from "../support/eventually.ts";

const open: (net.Socket | net.Server)[] = [];
afterEach(() => {
  for (const one of open.splice(0)) {
    if (one instanceof net.Server) one.close();
    else one.destroy();
  }
});

/** A connection, the stream below it, and whoever is at its other end. */
async function connected(
  origin = {} as Origin,
): Promise<{ readonly connection: Connection; readonly socket: net.Socket; readonly peer: net.Socket }> {
  const server = net.createServer({ noDelay: true });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const accepted = once(server, "connection") as Promise<[net.Socket]>;
  const { port } = server.address() as AddressInfo;
  const socket = net.connect({ host: "127.0.0.1", port, readableHighWaterMark: 1 } as net.TcpNetConnectOpts);
  const [peer] = await accepted;
  if (socket.connecting) await once(socket, "connect");
  open.push(server, socket, peer);
  return { connection: new Connection(origin, socket), socket, peer };
}

const ignoring = { onHead: () => {}, onBody: () => {}, onEnd: () => {} };

test("what is small is given past the stream of its socket, and what is large is not", async () => {
  const { connection, socket, peer } = await connected();
  let came = 0;
  let streamed = 0;
  socket.on("data", () => streamed++);
  connection.handler = {
    ...ignoring,
    onData: ({ length }) => {
      came += length;
      return false;
    },
    onStall: () => {},
    onClose: () => {},
  };
  for (let nth = 1; nth <= 3; nth++) {
    peer.write("small");
    await eventually("it came", () => came === 5 * nth);
  }
  expect(streamed).toBe(0);
  peer.write(Buffer.alloc(1024 * 1024));
  await eventually("it came as well", () => came === 15 + 1024 * 1024);
  expect(streamed).toBeGreaterThan(0);
  const before = streamed;
  peer.write("small");
  await eventually("what is behind it came", () => came === 20 + 1024 * 1024);
  expect(streamed).toBe(before);
});

test("however it is cut and wherever its reader pauses, everything is given once and in order, and then the end", async () => {
  const cut = fc.record({
    bytes: fc.oneof(fc.integer({ min: 1, max: 4000 }), fc.integer({ min: 1, max: 300_000 })),
    isAlone: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(cut, { minLength: 1, maxLength: 12 }), fc.integer({ min: 1, max: 5 }), async (cuts, pauseEvery) => {
      const { connection, peer } = await connected();
      let given = 0;
      let wrong = 0;
      let parts = 0;
      let isClosed = false;
      connection.handler = {
        ...ignoring,
        onData: (bytes) => {
          for (const byte of bytes) if (byte !== given++ % 251) wrong++;
          if (++parts % pauseEvery === 0) {
            connection.pause();
            setImmediate(() => connection.resume());
          }
          return false;
        },
        onStall: () => {},
        onClose: () => (isClosed = true),
      };
      let sent = 0;
      for (const { bytes, isAlone } of cuts) {
        const begins = sent;
        peer.write(Uint8Array.from({ length: bytes }, (_, at) => (begins + at) % 251));
        sent += bytes;
        if (isAlone) await eventually("it came", () => given === sent);
      }
      peer.end();
      await eventually("the end is told", () => isClosed);
      expect({ given, wrong }).toEqual({ given: sent, wrong: 0 });
    }),
    { numRuns: 60 },
  );
}, 60_000);

test("a few bytes that come while their reader is behind are not lost", async () => {
  const origin = { key: "here" } as Origin;
  const { connection, socket, peer } = await connected(origin);
  const pool = new Pool(() => 0);
  pool.put(connection);
  const { reply } = startExchange({ origin, pool, connectMs: 1_000 }, Buffer.from("GET / HTTP/1.1\r\n\r\n"), null);
  const head = "HTTP/1.1 200 OK\r\ncontent-length: 60019\r\n\r\n";
  // More than is queued for a reader, and less than is read at once.
  peer.write(head + "a".repeat(60_000));
  const answer = (await reply) as Reply;
  await eventually("it came", () => socket.bytesRead === head.length + 60_000);
  peer.write("b".repeat(19));
  await eventually("the connection reads no more", () => socket.readableLength === 1);
  const parts: string[] = [];
  for (let part = await answer.next(); part instanceof Uint8Array; part = await answer.next()) parts.push(Buffer.from(part).toString());
  expect(parts.join("")).toBe("a".repeat(60_000) + "b".repeat(19));
});
