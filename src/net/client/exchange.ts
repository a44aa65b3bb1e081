import type { StreamedBody } from "../../dialects/dialect.ts";
import type { Exchange, Reply } from "../../gateway/ports.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { HeaderLines } from "../message/header-lines.ts";
import { copiedBytesMax } from "../message/message-parser.ts";
import { BodyEnd, endsUnproven } from "./body-end.ts";
import { connect, type Connection, type ConnectionUser, type PendingConnection, type Origin } from "./connection.ts";
import { detached, PartQueue } from "./part-queue.ts";
import type { Pool } from "./pool.ts";
import { replyOf, type BodySource } from "./reply.ts";
import type { ResponseParser, ResponseSink } from "./response-parser.ts";
import { BodySender } from "./body-sender.ts";

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

/**
 * One request and its response on one connection. The body is read from the network only as fast as it is consumed. A pooled
 * connection that the upstream closed before it saw the request is replaced once by a new one, without blame (RFC 9112, 9.3.1):
 * if it closed without a byte after nothing but the head was taken, if it closed at once, or if it answered 408, which says that
 * it timed out as idle. A streamed body is then read again from its beginning. A request that was taken and stayed unanswered
 * for longer may have been processed: that is a failure, which is counted and may cost.
 */
export class HttpExchange implements Exchange, ConnectionUser, ResponseSink, BodySource {
  readonly reply: Promise<Reply | Failure>;
  private answer: ((reply: Reply | Failure) => void) | null = null;
  private connection: Connection | null = null;
  private pending: PendingConnection | null = null;
  private upload: BodySender | null = null;
  private parser: ResponseParser | null = null;
  private heard = false;
  /** When the request was written to a pooled connection. */
  private writtenMs = 0;
  /** The response is a 408 for a connection that had been idle for too long. */
  private isStale = false;
  private persistent = false;
  private over = false;
  /** Set for a body that is delimited only by the close of a TLS connection. */
  private bodyEnd: BodyEnd | null = null;
  private broken: Failure | null = null;
  /** The unread parts of the body: usually one, else a queue of them. */
  private only: Uint8Array | null = null;
  private parts: PartQueue | null = null;
  private paused = false;
  /** The chunk that is being parsed, and whether parts of it are still in use. */
  private chunk: Buffer | null = null;
  private keepsChunk = false;
  private waiting: ((part: Uint8Array | null | Failure) => void) | null = null;

  constructor(
    private readonly target: UpstreamTarget,
    /** The head of the request, without the headers that depend on its body. */
    private readonly lines: Uint8Array,
    private content: Uint8Array | StreamedBody | null,
  ) {
    const { promise, resolve } = Promise.withResolvers<Reply | Failure>();
    this.reply = promise;
    this.answer = resolve;
    this.find(target.pool);
  }

  abort(): void {
    this.fail(failure("client_gone", "the exchange was aborted"));
  }

  cancel(): void {
    this.abort();
  }

  /** The whole body, if it has arrived in one part, as most do; else null. */
  whole(): Uint8Array | null {
    if (!this.over) return null;
    return this.parts === null ? this.takeOnly() : this.parts.sole();
  }

  /** The next part of the body, if it has arrived; null if it has not, or there is none. */
  ready(): Uint8Array | null {
    const part = this.parts === null ? this.takeOnly() : this.parts.shift(partBytesMax);
    if (part !== null) this.resume();
    return part;
  }

  /** The next part of the body; `null` at its clean end. */
  next(): Promise<Uint8Array | null | Failure> {
    const part = this.ready();
    if (part !== null) return Promise.resolve(part);
    if (this.broken !== null) return Promise.resolve(this.broken);
    if (this.over) return Promise.resolve(null);
    const { promise, resolve } = Promise.withResolvers<Uint8Array | null | Failure>();
    this.waiting = resolve;
    return promise;
  }

