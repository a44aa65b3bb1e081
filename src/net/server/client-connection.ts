import type { HeaderLines } from "../message/header-lines.ts";
import { release } from "../message/message-parser.ts";
import { ClientOutput, type ClientOutputOwner } from "./client-output.ts";
import { IncomingRequest, type RequestConnection } from "./incoming-request.ts";
import type { ResponseHead, ResponseBodyStream, HttpResponse, ResponseWriter } from "./http-response.ts";
import { expectsContinue, isPersistent, RequestParser, type RequestLine, type RequestSink } from "./request-parser.ts";

/** What a connection needs from its listener. */
export interface ConnectionHost {
  /** Returns null if the response will be passed to the request itself, at once or later. */
  answer(request: IncomingRequest): HttpResponse | Promise<HttpResponse | null> | null;
  /** The response to a request that could not be parsed, or did not arrive in time. */
  rejection(problem: string, status: number | null): HttpResponse;
  /** Reports a bug, and returns the response for it. */
  bug(error: unknown): HttpResponse;
  /** No connection is kept open for another request. */
  readonly stopping: boolean;
  /** The connection has nothing more to send. */
  done(connection: ClientConnection): void;
  /** On a monotonic clock. */
  nowMs(): number;
  /** The status line and the headers that every response with this status begins with. */
  responsePrefix(status: number, nowMs: number): Uint8Array;
}

export type ClientSocket = Bun.Socket<ClientConnection>;

/** One client's connection. Its requests are read and answered one after the other. */
export class ClientConnection implements RequestSink, RequestConnection, ResponseWriter, ClientOutputOwner {
  private readonly parser: RequestParser = new RequestParser(this);
  /** The request that is being answered. */
  private request: IncomingRequest | null = null;
  private hasNewRequest = false;
  /** The client waits for `100 Continue` before it sends its body (RFC 9110, 10.1.1). */
  private expectsContinue = false;
  /** Bytes of further requests that arrived before this one was answered (RFC 9112, 9.3.2), and whether there were any. */
  private pipelined: Buffer | null = null;
  private hasMore = false;
  /** It has used its share of this turn of the event loop; pipelined requests wait for the next one. */
  private isYielding = false;
  private readonly output: ClientOutput;
  private stream: ResponseBodyStream | null = null;
  /** A streamed response whose head has not been written yet: it leaves with the first bytes of the body. */
  private streamHead: HttpResponse | null = null;
  private chunked = false;
  /** The response is written, but the rest of its request is still arriving. */
  private answered = false;
  private closes = false;
  /** The client has closed its side of the connection, and sends nothing more. */
  private clientHasEnded = false;
  /**
   * Nothing more is answered. What still arrives is discarded: to close a socket with unread input would reset the connection,
   * and the client could lose the last response (RFC 9112, 9.6).
   */
  private lingering = false;
  private isClosed = false;
  private discardedBytes = 0;
  private feeding = false;
  /** When lingering began, and how long a client may then take no bytes. */
  private lingeringMs = 0;
  private lingersMs = lingerMs;
  private lingersLongestMs = lingerLongestMs;
  /** When the response was written while its request was still arriving. */
  private answeredMs = 0;
  /** It has carried at least one request. */
  private used = false;
  /** When the current wait began, whatever it waits for. */
  private sinceMs: number;

  constructor(
    private readonly socket: ClientSocket,
    private readonly host: ConnectionHost,
  ) {
    this.sinceMs = host.nowMs();
    this.output = new ClientOutput(socket, this);
  }

  received(chunk: Buffer): void {
    if (this.lingering) return this.discard(chunk);
    if (this.isYielding || (this.request !== null && this.parser.isOver)) return this.hold(chunk);
    const { request } = this;
    const unwanted = this.answered && request !== null;
    this.feed(chunk);
    if (unwanted && this.request === request && this.pipelined === null) release(chunk);
  }

  /** The client closed the connection, or it broke. */
  closed(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.pipelined = null;
    const { request, stream } = this;
    this.request = null;
    this.stream = null;
    if (!this.answered) request?.gone();
    stream?.gone();
    // Not earlier: the stream reads the number of unsent bytes first.
    this.output.forget();
  }

  /**
   * The client has closed its side. Whether it still reads cannot be seen, so something without a meaning is sent: if nobody is
   * there, the system reports that at once. Returns whether the connection goes on.
   */
  clientEnded(): boolean {
    if (this.isClosed) return false;
    this.clientHasEnded = true;
    if (!this.output.isEmpty && (this.lingering || this.answered)) return true;
    if (this.isYielding) return true;
    if (this.lingering || this.request === null || !this.parser.isOver) return false;
    if (this.stream !== null && this.streamHead === null) return !this.output.isEmpty || this.stream.sendKeepAlive();
    if (!this.request.line.isHttp11) return false;
    this.output.text("HTTP/1.1 102 Processing\r\n\r\n");
    return true;
  }

