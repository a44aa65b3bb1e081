import type { HeaderLines } from "../message/header-lines.ts";
import type { HttpResponse } from "./http-response.ts";
import type { RequestLine } from "./request-parser.ts";

/** A request as the endpoints see it. */
export class IncomingRequest {
  /** Is told if the client leaves before it was answered. */
  observer: RequestObserver | null = null;
  isGone = false;
  readonly body: IncomingBody;

  constructor(
    readonly line: RequestLine,
    readonly headers: HeaderLines,
    bodyBytes: number | null,
    private readonly carrier: RequestConnection,
  ) {
    this.body = new IncomingBody(bodyBytes, carrier);
  }

  get method(): string {
    return this.line.method;
  }

  /** Exactly as it was sent. */
  get target(): string {
    return this.line.target;
  }

  /** The client's IP address. */
  get address(): string {
    return this.carrier.address;
  }

  /** By lower-case name. */
  header(name: string): string | null {
    return this.headers.get(name) ?? null;
  }

  /** May be called once at most. Has no effect if the client has left. */
  answer(answer: HttpResponse): void {
    this.carrier.respond(this, answer);
  }

  gone(): void {
    this.isGone = true;
    this.body.lost();
    const { observer } = this;
    this.observer = null;
    observer?.clientGone();
  }
}

/** Is told about the client of a request that is being served. */
export interface RequestObserver {
  /** The client has closed the connection. */
  clientGone(): void;
}

/** The connection that a request arrived on, and is answered on. */
export interface RequestConnection extends BodyFlowControl {
  /** The client's IP address. */
  readonly address: string;
  respond(request: IncomingRequest, answer: HttpResponse): void;
}

/** Flow control of the connection, for the reader of a body. */
export interface BodyFlowControl {
  /** The body will be read: a client that expects `100 Continue` is told to send it (RFC 9110, 10.1.1). */
  wanted(): void;
  pause(): void;
  resume(): void;
}

/** The body of a request. It is read from the network only as fast as it is consumed. */
export class IncomingBody {
  /** The parts that have not been consumed; usually one, with the whole body. */
  private first: Uint8Array | null = null;
  private others: Uint8Array[] | null = null;
  private waitingBytes = 0;
  private over = false;
  private isLost = false;
  private unwanted = false;
  private paused = false;
  private waiting: ((part: Uint8Array | "end" | "gone") => void) | null = null;

  constructor(
    /** Null if the client did not declare a length. */
    readonly declaredBytes: number | null,
    private readonly flow: BodyFlowControl,
  ) {}

  get isOver(): boolean {
    return this.over;
  }

  /** The whole body, if it has arrived in one part, as most do; else null. */
  whole(): Uint8Array | null {
    if (!this.over || this.others !== null) return null;
    this.waitingBytes = 0;
    return this.shift() ?? nothing;
  }

  next(): Promise<Uint8Array | "end" | "gone"> {
    const part = this.shift();
    if (part !== null) {
      this.waitingBytes -= part.length;
      if (this.paused && this.waitingBytes <= waitingBytesMax / 2) this.resume();
      return Promise.resolve(part);
    }
    if (this.over) return Promise.resolve("end");
    if (this.isLost || this.unwanted) return Promise.resolve("gone");
    this.flow.wanted();
    return new Promise((resolve) => (this.waiting = resolve));
  }

  /** The rest is not wanted, and is discarded as it arrives. */
  leave(): void {
    if (this.unwanted) return;
    this.unwanted = true;
    this.first = null;
    this.others = null;
    this.waitingBytes = 0;
    if (this.paused) this.resume();
    this.hand("gone");
  }

  push(bytes: Uint8Array): void {
    if (this.unwanted || this.hand(bytes)) return;
    if (this.first === null) this.first = bytes;
    else (this.others ??= []).push(bytes);
    this.waitingBytes += bytes.length;
    if (this.paused || this.waitingBytes <= waitingBytesMax) return;
    this.paused = true;
    this.flow.pause();
  }

  end(): void {
    this.over = true;
    // The body is complete. Whether pipelined requests have to wait is decided elsewhere.
    if (this.paused) this.resume();
    this.hand("end");
  }

  lost(): void {
    this.isLost = true;
    this.hand("gone");
  }

  private shift(): Uint8Array | null {
    const { first } = this;
    this.first = this.others?.shift() ?? null;
    if (this.first === null) this.others = null;
    return first;
  }

  private resume(): void {
    this.paused = false;
    this.flow.resume();
  }

  private hand(part: Uint8Array | "end" | "gone"): boolean {
    const { waiting } = this;
    this.waiting = null;
    waiting?.(part);
    return waiting !== null;
  }
}

const waitingBytesMax = 128 * 1024;
const nothing = new Uint8Array(0);