  received(chunk: Buffer): boolean {
    this.heard = true;
    // The head may keep references to the chunk.
    this.keepsChunk = this.answer !== null;
    this.chunk = chunk;
    const problem = this.parser!.feed(chunk);
    this.chunk = null;
    if (this.isStale) this.replace();
    else if (problem !== null) this.fail(failure(problem.includes("switched") ? "misconfigured" : "bad_response", problem));
    else if (this.over) this.release();
    return this.keepsChunk;
  }

  waits(): void {
    if (this.only !== null) this.only = detached(this.only);
    this.parts?.detach();
  }

  closed(cause: Failure | null): void {
    const unseen = !this.heard && this.isReused && this.wasNeverSeen();
    this.connection = null;
    this.upload?.stop();
    if (this.over || this.broken !== null) return;
    if (unseen) return this.find(null);
    if (cause?.blame === "gateway") return this.fail(cause);
    if (this.bodyEnd?.isDocument === false) return this.fail(failure("disconnected", unprovenEnd));
    // A connection that broke is no proper end, not even for a body that is delimited by the close.
    const problem = cause === null ? this.parser!.close() : `the response broke off: ${cause.detail}`;
    if (problem !== null) this.fail(failure("disconnected", problem));
  }

  head(status: number, headers: HeaderLines, persistent: boolean): void {
    if (status === requestTimeout && this.isReused) return void (this.isStale = true);
    // The request will not be sent again, and must not stay in memory during a long response.
    this.content = null;
    // A connection that timed out on this request would do so on the next.
    this.persistent = persistent && status !== requestTimeout;
    // An upstream that has rejected the request wants no more of it; one that responds early may still read it.
    if (status >= 300) this.upload?.stop();
    if (this.connection?.origin.secure === true && endsUnproven(status, headers)) this.bodyEnd = new BodyEnd();
    const keepAlive = headers.get("keep-alive");
    if (keepAlive !== undefined) this.connection?.keepsAlive(keepAlive);
    const { answer } = this;
    this.answer = null;
    answer?.(replyOf(status, headers, this));
  }

  body(bytes: Uint8Array): void {
    if (this.isStale) return;
    this.bodyEnd?.note(bytes);
    // Small and joined parts are copies.
    if (bytes.length > copiedBytesMax && bytes.buffer === this.chunk?.buffer) this.keepsChunk = true;
    const { waiting } = this;
    if (bytes.length <= partBytesMax) {
      if (waiting !== null) {
        this.waiting = null;
        return waiting(bytes);
      }
      if (this.parts === null && this.only === null) return void (this.only = bytes);
    }
    const parts = this.queued(bytes);
    if (waiting !== null) {
      this.waiting = null;
      waiting(parts.shift(partBytesMax));
    }
    if (parts.bytes <= queuedBytesMax || this.paused) return;
    this.paused = true;
    this.connection?.pause();
  }

  end(): void {
    if (this.isStale) return;
    this.over = true;
    const { waiting } = this;
    this.waiting = null;
    waiting?.(null);
  }

  private get isReused(): boolean {
    return this.connection !== null && this.connection.requests > 1;
  }

  /** Whether the upstream closed before it saw the request, as far as that can be known. */
  private wasNeverSeen(): boolean {
    const { content, upload, target } = this;
    if (content === null || upload?.hasBegun === false) return true;
    const clock = target.clock ?? realClock;
    const tookMs = clock.nowMs() - this.writtenMs;
    // A close that happened while the event loop was blocked may have come at once.
    return tookMs <= unseenMs || tookMs <= unseenMs + clock.standstillMs(this.writtenMs);
  }

  /** Repeats the request on a new connection. */
  private replace(): void {
    const { connection } = this;
    this.isStale = false;
    this.heard = false;
    this.connection = null;
    this.upload?.stop();
    if (connection === null) return;
    connection.user = null;
    connection.destroy();
    this.find(null);
  }

  /** Takes a connection from the pool, or opens a new one. */
  private find(pool: Pool | null): void {
    const { origin } = this.target;
    if (typeof origin === "function") void this.locate(origin, pool);
    else this.take(origin, pool);
  }

