import { ClientConnection, type ClientSocket, type ListenerContext } from "./client-connection.ts";
import { ConnectionsByNetwork } from "./client-network.ts";

export interface BindOptions {
  readonly host: string;
  readonly port: number;
  readonly reusePort: boolean;
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
  private readonly listener: Bun.TCPSocketListener<ClientConnection>;
  private readonly sweeper: ReturnType<typeof setInterval>;
  private readonly connectionsMax: number;
  private readonly perAddressMax: (address: string) => number | null;
  private readonly byNetwork = new ConnectionsByNetwork<ClientConnection>();
  private readonly busy = new Set<ClientConnection>();
  private readonly allDone = Promise.withResolvers<void>();

  constructor(
    { host, port, reusePort, connectionsMax, perAddressMax = () => null }: BindOptions,
    handlers: Omit<ListenerContext, "isStopping" | "onDone">,
  ) {
    this.connectionsMax = connectionsMax;
    this.perAddressMax = perAddressMax;
    this.context = {
      ...handlers,
      isStopping: false,
      onDone: (connection) => this.onDone(connection),
    };
    this.listener = Bun.listen<ClientConnection>({
      hostname: host,
      port,
      ...(reusePort ? { reusePort } : {}),
      allowHalfOpen: true,
      socket: {
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
          this.context.onBug(error);
          socket.terminate();
        },
      },
    });
    const { hostname } = this.listener;
    this.url = `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${this.listener.port}`;
    this.sweeper = setInterval(() => this.checkTimeouts(), sweepMs);
    this.sweeper.unref();
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
