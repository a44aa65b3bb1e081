import { clientNetwork } from "../net/server/client-network.ts";
import { failure, type Failure } from "../operations/failure.ts";

/**
 * Counts the requests without a valid key, by where they come from. Whoever sends too many is told so; a valid key from
 * the same network is never held up, because only what failed is counted and refused here. The table is bounded: the
 * network that failed longest ago is forgotten first.
 */
export class AuthFailures {
  /** When each network's failures will all be forgiven; one is forgiven each `forgivenMs`. The latest to fail comes last. */
  private readonly forgivenAt = new Map<string, number>();

  constructor(
    private readonly nowMs: () => number,
    private readonly bounds: AuthFailureBounds = { perMinuteMax: 30, networksMax: 10_000 },
    /** How many processes count behind one address. Each allows its share: connections are spread over them, so a guesser meets all. */
    private readonly processes = 1,
  ) {}

  get size(): number {
    return this.forgivenAt.size;
  }

  /** Notes a failure, and gives the refusal where there were too many; null: the usual answer. */
  note(address: string, perMinuteMax: number = this.bounds.perMinuteMax): Failure | null {
    const network = clientNetwork(address);
    const nowMs = this.nowMs();
    const forgivenMs = 60_000 / Math.max(1, Math.floor(perMinuteMax / this.processes));
    const known = this.forgivenAt.get(network);
    const laterMs = Math.max(nowMs, known ?? nowMs) + forgivenMs;
    const overMs = laterMs - nowMs - 60_000;
    this.forgivenAt.delete(network);
    this.forgetOld(nowMs);
    // What is refused is not counted: after a pause of one failure's worth the usual answer is given again.
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
