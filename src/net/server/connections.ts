import { ClientConnection, type ClientSocket, type ListenerContext } from "./client-connection.ts";
import { ConnectionsByNetwork } from "./client-network.ts";
import { isRefused, isTlsError, tlsOptions, type ServerTls } from "./server-tls.ts";
import { withMode } from "./unix-socket.ts";

export interface BindOptions {
  readonly host: string;
  readonly port: number;
  /** A unix socket to listen on, in place of the host and the port; null for none. */
  readonly socket?: { readonly path: string; readonly mode: number } | null;
  /** Several processes share the port, or it changes hands when a certificate is renewed. */
  readonly reusePort: boolean;
  /** Null for plain HTTP. */
  readonly tls?: ServerTls | null;
  /** Further connections are closed at once: a process that has run out of file descriptors can serve nobody. */
  readonly connectionsMax: number;
  /** The same for the network of one client, at this moment; null for no limit. */
  readonly perAddressMax?: (address: string) => number | null;
}

/** All connections of one listener. */
export class Connections {
  readonly url: string;
  private readonly open = new Set<ClientConnection>();
  private readonly context: ListenerContext & { isStopping: boolean };
  private listener: Bun.SocketListener<ClientConnection>;
  /** The port that the system chose, if it was asked to. */
  private readonly port: number;
  private readonly sweeper: ReturnType<typeof setInterval>;
  private readonly connectionsMax: number;
  private readonly perAddressMax: (address: string) => number | null;
  private readonly byNetwork = new ConnectionsByNetwork<ClientConnection>();
  private readonly busy = new Set<ClientConnection>();
  private readonly allDone = Promise.withResolvers<void>();

  constructor(
    private readonly options: BindOptions,
    handlers: Omit<ListenerContext, "isStopping" | "onDone">,
  ) {
    const { connectionsMax, perAddressMax = () => null, socket = null, tls = null } = options;
    this.connectionsMax = connectionsMax;
    this.perAddressMax = perAddressMax;
    this.context = {
      ...handlers,
      isStopping: false,
      onDone: (connection) => this.onDone(connection),
    };
    if (socket === null) {
      const listener = this.listenOnPort(options.port, tls);
      const { hostname } = listener;
      this.listener = listener;
      this.port = listener.port;
      this.url = `${tls === null ? "http" : "https"}://${hostname.includes(":") ? `[${hostname}]` : hostname}:${listener.port}`;
    } else {
      const { path, mode } = socket;
      this.listener = withMode(mode, () => Bun.listen<ClientConnection>({ unix: path, ...halfOpen, socket: this.handlers(null) }));
      this.port = 0;
      this.url = `unix:${path}`;
    }
    this.sweeper = setInterval(() => this.checkTimeouts(), sweepMs);
    this.sweeper.unref();
  }

  /**
   * Uses another certificate for new connections; open ones stay as they are. A second listener takes the port over, because a
   * certificate cannot be changed in a listener.
   */
  renew(tls: ServerTls): void {
    if (this.context.isStopping) return;
    const old = this.listener;
    this.listener = this.listenOnPort(this.port, tls);
    old.stop(false);
  }

  /** Stops accepting; open connections may finish their requests. Resolves when they have nothing more to send. */
  stopListening(): Promise<void> {
    this.context.isStopping = true;
    this.listener.stop(false);
    for (const connection of this.open) connection.closeIdle();
    for (const connection of this.open) if (!connection.isDone) this.busy.add(connection);
    if (this.busy.size === 0) this.allDone.resolve();
    return this.allDone.promise;
  }

  close(): Promise<void> {
    this.context.isStopping = true;
    clearInterval(this.sweeper);
    for (const connection of [...this.open]) connection.close();
    this.listener.stop(false);
    return Promise.resolve();
  }

  private listenOnPort(port: number, tls: ServerTls | null): Bun.TCPSocketListener<ClientConnection> {
    const { host, reusePort } = this.options;
    return Bun.listen<ClientConnection>({
      hostname: host,
      port,
      ...(reusePort ? { reusePort } : {}),
      ...halfOpen,
      ...(tls === null ? {} : { tls: tlsOptions(tls) }),
      socket: this.handlers(tls),
    });
  }

  private handlers(tls: ServerTls | null): Bun.SocketHandler<ClientConnection> {
    return {
      open: (socket) => this.accept(socket),
      data: (socket, chunk) => socket.data.onData(chunk),
      drain: (socket) => socket.data.onDrain(),
      end: (socket) => {
        if (socket.data.onEnd()) return;
        this.onClose(socket);
        socket.end();
      },
      close: (socket) => this.onClose(socket),
      // Network errors close the connection; this is a bug of ours, and must not affect other connections.
      error: (socket, error) => {
        if (tls === null || !isTlsError(error)) this.context.onBug(error);
        socket.terminate();
      },
      ...(tls === null
        ? {}
        : {
            handshake: (socket: ClientSocket, isDone: boolean, error: Error | null) => {
              if (isRefused(socket, isDone, error, tls)) socket.terminate();
            },
          }),
    };
  }

  private accept(socket: ClientSocket): void {
    socket.data = new ClientConnection(socket, this.context);
    if (this.open.size < this.connectionsMax && this.isWithinNetworkLimit(socket)) this.open.add(socket.data);
    else socket.terminate();
  }

  private isWithinNetworkLimit({ data }: ClientSocket): boolean {
    const { address } = data;
    const max = this.perAddressMax(address);
    return max === null || this.byNetwork.add(data, address, max);
  }

  private onClose({ data }: ClientSocket): void {
    this.open.delete(data);
    this.byNetwork.delete(data);
    data.onClose();
    this.onDone(data);
  }

  private onDone(connection: ClientConnection): void {
    if (this.busy.delete(connection) && this.busy.size === 0) this.allDone.resolve();
  }

  private checkTimeouts(): void {
    const nowMs = this.context.nowMs();
    for (const connection of this.open) connection.checkTimeouts(nowMs);
  }
}

const sweepMs = 1_000;
/** A client that has sent its request may close its side, and still reads the response. */
const halfOpen = { allowHalfOpen: true };
