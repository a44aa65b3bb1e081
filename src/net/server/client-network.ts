/**
 * An IPv4 address, or the /64 network of an IPv6 address: a site is assigned at least a /64 (RFC 6177), so its addresses count
 * as one client.
 */
export function clientNetwork(address: string): string {
  const [plain = ""] = address.toLowerCase().split("%");
  const mapped = /^(?:0*:)*:?ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(plain);
  if (mapped?.[1] !== undefined) return mapped[1];
  if (!plain.includes(":")) return plain.slice(0, lengthMax);
  const [head = "", tail] = plain.split("::");
  const before = groups(head);
  const after = tail === undefined ? [] : groups(tail);
  const missing = Math.max(0, groupsInAll - before.length - after.length);
  const all = [...before, ...Array.from({ length: missing }, () => "0"), ...after];
  return `${all
    .slice(0, groupsInNetwork)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":")}::/64`.slice(0, lengthMax);
}

function groups(text: string): readonly string[] {
  return text === "" ? [] : text.split(":");
}

const groupsInAll = 8;
const groupsInNetwork = 4;
const lengthMax = 64;

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
