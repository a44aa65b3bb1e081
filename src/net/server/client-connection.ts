import type { HeaderLines } from "../message/header-lines.ts";
import { release } from "../message/message-parser.ts";
import { ClientOutput } from "./client-output.ts";
import { unixPeer } from "./forwarded.ts";
import type { HttpResponse, ResponseBodyStream } from "./http-response.ts";
import { IncomingRequest, type RequestConnection } from "./incoming-request.ts";
import { expectsContinue, isPersistent, RequestParser, type RequestLine } from "./request-parser.ts";
import { responsePrefix } from "./response-prefix.ts";
import { StreamWriter, type StreamEnd } from "./stream-writer.ts";

/** What a connection needs from its listener. */
export interface ListenerContext {
  /** Returns null if the response will be passed to the request itself, at once or later. */
  handle(request: IncomingRequest): HttpResponse | Promise<HttpResponse | null> | null;
  /** The response to a request that could not be parsed, or did not arrive in time. */
  parseError(problem: string, status: number | null): HttpResponse;
  /** Reports a bug, and returns the response for it. */
  onBug(error: unknown): HttpResponse;
  /** No connection is kept open for another request. */
  readonly isStopping: boolean;
  /** The connection has nothing more to send. */
  onDone(connection: ClientConnection): void;
  /** On a monotonic clock. */
  nowMs(): number;
}

export type ClientSocket = Bun.Socket<ClientConnection>;

/** One client's connection. Its requests are read and answered one after the other. */
export class ClientConnection implements RequestConnection {
  private readonly parser: RequestParser;
  /** The request that is being answered. */
  private request: IncomingRequest | null = null;
  private hasNewRequest = false;
  /** The client waits for `100 Continue` before it sends its body (RFC 9110, 10.1.1). */
  private expectsContinue = false;
  /** Bytes of further requests that arrived before this one was answered (RFC 9112, 9.3.2), and whether there were any. */
  private pipelined: Buffer | null = null;
  private hasPipelined = false;
  /** It has used its share of this turn of the event loop; pipelined requests wait for the next one. */
  private isYielding = false;
  private readonly output: ClientOutput;
  /** The writer of the current response, if that is streamed. */
  private writer: StreamWriter | null = null;
  /** The response is written, but the rest of its request is still arriving. */
  private isAnswered = false;
  private closesAfterResponse = false;
  /** The client has closed its side of the connection, and sends nothing more. */
  private clientHasEnded = false;
  /**
   * Nothing more is answered. What still arrives is discarded: to close a socket with unread input would reset the connection,
   * and the client could lose the last response (RFC 9112, 9.6).
   */
  private isLingering = false;
  private isClosed = false;
  private discardedBytes = 0;
  private isParsing = false;
  /** When lingering began, and how long a client may then take no bytes. */
  private lingeringSinceMs = 0;
  private lingerIdleMs = lingerMs;
  private lingerMaxMs = lingerLongestMs;
  /** When the response was written while its request was still arriving. */
  private answeredMs = 0;
  /** It has carried at least one request. */
  private isUsed = false;
  /** When the current wait began, whatever it waits for. */
  private waitingSinceMs: number;

  constructor(
    private readonly socket: ClientSocket,
    private readonly listener: ListenerContext,
  ) {
    this.waitingSinceMs = listener.nowMs();
    this.output = new ClientOutput(socket, listener, () => this.onLost());
    this.parser = new RequestParser({
      onHead: (line, headers, bodyBytes) => this.onHead(line, headers, bodyBytes),
      onBody: (bytes) => this.onBody(bytes),
      onEnd: () => this.request?.body.end(),
    });
  }

  // Called by the listener.

  onData(chunk: Buffer): void {
    if (this.isLingering) return this.discard(chunk);
    if (this.isYielding || (this.request !== null && this.parser.isComplete)) return this.holdPipelined(chunk);
    const { request } = this;
    const isUnwanted = this.isAnswered && request !== null;
    this.parse(chunk);
    if (isUnwanted && this.request === request && this.pipelined === null) release(chunk);
  }

  /** The client closed the connection, or it broke. */
  onClose(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.pipelined = null;
    const { request } = this;
    this.request = null;
    const stream = this.detachStream();
    if (!this.isAnswered) request?.onClose();
    stream?.onClose();
    // Not earlier: the stream reads the number of unsent bytes first.
    this.output.discard();
  }

