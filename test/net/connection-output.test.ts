import { afterEach, describe, expect, test } from "bun:test";
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";
import tls from "node:tls";
import { nativeHandle, ConnectionOutput, type UpstreamSocket } from "../../src/net/client/connection-output.ts";
import { eventually } from "../support/eventually.ts";
import { makeCertificates } from "../support/tls.ts";

/** A socket whose system takes so many bytes at once, and whose stream keeps what it is given. */
class Socket implements UpstreamSocket {
  readonly straight: string[] = [];
  readonly streamed: Uint8Array[] = [];
  writableLength = 0;
  private onTaken: ((error?: Error | null) => void)[] = [];

  constructor(private readonly takes: (length: number) => number) {}

  readonly [nativeHandle]: UpstreamSocket[typeof nativeHandle] = {
    write: (bytes, offset, length) => {
      const taken = this.takes(length);
      if (taken > 0) this.straight.push(Buffer.from(bytes.subarray(offset, offset + taken)).toString("latin1"));
      return taken;
    },
  };

  write(bytes: string | Uint8Array, ...[onTaken]: readonly unknown[]): boolean {
    this.streamed.push(bytes as Uint8Array);
    this.writableLength += bytes.length;
    if (typeof onTaken === "function") this.onTaken.push(onTaken as (error?: Error | null) => void);
    return true;
  }

  /** The system has taken what the stream kept, or will not. */
  drain(error: Error | null = null): void {
    this.writableLength = 0;
    for (const tell of this.onTaken.splice(0)) tell(error);
  }

  get stream(): string {
    return this.streamed.map((bytes) => Buffer.from(bytes).toString("latin1")).join("|");
  }
}

const all = (length: number): number => length;
const lines = Buffer.from("POST / HTTP/1.1\r\n");
const body = Buffer.from("body");
const request = "POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\nbody";

describe("a small request", () => {
  test("is taken by the system in one piece, and the stream sees nothing of it", () => {
    const socket = new Socket(all);
    new ConnectionOutput(socket).sendRequest(lines, 4, body);
    expect(socket.straight).toEqual([request]);
    expect(socket.stream).toBe("");
  });

  test("goes on in the stream where the system takes a part of it", () => {
    for (let taken = 1; taken < request.length; taken++) {
      const socket = new Socket(() => taken);
      new ConnectionOutput(socket).sendRequest(lines, 4, body);
      expect(socket.straight).toEqual([request.slice(0, taken)]);
      expect(socket.stream).toBe(request.slice(taken));
    }
  });

  test.each([0, -1])("goes all through the stream where the system says %d", (said) => {
    const socket = new Socket(() => said);
    new ConnectionOutput(socket).sendRequest(lines, 4, body);
    expect(socket.straight).toEqual([]);
    expect(socket.stream).toBe(request);
  });

  test("never overtakes what waits in the stream", () => {
    const socket = new Socket(all);
    const output = new ConnectionOutput(socket);
    output.write(Buffer.from("before"));
    expect(output.isEmpty).toBeFalse();
    output.sendRequest(lines, 4, body);
    expect(socket.straight).toEqual([]);
    expect(socket.stream).toBe(`before|${request}`);
  });

  test("keeps what was left of it when another one follows", () => {
    const socket = new Socket(() => 4);
    const output = new ConnectionOutput(socket);
    output.sendRequest(lines, 4, body);
    output.sendRequest(Buffer.from("GET /other HTTP/1.1\r\n"), null, new Uint8Array());
    expect(socket.stream).toBe(`${request.slice(4)}|GET /other HTTP/1.1\r\n\r\n`);
  });

  test("goes through the stream where the socket has nothing below it, or is closed", () => {
    for (const nothing of [undefined, null, {}]) {
      const socket = Object.assign(new Socket(all), { [nativeHandle]: nothing });
      new ConnectionOutput(socket).sendRequest(lines, 4, body);
      expect(socket.stream).toBe(request);
    }
  });
});

