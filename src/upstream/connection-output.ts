import type net from "node:net";

/**
 * What is sent over one connection. A small request leaves past the stream layer of its socket, straight to the system:
 * the layer costs more than all the rest of writing it. What the system does not take at once goes the way of the stream,
 * as does whatever comes behind it. TLS has its own way of refusing a part, which the stream knows.
 */
export class ConnectionOutput {
  constructor(
    private readonly socket: OutputSocket,
    private readonly isPlain: boolean,
  ) {}

  /** The system has taken everything. */
  get isEmpty(): boolean {
    return this.socket.writableLength === 0;
  }

  write(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  /** Says when the system has taken all of it, or that it will not. */
  send(bytes: Uint8Array, taken: (isTaken: boolean) => void): void {
    this.socket.write(bytes, (error) => taken(error == null));
  }

  /** Each character of a head is one byte. A small body leaves in one packet with it; a large one is not copied for that. */
  joined(head: string, body: Uint8Array): void {
    const length = head.length + body.length;
    if (length > scratch.length) {
      this.write(Buffer.from(head, "latin1"));
      this.write(body);
      return;
    }
    scratch.write(head, 0, "latin1");
    scratch.set(body, head.length);
    const taken = this.isPlain && this.isEmpty ? Math.max(0, this.socket[below]?.write?.(scratch, 0, length) ?? 0) : 0;
    if (taken < length) this.write(Buffer.from(scratch.subarray(taken, length)));
  }
}

/** What the runtime calls that which lies below the stream of a socket. */
export const below = "_handle";

export interface OutputSocket extends Pick<net.Socket, "writableLength" | "write"> {
  /** Null once it is closed. */
  readonly [below]?: Below | null | undefined;
}

interface Below {
  /** Returns how many bytes the system took; less than nothing where it takes none. */
  write?(bytes: Uint8Array, offset: number, length: number): number;
}

/** Where small requests are put together: what the system takes at once needs no memory of its own. */
const scratch = Buffer.alloc(64 * 1024);
