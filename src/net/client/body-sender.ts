import type { StreamedBody } from "../../dialects/dialect.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { Connection } from "./connection.ts";
import { pieces } from "./pieces.ts";

/** A streamed body on its way over one connection: the next piece is read when the system has taken the one before. */
export class BodySender {
  /** Of its bytes, those that were not taken yet. */
  private left: number;
  private stopped = false;
  /** Some of it may have been taken. */
  hasBegun = false;
  private wake: (() => void) | null = null;

  constructor(
    private readonly connection: Connection,
    private readonly body: StreamedBody,
    private readonly failed: (cause: Failure) => void,
    /** How long the upstream may take nothing of what waits. */
    private readonly stallMs: number,
  ) {
    this.left = body.length;
    void this.run();
  }

  /** All of it was taken: of an empty one that is so at once, whenever its end is found. */
  get isDone(): boolean {
    return this.left === 0;
  }

  /** Not another byte is sent. */
  stop(): void {
    this.stopped = true;
    this.wake?.();
  }

  private async run(): Promise<void> {
    for await (const piece of pieces(this.body)) {
      if (this.stopped) return;
      if (isFailure(piece)) return this.failed(piece);
      this.hasBegun = true;
      await this.sent(piece);
      if (this.stopped) return;
      this.left -= piece.length;
      free(piece);
      // Most of it is taken at once, and others have something to do as well.
      await nextTurn();
      if (this.stopped) return;
    }
  }

  private sent(piece: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      const stalled = (): void => this.failed(failure("timed_out", `nothing of the upload was taken for ${this.stallMs} ms`));
      const timer = setTimeout(stalled, this.stallMs);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
      this.connection.output.send(piece, (isTaken) => {
        // What became of a connection that takes no more is told by its close.
        if (!isTaken) this.stopped = true;
        clearTimeout(timer);
        resolve();
      });
    });
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/**
 * Gives the memory of a part back at once, with its last piece. Left to the collector, the parts of a few uploads at a time
 * pile up to more than the uploads themselves.
 */
function free({ buffer, byteOffset, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && byteOffset + byteLength === buffer.byteLength) buffer.transfer(0);
}
