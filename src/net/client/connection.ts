import net from "node:net";
import tls from "node:tls";
import { failure, type Failure } from "../../operations/failure.ts";
import { release } from "../message/message-parser.ts";
import { Backlog } from "./backlog.ts";
import { blockedAddress, guardedLookup, type Reach } from "./guarded-lookup.ts";
import { codeOf, connectionFailure } from "./connection-failure.ts";
import { ConnectionOutput } from "./connection-output.ts";
import { overflow } from "./overflow.ts";
import { readScheduler, type PausedReader } from "./read-scheduler.ts";
import { ResponseParser, type ResponseSink } from "./response-parser.ts";
import { openTunnel, TunnelStream } from "./tunnel.ts";

/** What a connection is opened to. Connections with the same key are interchangeable. */
export interface Origin {
  readonly key: string;
  readonly hostname: string;
  readonly port: number;
  readonly secure: boolean;
  readonly reach: Reach;
  /** The path of a unix socket on this machine, instead of a host and a port. */
  readonly socketPath: string | null;
  /** The HTTP proxy that the connection goes through, if any. It resolves the name of the upstream. */
  readonly proxy?: Origin | null;
}

/** The exchange that a connection carries at the moment. */
export interface ResponseHandler extends ResponseSink {
  /** Returns whether it still uses any part of the chunk. */
  onData(chunk: Buffer): boolean;
  /** What it was given will not be read soon: it should hold no more memory for it than needed. */
  onStall(): void;
  onClose(cause: Failure | null): void;
}

/** One TCP, TLS or unix connection to an upstream. Its handler controls how fast it is read. */
export class Connection implements PausedReader {
  handler: ResponseHandler | null = null;
  /** How many requests it has carried. */
  requests = 0;
  idleSinceMs = 0;
  /** How long the upstream keeps an idle connection, and the header that said so. */
  keepAliveMs = Infinity;
  private keepAlive = "";
  private readonly parser = new ResponseParser(ignoring);
  readonly output: ConnectionOutput;
  private isAlive = true;
  private cause: Failure | null = null;
  private isPaused = false;
  /** The socket does not read until it is resumed. */
  private isStopped = false;
  /** The unread rests of a chunk and of the one after it. */
  private backlog: Backlog | null = null;
  private nextBacklog: Backlog | null = null;
  private isDelivering = false;
  /** The connection was closed; its handler is told when everything that arrived before has been delivered. */
  private isClosePending = false;

  constructor(
    readonly origin: Origin,
    private readonly socket: net.Socket,
    /** What carries a socket that is read on although it is paused. */
    private readonly carrier: TunnelStream | null = null,
  ) {
    this.output = new ConnectionOutput(socket);
    listenTo(socket, this);
  }

  get isOpen(): boolean {
    return this.isAlive;
  }

  /** The system has taken everything that was written, and the handler everything that arrived. */
  get isFlushed(): boolean {
    return this.output.isEmpty && !this.isStopped && (this.backlog?.length ?? 0) === 0;
  }

  /** Starts an exchange. Returns the parser, which reports to the handler. */
  attach(handler: ResponseHandler): ResponseParser {
    this.handler = handler;
    this.requests++;
    this.parser.next(handler);
    return this.parser;
  }

  /** The exchange is over: drops the references to it. */
  detach(): void {
    this.handler = null;
    this.parser.next(ignoring);
  }

  /**
   * Notes how long the upstream keeps the connection, usually the same after each response. We close first, to avoid sending a
   * request into a connection that is being closed.
   */
  setKeepAlive(header: string): void {
    if (header === this.keepAlive) return;
    this.keepAlive = header;
    const seconds = /timeout=(\d+)/.exec(header)?.[1];
    if (seconds !== undefined) this.keepAliveMs = Math.max(0, Number(seconds) - 2) * 1000;
  }

