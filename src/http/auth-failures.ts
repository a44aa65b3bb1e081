import { clientNetwork } from "../net/server/client-network.ts";
import { failure, type Failure } from "../operations/failure.ts";

/**
 * Counts the requests without a valid key by client network, and limits them. A valid key from the same network is never
 * delayed, because only failures are counted and rejected here. The table is bounded: the network whose last failure is oldest
 * is dropped first.
 */
export class AuthFailures {
  /**
   * When all failures of a network will have expired; one expires every `forgivenMs`. The network that failed last is the last
   * entry.
   */
  private readonly forgivenAt = new Map<string, number>();

  constructor(
    private readonly nowMs: () => number,
    private readonly bounds: AuthFailureBounds = { perMinuteMax: 30, networksMax: 10_000 },
    /**
     * How many processes share one address. Each allows its share of the limit, because connections are spread over all of them.
     */
    private readonly processes = 1,
  ) {}

  get size(): number {
    return this.forgivenAt.size;
  }

  /** Counts a failure. Returns the 429 failure (RFC 6585, 4) if there were too many, null for the usual response. */
  note(address: string, perMinuteMax: number = this.bounds.perMinuteMax): Failure | null {
    const network = clientNetwork(address);
    const nowMs = this.nowMs();
    const forgivenMs = 60_000 / Math.max(1, Math.floor(perMinuteMax / this.processes));
    const known = this.forgivenAt.get(network);
    const laterMs = Math.max(nowMs, known ?? nowMs) + forgivenMs;
    const overMs = laterMs - nowMs - 60_000;
    this.forgivenAt.delete(network);
    this.forgetOld(nowMs);
    // A rejected request is not counted: after the time of one failure the usual response is given again.
    this.forgivenAt.set(network, overMs > 0 ? known! : laterMs);
    return overMs > 0 ? tooMany(Math.ceil(overMs)) : null;
  }

  private forgetOld(nowMs: number): void {
    for (const [network, untilMs] of this.forgivenAt) {
      if (untilMs > nowMs && this.forgivenAt.size < this.bounds.networksMax) return;
      this.forgivenAt.delete(network);
    }
  }
}

export interface AuthFailureBounds {
  readonly perMinuteMax: number;
  readonly networksMax: number;
}

function tooMany(retryAfterMs: number): Failure {
  return failure("limited", "too many requests without a valid key", {
    message: "Too many requests with an incorrect or missing API key came from this address. Check the key, and try again later.",
    status: 429,
    type: "rate_limit_error",
    code: "too_many_auth_failures",
    retryAfterMs,
  });
}
