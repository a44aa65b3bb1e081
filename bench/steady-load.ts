import type { Socket } from "bun";
import type { Asked } from "./ask.ts";
import { type Addressee, requestBytes } from "./request-bytes.ts";
import { AnswerReader } from "./wire.ts";

/**
 * A closed loop that never rests while it is told what to ask next: for what is compared within one process. A process that rests
 * between two turns gives back memory and lets its caches go cold, and the turn that follows pays for that.
 */
export class SteadyLoad {
  /** Answers since the beginning. */
  answered = 0;
  private failure: string | null = null;
  private isOver = false;
  private request: Buffer;
  private readonly sockets = new Set<Socket<AnswerReader>>();

  private constructor(
    private readonly target: Addressee,
    private readonly asked: Asked,
  ) {
    this.request = requestBytes(target, asked);
  }

  static async start(target: Addressee, asked: Asked, connections: number): Promise<SteadyLoad> {
    const load = new SteadyLoad(target, asked);
    try {
      await Promise.all(Array.from({ length: connections }, () => load.connect()));
    } catch (error) {
      load.stop();
      throw error;
    }
    return load;
  }

  /** From now on it is asked as this one. What is on its way is still answered. */
  askAs(addressee: Addressee): void {
    this.request = requestBytes(addressee, this.asked);
  }

  /** How many answers there were in so much time. Throws if something went wrong since the beginning, or if there was none. */
  async during(ms: number): Promise<number> {
    const before = this.answered;
    await Bun.sleep(ms);
    if (this.answered === before) this.fail(`no call was answered within ${ms} ms`);
    if (this.failure !== null) throw new Error(this.failure);
    return this.answered - before;
  }

  stop(): void {
    this.isOver = true;
    for (const socket of this.sockets) socket.terminate();
  }

  private async connect(): Promise<void> {
    const { hostname, port } = new URL(this.target.origin);
    await Bun.connect<AnswerReader>({
      hostname,
      port: Number(port),
      data: new AnswerReader(),
      socket: {
        open: (socket) => {
          this.sockets.add(socket);
          if (this.isOver) socket.terminate();
          else this.send(socket);
        },
        data: (socket, bytes) => {
          const reader = socket.data;
          if (!reader.feed(bytes, ignore)) return;
          this.answered += 1;
          if (reader.status !== 200) this.fail(`a call was answered with ${reader.status}`);
          if (!this.isOver) this.send(socket);
        },
        close: () => this.fail("a connection was closed"),
        error: (_, error) => this.fail(String(error)),
      },
    });
  }

  /** A request fits into an empty socket buffer. */
  private send(socket: Socket<AnswerReader>): void {
    if (socket.write(this.request) !== this.request.length) this.fail("a request was not taken whole");
  }

  private fail(why: string): void {
    if (!this.isOver) this.failure ??= why;
  }
}

const ignore = (): void => {};
