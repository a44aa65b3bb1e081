import type { StreamedBody } from "../../dialects/dialect.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { Connection } from "./connection.ts";
import { pieces } from "./pieces.ts";

/** Sends a streamed request body over one connection: the next piece is read when the system has taken the one before. */
export class BodySender {
  /** How many bytes have not been taken yet. */
  private left: number;
  private stopped = false;
  /** Some of the body may have been taken. */
  hasBegun = false;
  private wake: (() => void) | null = null;

  constructor(
    private readonly connection: Connection,
    private readonly body: StreamedBody,
    private readonly failed: (cause: Failure) => void,
    /** How long the upstream may take nothing. */
    private readonly stallMs: number,
  ) {
    this.left = body.length;
    void this.run();
  }

  /** The whole body was taken. An empty one is complete at once, even before its end was read. */
  get isDone(): boolean {
    return this.left === 0;
  }

  /** No further byte is sent. */
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
      // Most pieces are taken at once, so other work gets a turn in between.
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
        // Why the connection takes no more is reported by its close.
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
 * Frees the memory of a part at once, with its last piece. Left to the garbage collector, the parts of a few concurrent uploads
 * held more memory than the uploads themselves.
 */
function free({ buffer, byteOffset, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && byteOffset + byteLength === buffer.byteLength) buffer.transfer(0);
}
