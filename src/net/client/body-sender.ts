import type { StreamedBody } from "../../dialects/dialect.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { Connection } from "./connection.ts";
import { bodyPieces } from "./body-pieces.ts";

/** Sends a streamed request body over one connection: the next piece is read when the system has taken the one before. */
export class BodySender {
  /** How many bytes have not been taken yet. */
  private remaining: number;
  private isStopped = false;
  /** Some of the body may have been taken. */
  hasBegun = false;
  private cancelWait: (() => void) | null = null;

  constructor(
    private readonly connection: Connection,
    private readonly body: StreamedBody,
    private readonly onFailure: (cause: Failure) => void,
    /** How long the upstream may take nothing. */
    private readonly stallMs: number,
  ) {
    this.remaining = body.length;
    void this.run();
  }

  /** The whole body was taken. An empty one is complete at once, even before its end was read. */
  get isDone(): boolean {
    return this.remaining === 0;
  }

  /** No further byte is sent. */
  stop(): void {
    this.isStopped = true;
    this.cancelWait?.();
  }

  private async run(): Promise<void> {
    for await (const piece of bodyPieces(this.body)) {
      if (this.isStopped) return;
      if (isFailure(piece)) return this.onFailure(piece);
      this.hasBegun = true;
      await this.sendPiece(piece);
      if (this.isStopped) return;
      this.remaining -= piece.length;
      releaseLast(piece);
      // Most pieces are taken at once, so other work gets a turn in between.
      await nextTurn();
      if (this.isStopped) return;
    }
  }

  private sendPiece(piece: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      const onStall = (): void => this.onFailure(failure("timed_out", `nothing of the upload was taken for ${this.stallMs} ms`));
      const timer = setTimeout(onStall, this.stallMs);
      this.cancelWait = () => {
        clearTimeout(timer);
        resolve();
      };
      this.connection.output.send(piece, (isTaken) => {
        // Why the connection takes no more is reported by its close.
        if (!isTaken) this.isStopped = true;
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
function releaseLast({ buffer, byteOffset, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && byteOffset + byteLength === buffer.byteLength) buffer.transfer(0);
}