  /** The socket can take bytes again. */
  drained(): void {
    if (this.isClosed || !this.output.flush()) return;
    if (this.lingering) this.shutDownWrites();
    else if (this.stream !== null) this.stream.room();
    else if (this.answered && this.request?.body.isOver !== false) this.finish();
  }

  moved(): void {
    this.sinceMs = this.host.nowMs();
  }

  /** A connection that breaks while it is paused may never get a close event. */
  lost(): void {
    if (!this.isClosed) setImmediate(() => void (this.isClosed || this.terminate()));
  }

  /** The system has taken all output, and there will be no more. */
  get isDone(): boolean {
    return this.isClosed || (this.lingering && this.output.isEmpty);
  }

  /** Closes a connection that has waited for too long. Called once a second. */
  look(nowMs: number): void {
    // The system reports a writable socket only when much of its buffer is free: a client that reads slowly would look dead.
    if (!this.output.isEmpty && this.stream === null) this.drained();
    const waitedMs = nowMs - this.sinceMs;
    if (this.lingering) {
      const isOverdue = this.output.isEmpty
        ? nowMs - this.lingeringMs > this.lingersLongestMs || waitedMs > lingerMs
        : waitedMs > this.lingersMs;
      if (isOverdue) this.close();
    } else if (this.request === null) {
      if (this.parser.isInHead && waitedMs > headMs) {
        // A client that has run out of time does not gain more by sending on.
        this.lingersLongestMs = lingerMs;
        this.reject("its headers did not arrive in time", 408);
      } else if (waitedMs > (this.used ? idleMs : headMs)) this.linger();
    } else if (this.answered) {
      const isOverdue = this.output.isEmpty && nowMs - this.answeredMs > lingerLongestMs;
      if (isOverdue || waitedMs > (this.output.isEmpty ? discardIdleMs : stallMs)) this.terminate();
    }
  }

  /** Closes the connection if no request is under way. */
  closeIdle(): void {
    if (this.request === null && !this.lingering && !this.isYielding && this.output.isEmpty) this.linger();
  }

  /** Output that the system has taken may still reach the client; the rest is lost. */
  close(): void {
    if (!this.isDone) return this.terminate();
    this.socket.end();
    this.closed();
  }

  terminate(): void {
    this.socket.terminate();
    this.closed();
  }

  // Called by the parser.

  head(line: RequestLine, headers: HeaderLines, bodyBytes: number | null): void {
    this.request = new IncomingRequest(line, headers, bodyBytes, this);
    this.hasNewRequest = true;
    this.expectsContinue = expectsContinue(line, headers, bodyBytes);
    this.used = true;
    this.answered = false;
    this.discardedBytes = 0;
  }

  body(bytes: Uint8Array): void {
    this.expectsContinue = false;
    this.request?.body.push(bytes);
    if (!this.answered) return;
    this.sinceMs = this.host.nowMs();
    this.discardedBytes += bytes.length;
    if (this.discardedBytes > discardedBytesMax) this.terminate();
  }

  end(): void {
    this.request?.body.end();
  }

  // Called by the reader of a body.

  get address(): string {
    return this.socket.remoteAddress;
  }

  wanted(): void {
    if (!this.expectsContinue || this.answered || this.isClosed) return;
    this.expectsContinue = false;
    this.output.text("HTTP/1.1 100 Continue\r\n\r\n");
  }

  pause(): void {
    if (!this.isClosed) this.socket.pause();
  }

  resume(): void {
    if (!this.isClosed) this.socket.resume();
  }

  // Called by a response stream.

  get unsentBytes(): number {
    return this.output.unsentBytes;
  }

  tookMs(): number {
    this.drained();
    return this.sinceMs;
  }

  write(bytes: Uint8Array): boolean {
    if (this.isClosed || this.stream === null) return true;
    const { output } = this;
    output.begin();
    this.putStreamHead();
    if (bytes.length > 0) {
      if (this.chunked) output.putChunk(bytes);
      else output.put(bytes);
    }
    output.send();
    return output.isEmpty;
  }

  /** The streamed response is complete. */
  endStream(): void {
    if (this.isClosed || this.stream === null) return;
    this.stream = null;
    this.output.begin();
    this.putStreamHead();
    if (this.chunked) this.output.put(lastChunk);
    this.output.send();
    this.complete(this.host.nowMs());
  }

  cut(gently: boolean): void {
    if (this.isClosed) return;
    this.stream = null;
    this.answered = true;
    if (gently) this.linger(lingerMs);
    else this.terminate();
  }