  /**
   * The client has closed its side. Whether it still reads cannot be seen, so something without a meaning is sent: if nobody is
   * there, the system reports that at once. Returns whether the connection goes on.
   */
  onEnd(): boolean {
    if (this.isClosed) return false;
    this.clientHasEnded = true;
    if (!this.output.isEmpty && (this.isLingering || this.isAnswered)) return true;
    if (this.isYielding) return true;
    if (this.isLingering || this.request === null || !this.parser.isComplete) return false;
    if (this.writer?.isHeadWritten === true) return !this.output.isEmpty || this.writer.sendKeepAlive();
    if (!this.request.line.isHttp11) return false;
    this.output.sendText("HTTP/1.1 102 Processing\r\n\r\n");
    return true;
  }

  /** The socket can take bytes again. */
  onDrain(): void {
    if (this.isClosed) return;
    if (this.writer !== null) return void this.writer.flush();
    if (!this.output.flush()) return;
    if (this.isLingering) this.shutDownWrites();
    else if (this.isAnswered && this.request?.body.isComplete !== false) this.finish();
  }

  /** The system has taken all output, and there will be no more. */
  get isDone(): boolean {
    return this.isClosed || (this.isLingering && this.output.isEmpty);
  }

  /** Closes a connection that has waited for too long. Called once a second. */
  checkTimeouts(nowMs: number): void {
    // The system reports a writable socket only when much of its buffer is free: a client that reads slowly would look dead.
    if (!this.output.isEmpty && this.writer === null) this.onDrain();
    const waitedMs = nowMs - Math.max(this.waitingSinceMs, this.output.progressMs);
    if (this.isLingering) {
      const isOverdue = this.output.isEmpty
        ? nowMs - this.lingeringSinceMs > this.lingerMaxMs || waitedMs > lingerMs
        : waitedMs > this.lingerIdleMs;
      if (isOverdue) this.close();
    } else if (this.request === null) {
      if (this.parser.isInHead && waitedMs > headMs) {
        // A client that has run out of time does not gain more by sending on.
        this.lingerMaxMs = lingerMs;
        this.reject("its headers did not arrive in time", 408);
      } else if (waitedMs > (this.isUsed ? idleMs : headMs)) this.linger();
    } else if (this.isAnswered) {
      const isOverdue = this.output.isEmpty && nowMs - this.answeredMs > lingerLongestMs;
      if (isOverdue || waitedMs > (this.output.isEmpty ? discardIdleMs : stallMs)) this.terminate();
    }
  }

  /** Closes the connection if no request is under way. */
  closeIdle(): void {
    if (this.request === null && !this.isLingering && !this.isYielding && this.output.isEmpty) this.linger();
  }

  /** Output that the system has taken may still reach the client; the rest is lost. */
  close(): void {
    if (!this.isDone) return this.terminate();
    this.socket.end();
    this.onClose();
  }

  private terminate(): void {
    this.socket.terminate();
    this.onClose();
  }

  // Called by the request, its body and whoever serves it.

  get address(): string {
    // A unix socket has none, whatever its type says.
    return this.socket.remoteAddress ?? unixPeer;
  }

  sendContinue(): void {
    if (!this.expectsContinue || this.isAnswered || this.isClosed) return;
    this.expectsContinue = false;
    this.output.sendText("HTTP/1.1 100 Continue\r\n\r\n");
  }

  nowMs(): number {
    return this.listener.nowMs();
  }

  pause(): void {
    if (!this.isClosed) this.socket.pause();
  }

  resume(): void {
    if (!this.isClosed) this.socket.resume();
  }

  /** If a response cannot be written, the connection is closed. */
  respond(request: IncomingRequest, response: HttpResponse): void {
    try {
      this.writeResponse(request, response);
    } catch (error) {
      this.listener.onBug(error);
      this.terminate();
    }
  }

  // Called by the parser.

  private onHead(line: RequestLine, headers: HeaderLines, bodyBytes: number | null): void {
    this.request = new IncomingRequest(line, headers, bodyBytes, this);
    this.hasNewRequest = true;
    this.expectsContinue = expectsContinue(line, headers, bodyBytes);
    this.isUsed = true;
    this.isAnswered = false;
    this.discardedBytes = 0;
  }

  private onBody(bytes: Uint8Array): void {
    this.expectsContinue = false;
    this.request?.body.push(bytes);
    if (!this.isAnswered) return;
    this.waitingSinceMs = this.listener.nowMs();
    this.discardedBytes += bytes.length;
    if (this.discardedBytes > discardedBytesMax) this.terminate();
  }