describe("a large request", () => {
  const large = Buffer.from(Array.from({ length: 1_000_000 }, (_, at) => at % 251));
  const half = (length: number): number => Math.floor(length / 2);

  test("leaves in parts, each when the system has taken the one before, and byte for byte", () => {
    const socket = new Socket(half);
    const output = new ConnectionOutput(socket);
    output.sendRequest(lines, large.length, large);
    const parts: string[] = [];
    while (!output.isEmpty) {
      const waiting = socket.streamed.reduce((sum, bytes) => sum + bytes.length, 0);
      expect(waiting).toBeLessThan(300_000);
      parts.push(...socket.straight.splice(0), ...socket.streamed.splice(0).map((bytes) => Buffer.from(bytes).toString("latin1")));
      socket.drain();
    }
    const sent = parts.join("");
    expect(sent.slice(-large.length) === large.toString("latin1")).toBeTrue();
    expect(parts.length).toBeGreaterThan(3);
  });

  test("is not sent whole while a part of it is left, even if the system has taken all that it was given", () => {
    const socket = new Socket(half);
    const output = new ConnectionOutput(socket);
    output.sendRequest(lines, large.length, large);
    socket.writableLength = 0;
    expect(output.isEmpty).toBeFalse();
  });

  test("is taken by the system at once where it can be", () => {
    const socket = new Socket(all);
    const output = new ConnectionOutput(socket);
    output.sendRequest(lines, large.length, large);
    expect([socket.stream, output.isEmpty]).toEqual(["", true]);
    expect(socket.straight.join("").endsWith(large.toString("latin1"))).toBeTrue();
  });

  test("ends where the system takes no more", () => {
    const socket = new Socket(half);
    const output = new ConnectionOutput(socket);
    output.sendRequest(lines, large.length, large);
    const before = socket.streamed.length;
    socket.drain(new Error("reset"));
    expect([socket.streamed.length, output.isEmpty]).toEqual([before, false]);
  });
});

test.each([0, 9, 10, 99, 100, 4096, 65_535, 1_000_000, 2 ** 31, 2 ** 32 + 7, 999_999_999_999_999])(
  "says a length of %d in digits",
  (length) => {
    const socket = new Socket(all);
    new ConnectionOutput(socket).sendRequest(lines, length, new Uint8Array());
    expect(socket.straight).toEqual([`POST / HTTP/1.1\r\ncontent-length: ${length}\r\n\r\n`]);
  },
);

test("has the lines of its own between the head and the length", () => {
  const own = `x-own: \u00fc${"0".repeat(100)}\r\n`;
  for (const content of [body, new Uint8Array(100_000)]) {
    const socket = new Socket(all);
    new ConnectionOutput(socket).sendRequest(lines, content.length, content, own);
    expect(socket.straight.join("").split("\r\n\r\n")[0]).toBe(`POST / HTTP/1.1\r\n${own}content-length: ${content.length}`);
  }
});

test("says no length where there is no body", () => {
  const socket = new Socket(all);
  new ConnectionOutput(socket).sendRequest(lines, null, new Uint8Array());
  expect(socket.straight).toEqual(["POST / HTTP/1.1\r\n\r\n"]);
});

describe("a large request", () => {
  const large = new Uint8Array(100_000);
  const head = "POST / HTTP/1.1\r\ncontent-length: 100000\r\n\r\n";

  test("is taken by the system where it lies, a large head as well", () => {
    const socket = new Socket(all);
    new ConnectionOutput(socket).sendRequest(lines, large.length, large);
    expect(socket.straight).toEqual([head, Buffer.from(large).toString("latin1")]);
    expect(socket.streamed).toEqual([]);
    const other = new Socket(all);
    new ConnectionOutput(other).sendRequest(large, null, new Uint8Array());
    expect(other.straight).toEqual([`${Buffer.from(large).toString("latin1")}\r\n`]);
  });

  test("goes on in the stream where the system takes a part of it, and is not copied for that", () => {
    for (const taken of [0, 10, head.length - 1]) {
      const socket = new Socket((length) => Math.min(length, taken));
      new ConnectionOutput(socket).sendRequest(lines, large.length, large);
      expect(socket.straight.join("") + Buffer.from(socket.streamed[0]!).toString()).toBe(head);
      expect(socket.streamed[1]).toBe(large);
    }
    const socket = new Socket((length) => (length > 1_000 ? 60_000 : length));
    new ConnectionOutput(socket).sendRequest(lines, large.length, large);
    expect(socket.streamed.map(({ length, buffer }) => [length, buffer === large.buffer])).toEqual([[40_000, true]]);
  });
});

