// Needs: quiet. It mostly waits for upstreams that stall.
import { afterAll, afterEach, describe, expect, setDefaultTimeout, spyOn, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import net, { type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import tls from "node:tls";
import fc from "fast-check";
import { FileSlots } from "../../src/files/file-slots.ts";
import { UnnamedFile } from "../../src/files/unnamed-file.ts";
import type { Exchange, Reply } from "../../src/gateway/ports.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import { Backlog } from "../../src/net/client/backlog.ts";
import { Connection, type Origin } from "../../src/net/client/connection.ts";
import { startExchange } from "../../src/net/client/exchange.ts";
import { overflow, Overflow } from "../../src/net/client/overflow.ts";
import { Pool } from "../../src/net/client/pool.ts";
import { ReadScheduler } from "../../src/net/client/read-scheduler.ts";
import { eventually } from "../support/eventually.ts";
import { makeCertificates } from "../support/tls.ts";

setDefaultTimeout(60_000);

const kibibyte = 1024;
const mebibyte = 1024 * 1024;
const folder = mkdtempSync(join(tmpdir(), "sluice-stalled-"));
const certificates = await makeCertificates();
const authoritiesBefore = tls.getCACertificates("default");
if (certificates !== null) tls.setDefaultCACertificates([...authoritiesBefore, certificates.authority]);
afterAll(() => {
  rmSync(folder, { recursive: true });
  tls.setDefaultCACertificates(authoritiesBefore);
});

/** Files of ours that have no name any more, and are still open; the system must be one that tells. */
function filesHeld(): number {
  return readdirSync("/proc/self/fd").filter((descriptor) => {
    try {
      return /\/sluice-[^/]+ \(deleted\)$/.test(readlinkSync(`/proc/self/fd/${descriptor}`));
    } catch {
      return false;
    }
  }).length;
}
const tells = existsSync("/proc/self/fd");

function slotsOf(changes: Partial<ConstructorParameters<typeof FileSlots>[0]> = {}): FileSlots {
  return new FileSlots({ directory: folder, slotBytes: 512 * kibibyte, slotsMax: 8, ...changes });
}

describe("places in a file", () => {
  test.skipIf(!tells)("share one file, keep to themselves, and leave nothing behind", async () => {
    const slots = slotsOf({ slotBytes: 100, slotsMax: 3 });
    const all = [slots.take()!, slots.take()!, slots.take()!];
    expect(slots.take()).toBeNull();
    expect(await Promise.all(all.map((slot, at) => slot.write(Buffer.alloc(100, at + 1))))).toEqual([true, true, true]);
    expect(filesHeld()).toBe(1);
    for (const [at, slot] of all.entries()) expect(Buffer.from(await slot.read(10, 90))).toEqual(Buffer.alloc(90, at + 1));
    all[1]!.free();
    const again = slots.take()!;
    await again.write(Buffer.from("again"));
    expect(Buffer.from(await again.read(0, 5)).toString()).toBe("again");
    expect(Buffer.from(await all[2]!.read(0, 1))).toEqual(Buffer.from([3]));
    for (const slot of [all[0]!, all[2]!, again]) slot.free();
    expect(slots.size).toBe(0);
    await eventually("the file is closed", () => filesHeld() === 0);
  });

  test("are nobody else's while something is still being written to them", async () => {
    const slots = slotsOf({ slotsMax: 1 });
    const slot = slots.take()!;
    const writing = slot.write(Buffer.alloc(1000));
    slot.free();
    expect(slots.take()).toBeNull();
    await writing;
    expect(slots.size).toBe(0);
    slots.take()!.free();
  });

  test("take nothing larger than themselves, and are not given where no file can be made", async () => {
    const slot = slotsOf({ slotBytes: 10 }).take()!;
    expect(await slot.write(Buffer.alloc(11))).toBe(false);
    slot.free();
    expect(slotsOf({ directory: join(folder, "none") }).take()).toBeNull();
  });
});

describe("a backlog", () => {
  test("gives every byte in its place, whenever it goes to the file and however it is read", async () => {
    const slots = slotsOf();
    const step = fc.oneof(fc.integer({ min: 1, max: 40_000 }), fc.constantFrom("spill", "shrink", "wait"));
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 200_000 }), fc.array(step, { maxLength: 20 }), async (length, steps) => {
        const bytes = randomBytes(length + 1);
        const backlog = new Backlog(Buffer.from(bytes), length);
        const taken: Buffer[] = [];
        for (const next of [...steps, "wait", length]) {
          if (next === "spill") void backlog.spill(slots);
          else if (next === "shrink") backlog.shrink();
          else if (next === "wait") await new Promise((resolve) => setTimeout(resolve, 1));
          else if (backlog.length > 0) taken.push(Buffer.from(await backlog.take(next as number)));
        }
        expect(backlog.length).toBe(0);
        backlog.drop();
        expect(Buffer.concat(taken).equals(bytes.subarray(0, length))).toBe(true);
        await eventually("its place is given back", () => slots.size === 0);
        expect(backlog.heldBytes).toBe(0);
      }),
      { numRuns: 150 },
    );
  });

  test("gives back its place and its memory when nobody wants it, in whatever state", async () => {
    const slots = slotsOf();
    const atOnce = new Backlog(Buffer.alloc(100_000), 100_000);
    void atOnce.spill(slots);
    atOnce.drop();
    const later = new Backlog(Buffer.alloc(100_000), 100_000);
    await later.spill(slots);
    expect([later.heldBytes, slots.size > 0]).toEqual([0, true]);
    later.drop();
    await eventually("both places are given back", () => slots.size === 0);
    expect([atOnce.heldBytes, later.heldBytes]).toEqual([0, 0]);
  });

  test("stays in memory where the disk refuses", async () => {
    const bytes = randomBytes(100_000);
    const backlog = new Backlog(Buffer.from(bytes), bytes.length);
    await backlog.spill(slotsOf({ directory: join(folder, "none") }));
    await backlog.spill(slotsOf({ slotBytes: 10 }));
    expect(Buffer.from(await backlog.take(bytes.length)).equals(bytes)).toBe(true);
  });
});

