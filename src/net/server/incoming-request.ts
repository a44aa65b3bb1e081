import type { HeaderLines } from "../message/header-lines.ts";
import type { HttpResponse } from "./http-response.ts";
import type { RequestLine } from "./request-parser.ts";

/** A request as the rest of the edge sees it. */
export class IncomingRequest {
  /** Is told when the client leaves before it was answered. */
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

  /** Where the client is. */
  get address(): string {
    return this.carrier.address;
  }

  /** By lower-case name. */
  header(name: string): string | null {
    return this.headers.get(name) ?? null;
  }

  /** Once at most, and to nobody where the client has left. */
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

/** Whoever is about to answer a request. */
export interface RequestObserver {
  /** The client left. */
  clientGone(): void;
}

/** The connection a request came over, and is answered on. */
export interface RequestConnection extends BodyFlowControl {
  /** Of the client. */
  readonly address: string;
  respond(request: IncomingRequest, answer: HttpResponse): void;
}

/** The connection a body comes from, as far as its reader has a say in it. */
export interface BodyFlowControl {
  /** Someone wants the body: a client that asked first may send it. */
  wanted(): void;
  pause(): void;
  resume(): void;
}

/** The body of a request, taken from the network only as fast as it is read. */
export class IncomingBody {
  /** What waits to be read: mostly all of it, in one piece. */
  private first: Uint8Array | null = null;
  private others: Uint8Array[] | null = null;
  private waitingBytes = 0;
  private over = false;
  private isLost = false;
  private unwanted = false;
  private paused = false;
  private waiting: ((part: Uint8Array | "end" | "gone") => void) | null = null;

  constructor(
    /** Null where it was not said. */
    readonly declaredBytes: number | null,
    private readonly flow: BodyFlowControl,
  ) {}

  get isOver(): boolean {
    return this.over;
  }

  /** All of it, where it has come and in one piece, as most do. */
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

  /** Nobody wants the rest. It is thrown away as it comes. */
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
    // Nothing of it can come any more; whether what is behind it has to wait is another question.
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
