import type net from "node:net";
import { putDecimal } from "../message/decimal.ts";

/**
 * What is sent over one connection. A small request leaves past the stream layer of its socket, straight to the system:
 * the layer costs more than all the rest of writing it. What the system does not take at once goes the way of the stream,
 * as does whatever comes behind it.
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
   * Says when the system has taken all of it, or that it will not. Past the stream layer as well: where the upstream takes no
   * more, the layer would close at once and throw away what had come, which may be the refusal that says why.
   */
  send(bytes: Uint8Array, taken: (isTaken: boolean) => void): void {
    const now = this.straight(bytes, bytes.length);
    if (now === bytes.length) return taken(true);
    const rest = (): void => void this.socket.write(now > 0 ? bytes.subarray(now) : bytes, (error) => taken(error == null));
    if (now >= 0) rest();
    else setTimeout(rest, readingMs);
  }

  /**
   * A request: the lines of its head, the one that says how long its body is, and the body as far as it is there. What is
   * small leaves in one packet; a large body is not copied for that.
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

  /** How much the system takes at once; less than nothing where it will take no more. */
  private straight(bytes: Uint8Array, length: number): number {
    return this.isEmpty ? (this.socket[nativeHandle]?.write?.(bytes, 0, length) ?? 0) : 0;
  }
}

/** Puts what ends a head into the scratch memory. Returns where it is over. */
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
/** Time enough to read what has come already. */
const readingMs = 20;
const lengthName = Buffer.from("content-length: ");
/** With the digits of any length there is. */
const lengthBytesMax = 64;

/** What the runtime calls that which lies below the stream of a socket. */
export const nativeHandle = "_handle";

export interface UpstreamSocket extends Pick<net.Socket, "writableLength" | "write"> {
  /** Null once it is closed. */
  readonly [nativeHandle]?: NativeHandle | null | undefined;
}

interface NativeHandle {
  /** Returns how many bytes the system took; less than nothing where it takes none. */
  write?(bytes: Uint8Array, offset: number, length: number): number;
}

/** Where small requests are put together: what the system takes at once needs no memory of its own. */
const scratch = Buffer.alloc(64 * 1024);