describe("all backlogs together", () => {
  test("hold so much memory and no more: who has waited longest goes to the file", async () => {
    const slots = slotsOf();
    const ours = new Overflow(slots, 300_000);
    const all = Array.from({ length: 5 }, () => new Backlog(Buffer.alloc(100_000), 100_000));
    for (const backlog of all.slice(0, 3)) ours.add(backlog);
    expect(slots.size).toBe(0);
    // It was read in between, and is the youngest again.
    ours.delete(all[0]!);
    ours.add(all[0]!);
    for (const backlog of all.slice(3)) ours.add(backlog);
    await eventually("two were moved", () => all.filter(({ heldBytes }) => heldBytes === 0).length === 2);
    expect(all.map(({ heldBytes }) => heldBytes)).toEqual([100_000, 0, 0, 100_000, 100_000]);
    for (const backlog of all) {
      ours.delete(backlog);
      backlog.drop();
    }
    await eventually("nothing is left", () => slots.size === 0 && !ours.isBusy);
  });

  test("keep no large memory for a little that is left", () => {
    const backlog = new Backlog(Buffer.alloc(500_000), 500_000);
    void backlog.take(499_000);
    new Overflow(slotsOf(), mebibyte).add(backlog);
    expect(backlog.heldBytes).toBe(1000);
  });
});

test("so much is read in a turn, and whoever reads more is told", async () => {
  const turns = new ReadScheduler({ bytesPerTurn: 1000, readersPerTurn: 2, isBusy: () => false });
  expect([600, 400, 1].map((bytes) => turns.isTooMuch(bytes))).toEqual([false, false, true]);
  await new Promise((resolve) => setImmediate(resolve));
  expect([999, 2].map((bytes) => turns.isTooMuch(bytes))).toEqual([false, true]);
});

test("those that read much take turns, a few in each, and none is forgotten", async () => {
  const went: number[] = [];
  let turn = 0;
  let isCounting = true;
  const count = (): void => {
    turn++;
    if (isCounting) setImmediate(count);
  };
  setImmediate(count);
  let isBusy = false;
  const turns = new ReadScheduler({ bytesPerTurn: 1000, readersPerTurn: 2, isBusy: () => isBusy });
  const takers = Array.from({ length: 7 }, () => ({ resumeReading: () => void went.push(turn) }));
  for (const taker of [...takers, ...takers]) turns.schedule(taker);
  await eventually("all had a turn", () => went.length === 7);
  for (let at = 2; at < 7; at++) expect(went[at]! - went[at - 2]!).toBeGreaterThan(0);
  isBusy = true;
  turns.schedule(takers[0]!);
  await eventually("busy or not, its turn comes", () => went.length === 8);
  isCounting = false;
});

