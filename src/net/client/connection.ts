import net from "node:net";
import tls from "node:tls";
import { failure, type Failure } from "../../operations/failure.ts";
import { release } from "../message/message-parser.ts";
import { Backlog } from "./backlog.ts";
import { barredAddress, guardedLookup, type Reach } from "./guarded-lookup.ts";
import { codeOf, connectionFailure } from "./connection-failure.ts";
import { ConnectionOutput } from "./connection-output.ts";
import { overflow } from "./overflow.ts";
import { readScheduler } from "./read-scheduler.ts";
import { ResponseParser, type ResponseSink } from "./response-parser.ts";

/** What a connection is opened to. Connections with the same key are interchangeable. */
export interface Origin {
  readonly key: string;
  readonly hostname: string;
  readonly port: number;
  readonly secure: boolean;
  readonly reach: Reach;
  /** The path of a unix socket on this machine, instead of a host and a port. */
  readonly socketPath: string | null;
}

/** The exchange that currently uses a connection. */
export interface ConnectionUser {
  /** Returns whether it still uses any part of the chunk. */
  received(chunk: Buffer): boolean;
  /** What it was given will not be read soon: it should hold no more memory for it than needed. */
  waits(): void;
  closed(cause: Failure | null): void;
}

/** One TCP, TLS or unix connection to an upstream, with flow control by its user. */
export class Connection {
  user: ConnectionUser | null = null;
  /** How many requests it has carried. */
  requests = 0;
  idleSinceMs = 0;
  /** How long the upstream keeps an idle connection, and the header that said so. */
  keepAliveMs = Infinity;
  private keepAlive = "";
  private readonly parser = new ResponseParser(nobody);
  readonly output: ConnectionOutput;
  private alive = true;
  private cause: Failure | null = null;
  private isPaused = false;
  /** The socket does not read until it is resumed. */
  private isStopped = false;
  /** The unread rests of a chunk and of the one after it. */
  private backlog: Backlog | null = null;
  private behind: Backlog | null = null;
  private isGiving = false;
  /** The connection was closed; its user is told when everything that arrived before has been handed over. */
  private closedBehind = false;

  constructor(
    readonly origin: Origin,
    private readonly socket: net.Socket,
  ) {
    this.output = new ConnectionOutput(socket);
    const push = socket.push.bind(socket);
    socket.push = (chunk: Buffer | null) => (chunk !== null && this.passes(chunk)) || push(chunk);
    socket.on("data", (chunk: Buffer) => this.received(chunk));
    socket.on("error", (error) => (this.cause ??= connectionFailure(error)));
    // Nothing more can arrive, and pending writes might wait forever.
    socket.on("end", () => socket.destroy());
    socket.on("close", () => this.closed());
  }

  get isOpen(): boolean {
    return this.alive;
  }

  /** The system has taken everything that was written, and the user everything that arrived. */
  get isFlushed(): boolean {
    return this.output.isEmpty && !this.isStopped && (this.backlog?.length ?? 0) === 0;
  }

  /** Starts an exchange. Returns the parser, which reports to the user. */
  begin(user: ConnectionUser & ResponseSink): ResponseParser {
    this.user = user;
    this.requests++;
    this.parser.next(user);
    return this.parser;
  }

  /**
   * Notes how long the upstream keeps the connection, usually the same after each response. We close first, to avoid sending a
   * request into a connection that is being closed.
   */
  keepsAlive(keepAlive: string): void {
    if (keepAlive === this.keepAlive) return;
    this.keepAlive = keepAlive;
    const seconds = /timeout=(\d+)/.exec(keepAlive)?.[1];
    if (seconds !== undefined) this.keepAliveMs = Math.max(0, Number(seconds) - 2) * 1000;
  }

  /** The exchange is over: drops the references to it. */
  leave(): void {
    this.user = null;
    this.parser.next(nobody);
  }