test("what the system will not take is given to the stream, which then closes, only after what had come could be read", async () => {
  const socket = new Socket(() => -1);
  let isTaken: boolean | null = null;
  new ConnectionOutput(socket).send(body, (taken) => (isTaken = taken));
  expect([socket.streamed.length, isTaken]).toEqual([0, null]);
  await eventually("the stream has it", () => socket.streamed.length === 1);
});

const certificates = await makeCertificates();

describe.each(certificates === null ? ["TCP" as const] : ["TCP" as const, "TLS" as const])("over a real connection by %s", (how) => {
  const open: (net.Socket | net.Server)[] = [];
  afterEach(() => {
    for (const one of open.splice(0)) {
      if (one instanceof net.Server) one.close();
      else one.destroy();
    }
  });

  async function pair(): Promise<{ readonly socket: net.Socket; readonly peer: net.Socket }> {
    const isPlain = how === "TCP";
    const server = isPlain ? net.createServer() : tls.createServer(certificates!.valid);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const accepted = once(server, isPlain ? "connection" : "secureConnection") as Promise<[net.Socket]>;
    const to = { port: (server.address() as AddressInfo).port, host: "127.0.0.1" };
    const socket = isPlain ? net.connect(to) : tls.connect({ ...to, ca: certificates!.authority });
    socket.on("error", () => {});
    const opened = once(socket, isPlain ? "connect" : "secureConnect");
    const [peer] = await accepted;
    peer.on("error", () => {});
    peer.pause();
    await opened;
    open.push(server, socket, peer);
    return { socket, peer };
  }

  test("the system is asked before the stream", async () => {
    const { socket, peer } = await pair();
    const output = new ConnectionOutput(socket);
    let streamed = 0;
    const write = socket.write.bind(socket);
    socket.write = (bytes: string | Uint8Array) => {
      streamed++;
      return write(bytes);
    };
    const came = once(peer, "data") as Promise<[Buffer]>;
    output.sendRequest(lines, 4, body);
    peer.resume();
    expect((await came)[0].toString()).toBe(request);
    expect(streamed).toBe(0);
  });

  test("everything arrives once and in order, also where the peer takes nothing for long", async () => {
    const { socket, peer } = await pair();
    const output = new ConnectionOutput(socket);
    let sent = "";
    // Until the system is full, and then some more of both sizes.
    for (let behind = 0, nth = 0; behind < 8; nth++) {
      const content = Buffer.alloc(behind % 3 === 2 ? 70_000 : 20_000, `${nth},`);
      output.sendRequest(Buffer.from(`[${nth}]`), content.length, content);
      sent += `[${nth}]content-length: ${content.length}\r\n\r\n${content.toString("latin1")}`;
      if (!output.isEmpty) behind++;
    }
    const came: Buffer[] = [];
    let length = 0;
    peer.on("data", (bytes: Buffer) => {
      came.push(bytes);
      length += bytes.length;
    });
    peer.resume();
    await eventually("all of it has come", () => length >= sent.length, 20_000);
    expect(Buffer.concat(came).toString("latin1") === sent).toBeTrue();
    await eventually("nothing waits any more", () => output.isEmpty);
    output.sendRequest(lines, 4, body);
    await eventually("one more has come", () => length >= sent.length + request.length);
    expect(Buffer.concat(came).subarray(-request.length).toString()).toBe(request);
  });

  test("a socket that is closed is written to without a throw", async () => {
    const { socket } = await pair();
    const output = new ConnectionOutput(socket);
    socket.destroy();
    output.sendRequest(lines, 4, body);
    await once(socket, "close");
    output.sendRequest(lines, 4, body);
    expect(socket.destroyed).toBeTrue();
  });
});
