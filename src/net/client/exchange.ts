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

/** How an upstream is reached. Many exchanges go the same way. */
export interface UpstreamTarget {
  /** Where it leads; a place that moves is asked for whenever a connection is needed. */
  readonly origin: Origin | (() => Promise<Origin | Failure>);
  readonly pool: Pool;
  readonly connectMs: number;
  /** How long the upstream may take nothing of a streamed body; 30 seconds unless it says. */
  readonly sendMs?: number;
  readonly clock?: SendClock;
}

/** On a clock that never jumps. */
export interface SendClock {
  nowMs(): number;
  /** For how long the process has not looked at its connections at a time, at most, since then. */
  standstillMs(sinceMs: number): number;
}

/**
 * One request and its response on one connection. The body is taken from the network only as fast as it is read. A
 * pooled connection that the upstream closed before it saw the request is replaced by a fresh one once, and nobody is to
 * blame: that it closed without a byte, and nothing but the head had been taken, or that it closed at once, or that it
 * says that it waited too long for a request (408). A streamed body is then read from its beginning. A request that was
 * taken, and went unanswered for longer, may have been worked on: that is a failure, to be counted and paid for.
 */
export class HttpExchange implements Exchange, ConnectionUser, ResponseSink, BodySource {
  readonly reply: Promise<Reply | Failure>;
  private answer: ((reply: Reply | Failure) => void) | null = null;
  private connection: Connection | null = null;
  private pending: PendingConnection | null = null;
  private upload: BodySender | null = null;
  private parser: ResponseParser | null = null;
  private heard = false;
  /** When the request was written to a connection from the pool. */
  private writtenMs = 0;
  /** The answer is that the connection had been idle for too long. */
  private isStale = false;
  private persistent = false;
  private over = false;
  /** Of a body whose end nothing but a close would tell, over TLS. */
  private bodyEnd: BodyEnd | null = null;
  private broken: Failure | null = null;
  /** What waits of the body: one part, as mostly, or all of them where there were more. */
  private only: Uint8Array | null = null;
  private parts: PartQueue | null = null;
  private paused = false;
  /** What is being read, and whether parts of it are still looked at. */
  private chunk: Buffer | null = null;
  private keepsChunk = false;
  private waiting: ((part: Uint8Array | null | Failure) => void) | null = null;

  constructor(
    private readonly target: UpstreamTarget,
    /** The head of the request, without what follows from its body. */
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

  /** All of the body, where it has come and in one piece, as most do. */
  whole(): Uint8Array | null {
    if (!this.over) return null;
    return this.parts === null ? this.takeOnly() : this.parts.sole();
  }

  /** The next part of the body, where it has come; null where it is to be waited for, or nothing follows. */
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
    // Of a head it is not known who looks at it.
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
    // A connection that broke ends nothing properly, not even a body that only its close would end.
    const problem = cause === null ? this.parser!.close() : `the response broke off: ${cause.detail}`;
    if (problem !== null) this.fail(failure("disconnected", problem));
  }

  head(status: number, headers: HeaderLines, persistent: boolean): void {
    if (status === requestTimeout && this.isReused) return void (this.isStale = true);
    // It is not sent again, and a long answer must not hold its request in memory.
    this.content = null;
    // One that had to wait for this request would have to wait for the next.
    this.persistent = persistent && status !== requestTimeout;
    // An upstream that has refused a request wants no more of it; one that answers already may still read it.
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
    // What is small, or was put together, is a copy.
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

  /** Whether the upstream closed before it saw the request, as far as that can be told. */
  private wasNeverSeen(): boolean {
    const { content, upload, target } = this;
    if (content === null || upload?.hasBegun === false) return true;
    const clock = target.clock ?? realClock;
    const tookMs = clock.nowMs() - this.writtenMs;
    // What came while nobody looked may have come at once.
    return tookMs <= unseenMs || tookMs <= unseenMs + clock.standstillMs(this.writtenMs);
  }

  /** Asks on a fresh connection. */
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

  /** Looks for a connection: one that waits in the pool, or a fresh one. */
  private find(pool: Pool | null): void {
    const { origin } = this.target;
    if (typeof origin === "function") void this.locate(origin, pool);
    else this.take(origin, pool);
  }

  /** Asks where to connect, which may take as long as an engine needs to start. */
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

  /** An upstream that answers already may have no use for the rest: how long that may take is not for the upload to say. */
  private unsent(cause: Failure): void {
    if (cause.kind !== "timed_out" || this.answer !== null) this.fail(cause);
  }

  /** The response is complete: the connection goes back, unless it has something else to say or more to take. */
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
/** An upstream that had closed says so within a round trip; one that closes later has had the request. */
const unseenMs = 50;

/** The system tells of room only when much of its buffer is free again: a shorter bound would take the slow for dead. */
const usualSendMs = 30_000;
/** The system gives up to half a mebibyte at once. All of it made into events would be many times that, for a client that may take none. */
const partBytesMax = 32 * 1024;
/** How much of a body may wait for its reader before the upstream is made to wait. */
const queuedBytesMax = 32 * 1024;
