import type { Candidate } from "./channel.ts";

/**
 * When candidates with an open breaker were last asked. If no candidate of a route is healthy, a call asks the one asked longest ago,
 * and each deployment about once a second. So a recovered one is found soon, and one that is down costs little.
 */
export class LastAsked {
  constructor(private readonly times: Map<string, number>) {}

  /** How long until the deployment may be asked again despite its breaker; zero or less: now. */
  waitMs({ deployment }: Candidate, nowMs: number): number {
    return (this.times.get(deployment.id) ?? never) + paceMs - nowMs;
  }

  /** For this candidate alone: the credentials of a pool take turns. */
  askedMs(candidate: Candidate): number {
    return this.times.get(idOf(candidate)) ?? never;
  }

  asked(candidate: Candidate, nowMs: number): void {
    this.times.set(candidate.deployment.id, nowMs);
    this.times.set(idOf(candidate), nowMs);
  }

  /** The attempt said nothing about its channel, for example because the client made a mistake. The next one need not wait. */
  clear({ deployment }: Candidate): void {
    this.times.delete(deployment.id);
  }
}

const never = Number.NEGATIVE_INFINITY;
const paceMs = 1_000;

function idOf({ deployment, credential }: Candidate): string {
  return `${deployment.id} ${credential}`;
}
