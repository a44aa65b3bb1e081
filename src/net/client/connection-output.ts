import type net from "node:net";

/**
 * The output of one upstream connection. A small request bypasses the stream layer of its socket, because the layer costs more
 * than the rest of the write. What the system does not take at once goes through the stream, as does everything after it.
 */
export class ConnectionOutput {
  /** A large body is being sent, of which the system has not taken the last part. */
  private isSending = false;

  constructor(private readonly socket: UpstreamSocket) {}

  /** The system has taken everything. */
  get isEmpty(): boolean {
    return !this.isSending && this.socket.writableLength === 0;
  }

  write(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  /**
   * Reports when the system has taken all of it, or that it will not. It bypasses the stream layer as well: if the upstream
   * reads no more, the layer would close at once and discard what has been received, which may be the error response that says
   * why.
   */
  send(bytes: Uint8Array, onTaken: (isTaken: boolean) => void): void {
    const written = this.writeDirectly(bytes, bytes.length);
    if (written === bytes.length) return onTaken(true);
    const writeRest = (): void => void this.socket.write(written > 0 ? bytes.subarray(written) : bytes, (error) => onTaken(error == null));
    if (written >= 0) writeRest();
    else setTimeout(writeRest, readingMs);
  }

  /**
   * Sends a request: its head, to which further lines and the length of the body are added, and the body as far as it is in memory. A
   * small request leaves in one packet. A large body is not copied for that, and leaves in parts: of what the system does not take at once,
   * the runtime makes a copy, and moves what is left of that with each write.
   */
  sendRequest(head: Uint8Array, bodyLength: number | null, body: Uint8Array, lines = ""): void {
    const isSmall = head.length + lines.length + lengthBytesMax + body.length <= scratch.length;
    if (!isSmall) {
      const wholeHead = Buffer.concat([head, Buffer.from(lines + headEnd(bodyLength), "latin1")]);
      const written = Math.max(0, this.writeDirectly(wholeHead, wholeHead.length));
      if (written < wholeHead.length) this.write(wholeHead.subarray(written));
      if (body.length > 0) this.sendInParts(body, 0);
      return;
    }
    scratch.set(head);
    const headLength = head.length + scratch.write(lines + headEnd(bodyLength), head.length, "latin1");
    scratch.set(body, headLength);
    const length = headLength + body.length;
    const written = Math.max(0, this.writeDirectly(scratch, length));
    if (written < length) this.write(Buffer.from(scratch.subarray(written, length)));
  }

  private sendInParts(bytes: Uint8Array, from: number): void {
    const to = Math.min(bytes.length, from + partBytes);
    this.isSending = to < bytes.length;
    this.send(to - from < bytes.length ? bytes.subarray(from, to) : bytes, (isTaken) => {
      if (isTaken && to < bytes.length) this.sendInParts(bytes, to);
    });
  }

  /** Bypasses the stream layer. Returns how many bytes the system took; negative if it takes no more. */
  private writeDirectly(bytes: Uint8Array, length: number): number {
    return this.socket.writableLength === 0 ? (this.socket[nativeHandle]?.write?.(bytes, 0, length) ?? 0) : 0;
  }
}

function headEnd(bodyLength: number | null): string {
  return bodyLength === null ? "\r\n" : `content-length: ${bodyLength}\r\n\r\n`;
}

const partBytes = 256 * 1024;
/** Enough time to read what has arrived already. */
const readingMs = 20;
/** Including the digits of any length. */
const lengthBytesMax = 64;

/** The runtime's name for the native socket below the stream. */
export const nativeHandle = "_handle";

export interface UpstreamSocket extends Pick<net.Socket, "writableLength" | "write"> {
  /** Null once the socket is closed. */
  readonly [nativeHandle]?: NativeHandle | null | undefined;
}

interface NativeHandle {
  /** Returns how many bytes the system took; negative if it takes none. */
  write?(bytes: Uint8Array, offset: number, length: number): number;
}

/** Small requests are assembled here: what the system takes at once needs no memory of its own. */
const scratch = Buffer.alloc(64 * 1024);
