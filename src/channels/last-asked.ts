import type { Candidate } from "./channel.ts";

/**
 * When those were asked whose breakers were open. Where nobody of a route is well, a call asks whoever was asked longest
 * ago, and each deployment is asked about once a second: so one that has recovered is found soon, whatever happened to it
 * before, and one that is down costs little.
 */
export class LastAsked {
  constructor(private readonly times: Map<string, number>) {}

  /** How long until the deployment may be asked again in spite of its breaker; not positive: now. */
  waitMs({ deployment }: Candidate, nowMs: number): number {
    return (this.times.get(deployment.id) ?? never) + paceMs - nowMs;
  }

  /** Of this very candidate: the credentials of a pool take turns. */
  askedMs(candidate: Candidate): number {
    return this.times.get(idOf(candidate)) ?? never;
  }

  asked(candidate: Candidate, nowMs: number): void {
    this.times.set(candidate.deployment.id, nowMs);
    this.times.set(idOf(candidate), nowMs);
  }

  /** The attempt said nothing about its channel, such as a mistake of the client's: the next need not wait for its sake. */
  inVain({ deployment }: Candidate): void {
    this.times.delete(deployment.id);
  }
}

const never = Number.NEGATIVE_INFINITY;
const paceMs = 1_000;

function idOf({ deployment, credential }: Candidate): string {
  return `${deployment.id} ${credential}`;
}
