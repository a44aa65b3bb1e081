import type { StreamedBody } from "../../dialects/dialect.ts";
import type { Exchange, Reply } from "../../gateway/ports.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { BodyQueue, type BodyQueueLimits, type FlowControl } from "../message/body-queue.ts";
import type { HeaderLines } from "../message/header-lines.ts";
import { copiedBytesMax } from "../message/message-parser.ts";
import { BodySender } from "./body-sender.ts";
import { connect, type Connection, type Origin, type PendingConnection, type ResponseHandler } from "./connection.ts";
import type { Pool } from "./pool.ts";
import { makeReply, type BodySource } from "./reply.ts";
import type { ResponseParser } from "./response-parser.ts";
import { needsTruncationCheck, TruncationCheck } from "./truncation-check.ts";

/** How an upstream is reached. Many exchanges share one. */
export interface UpstreamTarget {
  /** A function is called each time a connection is needed, for an origin that changes. */
  readonly origin: Origin | (() => Promise<Origin | Failure>);
  readonly pool: Pool;
  readonly connectMs: number;
  /** How long the upstream may take nothing of a streamed body; 30 seconds by default. */
  readonly sendMs?: number;
  readonly clock?: SendClock;
}

/** On a monotonic clock. */
export interface SendClock {
  nowMs(): number;
  /** The longest time since then for which the event loop did not handle its connections. */
  standstillMs(sinceMs: number): number;
}

/** Sends a request. `head` lacks the headers that depend on the body, and `lines`: those that no other request has. */
export function startExchange(target: UpstreamTarget, head: Uint8Array, content: Uint8Array | StreamedBody | null, lines = ""): Exchange {
  const { promise, resolve } = Promise.withResolvers<Reply | Failure>();
  return new HttpExchange(target, head, lines, content, promise, resolve);
}

/**
 * One request and its response on one connection. A pooled connection that the upstream closed before it saw the request is
 * replaced once by a new one, without blame (RFC 9112, 9.3.1): if it closed without a byte, or answered 408, at once or after nothing
 * but the head was taken. A streamed body is then read again from its beginning. A request that was taken and stayed unanswered for
 * longer may have been processed: its close is a failure, and its 408 an answer like any other, and both are counted and may cost.
 */
class HttpExchange implements ResponseHandler {
  isUnsent = true;
  private connection: Connection | null = null;
  private pending: PendingConnection | null = null;
  private sender: BodySender | null = null;
  private parser: ResponseParser | null = null;
  private hasReceived = false;
  /** When the request was written to a pooled connection. */
  private writtenMs = 0;
  /** The response is a 408 for a connection that had been idle for too long. */
  private isStale = false;
  private isPersistent = false;
  /** The response is complete. */
  private isComplete = false;
  private failed = false;
  /** Exists once the head of the response has arrived. */
  private body: ResponseBody | null = null;
  /** Set for a body that is delimited only by the close of a TLS connection. */
  private truncation: TruncationCheck | null = null;
  /** The chunk that is being parsed, and whether parts of it are still in use. */
  private chunk: Buffer | null = null;
  private keepsChunk = false;

  constructor(
    private readonly target: UpstreamTarget,
    private readonly requestHead: Uint8Array,
    private readonly requestLines: string,
    private content: Uint8Array | StreamedBody | null,
    readonly reply: Promise<Reply | Failure>,
    /** Null once it was called. */
    private resolveReply: ((reply: Reply | Failure) => void) | null,
  ) {
    this.acquire(target.pool);
  }

  abort(): void {
    this.fail(failure("client_gone", "the exchange was aborted"));
  }

  onData(chunk: Buffer): boolean {
    this.hasReceived = true;
    // The head may keep references to the chunk.
    this.keepsChunk = this.body === null;
    this.chunk = chunk;
    const problem = this.parser!.feed(chunk);
    this.chunk = null;
    if (this.isStale) this.replace();
    else if (problem !== null) this.fail(failure(problem.includes("switched") ? "misconfigured" : "bad_response", problem));
    else if (this.isComplete) this.release();
    return this.keepsChunk;
  }

  onStall(): void {
    this.body?.detach();
  }

  onClose(cause: Failure | null): void {
    const wasUnseen = !this.hasReceived && this.isReused && this.wasNeverSeen();
    this.connection = null;
    this.sender?.stop();
    if (this.isComplete || this.failed) return;
    if (wasUnseen) return this.acquire(null);
    if (cause?.blame === "gateway") return this.fail(cause);
    if (this.truncation?.isJsonDocument === false) return this.fail(failure("disconnected", unprovenEnd));
    // A connection that broke is no proper end, not even for a body that is delimited by the close.
    const problem = cause === null ? this.parser!.close() : `the response broke off: ${cause.detail}`;
    if (problem !== null) this.fail(failure("disconnected", problem));
  }

  onHead(status: number, headers: HeaderLines, isPersistent: boolean): void {
    // Later, it need not be about an idle connection (RFC 9110, 15.5.9): some APIs say so of a model that took too long.
    if (status === requestTimeout && this.isReused && this.wasNeverSeen()) return void (this.isStale = true);
    const connection = this.connection!;
    // The request will not be sent again, and must not stay in memory during a long response.
    this.content = null;
    // A connection that timed out on this request would do so on the next.
    this.isPersistent = isPersistent && status !== requestTimeout;
    // An upstream that has rejected the request wants no more of it; one that responds early may still read it.
    if (status >= 300) this.sender?.stop();
    if (connection.origin.secure && needsTruncationCheck(status, headers)) this.truncation = new TruncationCheck();
    const keepAlive = headers.get("keep-alive");
    if (keepAlive !== undefined) connection.setKeepAlive(keepAlive);
    this.body = new ResponseBody(connection, this);
    this.resolve(makeReply(status, headers, this.body));
  }

