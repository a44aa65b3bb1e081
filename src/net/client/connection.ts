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

/** Where a connection leads. Connections with the same key are interchangeable. */
export interface Origin {
  readonly key: string;
  readonly hostname: string;
  readonly port: number;
  readonly secure: boolean;
  readonly reach: Reach;
  /** A unix socket on this machine, in place of a host and a port. */
  readonly socketPath: string | null;
}

/** Whoever a connection works for at the moment. */
export interface ConnectionUser {
  /** Returns whether it still looks at any of it. */
  received(chunk: Buffer): boolean;
  /** What it has been given waits for long: it should not keep more memory for it than that takes. */
  waits(): void;
  closed(cause: Failure | null): void;
}

/** One TCP, TLS or unix connection to an upstream, with its reads under the user's control. */
export class Connection {
  user: ConnectionUser | null = null;
  /** How many requests it has carried. */
  requests = 0;
  idleSinceMs = 0;
  /** How long the upstream says it keeps an idle connection, and in which words. */
  keepAliveMs = Infinity;
  private keepAlive = "";
  private readonly parser = new ResponseParser(nobody);
  readonly output: ConnectionOutput;
  private alive = true;
  private cause: Failure | null = null;
  private isPaused = false;
  /** The socket reads nothing until it is told to. */
  private isStopped = false;
  /** What is left of a chunk, and of the one behind it. */
  private backlog: Backlog | null = null;
  private behind: Backlog | null = null;
  private isGiving = false;
  /** It was closed, which is told when everything that came before was given. */
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
    // Nothing more can come, while what is still to be written might wait for ever.
    socket.on("end", () => socket.destroy());
    socket.on("close", () => this.closed());
  }

  get isOpen(): boolean {
    return this.alive;
  }

  /** Everything written so far has been taken by the system, and everything that came by the user. */
  get isFlushed(): boolean {
    return this.output.isEmpty && !this.isStopped && (this.backlog?.length ?? 0) === 0;
  }

  /** Works for somebody who asks for something, and has the answer read with what it gives. */
  begin(user: ConnectionUser & ResponseSink): ResponseParser {
    this.user = user;
    this.requests++;
    this.parser.next(user);
    return this.parser;
  }

  /** The upstream says how long it keeps the connection, mostly the same after each answer. We are to be the first to close. */
  keepsAlive(keepAlive: string): void {
    if (keepAlive === this.keepAlive) return;
    this.keepAlive = keepAlive;
    const seconds = /timeout=(\d+)/.exec(keepAlive)?.[1];
    if (seconds !== undefined) this.keepAliveMs = Math.max(0, Number(seconds) - 2) * 1000;
  }

  /** It is over: whoever it worked for, and all that was said, may be forgotten. */
  leave(): void {
    this.user = null;
    this.parser.next(nobody);
  }

  /** What still comes is kept until it is wanted again. */
  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
    if (this.backlog !== null) this.giveOn(this.backlog);
    else if (this.isStopped) readScheduler.ask(this);
  }

  /** Its turn to read on has come, if it still is to. */
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

  /** What is small and wanted is given past the stream layer of the socket, which would look for more after each. */
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
    // A socket that is merely paused reads half a mebibyte more before it stops; one that has something left stops at once.
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

  /** A flood makes garbage faster than it is collected. What is small is not worth the call. */
  private giveAway(bytes: Buffer): void {
    if (!this.give(bytes) && bytes.length > releasedBytesMin) release(bytes);
  }

  private give(bytes: Buffer): boolean {
    if (this.user !== null) return this.user.received(bytes);
    // Nobody asked: whatever an idle connection says, it cannot be trusted any more.
    this.destroy();
    return false;
  }

  /** Gives what is left of a chunk for as long as it is taken, and then has the socket go on. */
  private giveOn(backlog: Backlog): void {
    if (this.isGiving) return;
    overflow.leave(backlog);
    while (!this.isPaused && backlog.length > 0 && this.backlog === backlog) {
      const part = backlog.take(partBytes);
      if (part instanceof Promise) return this.giveLater(backlog, part);
      this.isGiving = true;
      const { isShared } = backlog;
      // Until it is known: whoever is given it may also be done with this connection.
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

  /** The same, for what has to be read back. */
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

/** A connection on its way, and how to call it off. */
export interface PendingConnection {
  readonly opened: Promise<Connection | Failure>;
  abandon(): void;
}

/** Opens a connection, with its TLS handshake, within a bound. */
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
        // A socket that is given up may still have something to complain of.
        socket.on("error", () => {});
        socket.destroy();
      }
      resolve(outcome);
    };
    const refused = (error: unknown): void => {
      const cause = connectionFailure(error);
      // The TLS library has more codes than anyone could list, and nothing else can go wrong in such words here.
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
 * A process that stood still finds its timer due before it has seen what came of the connection meanwhile, and what has to
 * follow, such as a handshake, has not had its time. So whoever is told late waits as long again, once.
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

/** Longer than a busy loop is late. */
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
  // A peer that is gone without a word is noticed even on a connection that only waits.
  socket.setKeepAlive(true, peerCheckMs);
  return socket;
}

const peerCheckMs = 30_000;
/** A single byte that nobody reads is enough for it to read no more. */
const stopsAtOnce = { readableHighWaterMark: 1 };
/** More than this is given in parts, so that whoever is given it can say that it is enough. */
const wholeBytesMax = 64 * 1024;
const partBytes = 16 * 1024;
const releasedBytesMin = 4096;
