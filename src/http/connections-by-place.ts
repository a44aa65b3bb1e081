import { placeOf } from "./auth-failures.ts";

/** How many connections each place has, so that one alone cannot take them all. */
export class ConnectionsByPlace<Connection> {
  private readonly counts = new Map<string, number>();
  private readonly places = new Map<Connection, string>();

  /** Whether it may stay. Only then it is counted, and has to leave. */
  enter(connection: Connection, address: string, connectionsMax: number): boolean {
    const place = placeOf(address);
    const count = this.counts.get(place) ?? 0;
    if (count >= connectionsMax) return false;
    this.counts.set(place, count + 1);
    this.places.set(connection, place);
    return true;
  }

  /** Of one that was not counted nothing is known, and nothing changes. */
  leave(connection: Connection): void {
    const place = this.places.get(connection);
    if (place === undefined) return;
    this.places.delete(connection);
    const left = this.counts.get(place)! - 1;
    if (left === 0) this.counts.delete(place);
    else this.counts.set(place, left);
  }

  get size(): number {
    return this.places.size;
  }
}
