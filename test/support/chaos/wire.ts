import type { Socket } from "node:net";
import { untilRead } from "./unread.ts";

/** The chaos side of one connection: every byte and its moment is ours, and each wait ends when the peer leaves. */
export class Wire {
  bytesWritten = 0;
  readonly #socket: Socket;
  readonly #waiting = new Set<() => void>();
  #departed = false;

  constructor(
    socket: Socket,
    private readonly below: (() => Promise<void>) | null = null,
  ) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on("end", () => this.#depart());
    socket.on("error", () => this.#depart());
    socket.on("close", () => this.#depart());
  }

  get departed(): boolean {
    return this.#departed;
  }

  /** Resolves when the kernel has taken the bytes, so a peer that does not read holds us up. */
  async write(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return;
    await this.#unlessDeparted((resolve, reject) => {
      this.#socket.write(bytes, (error) => (error ? reject() : resolve()));
    });
    this.bytesWritten += bytes.length;
  }

  async pause(ms: number): Promise<void> {
    if (ms <= 0) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    await this.#unlessDeparted((resolve) => {
      timer = setTimeout(resolve, ms);
    }).finally(() => clearTimeout(timer));
  }

  /** Says and does nothing until then. */
  async until(moment: Promise<void>): Promise<void> {
    await this.#unlessDeparted((resolve) => void moment.then(resolve));
  }

  /** Never resolves: says and does nothing until the peer has enough. */
  async untilDeparture(): Promise<never> {
    await this.#unlessDeparted(() => {});
    throw new Departed();
  }

  /** What the peer sends stays in the system's hands, and soon in the peer's own. Whether it leaves is then not noticed. */
  stopReading(): void {
    this.#socket.pause();
  }

  resumeReading(): void {
    this.#socket.resume();
  }

  /** FIN. */
  finish(): void {
    this.#socket.end();
  }

  /** FIN below TLS, without a word of TLS about it, where the upstream has `cutsTls`; else there is nothing below. */
  async finishBelow(): Promise<void> {
    if (this.below === null) this.finish();
    else await this.below();
  }

  /** RST, after a short rest. A reset would destroy what the peer has not read yet: one that reads is left the time for it. */
  async reset(restMs = 20): Promise<void> {
    await this.pause(restMs);
    if (restMs > 0 && !this.#departed) await untilRead(this.#socket, 0);
    this.#socket.resetAndDestroy();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #unlessDeparted(start: (resolve: () => void, reject: () => void) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => settle(() => reject(new Departed()));
      const settle = (then: () => void) => {
        this.#waiting.delete(leave);
        then();
      };
      if (this.#departed) return leave();
      this.#waiting.add(leave);
      start(() => settle(resolve), leave);
    });
  }

  #depart(): void {
    this.#departed = true;
    for (const leave of this.#waiting) leave();
  }
}

/** The peer closed or reset the connection while we still had something to say. */
export class Departed extends Error {
  override name = "Departed";
}
