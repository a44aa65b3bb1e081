import { clientNetwork } from "./client-network.ts";

/** Counts the connections of each client network, so that one client cannot take them all. */
export class ConnectionsByNetwork<Connection> {
  private readonly counts = new Map<string, number>();
  private readonly networks = new Map<Connection, string>();

  /** Whether the connection may stay. Only then it is counted, and must be deleted later. */
  add(connection: Connection, address: string, connectionsMax: number): boolean {
    const network = clientNetwork(address);
    const count = this.counts.get(network) ?? 0;
    if (count >= connectionsMax) return false;
    this.counts.set(network, count + 1);
    this.networks.set(connection, network);
    return true;
  }

  /** Has no effect for a connection that was not counted. */
  delete(connection: Connection): void {
    const network = this.networks.get(connection);
    if (network === undefined) return;
    this.networks.delete(connection);
    const left = this.counts.get(network)! - 1;
    if (left === 0) this.counts.delete(network);
    else this.counts.set(network, left);
  }

  get size(): number {
    return this.networks.size;
  }
}