  /** What still arrives is queued. */
  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
    if (this.backlog !== null) void this.deliverBacklog(this.backlog);
    else if (this.isStopped) readScheduler.schedule(this);
  }

  /** Called by the scheduler when this connection may read again. */
  resumeReading(): void {
    if (!this.isAlive || !this.isStopped || this.isPaused || this.backlog !== null) return;
    this.isStopped = false;
    this.socket.resume();
  }

  destroy(): void {
    this.isAlive = false;
    this.dropBacklogs();
    this.socket.destroy();
  }

  /** Small chunks that are wanted bypass the stream layer of the socket, which would try another read after each. */
  bypassStream(chunk: Buffer): boolean {
    if (chunk.length > partBytes || this.isPaused || this.isStopped || this.backlog !== null) return false;
    if (!this.isAlive || this.socket.readableLength > 0) return false;
    this.deliverChunk(chunk);
    return true;
  }

  onData(chunk: Buffer): void {
    const isTooMuch = chunk.length > partBytes && readScheduler.isTooMuch(chunk.length);
    this.isStopped = isTooMuch || this.isPaused || this.backlog !== null;
    if (!this.isStopped && chunk.length <= wholeBytesMax) {
      this.deliverChunk(chunk);
      if (this.socket.readableLength === 0) this.carrier?.go();
      return;
    }
    const length = this.isStopped ? chunk.length - 1 : chunk.length;
    const last = Buffer.of(chunk.at(-1)!);
    this.addBacklog(new Backlog(chunk, length, () => this.handler?.onStall()));
    if (!this.isStopped || !this.isAlive) return;
    // A paused socket still reads half a mebibyte; one with unread input stops at once.
    this.carrier?.stop();
    this.socket.pause();
    this.socket.unshift(last);
  }

  private addBacklog(backlog: Backlog): void {
    if (this.backlog === null) {
      this.backlog = backlog;
      void this.deliverBacklog(backlog);
    } else {
      this.nextBacklog = backlog;
      overflow.add(backlog);
    }
  }

  /** Under load, chunks become garbage faster than it is collected. Small ones are not worth the call. */
  private deliverChunk(chunk: Buffer): void {
    if (!this.deliver(chunk) && chunk.length > releasedBytesMin) release(chunk);
  }

  /** Returns whether any part of the bytes is still in use. */
  private deliver(bytes: Buffer): boolean {
    if (this.handler !== null) return this.handler.onData(bytes);
    // An idle connection that sends something cannot be trusted any more.
    this.destroy();
    return false;
  }

  /** Delivers the rest of a chunk as long as it is wanted, and then lets the socket continue. */
  private async deliverBacklog(backlog: Backlog): Promise<void> {
    if (this.isDelivering) return;
    overflow.delete(backlog);
    while (!this.isPaused && backlog.length > 0 && this.backlog === backlog) {
      const part = backlog.take(partBytes);
      this.isDelivering = true;
      if (part instanceof Promise) await this.deliverFromFile(backlog, part);
      else this.deliverShared(backlog, part);
      this.isDelivering = false;
    }
    if (this.backlog !== backlog) return;
    if (backlog.length > 0) return overflow.add(backlog);
    backlog.drop();
    this.backlog = this.nextBacklog;
    this.nextBacklog = null;
    if (this.backlog !== null) void this.deliverBacklog(this.backlog);
    else if (this.isClosePending) this.onClose();
    else if (this.isStopped && !this.isPaused) readScheduler.schedule(this);
  }

  private deliverShared(backlog: Backlog, part: Buffer): void {
    const { isShared } = backlog;
    // Set before the call, because the handler may also end the exchange in it.
    backlog.isShared = true;
    if (!this.deliver(part)) backlog.isShared = isShared;
  }

  private async deliverFromFile(backlog: Backlog, part: Promise<Buffer>): Promise<void> {
    let bytes: Buffer;
    try {
      bytes = await part;
    } catch (error) {
      if (this.backlog !== backlog) return;
      this.cause = failure("internal", `what came could not be read back from the temporary directory: ${codeOf(error)}`);
      this.dropBacklogs();
      this.socket.destroy();
      return this.onClose();
    }
    if (this.backlog === backlog) this.deliverChunk(bytes);
  }

  private dropBacklogs(): void {
    const { backlog, nextBacklog } = this;
    this.backlog = null;
    this.nextBacklog = null;
    for (const left of [backlog, nextBacklog]) {
      if (left === null) continue;
      overflow.delete(left);
      left.drop();
    }
  }

  onError(error: Error): void {
    this.cause ??= connectionFailure(error);
  }

  onClose(): void {
    this.isAlive = false;
    this.isClosePending = this.backlog !== null;
    if (this.isClosePending) return;
    const { handler } = this;
    this.handler = null;
    handler?.onClose(this.cause);
  }
}

/** A socket that knows its connection. The listeners are the same for all of them: closures took a third of a kibibyte for each. */
type ConnectedSocket = net.Socket & { [connectionOf]?: Connection };

const connectionOf = Symbol("connection");

function listenTo(socket: ConnectedSocket, connection: Connection): void {
  socket[connectionOf] = connection;
  socket.push = pushPast;
  socket.on("data", onSocketData).on("error", onSocketError).on("end", onSocketEnd).on("close", onSocketClose);
}

function pushPast(this: ConnectedSocket, chunk: Buffer | null): boolean {
  return (chunk !== null && this[connectionOf]!.bypassStream(chunk)) || net.Socket.prototype.push.call(this, chunk);
}

function onSocketData(this: ConnectedSocket, chunk: Buffer): void {
  this[connectionOf]!.onData(chunk);
}

function onSocketError(this: ConnectedSocket, error: Error): void {
  this[connectionOf]!.onError(error);
}

/** Nothing more can arrive, and pending writes might wait forever. */
function onSocketEnd(this: ConnectedSocket): void {
  this.destroy();
}

function onSocketClose(this: ConnectedSocket): void {
  this[connectionOf]!.onClose();
}