  /** What still arrives is queued. */
  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
    if (this.backlog !== null) this.giveOn(this.backlog);
    else if (this.isStopped) readScheduler.ask(this);
  }

  /** Called by the scheduler when this connection may read again. */
  resumeReading(): void {
    if (!this.alive || !this.isStopped || this.isPaused || this.backlog !== null) return;
    this.isStopped = false;
    this.socket.resume();
  }

  destroy(): void {
    this.alive = false;
    this.forget();
    this.socket.destroy();
  }

  /** Small chunks that are wanted bypass the stream layer of the socket, which would try another read after each. */
  private passes(chunk: Buffer): boolean {
    if (chunk.length > partBytes || this.isPaused || this.isStopped || this.backlog !== null) return false;
    if (!this.alive || this.socket.readableLength > 0) return false;
    this.giveAway(chunk);
    return true;
  }

  private received(chunk: Buffer): void {
    const isTooMuch = chunk.length > partBytes && readScheduler.isTooMuch(chunk.length);
    this.isStopped = isTooMuch || this.isPaused || this.backlog !== null;
    if (!this.isStopped && chunk.length <= wholeBytesMax) return this.giveAway(chunk);
    const length = this.isStopped ? chunk.length - 1 : chunk.length;
    const last = Buffer.of(chunk.at(-1)!);
    this.keep(new Backlog(chunk, length, () => this.user?.waits()));
    if (!this.isStopped || !this.alive) return;
    // A paused socket still reads half a mebibyte; one with unread input stops at once.
    this.socket.pause();
    this.socket.unshift(last);
  }

  private keep(backlog: Backlog): void {
    if (this.backlog === null) {
      this.backlog = backlog;
      this.giveOn(backlog);
    } else {
      this.behind = backlog;
      overflow.wait(backlog);
    }
  }

  /** Under load, chunks become garbage faster than it is collected. Small ones are not worth the call. */
  private giveAway(bytes: Buffer): void {
    if (!this.give(bytes) && bytes.length > releasedBytesMin) release(bytes);
  }

  private give(bytes: Buffer): boolean {
    if (this.user !== null) return this.user.received(bytes);
    // An idle connection that sends something cannot be trusted any more.
    this.destroy();
    return false;
  }

  /** Hands over the rest of a chunk as long as the user takes it, and then lets the socket continue. */
  private giveOn(backlog: Backlog): void {
    if (this.isGiving) return;
    overflow.leave(backlog);
    while (!this.isPaused && backlog.length > 0 && this.backlog === backlog) {
      const part = backlog.take(partBytes);
      if (part instanceof Promise) return this.giveLater(backlog, part);
      this.isGiving = true;
      const { isShared } = backlog;
      // Set before the call, because the user may also end the exchange in it.
      backlog.isShared = true;
      if (!this.give(part)) backlog.isShared = isShared;
      this.isGiving = false;
    }
    if (this.backlog !== backlog) return;
    if (backlog.length > 0) return overflow.wait(backlog);
    backlog.drop();
    this.backlog = this.behind;
    this.behind = null;
    if (this.backlog !== null) this.giveOn(this.backlog);
    else if (this.closedBehind) this.closed();
    else if (this.isStopped && !this.isPaused) readScheduler.ask(this);
  }

  /** The same for bytes that have to be read back from a file. */
  private giveLater(backlog: Backlog, part: Promise<Buffer>): void {
    this.isGiving = true;
    part.then(
      (bytes) => {
        if (this.backlog === backlog) this.giveAway(bytes);
        this.isGiving = false;
        if (this.backlog === backlog) this.giveOn(backlog);
      },
      (error: unknown) => {
        this.isGiving = false;
        if (this.backlog !== backlog) return;
        this.cause = failure("internal", `what came could not be read back from the temporary directory: ${codeOf(error)}`);
        this.forget();
        this.socket.destroy();
        this.closed();
      },
    );
  }

  private forget(): void {
    const { backlog, behind } = this;
    this.backlog = null;
    this.behind = null;
    for (const left of [backlog, behind]) {
      if (left === null) continue;
      overflow.leave(left);
      left.drop();
    }
  }

  private closed(): void {
    this.alive = false;
    this.closedBehind = this.backlog !== null;
    if (this.closedBehind) return;
    const { user } = this;
    this.user = null;
    user?.closed(this.cause);
  }
}

