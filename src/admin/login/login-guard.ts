import { clientNetwork } from "../../net/server/client-network.ts";

/**
 * Limits login attempts: to a few a minute from one network, and, once many attempts have failed from anywhere, to one at a time with
 * growing pauses. Existing sessions and tokens are not affected. Attempts are counted when they begin, so concurrent ones count too.
 */
export class LoginGuard {
  private readonly networks = new Map<string, number[]>();
  private failures = 0;
  private underWay = 0;
  private lastFailureMs = Number.NEGATIVE_INFINITY;
  private lastTryMs = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly nowMs: () => number,
    /** From one network, in a minute. */
    private readonly attemptsMax = 5,
    /** Failures from anywhere before the pauses begin. */
    private readonly failuresFree = 20,
  ) {}

  /** Null when the attempt may be made, after which `leave` must be called; else how long to wait. */
  enter(address: string): number | null {
    const now = this.nowMs();
    // Verifying a password takes much memory and time on purpose.
    if (this.underWay >= underWayMax) return 1000;
    const pauseMs = this.pauseMs(now);
    if (now - this.lastTryMs < pauseMs) return this.lastTryMs + pauseMs - now;
    const network = clientNetwork(address);
    const recent = (this.networks.get(network) ?? []).filter((atMs) => now - atMs < windowMs);
    const oldest = recent[0];
    if (oldest !== undefined && recent.length >= this.attemptsMax) return oldest + windowMs - now;
    recent.push(now);
    // The map is kept in the order of the last attempt, and the oldest entries are dropped first.
    this.networks.delete(network);
    this.networks.set(network, recent);
    this.forgetOld();
    this.lastTryMs = now;
    this.underWay++;
    return null;
  }

  /** A success only halves the count of failures: an attacker with an account of their own must not be able to reset it. */
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
    if (this.failures < this.failuresFree) return 0;
    return Math.min(pauseMaxMs, 2 ** Math.min(20, this.failures - this.failuresFree) * 250);
  }

  private forgetOld(): void {
    for (const network of this.networks.keys()) {
      if (this.networks.size <= networksMax) return;
      this.networks.delete(network);
    }
  }
}

const underWayMax = 8;
const windowMs = 60_000;
const pauseMaxMs = 15_000;
const calmMs = 10 * 60_000;
const networksMax = 10_000;