const stops: (() => void)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) stop();
  await eventually("nothing waits any more", () => Object.values(overflow.state).every((figure) => figure === 0));
  if (tells) await eventually("no file is left of the test", () => filesHeld() === 0);
});

interface Upstream {
  readonly url: URL;
  readonly sockets: Socket[];
  /** As far as the system has taken them. */
  bytesSent(): number;
}

/** Answers every request in the same way. */
async function upstream(say: (socket: Socket) => void, secured = false): Promise<Upstream> {
  const sockets: Socket[] = [];
  const accept = (socket: Socket): void => {
    sockets.push(socket);
    socket.on("error", () => {});
    socket.on("data", () => say(socket));
  };
  const server = secured ? tls.createServer({ ...certificates!.valid }, accept) : net.createServer(accept);
  await new Promise<void>((resolve) => server.listen({ port: 0, host: "127.0.0.1", backlog: 512 }, resolve));
  stops.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const url = new URL(`http${secured ? "s" : ""}://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return { url, sockets, bytesSent: () => sockets.reduce((sum, socket) => sum + socket.bytesWritten - socket.writableLength, 0) };
}

function ask({ url }: Upstream, pool: Pool): Exchange {
  const secure = url.protocol === "https:";
  const origin = { key: url.href, hostname: url.hostname, port: Number(url.port), secure, reach: "any", socketPath: null } as const;
  return startExchange({ origin, pool, connectMs: 20_000 }, Buffer.from("GET / HTTP/1.1\r\nhost: a\r\n"), null);
}

/** Many that are answered and read nothing, until more waits for them than may wait in memory. */
async function stalledReaders(from: Upstream, pool = new Pool(() => 0)): Promise<{ exchanges: Exchange[]; replies: Reply[] }> {
  const secured = from.url.protocol === "https:";
  const exchanges = Array.from({ length: 64 }, () => ask(from, pool));
  const replies = await Promise.all(exchanges.map(({ reply }) => reply));
  for (const reply of replies) if (isFailure(reply)) throw new Error(`expected a reply, but: ${reply.detail}`);
  if (secured) {
    // It comes in the small parts that TLS makes of it, and hardly any of them has to wait.
    await eventually("they have stopped", async () => {
      const before = from.bytesSent();
      await Bun.sleep(50);
      return before > 0 && from.bytesSent() === before;
    });
  } else {
    await eventually("what waits is in a file", () => overflow.state.spilled > 8 && overflow.state.spillingBytes === 0);
    expect(filesHeld()).toBe(1);
  }
  expect(overflow.state.heldBytes).toBeLessThanOrEqual(2 * mebibyte);
  return { exchanges, replies: replies as Reply[] };
}

async function resumeReading(reply: Reply): Promise<{ bytes: number; digest: string; end: Failure | null }> {
  const hash = createHash("sha256");
  let bytes = 0;
  for (;;) {
    const part = await reply.next();
    if (part === null || isFailure(part)) return { bytes, digest: hash.digest("hex"), end: part };
    hash.update(part);
    bytes += part.length;
  }
}

function digest(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function chunked(body: Buffer, chunkBytes: number): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; at += chunkBytes) {
    const part = body.subarray(at, at + chunkBytes);
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from("\r\n"));
  }
  return Buffer.concat([...parts, Buffer.from("0\r\n\r\n")]);
}

describe.skipIf(!tells)("a reader that stalls", () => {
  const body = randomBytes(mebibyte + 12_345);
  const head = "HTTP/1.1 200 OK\r\n";
  const framings: Readonly<Record<string, Buffer>> = {
    "with a length": Buffer.concat([Buffer.from(`${head}content-length: ${body.length}\r\n\r\n`), body]),
    "in chunks of 250 bytes": Buffer.concat([Buffer.from(`${head}transfer-encoding: chunked\r\n\r\n`), chunked(body, 250)]),
    "in chunks of 100 kB": Buffer.concat([Buffer.from(`${head}transfer-encoding: chunked\r\n\r\n`), chunked(body, 100_000)]),
  };
  const ways = Object.keys(framings).flatMap((framing) => [
    { framing, secured: false },
    ...(certificates === null ? [] : [{ framing, secured: true }]),
  ]);
  test.each(ways)("gets every byte in its place later, $framing (TLS: $secured), on connections that serve again", async (way) => {
    const answer = framings[way.framing]!;
    const pool = new Pool(() => 0);
    const from = await upstream((socket) => void socket.write(answer), way.secured);
    const { replies } = await stalledReaders(from, pool);
    const read = await Promise.all(replies.map(resumeReading));
    for (const { bytes, digest: found, end } of read) expect([bytes, found, end]).toEqual([body.length, digest(body), null]);
    expect(filesHeld()).toBe(0);
    const opened = from.sockets.length;
    expect(await resumeReading((await ask(from, pool).reply) as Reply)).toEqual({ bytes: body.length, digest: digest(body), end: null });
    expect(from.sockets.length).toBe(opened);
  });

  test("gets every byte of a body that only the close of the connection ends", async () => {
    const from = await upstream((socket) => void socket.end(Buffer.concat([Buffer.from(`${head}\r\n`), body])));
    const { replies } = await stalledReaders(from);
    const read = await Promise.all(replies.map(resumeReading));
    for (const { bytes, digest: found, end } of read) expect([bytes, found, end]).toEqual([body.length, digest(body), null]);
  });

  test("gets what had come before the connection broke, and then learns of it", async () => {
    const from = await upstream((socket) => void socket.write(framings["in chunks of 250 bytes"]!.subarray(0, -100_000)));
    const { replies } = await stalledReaders(from);
    for (const socket of from.sockets) socket.resetAndDestroy();
    const read = await Promise.all(replies.map(resumeReading));
    for (const { bytes, end } of read) {
      expect(end).toMatchObject({ kind: "disconnected" });
      expect(bytes).toBeGreaterThan(32 * kibibyte);
    }
  });

  test("is told of a connection that broke only behind what came before", async () => {
    const from = await upstream((socket) => void socket.write(Buffer.alloc(60_000, "a")));
    const socket = net.connect({ host: "127.0.0.1", port: Number(from.url.port), readableHighWaterMark: 1 } as net.TcpNetConnectOpts);
    await once(socket, "connect");
    const connection = new Connection({} as Origin, socket);
    const events: (number | string)[] = [];
    connection.handler = {
      onHead: () => {},
      onBody: () => {},
      onEnd: () => {},
      onData: ({ length }) => {
        events.push(length);
        connection.pause();
        return false;
      },
      onStall: () => {},
      onClose: (cause) => void events.push(cause?.kind ?? "closed"),
    };
    connection.output.write(Buffer.from("go"));
    await eventually("the first part is there", () => events.length === 1);
    connection.output.write(Buffer.from("on"));
    await eventually("the next one waits", () => overflow.state.heldBytes > 32 * kibibyte);
    socket.destroy(Object.assign(new Error("reset"), { code: "ECONNRESET" }));
    await eventually("the connection is closed", () => !connection.isOpen);
    expect(events.length).toBe(1);
    const first = events[0] as number;
    for (let parts = 1; typeof events.at(-1) === "number"; parts++) {
      expect(events.length).toBe(parts);
      connection.resume();
    }
    expect(events.at(-1)).toBe("disconnected");
    const later = events.reduce<number>((sum, part) => sum + (typeof part === "number" ? part : 0), 0) - first;
    expect(later).toBeGreaterThan(32 * kibibyte);
  });

  test("leaves nothing behind when it goes: no file, no connection", async () => {
    const from = await upstream((socket) => void socket.write(framings["in chunks of 250 bytes"]!));
    const { exchanges } = await stalledReaders(from);
    for (const exchange of exchanges) exchange.abort();
    await eventually("the file is closed", () => filesHeld() === 0);
    await eventually("the connections are closed", () => from.sockets.every(({ destroyed }) => destroyed));
  });

  test("is told when what waited for it cannot be read back, and no upstream is blamed for it", async () => {
    const from = await upstream((socket) => void socket.write(framings["with a length"]!));
    const { replies } = await stalledReaders(from);
    const reading = spyOn(UnnamedFile.prototype, "read").mockImplementation(() => Promise.reject(new Error("no disk")));
    try {
      const ends = (await Promise.all(replies.map(resumeReading))).map(({ end, digest: found }) => end?.kind ?? found);
      expect(ends).toContain("internal");
      expect(ends.filter((end) => end !== "internal" && end !== digest(body))).toEqual([]);
    } finally {
      reading.mockRestore();
    }
  });
});