const ignoring: ResponseSink = { onHead() {}, onBody() {}, onEnd() {} };

/** A connection that is being opened, and a way to abandon it. */
export interface PendingConnection {
  readonly opened: Promise<Connection | Failure>;
  abandon(): void;
}

/** Opens a connection, including its TLS handshake and the tunnel through a proxy, within a time limit. */
export function connect(origin: Origin, withinMs: number): PendingConnection {
  const first = origin.proxy ?? origin;
  const blocked = net.isIP(first.hostname) === 0 ? null : blockedAddress(first.hostname, first.reach);
  if (blocked !== null) return { opened: Promise.resolve(failure("misconfigured", `the channel leads to ${blocked}`)), abandon: () => {} };
  let { secure } = first;
  let socket = openSocket(first);
  let carrier: TunnelStream | null = null;
  let settle: (outcome: Connection | Failure) => void = () => {};
  const opened = new Promise<Connection | Failure>((resolve) => {
    settle = (outcome) => {
      timeout.clear();
      unwatch();
      if (!(outcome instanceof Connection)) {
        // An abandoned socket may still emit an error, which would be uncaught.
        socket.on("error", () => {});
        socket.destroy();
      }
      resolve(outcome);
    };
    const onError = (error: unknown): void => {
      const cause = connectionFailure(error);
      // The TLS library has too many codes to list them, and nothing else fails with an unknown code here.
      settle(secure && cause.kind === "bad_response" ? failure("tls_failed", cause.detail) : cause);
    };
    const onClose = (): void => settle(failure(secure ? "tls_failed" : "disconnected", "the connection was closed while it was opened"));
    const timeout = new ConnectTimeout(withinMs, () => settle(failure("connect_timeout", `no connection within ${withinMs} ms`)));
    const watch = (then: () => void): void => {
      socket.once("error", onError);
      socket.once("close", onClose);
      socket.once(secure ? "secureConnect" : "connect", then);
    };
    const unwatch = (): void => {
      socket.off("error", onError);
      socket.off("close", onClose);
    };
    const onOpen = (): void => settle(new Connection(origin, socket, carrier));
    /** Plain requests are the proxy's to pass on; for the others there is a tunnel, and TLS inside of it. */
    const onProxy = (): void =>
      openTunnel(socket, origin, (refusal) => {
        if (refusal !== null) return settle(refusal);
        unwatch();
        socket.on("error", () => {});
        if (secure) carrier = new TunnelStream(socket);
        socket = tls.connect({ socket: carrier ?? socket, ...tlsOptions(origin) });
        secure = true;
        watch(onOpen);
      });
    watch(first !== origin && origin.secure ? onProxy : onOpen);
  });
  return { opened, abandon: () => settle(failure("client_gone", "called off while connecting")) };
}

/**
 * The time limit for connecting. After the process was suspended or blocked, the timer fires before the events of the socket are
 * handled, and the remaining steps, such as a handshake, have had no time. So what the timer was late by is granted once more, and
 * the whole limit if that was long. Even if it was on time, what had arrived by then is handled first.
 */
class ConnectTimeout {
  private timer: ReturnType<typeof setTimeout>;

  constructor(withinMs: number, onTimeout: () => void) {
    const dueMs = performance.now() + withinMs;
    this.timer = setTimeout(() => {
      const lateMs = performance.now() - dueMs;
      this.timer = setTimeout(onTimeout, lateMs < standstillMs ? lateMs : withinMs);
    }, withinMs);
  }

  clear(): void {
    clearTimeout(this.timer);
  }
}

/** Longer than a busy event loop is usually late. */
const standstillMs = 250;

function openSocket({ hostname, port, secure, socketPath, reach }: Origin): net.Socket {
  if (socketPath !== null) return net.connect({ path: socketPath, ...stopsReadingAtOnce });
  const lookup = guardedLookup(reach);
  const socket = secure
    ? tls.connect({ port, lookup, ...tlsOptions({ hostname }) })
    : net.connect({ host: hostname, port, lookup, ...stopsReadingAtOnce });
  socket.setNoDelay(true);
  // Detects a peer that has vanished even on an idle connection.
  socket.setKeepAlive(true, peerCheckMs);
  return socket;
}

function tlsOptions({ hostname }: Pick<Origin, "hostname">): tls.ConnectionOptions {
  // An address has no place in SNI (RFC 6066, 3).
  const servername = net.isIP(hostname) === 0 ? { servername: hostname } : undefined;
  return { host: hostname, rejectUnauthorized: true, ...stopsReadingAtOnce, ...servername };
}

const peerCheckMs = 30_000;
/** One unread byte is enough to stop the socket from reading. */
const stopsReadingAtOnce = { readableHighWaterMark: 1 };
/** Larger chunks are delivered in parts, so that the handler can pause in between. */
const wholeBytesMax = 64 * 1024;
const partBytes = 16 * 1024;
const releasedBytesMin = 4096;
