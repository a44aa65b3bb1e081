import { ResponsePrefixes } from "./response-prefixes.ts";
import { ClientConnection, type ClientSocket, type ConnectionHost } from "./client-connection.ts";
import { ConnectionsByNetwork } from "./connections-by-network.ts";

export interface BindOptions {
  readonly host: string;
  readonly port: number;
  readonly reusePort: boolean;
  /** Further connections are closed at once: a process that has run out of file descriptors can serve nobody. */
  readonly connectionsMax: number;
  /** The same for one client network, at this moment; null for no limit. */
  readonly perAddressMax?: () => number | null;
}

/** All connections of one listener. */
export class Connections {
  readonly url: string;
  private readonly open = new Set<ClientConnection>();
  private readonly host: ConnectionHost & { stopping: boolean };
  private readonly listener: Bun.TCPSocketListener<ClientConnection>;
  private readonly sweeper: ReturnType<typeof setInterval>;
  private readonly connectionsMax: number;
  private readonly perAddressMax: () => number | null;
  private readonly byNetwork = new ConnectionsByNetwork<ClientConnection>();
  private readonly busy = new Set<ClientConnection>();
  private readonly allDone = Promise.withResolvers<void>();
  private readonly prefixes = new ResponsePrefixes();

  constructor(
    { host, port, reusePort, connectionsMax, perAddressMax = () => null }: BindOptions,
    answers: Omit<ConnectionHost, "stopping" | "responsePrefix" | "done">,
  ) {
    this.connectionsMax = connectionsMax;
    this.perAddressMax = perAddressMax;
    this.host = {
      ...answers,
      stopping: false,
      responsePrefix: (status, nowMs) => this.prefixes.of(status, nowMs),
      done: (connection) => this.done(connection),
    };
    this.listener = Bun.listen<ClientConnection>({
      hostname: host,
      port,
      ...(reusePort ? { reusePort } : {}),
      allowHalfOpen: true,
      socket: {
        open: (socket) => this.accept(socket),
        data: (socket, chunk) => socket.data.received(chunk),
        drain: (socket) => socket.data.drained(),
        end: (socket) => {
          if (socket.data.clientEnded()) return;
          this.gone(socket);
          socket.end();
        },
        close: (socket) => this.gone(socket),
        // Network errors close the connection; this is a bug of ours, and must not affect other connections.
        error: (socket, error) => {
          this.host.bug(error);
          socket.terminate();
        },
      },
    });
    const { hostname } = this.listener;
    this.url = `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${this.listener.port}`;
    this.sweeper = setInterval(() => this.look(), lookMs);
    this.sweeper.unref();
  }

  /** Stops accepting; open connections may finish their requests. Resolves when they have nothing more to send. */
  stopListening(): Promise<void> {
    this.host.stopping = true;
    this.listener.stop(false);
    for (const connection of this.open) connection.closeIdle();
    for (const connection of this.open) if (!connection.isDone) this.busy.add(connection);
    if (this.busy.size === 0) this.allDone.resolve();
    return this.allDone.promise;
  }

  close(): Promise<void> {
    this.host.stopping = true;
    clearInterval(this.sweeper);
    for (const connection of [...this.open]) connection.close();
    this.listener.stop(false);
    return Promise.resolve();
  }

  private accept(socket: ClientSocket): void {
    socket.data = new ClientConnection(socket, this.host);
    if (this.open.size < this.connectionsMax && this.isWithinNetworkLimit(socket)) this.open.add(socket.data);
    else socket.terminate();
  }

  private isWithinNetworkLimit({ data, remoteAddress }: ClientSocket): boolean {
    const max = this.perAddressMax();
    return max === null || this.byNetwork.enter(data, remoteAddress, max);
  }

  private gone({ data }: ClientSocket): void {
    this.open.delete(data);
    this.byNetwork.leave(data);
    data.closed();
    this.done(data);
  }

  private done(connection: ClientConnection): void {
    if (this.busy.delete(connection) && this.busy.size === 0) this.allDone.resolve();
  }

  private look(): void {
    const nowMs = this.host.nowMs();
    for (const connection of this.open) connection.look(nowMs);
  }
}

const lookMs = 1_000;