  onBody(bytes: Uint8Array): void {
    if (this.isStale) return;
    this.truncation?.note(bytes);
    // Small and joined parts are copies.
    if (bytes.length > copiedBytesMax && bytes.buffer === this.chunk?.buffer) this.keepsChunk = true;
    this.body!.push(bytes);
  }

  onEnd(): void {
    if (this.isStale) return;
    this.isComplete = true;
    this.body!.end();
  }

  private get isReused(): boolean {
    return this.connection !== null && this.connection.requests > 1;
  }

  /** Whether the upstream gave the connection up before it saw the request, as far as that can be known. */
  private wasNeverSeen(): boolean {
    const { content, sender, target } = this;
    if (content === null || sender?.hasBegun === false) return true;
    const clock = target.clock ?? realClock;
    const tookMs = clock.nowMs() - this.writtenMs;
    // What happened while the event loop was blocked may have come at once.
    return tookMs <= unseenMs || tookMs <= unseenMs + clock.standstillMs(this.writtenMs);
  }

  /** Repeats the request on a new connection. */
  private replace(): void {
    const { connection } = this;
    this.isStale = false;
    this.hasReceived = false;
    this.connection = null;
    this.sender?.stop();
    if (connection === null) return;
    connection.handler = null;
    connection.destroy();
    this.acquire(null);
  }

  /** Takes a connection from the pool, or opens a new one. */
  private acquire(pool: Pool | null): void {
    const { origin } = this.target;
    if (typeof origin === "function") void this.acquireAt(origin, pool);
    else this.takeOrOpen(origin, pool);
  }

  /** Asks for the origin first, which may take as long as an engine needs to start. */
  private async acquireAt(locate: () => Promise<Origin | Failure>, pool: Pool | null): Promise<void> {
    const origin = await locate();
    if (this.failed) return;
    if (isFailure(origin)) return this.fail(origin);
    this.takeOrOpen(origin, pool);
  }

  private takeOrOpen(origin: Origin, pool: Pool | null): void {
    const pooled = pool?.take(origin) ?? null;
    if (pooled === null) void this.open(origin);
    else this.sendRequest(pooled);
  }

  private async open(origin: Origin): Promise<void> {
    this.pending = connect(origin, this.target.connectMs);
    const connection = await this.pending.opened;
    this.pending = null;
    if (isFailure(connection)) return this.fail(connection);
    if (this.failed) return connection.destroy();
    this.sendRequest(connection);
  }

  private sendRequest(connection: Connection): void {
    const { requestHead, requestLines, content, target } = this;
    this.isUnsent = false;
    this.connection = connection;
    this.parser = connection.attach(this);
    if (connection.requests > 1) this.writtenMs = (target.clock ?? realClock).nowMs();
    const isInMemory = content instanceof Uint8Array;
    connection.output.sendRequest(requestHead, content === null ? null : content.length, isInMemory ? content : nothing, requestLines);
    if (content !== null && !isInMemory) this.sendBody(connection, content);
  }

  private sendBody(connection: Connection, content: StreamedBody): void {
    this.sender = new BodySender(connection, content, (cause) => this.onSendFailure(cause), this.target.sendMs ?? defaultSendMs);
  }

  /** After the response has begun, a stalled upload is no failure: the upstream may not need the rest. */
  private onSendFailure(cause: Failure): void {
    if (cause.kind !== "timed_out" || this.body === null) this.fail(cause);
  }

  /** The response is complete: returns the connection to the pool, unless bytes are left on it in either direction. */
  private release(): void {
    const { connection, sender } = this;
    this.connection = null;
    sender?.stop();
    if (connection === null) return;
    connection.detach();
    this.body?.resume();
    if (this.isPersistent && !this.parser!.hasExcessBytes && connection.isFlushed && sender?.isDone !== false)
      this.target.pool.put(connection);
    else connection.destroy();
  }

  private fail(cause: Failure): void {
    if (this.isComplete || this.failed) return;
    this.failed = true;
    this.pending?.abandon();
    this.sender?.stop();
    const { connection } = this;
    this.connection = null;
    if (connection !== null) {
      connection.handler = null;
      connection.destroy();
    }
    this.resolve(cause);
    this.body?.fail(cause);
  }

  private resolve(reply: Reply | Failure): void {
    const { resolveReply } = this;
    this.resolveReply = null;
    resolveReply?.(reply);
  }
}

/** The body of a response, as it arrives on a connection. */
class ResponseBody extends BodyQueue<Failure> implements BodySource {
  constructor(
    connection: FlowControl,
    private readonly exchange: Pick<Exchange, "abort">,
  ) {
    super(connection, bodyLimits);
  }

  cancel(): void {
    this.exchange.abort();
  }
}

/**
 * The system delivers up to half a mebibyte at once. Parsed into events, that would take many times as much memory, for a client
 * that may read none of it.
 */
const bodyLimits: BodyQueueLimits = { partBytesMax: 32 * 1024, queuedBytesMax: 32 * 1024 };

const nothing = new Uint8Array();
const realClock: SendClock = { nowMs: () => performance.now(), standstillMs: () => 0 };
const requestTimeout = 408;
const unprovenEnd = "the TLS connection was closed, which does not prove that the body was complete";
/** A connection that the upstream had already given up fails within a round trip; one that fails later has seen the request. */
const unseenMs = 50;

/**
 * The system reports a writable socket only when much of its buffer is free: a shorter limit would take slow upstreams for dead
 * ones.
 */
const defaultSendMs = 30_000;