  private feed(chunk: Buffer): void {
    let from = 0;
    let answers = 0;
    // A response that is ready at once returns to this loop instead of starting a nested one.
    this.feeding = true;
    while (from < chunk.length && !this.lingering && !this.isClosed) {
      const begins = this.request === null && !this.parser.isInHead;
      if (begins) from = afterLineEnds(chunk, from);
      if (from === chunk.length) break;
      const taken = this.parser.feed(chunk, from);
      // Most heads arrive in one piece, and start no wait.
      if (begins && this.parser.isInHead) this.sinceMs = this.host.nowMs();
      if (typeof taken === "string") {
        this.unreadable(taken);
        break;
      }
      from = taken;
      this.hasMore = from < chunk.length;
      if (this.hasNewRequest) this.dispatch();
      if (this.request !== null && this.answered && this.parser.isOver && this.output.isEmpty) this.finish();
      if (from === chunk.length) break;
      if (this.request === null && this.parser.isIdle && ++answers === answersPerTurn) this.yield();
      if (this.isYielding || (this.request !== null && this.parser.isOver)) {
        this.hold(from === 0 ? chunk : chunk.subarray(from));
        break;
      }
    }
    this.feeding = false;
    if (this.isYielding) return;
    const isLast = this.host.stopping || this.clientHasEnded;
    if (isLast && this.request === null && !this.parser.isInHead) this.linger();
    // The rest of this request will never arrive.
    else if (this.clientHasEnded && !this.parser.isOver) this.terminate();
  }

  /** Lets other connections be served, however many requests this client has pipelined. */
  private yield(): void {
    this.isYielding = true;
    this.pause();
    setImmediate(() => {
      this.isYielding = false;
      const { pipelined } = this;
      if (this.isClosed || this.lingering || pipelined === null) return;
      this.pipelined = null;
      this.resume();
      this.feed(pipelined);
    });
  }

  private dispatch(): void {
    this.hasNewRequest = false;
    const request = this.request!;
    let answer: HttpResponse | Promise<HttpResponse | null> | null;
    try {
      answer = this.host.answer(request);
    } catch (error) {
      answer = this.host.bug(error);
    }
    if (answer instanceof Promise) void this.respondLater(request, answer);
    else if (answer !== null) this.respond(request, answer);
  }

  private async respondLater(request: IncomingRequest, answering: Promise<HttpResponse | null>): Promise<void> {
    let answer: HttpResponse | null;
    try {
      answer = await answering;
    } catch (error) {
      answer = this.host.bug(error);
    }
    if (answer !== null) this.respond(request, answer);
  }

  /** If a response cannot be written, the connection is closed. */
  respond(request: IncomingRequest, answer: HttpResponse): void {
    try {
      this.reply(request, answer);
    } catch (error) {
      this.host.bug(error);
      this.terminate();
    }
  }

  private reply(request: IncomingRequest, answer: HttpResponse): void {
    const { head, body } = answer;
    if (this.isClosed || this.request !== request || this.answered || this.stream !== null) {
      if (typeof body === "object" && "begin" in body) body.gone();
      return;
    }
    const { line, headers } = request;
    // A client that got no `100 Continue` may or may not send its body, so the connection cannot be reused (RFC 9110, 10.1.1).
    this.closes =
      head.closes || !isPersistent(line, headers) || this.host.stopping || this.expectsContinue || (this.clientHasEnded && !this.hasMore);
    if (typeof body === "object" && "begin" in body) {
      this.chunked = line.isHttp11;
      this.stream = body;
      this.streamHead = answer;
      body.begin(this);
      if (this.streamHead !== null) this.writeHeadSoon(body);
      return;
    }
    const nowMs = this.host.nowMs();
    this.sendWhole(answer, typeof body === "string" ? encoder.encode(body) : body, request.method !== "HEAD", nowMs);
    this.complete(nowMs);
  }

  private sendWhole({ status, head }: HttpResponse, bytes: Uint8Array, hasBody: boolean, nowMs: number): void {
    const { output } = this;
    output.begin();
    this.putHead(status, head, nowMs, true);
    output.putNumber(bytes.length);
    output.put(this.closes ? closingHeadEnd : headEnd);
    if (hasBody) output.put(bytes);
    output.send();
  }

  private putHead(status: number, head: ResponseHead, nowMs: number, sized: boolean): void {
    const { output } = this;
    output.put(this.host.responsePrefix(status, nowMs));
    head.writeTo(output, sized);
  }

