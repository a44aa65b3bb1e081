import net, { type Socket } from "node:net";
import { Inbox } from "./inbox.ts";
import { RawResponse } from "./raw-response.ts";

/** The client side of one connection, for requests one after another, pipelined, or half sent. */
export class RawConnection {
  readonly #socket: Socket;
  readonly #inbox = new Inbox();
  #bytesPerSecond = Number.POSITIVE_INFINITY;
  #rest: ReturnType<typeof setTimeout> | undefined;
  #wasReset = false;
  #leftFirst = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (bytes: Buffer) => this.#take(bytes));
    socket.on("end", () => this.#inbox.end());
    socket.on("error", (error: Error & { code?: string }) => {
      this.#wasReset ||= error.code === "ECONNRESET" || error.code === "EPIPE";
    });
    socket.on("close", () => this.#inbox.end());
  }

  /** Rejects when the connection is refused. */
  static async open(url: string): Promise<RawConnection> {
    const { hostname, port } = new URL(url);
    const socket = await new Promise<Socket>((resolve, reject) => {
      const connecting = net.connect({ host: hostname, port: Number(port), allowHalfOpen: true });
      connecting.once("error", reject);
      connecting.once("connect", () => {
        connecting.off("error", reject);
        resolve(connecting);
      });
    });
    return new RawConnection(socket);
  }

  /** Resolves when the kernel has taken the bytes, or the connection is gone. */
  async send(bytes: Uint8Array, byteMs = 0): Promise<void> {
    if (byteMs === 0) return this.#put(bytes);
    for (let at = 0; at < bytes.length && !this.#socket.destroyed; at += 1) {
      await this.#put(bytes.subarray(at, at + 1));
      await new Promise((resolve) => setTimeout(resolve, byteMs));
    }
  }

  /** Fills the response while it comes; resolves at its end, whatever the end is. */
  async receive(response: RawResponse, method = "POST"): Promise<RawResponse> {
    await response.read(this.#inbox, method);
    response.wasReset = this.#wasReset;
    response.aborted = this.#leftFirst;
    return response;
  }

  stopReading(): void {
    this.#socket.pause();
  }

  resumeReading(): void {
    this.#socket.resume();
  }

  readSlowly(bytesPerSecond: number): void {
    this.#bytesPerSecond = bytesPerSecond;
  }

  /** FIN, while still listening. */
  halfClose(): void {
    this.#socket.end();
  }

  close(): void {
    this.#leave();
    this.#socket.destroy();
  }

  reset(): void {
    this.#leave();
    this.#socket.resetAndDestroy();
  }

  #leave(): void {
    clearTimeout(this.#rest);
    this.#leftFirst ||= !this.#socket.destroyed;
    this.#inbox.end();
  }

  #take(bytes: Buffer): void {
    this.#inbox.push(bytes);
    if (this.#bytesPerSecond === Number.POSITIVE_INFINITY) return;
    this.#socket.pause();
    const restMs = (bytes.length / this.#bytesPerSecond) * 1_000;
    this.#rest = setTimeout(() => this.#socket.resume(), restMs);
  }

  #put(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      if (this.#socket.destroyed) return resolve();
      this.#socket.write(bytes, () => resolve());
    });
  }
}
