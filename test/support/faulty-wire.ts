import net, { type Server, type Socket } from "node:net";

/**
 * A wire to a server that fails in ways which need to know what is said on it: replies that break off in the middle, that never
 * arrive although the server has done what it was told, or that are an error of the wire's own in the words of Redis.
 */
export async function startFaultyWire(to: { readonly host: string; readonly port: number }): Promise<FaultyWire> {
  const wire = new FaultyWire(to);
  await wire.listen();
  return wire;
}

export type WireFault =
  | { readonly kind: "none" }
  /** Every command is answered so, and does not reach the server. Greetings of new connections pass. */
  | { readonly kind: "answer"; readonly reply: string }
  /** The first half of a reply arrives, then the connection is reset. The first reply of a connection, to its greeting, is whole. */
  | { readonly kind: "cut" }
  /**
   * What the client says arrives. What the server replies on a connection does not, from the first reply on that has this in it: so
   * the server may have done something, such as a COMMIT, that nobody hears of.
   */
  | { readonly kind: "hushed"; readonly from: string };

export class FaultyWire implements AsyncDisposable {
  readonly host = "127.0.0.1";
  port = 0;
  fault: WireFault = { kind: "none" };
  /** How many replies were cut, kept back or made up. */
  faults = 0;
  readonly #to: { readonly host: string; readonly port: number };
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  constructor(to: { readonly host: string; readonly port: number }) {
    this.#to = to;
    this.#server = net.createServer({ noDelay: true }, (client) => this.#take(client));
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(0, this.host, resolve);
    });
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("the wire was believed to have a port");
    this.port = address.port;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #take(client: Socket): void {
    const server = net.connect({ ...this.#to, noDelay: true });
    let replies = 0;
    let hushed = false;
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    client.on("data", (bytes: Buffer) => {
      const { fault } = this;
      if (fault.kind !== "answer" || bytes.includes("HELLO")) {
        server.write(bytes);
        return;
      }
      const commands = commandsIn(bytes);
      this.faults += commands;
      client.write(fault.reply.repeat(commands));
    });
    server.on("data", (bytes: Buffer) => {
      replies += 1;
      const { fault } = this;
      hushed ||= fault.kind === "hushed" && bytes.includes(fault.from);
      if (hushed) {
        this.faults += 1;
      } else if (fault.kind === "cut" && replies > 1) {
        this.faults += 1;
        client.write(bytes.subarray(0, Math.floor(bytes.length / 2)), () => client.resetAndDestroy());
      } else {
        client.write(bytes);
      }
    });
  }
}

/** Commands are lists of texts; the clients of these tests send each in one piece. */
function commandsIn(bytes: Buffer): number {
  return [...bytes.toString("latin1").matchAll(/(?:^|\r\n)\*\d+\r\n\$/g)].length;
}