  /** Asks for the origin, which may take as long as an engine needs to start. */
  private async locate(where: () => Promise<Origin | Failure>, pool: Pool | null): Promise<void> {
    const origin = await where();
    if (this.broken !== null) return;
    if (isFailure(origin)) return this.fail(origin);
    this.take(origin, pool);
  }

  private take(origin: Origin, pool: Pool | null): void {
    const pooled = pool?.take(origin) ?? null;
    if (pooled === null) void this.open(origin);
    else this.begin(pooled);
  }

  private async open(origin: Origin): Promise<void> {
    this.pending = connect(origin, this.target.connectMs);
    const connection = await this.pending.opened;
    this.pending = null;
    if (isFailure(connection)) return this.fail(connection);
    if (this.broken !== null) return connection.destroy();
    this.begin(connection);
  }

  private begin(connection: Connection): void {
    const { lines, content } = this;
    this.connection = connection;
    this.parser = connection.begin(this);
    if (connection.requests > 1) this.writtenMs = (this.target.clock ?? realClock).nowMs();
    const isThere = content instanceof Uint8Array;
    connection.output.request(lines, content === null ? null : content.length, isThere ? content : nothing);
    if (content !== null && !isThere) this.beginUpload(connection, content);
  }

  private beginUpload(connection: Connection, content: StreamedBody): void {
    this.upload = new BodySender(connection, content, (cause) => this.unsent(cause), this.target.sendMs ?? usualSendMs);
  }

  /** After the response has begun, a stalled upload is no failure: the upstream may not need the rest. */
  private unsent(cause: Failure): void {
    if (cause.kind !== "timed_out" || this.answer !== null) this.fail(cause);
  }

  /** The response is complete: returns the connection to the pool, unless bytes are left on it in either direction. */
  private release(): void {
    const { connection, upload } = this;
    this.connection = null;
    upload?.stop();
    if (connection === null) return;
    connection.leave();
    if (this.paused) connection.resume();
    if (this.persistent && !this.parser!.hasExcessBytes && connection.isFlushed && upload?.isDone !== false)
      this.target.pool.give(connection);
    else connection.destroy();
  }

  private queued(bytes: Uint8Array): PartQueue {
    const parts = (this.parts ??= new PartQueue());
    const before = this.takeOnly();
    if (before !== null) parts.push(before);
    parts.push(bytes);
    return parts;
  }

  private takeOnly(): Uint8Array | null {
    const { only } = this;
    this.only = null;
    return only;
  }

  private resume(): void {
    if (!this.paused || this.parts!.bytes > queuedBytesMax / 2) return;
    this.paused = false;
    this.connection?.resume();
  }

  private fail(cause: Failure): void {
    if (this.over || this.broken !== null) return;
    this.broken = cause;
    this.pending?.abandon();
    this.upload?.stop();
    const { connection, answer, waiting } = this;
    this.connection = null;
    if (connection !== null) {
      connection.user = null;
      connection.destroy();
    }
    this.answer = null;
    this.waiting = null;
    answer?.(cause);
    waiting?.(cause);
  }
}

const nothing = new Uint8Array();
const realClock: SendClock = { nowMs: () => performance.now(), standstillMs: () => 0 };
const requestTimeout = 408;
const unprovenEnd = "the TLS connection was closed, which does not prove that the body was complete";
/** A connection that the upstream had already closed fails within a round trip; one that closes later has seen the request. */
const unseenMs = 50;

/**
 * The system reports a writable socket only when much of its buffer is free: a shorter limit would take slow upstreams for dead
 * ones.
 */
const usualSendMs = 30_000;
/**
 * The system delivers up to half a mebibyte at once. Parsed into events, that would take many times as much memory, for a client
 * that may read none of it.
 */
const partBytesMax = 32 * 1024;
/** How much of a body may be queued before the upstream is paused. */
const queuedBytesMax = 32 * 1024;