const nobody: ResponseSink = { head() {}, body() {}, end() {} };

/** A connection that is being opened, and a way to abandon it. */
export interface PendingConnection {
  readonly opened: Promise<Connection | Failure>;
  abandon(): void;
}

/** Opens a connection, including its TLS handshake, within a time limit. */
export function connect(origin: Origin, withinMs: number): PendingConnection {
  const barred = net.isIP(origin.hostname) === 0 ? null : barredAddress(origin.hostname, origin.reach);
  if (barred !== null) return { opened: Promise.resolve(failure("misconfigured", `the channel leads to ${barred}`)), abandon: () => {} };
  const socket = openSocket(origin);
  let settle: (outcome: Connection | Failure) => void = () => {};
  const opened = new Promise<Connection | Failure>((resolve) => {
    settle = (outcome) => {
      patience.end();
      socket.off("error", refused);
      socket.off("close", closed);
      if (!(outcome instanceof Connection)) {
        // An abandoned socket may still emit an error, which would be uncaught.
        socket.on("error", () => {});
        socket.destroy();
      }
      resolve(outcome);
    };
    const refused = (error: unknown): void => {
      const cause = connectionFailure(error);
      // The TLS library has too many codes to list them, and nothing else fails with an unknown code here.
      settle(origin.secure && cause.kind === "bad_response" ? failure("tls_failed", cause.detail) : cause);
    };
    const closed = (): void =>
      settle(failure(origin.secure ? "tls_failed" : "disconnected", "the connection was closed while it was opened"));
    const patience = new ConnectTimeout(withinMs, () => settle(failure("connect_timeout", `no connection within ${withinMs} ms`)));
    socket.once("error", refused);
    socket.once("close", closed);
    socket.once(origin.secure ? "secureConnect" : "connect", () => settle(new Connection(origin, socket)));
  });
  return { opened, abandon: () => settle(failure("client_gone", "called off while connecting")) };
}

/**
 * The time limit for connecting. After the process was suspended or blocked, the timer fires before the events of the socket are
 * handled, and the remaining steps, such as a handshake, have had no time. So if the timer fires late, the limit is granted once
 * more.
 */
class ConnectTimeout {
  private timer: ReturnType<typeof setTimeout>;

  constructor(withinMs: number, over: () => void) {
    const dueMs = performance.now() + withinMs;
    this.timer = setTimeout(() => {
      if (performance.now() - dueMs < standstillMs) over();
      else this.timer = setTimeout(over, withinMs);
    }, withinMs);
  }

  end(): void {
    clearTimeout(this.timer);
  }
}

/** Longer than a busy event loop is usually late. */
const standstillMs = 250;

function openSocket({ hostname, port, secure, socketPath, reach }: Origin): net.Socket {
  if (socketPath !== null) return net.connect({ path: socketPath, ...stopsAtOnce });
  const lookup = guardedLookup(reach);
  const socket = secure
    ? tls.connect({
        host: hostname,
        port,
        lookup,
        rejectUnauthorized: true,
        ...stopsAtOnce,
        ...(net.isIP(hostname) === 0 ? { servername: hostname } : undefined),
      })
    : net.connect({ host: hostname, port, lookup, ...stopsAtOnce });
  socket.setNoDelay(true);
  // Detects a peer that has vanished even on an idle connection.
  socket.setKeepAlive(true, peerCheckMs);
  return socket;
}

const peerCheckMs = 30_000;
/** One unread byte is enough to stop the socket from reading. */
const stopsAtOnce = { readableHighWaterMark: 1 };
/** Larger chunks are handed over in parts, so that the user can pause in between. */
const wholeBytesMax = 64 * 1024;
const partBytes = 16 * 1024;
const releasedBytesMin = 4096;
