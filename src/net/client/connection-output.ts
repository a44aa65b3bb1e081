import type net from "node:net";
import { putDecimal } from "../message/decimal.ts";

/**
 * The output of one upstream connection. A small request bypasses the stream layer of its socket, because the layer costs more
 * than the rest of the write. What the system does not take at once goes through the stream, as does everything after it.
 */
export class ConnectionOutput {
  constructor(private readonly socket: UpstreamSocket) {}

  /** The system has taken everything. */
  get isEmpty(): boolean {
    return this.socket.writableLength === 0;
  }

  write(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  /**
   * Reports when the system has taken all of it, or that it will not. It bypasses the stream layer as well: if the upstream
   * reads no more, the layer would close at once and discard what has been received, which may be the error response that says
   * why.
   */
  send(bytes: Uint8Array, taken: (isTaken: boolean) => void): void {
    const now = this.straight(bytes, bytes.length);
    if (now === bytes.length) return taken(true);
    const rest = (): void => void this.socket.write(now > 0 ? bytes.subarray(now) : bytes, (error) => taken(error == null));
    if (now >= 0) rest();
    else setTimeout(rest, readingMs);
  }

  /**
   * Writes a request: the lines of its head, the one with the length of its body, and the body as far as it is in memory. A
   * small request leaves in one packet; a large body is not copied for that.
   */
  request(lines: Uint8Array, bodyLength: number | null, body: Uint8Array): void {
    const isSmall = lines.length + lengthBytesMax + body.length <= scratch.length;
    if (!isSmall) {
      const head = Buffer.concat([lines, scratch.subarray(0, putLength(bodyLength, 0))]);
      const taken = Math.max(0, this.straight(head, head.length));
      if (taken < head.length) this.write(head.subarray(taken));
      if (body.length > 0) this.send(body, nobody);
      return;
    }
    scratch.set(lines);
    const headLength = putLength(bodyLength, lines.length);
    scratch.set(body, headLength);
    const length = headLength + body.length;
    const taken = Math.max(0, this.straight(scratch, length));
    if (taken < length) this.write(Buffer.from(scratch.subarray(taken, length)));
  }

  /** How many bytes the system takes at once; negative if it will take no more. */
  private straight(bytes: Uint8Array, length: number): number {
    return this.isEmpty ? (this.socket[nativeHandle]?.write?.(bytes, 0, length) ?? 0) : 0;
  }
}

/** Writes the end of a head into the shared buffer. Returns the position after it. */
function putLength(bodyLength: number | null, from: number): number {
  let at = from;
  if (bodyLength !== null) {
    scratch.set(lengthName, at);
    at = putLineEnd(putDecimal(scratch, at + lengthName.length, bodyLength));
  }
  return putLineEnd(at);
}

function putLineEnd(at: number): number {
  scratch[at] = 13;
  scratch[at + 1] = 10;
  return at + 2;
}

const nobody = (): void => {};
/** Enough time to read what has arrived already. */
const readingMs = 20;
const lengthName = Buffer.from("content-length: ");
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
