import type { Candidate } from "../../channels/channel.ts";
import { wellFromMs, type Health } from "../../channels/health.ts";
import type { Load } from "../../channels/load.ts";

/** The health of one scope. It is kept where it is needed often, so that looking at it is not a search. */
export class ScopeHealth {
  private current: Health | undefined = undefined;
  private wellFromMs = wellFromMs(undefined);
  /** The table of scopes has it no longer: whoever keeps it has to look there again. */
  dropped = false;

  get health(): Health | undefined {
    return this.current;
  }

  set health(health: Health | undefined) {
    this.current = health;
    this.wellFromMs = wellFromMs(health);
  }

  /** The breaker is closed, and slow start is over. */
  isWell(nowMs: number): boolean {
    return nowMs >= this.wellFromMs;
  }
}

/** The attempts that are running on one channel, over all its models. */
export interface ChannelCalls {
  running: number;
  /** As with health: the table of channels has another one by now, or none. */
  dropped: boolean;
}

/** All that is remembered about one candidate: with thousands of channels, each search in a table would cost more than what it finds. */
export class CandidateState {
  constructor(
    readonly host: ScopeHealth,
    readonly credential: ScopeHealth,
    readonly deployment: ScopeHealth,
    readonly quota: ScopeHealth | null,
    readonly load: Load,
    readonly calls: ChannelCalls,
  ) {}

  get isCurrent(): boolean {
    const { host, credential, deployment, quota, calls } = this;
    return !deployment.dropped && !credential.dropped && !host.dropped && quota?.dropped !== true && !calls.dropped;
  }

  /** Every scope is well, and the channel has capacity. */
  isWell(candidate: Candidate, nowMs: number): boolean {
    const { host, credential, deployment, quota, calls } = this;
    if (!deployment.isWell(nowMs) || !credential.isWell(nowMs) || !host.isWell(nowMs)) return false;
    return (quota === null || quota.isWell(nowMs)) && calls.running < candidate.deployment.channel.concurrencyMax;
  }
}
