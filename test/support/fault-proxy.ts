import net, { type Server, type Socket } from "node:net";

/**
 * A wire that can be broken on purpose, between a client and a server that nobody here wrote: cut, frozen, slow,
 * corrupt, or closed in one direction. It begins as a good one.
 */
export async function startFaultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const proxy = new FaultProxy(options.to);
  await proxy.listen();
  return proxy;
}

export interface FaultProxyOptions {
  readonly to: { readonly host: string; readonly port: number };
}

export class FaultProxy implements AsyncDisposable {
  port = 0;
  /** How many were taken so far. */
  accepted = 0;
  readonly #to: FaultProxyOptions["to"];
  readonly #server: Server;
  readonly #wires = new Set<Wire>();
  #refusing = false;
  #frozen = false;
  #delayMs = 0;
  #corruptLeft = 0;

  constructor(to: FaultProxyOptions["to"]) {
    this.#to = to;
    // Half-open connections are kept: who closes one direction is the business of the two ends.
    this.#server = net.createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#take(client));
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(this.port, "127.0.0.1", resolve);
    });
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("the proxy was believed to have a port");
    this.port = address.port;
  }

  /** How many are open now. */
  get connections(): number {
    return this.#wires.size;
  }

  /** Resets every connection, and every new one until `restore()`. */
  cut(): void {
    this.refuse();
    for (const wire of [...this.#wires]) wire.reset();
  }

  /** Resets every new connection until `restore()`; those that are open go on. */
  refuse(): void {
    this.#refusing = true;
  }

  /** Takes connections, and forwards nothing in either direction until `thaw()` or `restore()`. Nothing is lost. */
  freeze(): void {
    this.#frozen = true;
    for (const wire of this.#wires) wire.hold();
  }

  thaw(): void {
    this.#frozen = false;
    for (const wire of this.#wires) wire.flow();
  }

  /** Every piece, in both directions, is late by so much; 0 ends it. The order stays. */
  delay(ms: number): void {
    this.#delayMs = ms;
  }

  /** Turns over every bit of the next `bytes` bytes that come from the server. */
  corrupt(bytes: number): void {
    this.#corruptLeft = bytes;
  }

  /** Tells every client that the server has ended its side; what the client sends still arrives. */
  halfClose(): void {
    for (const wire of this.#wires) wire.endTowardsClient();
  }

  /** A good wire again. What was cut stays cut: its ends have to connect anew. */
  restore(): void {
    this.#refusing = false;
    this.#delayMs = 0;
    this.#corruptLeft = 0;
    this.thaw();
  }

  async close(): Promise<void> {
    for (const wire of [...this.#wires]) wire.reset();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #take(client: Socket): void {
    this.accepted += 1;
    if (this.#refusing) {
      client.on("error", () => {});
      client.resetAndDestroy();
      return;
    }
    const server = net.connect({ ...this.#to, allowHalfOpen: true, noDelay: true });
    const wire: Wire = new Wire(client, server, {
      delayMs: () => this.#delayMs,
      fromServer: (bytes) => this.#corrupted(bytes),
      over: () => this.#wires.delete(wire),
    });
    this.#wires.add(wire);
    if (this.#frozen) wire.hold();
  }

  #corrupted(bytes: Buffer): Buffer {
    const count = Math.min(this.#corruptLeft, bytes.length);
    if (count === 0) return bytes;
    this.#corruptLeft -= count;
    return Buffer.concat([bytes.subarray(0, count).map((byte) => byte ^ 0xff), bytes.subarray(count)]);
  }
}

interface WireOptions {
  readonly delayMs: () => number;
  readonly fromServer: (bytes: Buffer) => Buffer;
  readonly over: () => void;
}

/** The two ends of one connection, and the two ways between them. */
class Wire {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #ways: readonly [Way, Way];
  readonly #over: () => void;

  constructor(client: Socket, server: Socket, options: WireOptions) {
    this.#client = client;
    this.#server = server;
    this.#over = options.over;
    this.#ways = [new Way(client, server, options.delayMs, (bytes) => bytes), new Way(server, client, options.delayMs, options.fromServer)];
    // What one end suffers, the other learns in the same way.
    for (const socket of [client, server]) {
      socket.on("error", () => this.reset());
      socket.on("close", () => this.#closed());
    }
  }

  hold(): void {
    for (const way of this.#ways) way.hold();
  }

  flow(): void {
    for (const way of this.#ways) way.flow();
  }

  endTowardsClient(): void {
    this.#client.end();
  }

  reset(): void {
    for (const way of this.#ways) way.drop();
    for (const socket of [this.#client, this.#server]) if (!socket.destroyed) socket.resetAndDestroy();
    this.#over();
  }

  #closed(): void {
    if (this.#client.destroyed && this.#server.destroyed) this.#over();
    // Both directions of one end are closed: nothing is left for the other, once what was on its way has arrived.
    else if (this.#server.destroyed && this.#client.writableEnded) this.#client.destroy();
    else if (this.#client.destroyed) this.#server.end();
  }
}

/** One direction. Pieces wait here while the wire is frozen or slow, and pass in order. */
class Way {
  readonly #from: Socket;
  readonly #to: Socket;
  readonly #delayMs: () => number;
  readonly #change: (bytes: Buffer) => Buffer;
  /** Null is the end of what comes. */
  #waiting: { readonly bytes: Buffer | null; readonly dueMs: number }[] = [];
  #held = false;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(from: Socket, to: Socket, delayMs: () => number, change: (bytes: Buffer) => Buffer) {
    this.#from = from;
    this.#to = to;
    this.#delayMs = delayMs;
    this.#change = change;
    from.on("data", (bytes: Buffer) => this.#come(bytes));
    from.on("end", () => this.#come(null));
    to.on("drain", () => {
      if (!this.#held) from.resume();
    });
  }

  hold(): void {
    this.#held = true;
    this.#from.pause();
    this.#disarm();
  }

  flow(): void {
    if (!this.#held) return;
    this.#held = false;
    this.#pass();
    this.#from.resume();
  }

  drop(): void {
    this.#waiting = [];
    this.#disarm();
  }

  #come(bytes: Buffer | null): void {
    this.#waiting.push({ bytes, dueMs: performance.now() + this.#delayMs() });
    this.#pass();
  }

  #pass(): void {
    this.#disarm();
    while (!this.#held) {
      const first = this.#waiting[0];
      if (first === undefined) return;
      const earlyMs = first.dueMs - performance.now();
      if (earlyMs > 0) {
        this.#timer = setTimeout(() => this.#pass(), Math.ceil(earlyMs));
        return;
      }
      this.#waiting.shift();
      this.#send(first.bytes);
    }
  }

  #send(bytes: Buffer | null): void {
    if (this.#to.destroyed || this.#to.writableEnded) return;
    if (bytes === null) this.#to.end();
    else if (!this.#to.write(this.#change(bytes))) this.#from.pause();
  }

  #disarm(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
