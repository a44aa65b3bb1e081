import { afterEach, describe, expect, test } from "bun:test";
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";
import { below, ConnectionOutput, type OutputSocket } from "../src/upstream/connection-output.ts";
import { eventually } from "./support/eventually.ts";

/** A socket whose system takes so many bytes at once, and whose stream keeps what it is given. */
class Socket implements OutputSocket {
  readonly straight: string[] = [];
  readonly streamed: Uint8Array[] = [];
  writableLength = 0;

  constructor(private readonly takes: (length: number) => number) {}

  readonly [below]: OutputSocket[typeof below] = {
    write: (bytes, offset, length) => {
      const taken = this.takes(length);
      if (taken > 0) this.straight.push(Buffer.from(bytes.subarray(offset, offset + taken)).toString("latin1"));
      return taken;
    },
  };

  write(bytes: string | Uint8Array): boolean {
    this.streamed.push(bytes as Uint8Array);
    this.writableLength += bytes.length;
    return true;
  }

  get stream(): string {
    return this.streamed.map((bytes) => Buffer.from(bytes).toString("latin1")).join("|");
  }
}

const all = (length: number): number => length;

describe("a small request", () => {
  test("is taken by the system in one piece, and the stream sees nothing of it", () => {
    const socket = new Socket(all);
    new ConnectionOutput(socket, true).joined("head ", Buffer.from("body"));
    expect(socket.straight).toEqual(["head body"]);
    expect(socket.stream).toBe("");
  });

  test("goes on in the stream where the system takes a part of it", () => {
    const socket = new Socket(() => 7);
    new ConnectionOutput(socket, true).joined("head ", Buffer.from("body"));
    expect(socket.straight).toEqual(["head bo"]);
    expect(socket.stream).toBe("dy");
  });

  test.each([0, -1])("goes all through the stream where the system says %d", (said) => {
    const socket = new Socket(() => said);
    new ConnectionOutput(socket, true).joined("head ", Buffer.from("body"));
    expect(socket.straight).toEqual([]);
    expect(socket.stream).toBe("head body");
  });

  test("never overtakes what waits in the stream", () => {
    const socket = new Socket(all);
    const output = new ConnectionOutput(socket, true);
    output.write(Buffer.from("before"));
    expect(output.isEmpty).toBeFalse();
    output.joined("head ", Buffer.from("body"));
    expect(socket.straight).toEqual([]);
    expect(socket.stream).toBe("before|head body");
  });

  test("keeps what was left of it when another one follows", () => {
    const socket = new Socket(() => 4);
    const output = new ConnectionOutput(socket, true);
    output.joined("first ", Buffer.from("body"));
    output.joined("other ", Buffer.from("text"));
    expect(socket.stream).toBe("t body|other text");
  });

  test("goes through the stream where the socket has TLS, has nothing below it, or is closed", () => {
    const secure = new Socket(all);
    new ConnectionOutput(secure, false).joined("head ", Buffer.from("body"));
    expect([secure.straight, secure.stream]).toEqual([[], "head body"]);
    for (const nothing of [undefined, null, {}]) {
      const socket = Object.assign(new Socket(all), { [below]: nothing });
      new ConnectionOutput(socket, true).joined("head ", Buffer.from("body"));
      expect(socket.stream).toBe("head body");
    }
  });
});

test("a large request is not copied", () => {
  const socket = new Socket(all);
  const body = new Uint8Array(100_000);
  new ConnectionOutput(socket, true).joined("head ", body);
  expect(socket.straight).toEqual([]);
  expect(socket.streamed[1]).toBe(body);
});

describe("over a real connection", () => {
  const open: (net.Socket | net.Server)[] = [];
  afterEach(() => {
    for (const one of open.splice(0)) {
      if (one instanceof net.Server) one.close();
      else one.destroy();
    }
  });

  async function pair(): Promise<{ readonly socket: net.Socket; readonly peer: net.Socket }> {
    const server = net.createServer({ pauseOnConnect: true });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const accepted = once(server, "connection") as Promise<[net.Socket]>;
    const socket = net.connect((server.address() as AddressInfo).port, "127.0.0.1");
    socket.on("error", () => {});
    const [peer] = await accepted;
    if (socket.connecting) await once(socket, "connect");
    open.push(server, socket, peer);
    return { socket, peer };
  }

  test("the system is asked before the stream", async () => {
    const { socket, peer } = await pair();
    const output = new ConnectionOutput(socket, true);
    let streamed = 0;
    const write = socket.write.bind(socket);
    socket.write = (bytes: string | Uint8Array) => {
      streamed++;
      return write(bytes);
    };
    const came = once(peer, "data") as Promise<[Buffer]>;
    output.joined("head ", Buffer.from("body"));
    peer.resume();
    expect((await came)[0].toString()).toBe("head body");
    expect(streamed).toBe(0);
  });

  test("everything arrives once and in order, also where the peer takes nothing for long", async () => {
    const { socket, peer } = await pair();
    const output = new ConnectionOutput(socket, true);
    let sent = "";
    // Until the system is full, and then some more of both sizes.
    for (let behind = 0, nth = 0; behind < 8; nth++) {
      const body = Buffer.alloc(nth % 3 === 0 ? 70_000 : 20_000, `${nth},`);
      output.joined(`[${nth}]`, body);
      sent += `[${nth}]${body.toString("latin1")}`;
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
    output.joined("last ", Buffer.from("word"));
    await eventually("one more has come", () => length >= sent.length + 9);
    expect(Buffer.concat(came).subarray(-9).toString()).toBe("last word");
  });

  test("a socket that is closed is written to without a throw", async () => {
    const { socket } = await pair();
    const output = new ConnectionOutput(socket, true);
    socket.destroy();
    output.joined("head ", Buffer.from("body"));
    await once(socket, "close");
    output.joined("head ", Buffer.from("body"));
    expect(socket.destroyed).toBeTrue();
  });
});
