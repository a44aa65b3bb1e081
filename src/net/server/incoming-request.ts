import { BodyQueue, type BodyQueueLimits, type FlowControl } from "../message/body-queue.ts";
import { noHeaders, type HeaderLines } from "../message/header-lines.ts";
import type { HttpResponse } from "./http-response.ts";
import type { RequestLine } from "./request-parser.ts";

/** A request as the endpoints see it. */
export class IncomingRequest {
  /** Is told if the client leaves before the response begins. */
  observer: RequestObserver | null = null;
  isGone = false;
  readonly body: IncomingBody;

  constructor(
    readonly line: RequestLine,
    /** Empty once the response is streamed. */
    public headers: HeaderLines,
    bodyBytes: number | null,
    private readonly connection: RequestConnection,
  ) {
    this.body = new IncomingBody(bodyBytes, connection);
  }

  get method(): string {
    return this.line.method;
  }

  /** Exactly as it was sent. */
  get target(): string {
    return this.line.target;
  }

  /** The address that the connection comes from: the client's, or that of a proxy. */
  get address(): string {
    return this.connection.address;
  }

  /** By lower-case name. */
  header(name: string): string | null {
    return this.headers.header(name);
  }

  /** May be called once at most. Has no effect if the client has left. */
  respond(response: HttpResponse): void {
    this.connection.respond(this, response);
  }

  /**
   * Its response begins to be streamed, which may take hours: what was only needed to serve it is dropped. If the client leaves, the
   * stream is told.
   */
  onStreaming(): void {
    this.observer = null;
    this.headers = noHeaders;
  }

  /** The client has left, or its request cannot be parsed any further. */
  onClose(): void {
    this.isGone = true;
    this.body.fail("gone");
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
export interface RequestConnection extends FlowControl {
  /** The address that the connection comes from: the client's, or that of a proxy. */
  readonly address: string;
  respond(request: IncomingRequest, response: HttpResponse): void;
  /** The body will be read: a client that expects `100 Continue` is told to send it (RFC 9110, 10.1.1). */
  sendContinue(): void;
  /** On a monotonic clock. */
  nowMs(): number;
}

/** The body of a request. A part of "gone": the client has left, or the rest is not wanted. */
export class IncomingBody extends BodyQueue<"gone"> {
  /** When its last byte had arrived, if its reader had to wait for some of it; else null, as for most bodies. */
  completedMs: number | null = null;
  private isAwaited = false;
  private isDiscarded = false;

  constructor(
    /** Null if the client did not declare a length. */
    readonly declaredBytes: number | null,
    private readonly connection: RequestConnection,
  ) {
    super(connection, limits);
  }

  override push(bytes: Uint8Array): void {
    if (!this.isDiscarded) super.push(bytes);
  }

  override end(): void {
    if (this.isAwaited) this.completedMs = this.connection.nowMs();
    super.end();
    // Whether pipelined requests have to wait is decided elsewhere.
    this.resume();
  }

  /** The rest is not wanted, and is discarded as it arrives. */
  discard(): void {
    if (this.isDiscarded) return;
    this.isDiscarded = true;
    this.discardQueued();
    this.fail("gone");
  }

  protected override onWait(): void {
    this.isAwaited = true;
    this.connection.sendContinue();
  }
}

const limits: BodyQueueLimits = { partBytesMax: Infinity, queuedBytesMax: 128 * 1024 };