  private putStreamHead(): void {
    const { streamHead } = this;
    if (streamHead === null) return;
    this.streamHead = null;
    this.putHead(streamHead.status, streamHead.head, this.host.nowMs(), false);
    if (this.chunked) this.output.put(chunkedLine);
    this.output.put(this.closes ? closingHeadEnd : headEnd);
  }

  /** Waits a moment for the first bytes of the body; without them, the head is sent alone. */
  private writeHeadSoon(stream: ResponseBodyStream): void {
    setImmediate(() => (this.stream === stream ? this.write(nothing) : undefined));
  }

  /** The response has been written, as far as this side is concerned. */
  private complete(nowMs: number): void {
    this.answered = true;
    const { request } = this;
    if (request === null) return;
    request.observer = null;
    if (!request.body.isOver) request.body.leave();
    this.sinceMs = nowMs;
    this.answeredMs = nowMs;
    if (this.closes) this.linger();
    else if (this.output.isEmpty && request.body.isOver) this.finish(nowMs);
  }

  /** Both the request and its response are complete: continue with the next request. */
  private finish(nowMs: number = this.host.nowMs()): void {
    this.request = null;
    this.answered = false;
    this.parser.next();
    this.sinceMs = nowMs;
    const { pipelined } = this;
    if (pipelined === null && (this.host.stopping || this.clientHasEnded) && !this.feeding) return this.linger();
    if (pipelined === null || this.feeding) return;
    this.pipelined = null;
    this.resume();
    this.feed(pipelined);
  }

  private hold(chunk: Buffer): void {
    this.hasMore = true;
    this.pipelined = this.pipelined === null ? chunk : Buffer.concat([this.pipelined, chunk]);
    // A client that does not read its responses gets no further requests read.
    if (this.pipelined.length > pipelinedBytesMax || (this.answered && !this.output.isEmpty)) this.pause();
  }

  private unreadable(problem: string): void {
    const { request } = this;
    // The body is malformed: its reader is told, and the connection sends the error response itself.
    if (request !== null && !this.answered) {
      this.request = null;
      const { stream } = this;
      this.stream = null;
      request.gone();
      stream?.gone();
      // Part of a response has been sent: the client would take another one for the rest of it.
      if (stream !== null) return this.terminate();
    }
    if (this.answered) return this.linger();
    this.reject(problem, null);
  }

  private reject(problem: string, status: number | null): void {
    const answer = this.host.rejection(problem, status);
    const { body } = answer;
    this.closes = true;
    this.sendWhole(
      answer,
      body instanceof Uint8Array ? body : encoder.encode(typeof body === "string" ? body : ""),
      true,
      this.host.nowMs(),
    );
    this.linger();
  }

  /** Closes the sending side, and gives the client time to read everything (RFC 9112, 9.6). */
  private linger(unsentMs: number = stallMs): void {
    if (this.lingering || this.isClosed) return;
    this.lingering = true;
    this.lingersMs = unsentMs;
    this.request = null;
    this.pipelined = null;
    this.discardedBytes = 0;
    this.sinceMs = this.host.nowMs();
    this.resume();
    if (this.output.isEmpty) this.shutDownWrites();
  }

  private shutDownWrites(): void {
    this.lingeringMs = this.host.nowMs();
    this.host.done(this);
    if (this.clientHasEnded) this.close();
    else this.socket.shutdown();
  }

  private discard(chunk: Buffer): void {
    this.discardedBytes += chunk.length;
    if (this.output.isEmpty) this.sinceMs = this.host.nowMs();
    release(chunk);
    if (this.discardedBytes > discardedBytesMax) this.terminate();
  }
}

/** Skips empty lines before a request (RFC 9112, 2.2). */
function afterLineEnds(chunk: Buffer, from: number): number {
  let at = from;
  while (at < chunk.length && at - from < lineEndsMax && (chunk[at] === 13 || chunk[at] === 10)) at++;
  return at;
}

const encoder = new TextEncoder();
const nothing = new Uint8Array(0);

const headEnd = Buffer.from("\r\n\r\n");
const closingHeadEnd = Buffer.from("\r\nconnection: close\r\n\r\n");
const chunkedLine = Buffer.from("\r\ntransfer-encoding: chunked");
const lastChunk = Buffer.from("0\r\n\r\n");

/** Longer than common clients and load balancers keep an idle connection in their pools. */
const idleMs = 120_000;
const headMs = 14_000;
const stallMs = 60_000;
const lingerMs = 2_000;
const lingerLongestMs = 300_000;
/** How long a client that was answered may pause in the rest of its request. */
const discardIdleMs = 20_000;
const discardedBytesMax = 1024 * 1024 * 1024;
const pipelinedBytesMax = 64 * 1024;
/** A client that waits for each response sends one request in a turn. */
const answersPerTurn = 16;
const lineEndsMax = 4;