  private parse(chunk: Buffer): void {
    let from = 0;
    let requests = 0;
    // A response that is ready at once returns to this loop instead of starting a nested one.
    this.isParsing = true;
    while (from < chunk.length && !this.isLingering && !this.isClosed) {
      const startsRequest = this.request === null && !this.parser.isInHead;
      if (startsRequest) from = skipLineEnds(chunk, from);
      if (from === chunk.length) break;
      const parsed = this.parser.feed(chunk, from);
      // Most heads arrive in one piece, and start no wait.
      if (startsRequest && this.parser.isInHead) this.waitingSinceMs = this.listener.nowMs();
      if (typeof parsed === "string") {
        this.onParseError(parsed);
        break;
      }
      from = parsed;
      this.hasPipelined = from < chunk.length;
      if (this.hasNewRequest) {
        this.hasNewRequest = false;
        this.dispatch(this.request!);
      }
      if (this.request !== null && this.isAnswered && this.parser.isComplete && this.output.isEmpty) this.finish();
      if (from === chunk.length) break;
      if (this.request === null && this.parser.isIdle && ++requests === requestsPerTurn) this.yield();
      if (this.isYielding || (this.request !== null && this.parser.isComplete)) {
        this.holdPipelined(from === 0 ? chunk : chunk.subarray(from));
        break;
      }
    }
    this.isParsing = false;
    if (this.isYielding) return;
    const isLast = this.listener.isStopping || this.clientHasEnded;
    if (isLast && this.request === null && !this.parser.isInHead) this.linger();
    // The rest of this request will never arrive.
    else if (this.clientHasEnded && !this.parser.isComplete) this.terminate();
  }

  /** Lets other connections be served, however many requests this client has pipelined. */
  private yield(): void {
    this.isYielding = true;
    this.pause();
    setImmediate(() => {
      this.isYielding = false;
      const { pipelined } = this;
      if (this.isClosed || this.isLingering || pipelined === null) return;
      this.pipelined = null;
      this.resume();
      this.parse(pipelined);
    });
  }

  /** Most requests are answered later, by whoever serves them. */
  private dispatch(request: IncomingRequest): void {
    try {
      const handled = this.listener.handle(request);
      if (handled instanceof Promise) void this.respondWhenMade(request, handled);
      else if (handled !== null) this.respond(request, handled);
    } catch (error) {
      this.respond(request, this.listener.onBug(error));
    }
  }

  private async respondWhenMade(request: IncomingRequest, making: Promise<HttpResponse | null>): Promise<void> {
    const response = await making.catch((error: unknown) => this.listener.onBug(error));
    if (response !== null) this.respond(request, response);
  }

  private writeResponse(request: IncomingRequest, response: HttpResponse): void {
    const { head, body } = response;
    if (this.isClosed || this.request !== request || this.isAnswered || this.writer !== null) {
      if (isStream(body)) body.onClose();
      return;
    }
    const { line, headers } = request;
    // A client that got no `100 Continue` may or may not send its body, so the connection cannot be reused (RFC 9110, 10.1.1).
    this.closesAfterResponse =
      head.closesConnection ||
      !isPersistent(line, headers) ||
      this.listener.isStopping ||
      this.expectsContinue ||
      (this.clientHasEnded && !this.hasPipelined);
    const nowMs = this.listener.nowMs();
    if (isStream(body)) {
      request.onStreaming();
      return this.startStream(body, response, line.isHttp11, nowMs);
    }
    this.sendWhole(response, bytesOf(body), request.method !== "HEAD", nowMs);
    this.complete(nowMs);
  }

  private sendWhole({ status, head }: HttpResponse, bytes: Uint8Array, hasBody: boolean, nowMs: number): void {
    const { output } = this;
    output.begin();
    output.put(responsePrefix(status, nowMs));
    head.putOn(output, `\r\ncontent-length: ${bytes.length}`, this.closesAfterResponse);
    if (hasBody) output.put(bytes);
    output.send();
  }

  private startStream(stream: ResponseBodyStream, { status, head }: HttpResponse, isChunked: boolean, nowMs: number): void {
    this.writer = new StreamWriter(this.output, responsePrefix(status, nowMs), head, isChunked, this.closesAfterResponse, stream, this);
    this.writer.start();
  }

