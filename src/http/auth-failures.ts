import { failure, type Failure } from "../operations/failure.ts";

/**
 * Counts the requests without a valid key, by where they come from. Whoever sends too many is told so; a valid key from
 * the same place is never held up, because only what failed is counted and refused here. The table is bounded: the
 * place that failed longest ago is forgotten first.
 */
export class AuthFailures {
  /** When each place's failures will all be forgiven; one is forgiven each `forgivenMs`. The latest to fail comes last. */
  private readonly forgivenAt = new Map<string, number>();

  constructor(
    private readonly nowMs: () => number,
    private readonly bounds: AuthFailureBounds = { perMinuteMax: 30, placesMax: 10_000 },
    /** How many processes count behind one address. Each allows its share: connections are spread over them, so a guesser meets all. */
    private readonly processes = 1,
  ) {}

  get size(): number {
    return this.forgivenAt.size;
  }

  /** Notes a failure, and gives the refusal where there were too many; null: the usual answer. */
  note(address: string, perMinuteMax: number = this.bounds.perMinuteMax): Failure | null {
    const place = placeOf(address);
    const nowMs = this.nowMs();
    const forgivenMs = 60_000 / Math.max(1, Math.floor(perMinuteMax / this.processes));
    const known = this.forgivenAt.get(place);
    const laterMs = Math.max(nowMs, known ?? nowMs) + forgivenMs;
    const overMs = laterMs - nowMs - 60_000;
    this.forgivenAt.delete(place);
    this.forgetOld(nowMs);
    // What is refused is not counted: after a pause of one failure's worth the usual answer is given again.
    this.forgivenAt.set(place, overMs > 0 ? known! : laterMs);
    return overMs > 0 ? tooMany(Math.ceil(overMs)) : null;
  }

  private forgetOld(nowMs: number): void {
    for (const [place, untilMs] of this.forgivenAt) {
      if (untilMs > nowMs && this.forgivenAt.size < this.bounds.placesMax) return;
      this.forgivenAt.delete(place);
    }
  }
}

export interface AuthFailureBounds {
  readonly perMinuteMax: number;
  readonly placesMax: number;
}

/** A place is an address of version 4, or the network of one of version 6: whoever has one of those has 2^64 addresses. */
export function placeOf(address: string): string {
  const [plain = ""] = address.toLowerCase().split("%");
  const mapped = /^(?:0*:)*:?ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(plain);
  if (mapped?.[1] !== undefined) return mapped[1];
  if (!plain.includes(":")) return plain.slice(0, placeLengthMax);
  const [head = "", tail] = plain.split("::");
  const before = groups(head);
  const after = tail === undefined ? [] : groups(tail);
  const missing = Math.max(0, groupsInAll - before.length - after.length);
  const all = [...before, ...Array.from({ length: missing }, () => "0"), ...after];
  return `${all
    .slice(0, groupsInNetwork)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":")}::/64`.slice(0, placeLengthMax);
}

function groups(text: string): readonly string[] {
  return text === "" ? [] : text.split(":");
}

const groupsInAll = 8;
const groupsInNetwork = 4;
const placeLengthMax = 64;

function tooMany(retryAfterMs: number): Failure {
  return failure("limited", "too many requests without a valid key", {
    message: "Too many requests with an incorrect or missing API key came from this address. Check the key, and try again later.",
    status: 429,
    type: "rate_limit_error",
    code: "too_many_auth_failures",
    retryAfterMs,
  });
}
