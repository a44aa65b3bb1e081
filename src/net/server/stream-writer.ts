import type { ClientOutput } from "./client-output.ts";
import type { ResponseBodyStream, ResponseHead, ResponseWriter } from "./http-response.ts";

/** How a streamed response ended: completely, or cut off, after what was written is sent ("linger") or at once ("reset"). */
export type StreamEnd = "complete" | "linger" | "reset";

/** The connection that a response is streamed on. */
export interface StreamEndListener {
  onStreamOver(end: StreamEnd): void;
}

/** Writes one streamed response to a client. */
export class StreamWriter implements ResponseWriter {
  private isOver = false;
  /** Null once it was written: it leaves with the first bytes of the body. */
  private head: ResponseHead | null;

  constructor(
    private readonly output: ClientOutput,
    /** The beginning of the head. */
    private readonly prefix: Uint8Array,
    head: ResponseHead,
    /** Otherwise the body is delimited by the close of the connection, for a client that speaks HTTP/1.0. */
    private readonly isChunked: boolean,
    private readonly closesConnection: boolean,
    private readonly stream: ResponseBodyStream,
    private readonly owner: StreamEndListener,
  ) {
    this.head = head;
  }

  get unsentBytes(): number {
    return this.output.unsentBytes;
  }

  start(): void {
    this.stream.begin(this);
    // The first bytes of the body have a moment to arrive; without them, the head is sent alone.
    if (this.head !== null) setImmediate(() => this.write(nothing));
  }

  write(bytes: Uint8Array): boolean {
    if (this.isOver) return true;
    const { output } = this;
    output.begin();
    this.putHead();
    if (bytes.length > 0) {
      if (this.isChunked) output.putChunk(bytes);
      else output.put(bytes);
    }
    output.send();
    return output.isEmpty;
  }

  flush(): number {
    if (!this.isOver && this.output.flush()) this.stream.onDrain();
    return this.output.progressMs;
  }

  end(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.output.begin();
    this.putHead();
    if (this.isChunked) this.output.put(lastChunk);
    this.output.send();
    this.owner.onStreamOver("complete");
  }

  abort(lingers: boolean): void {
    if (this.isOver) return;
    this.isOver = true;
    this.owner.onStreamOver(lingers ? "linger" : "reset");
  }

  /**
   * Returns whether something without a meaning could be sent. Where the stream has no such bytes, that is a zero before the size of the
   * next chunk, which may have any number of them (RFC 9112, 7.1).
   */
  sendKeepAlive(): boolean {
    if (this.stream.sendKeepAlive()) return true;
    if (this.isChunked) this.output.sendText("0");
    return this.isChunked;
  }

  get isHeadWritten(): boolean {
    return this.head === null;
  }

  /** The connection takes no more of the response. Returns the stream, which has not been told yet. */
  detach(): ResponseBodyStream {
    this.isOver = true;
    return this.stream;
  }

  private putHead(): void {
    const { head, output } = this;
    if (head === null) return;
    this.head = null;
    output.put(this.prefix);
    head.putOn(output, this.isChunked ? "\r\ntransfer-encoding: chunked" : "", this.closesConnection);
  }
}

const nothing = new Uint8Array(0);
/** RFC 9112, 7.1. */
const lastChunk = Buffer.from("0\r\n\r\n");
