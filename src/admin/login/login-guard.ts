import { clientNetwork } from "../../net/server/client-network.ts";
/**
 * How often somebody may try to get in: five times a minute from one network, and, once guesses fail from many networks, one at a time
 * with growing pauses for all. Sessions and tokens that exist are not touched by it. Attempts count when they begin, so many at once
 * do not slip through.
 */
export class LoginGuard {
  private readonly networks = new Map<string, number[]>();
  private failures = 0;
  private underWay = 0;
  private lastFailureMs = Number.NEGATIVE_INFINITY;
  private lastTryMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly nowMs: () => number) {}

  /** Null when the attempt may be made, after which `leave` must be called; else how long to wait. */
  enter(address: string): number | null {
    const now = this.nowMs();
    // Each one costs much memory and time on purpose.
    if (this.underWay >= underWayMax) return 1000;
    const pauseMs = this.pauseMs(now);
    if (now - this.lastTryMs < pauseMs) return this.lastTryMs + pauseMs - now;
    const network = clientNetwork(address);
    const recent = (this.networks.get(network) ?? []).filter((atMs) => now - atMs < windowMs);
    const oldest = recent[0];
    if (oldest !== undefined && recent.length >= attemptsMax) return oldest + windowMs - now;
    recent.push(now);
    // Last in the order of the map is who came last; the first ones go when there are too many.
    this.networks.delete(network);
    this.networks.set(network, recent);
    this.forgetOld();
    this.lastTryMs = now;
    this.underWay++;
    return null;
  }

  /** A success halves what is held against everybody: with an account of their own, a guesser must not wipe it out. */
  leave(succeeded: boolean): void {
    this.underWay--;
    if (succeeded) {
      this.failures = Math.floor(this.failures / 2);
      return;
    }
    this.failures++;
    this.lastFailureMs = this.nowMs();
  }

  private pauseMs(now: number): number {
    if (now - this.lastFailureMs > calmMs) this.failures = 0;
    if (this.failures < failuresFree) return 0;
    return Math.min(pauseMaxMs, 2 ** Math.min(20, this.failures - failuresFree) * 250);
  }

  private forgetOld(): void {
    for (const network of this.networks.keys()) {
      if (this.networks.size <= networksMax) return;
      this.networks.delete(network);
    }
  }
}

const attemptsMax = 5;
const underWayMax = 8;
const windowMs = 60_000;
/** Failures of all together before the pauses begin. */
const failuresFree = 20;
const pauseMaxMs = 15_000;
const calmMs = 10 * 60_000;
const networksMax = 10_000;
