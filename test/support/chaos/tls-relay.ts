import net, { type AddressInfo, type Socket } from "node:net";
import { untilRead } from "./unread.ts";

/** Stands before a TLS server, sees nothing of what it passes on, and can end a connection without a word of TLS about it. */
export class TlsRelay {
  readonly #server: net.Server;
  /** By the port that the inner server sees. */
  readonly #outers = new Map<number, Socket>();

  constructor(innerPort: () => number) {
    this.#server = net.createServer({ allowHalfOpen: true }, (outer) => {
      const inner = net.connect({ host: "127.0.0.1", port: innerPort(), allowHalfOpen: true });
      const local = (): number => inner.localPort ?? 0;
      inner.once("connect", () => this.#outers.set(local(), outer));
      outer.on("data", (bytes) => inner.write(bytes));
      outer.on("end", () => inner.end());
      inner.on("data", (bytes) => void (outer.writable && outer.write(bytes)));
      inner.on("end", () => outer.end());
      for (const [one, other] of [
        [outer, inner],
        [inner, outer],
      ] as const) {
        one.on("error", () => other.destroy());
        one.on("close", () => other.destroy());
      }
    });
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  listen(port: number): Promise<void> {
    return new Promise((resolve) => this.#server.listen(port, "127.0.0.1", resolve));
  }

  /** FIN, below TLS, behind everything that the inner server has sent. */
  async cut(inner: Socket): Promise<void> {
    const outer = this.#outers.get(inner.remotePort ?? 0);
    await untilRead(inner);
    outer?.end();
  }

  close(): void {
    this.#server.close();
    for (const outer of this.#outers.values()) outer.destroy();
  }
}