  onStreamOver(end: StreamEnd): void {
    this.writer = null;
    if (end === "complete") return this.complete(this.listener.nowMs());
    this.isAnswered = true;
    if (end === "linger") this.linger(lingerMs);
    else this.terminate();
  }

  /** Nothing more of a streamed response is sent. Returns the stream, which has not been told yet. */
  private detachStream(): ResponseBodyStream | null {
    const { writer } = this;
    this.writer = null;
    return writer?.detach() ?? null;
  }

  /** A connection that breaks while it is paused may never get a close event. */
  private onLost(): void {
    if (!this.isClosed) setImmediate(() => void (this.isClosed || this.terminate()));
  }

  /** The response has been written, as far as this side is concerned. */
  private complete(nowMs: number): void {
    this.isAnswered = true;
    const { request } = this;
    if (request === null) return;
    request.observer = null;
    if (!request.body.isComplete) request.body.discard();
    this.waitingSinceMs = nowMs;
    this.answeredMs = nowMs;
    if (this.closesAfterResponse) this.linger();
    else if (this.output.isEmpty && request.body.isComplete) this.finish(nowMs);
  }

  /** Both the request and its response are complete: continue with the next request. */
  private finish(nowMs: number = this.listener.nowMs()): void {
    this.request = null;
    this.isAnswered = false;
    this.parser.next();
    this.waitingSinceMs = nowMs;
    const { pipelined } = this;
    if (pipelined === null && (this.listener.isStopping || this.clientHasEnded) && !this.isParsing) return this.linger();
    if (pipelined === null || this.isParsing) return;
    this.pipelined = null;
    this.resume();
    this.parse(pipelined);
  }

  private holdPipelined(chunk: Buffer): void {
    this.hasPipelined = true;
    this.pipelined = this.pipelined === null ? chunk : Buffer.concat([this.pipelined, chunk]);
    // A client that does not read its responses gets no further requests read.
    if (this.pipelined.length > pipelinedBytesMax || (this.isAnswered && !this.output.isEmpty)) this.pause();
  }

  private onParseError(problem: string): void {
    const { request } = this;
    // The body is malformed: its reader is told, and the connection sends the error response itself.
    if (request !== null && !this.isAnswered) {
      this.request = null;
      const stream = this.detachStream();
      request.onClose();
      stream?.onClose();
      // Part of a response has been sent: the client would take another one for the rest of it.
      if (stream !== null) return this.terminate();
    }
    if (this.isAnswered) return this.linger();
    this.reject(problem, null);
  }

  private reject(problem: string, status: number | null): void {
    const response = this.listener.parseError(problem, status);
    const { body } = response;
    this.closesAfterResponse = true;
    this.sendWhole(response, isStream(body) ? nothing : bytesOf(body), true, this.listener.nowMs());
    this.linger();
  }

  /** Closes the sending side, and gives the client time to read everything (RFC 9112, 9.6). */
  private linger(idleMaxMs: number = stallMs): void {
    if (this.isLingering || this.isClosed) return;
    this.isLingering = true;
    this.lingerIdleMs = idleMaxMs;
    this.request = null;
    this.pipelined = null;
    this.discardedBytes = 0;
    this.waitingSinceMs = this.listener.nowMs();
    this.resume();
    if (this.output.isEmpty) this.shutDownWrites();
  }

  private shutDownWrites(): void {
    this.lingeringSinceMs = this.listener.nowMs();
    this.listener.onDone(this);
    if (this.clientHasEnded) this.close();
    else this.socket.shutdown();
  }

  private discard(chunk: Buffer): void {
    this.discardedBytes += chunk.length;
    if (this.output.isEmpty) this.waitingSinceMs = this.listener.nowMs();
    release(chunk);
    if (this.discardedBytes > discardedBytesMax) this.terminate();
  }
}

/** Skips empty lines before a request (RFC 9112, 2.2). */
function skipLineEnds(chunk: Buffer, from: number): number {
  let at = from;
  while (at < chunk.length && at - from < lineEndsMax && (chunk[at] === 13 || chunk[at] === 10)) at++;
  return at;
}

function isStream(body: HttpResponse["body"]): body is ResponseBodyStream {
  return typeof body === "object" && !(body instanceof Uint8Array);
}

function bytesOf(body: Uint8Array | string): Uint8Array {
  return typeof body === "string" ? encoder.encode(body) : body;
}

const encoder = new TextEncoder();
const nothing = new Uint8Array(0);

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
const requestsPerTurn = 16;
const lineEndsMax = 4;
