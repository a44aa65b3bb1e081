import type { Route } from "../../src/channels/channel.ts";
import { UpstreamState } from "../../src/gateway/upstream-state/upstream-state.ts";
import type { Failure } from "../../src/operations/failure.ts";
import { finalFailure } from "../../src/routing/final-failure.ts";
import { judge, type FailedAttempt } from "../../src/routing/judge.ts";
import type { Candidates, Choice } from "../../src/routing/plan.ts";
import { policy } from "./plan-world.ts";

/** What an upstream does with a call that reaches it now. */
export type Upstream = (nowMs: number, credential: string) => Happening;

export interface Happening {
  readonly tookMs: number;
  readonly failure: Failure | null;
  /** After how long an answer has its first content; left out where that is its end. */
  readonly contentMs?: number;
}

export interface Sent {
  readonly channel: string;
  readonly credential: string;
  readonly atMs: number;
  readonly probe: boolean;
  /** Its breaker was open, and it was asked all the same. */
  readonly lastResort: boolean;
}

export interface Answered {
  readonly beganMs: number;
  readonly atMs: number;
  readonly outcome: "served" | Failure["kind"];
}

type Chosen = Pick<Choice, "candidate" | "probe" | "lastResort">;

/** A whole gateway's worth of decisions on a clock of its own: everything but sockets. */
export class Simulation {
  nowMs = 1_000_000;
  readonly startMs = this.nowMs;
  readonly sent: Sent[] = [];
  readonly answered: Answered[] = [];
  probesMax = 0;
  private probes = 0;
  private readonly state: UpstreamState;
  private readonly agenda: { readonly atMs: number; readonly run: () => void }[] = [];

  constructor(
    private readonly of: Route,
    private readonly upstreams: Readonly<Record<string, Upstream>>,
    private readonly dice: () => number,
  ) {
    this.state = new UpstreamState({ nowMs: () => this.nowMs, dice, after: () => () => {} });
  }

  /** Calls come at even intervals; then everything that is under way runs to its end. */
  run(requestsPerSecond: number, seconds: number): this {
    const startMs = this.nowMs;
    let calls = 0;
    for (;;) {
      const callMs = calls < requestsPerSecond * seconds ? startMs + (calls * 1_000) / requestsPerSecond : Infinity;
      const soonest = this.agenda[0];
      if (callMs === Infinity && soonest === undefined) return this;
      const isCall = callMs <= (soonest?.atMs ?? Infinity);
      this.nowMs = Math.max(this.nowMs, isCall ? callMs : soonest!.atMs);
      if (isCall) {
        calls += 1;
        this.call(this.nowMs, true);
      } else this.agenda.shift()!.run();
    }
  }

  private at(atMs: number, run: () => void): void {
    let low = 0;
    let high = this.agenda.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.agenda[middle]!.atMs <= atMs) low = middle + 1;
      else high = middle;
    }
    this.agenda.splice(low, 0, { atMs, run });
  }

  private call(beganMs: number, first: boolean): void {
    const { nowMs } = this;
    const planned = this.state.plan(this.of, 100, beganMs + policy.streamDeadlineMs - nowMs, nowMs, !first);
    if (!planned.ok) {
      if (planned.waitMs !== null && first) this.at(nowMs + planned.waitMs, () => this.call(beganMs, false));
      else this.answer(beganMs, planned.kind);
      return;
    }
    this.state.callBegins(this.of.model, false, nowMs);
    this.attempt(beganMs, planned, [], planned.candidates[0]!);
  }

  private attempt(beganMs: number, planned: Candidates, failedAttempts: readonly FailedAttempt[], chosen: Chosen): void {
    const startedMs = this.nowMs;
    const { candidate, probe } = chosen;
    const { channel } = candidate.deployment;
    this.sent.push({
      channel: channel.name,
      credential: candidate.credential,
      atMs: startedMs,
      probe,
      lastResort: chosen.lastResort === true,
    });
    if (probe) this.probesMax = Math.max(this.probesMax, (this.probes += 1));
    const reporter = this.state.begin(chosen, this.of.model, startedMs, true);
    const answer = this.upstreams[channel.name]!(startedMs, candidate.credential);
    if (answer.contentMs !== undefined) this.at(startedMs + answer.contentMs, () => reporter.firstContent(this.nowMs));
    this.at(startedMs + answer.tookMs, () => {
      if (probe) this.probes -= 1;
      if (answer.failure === null) {
        if (answer.contentMs === undefined) reporter.firstContent(this.nowMs);
        reporter.succeeded(this.nowMs);
        this.answer(beganMs, "served");
        return;
      }
      reporter.failed(answer.failure, this.nowMs);
      if (answer.contentMs !== undefined) return this.answer(beganMs, answer.failure.kind);
      this.goOn(beganMs, planned, [...failedAttempts, { candidate, failure: answer.failure, tookMs: answer.tookMs }]);
    });
  }

  private goOn(beganMs: number, planned: Candidates, failedAttempts: readonly FailedAttempt[]): void {
    const { state, of } = this;
    const verdict = judge({
      policy,
      plan: planned,
      failedAttempts,
      deadlineMs: policy.streamDeadlineMs,
      remainingMs: beganMs + policy.streamDeadlineMs - this.nowMs,
      attemptTimerMs: 60_000,
      bodyBytes: 1_000,
      hostedTools: false,
      promptTokensEstimate: 100,
      upload: false,
      canRetry: state.mayRetry(of.model),
      admits: (one) => state.admits(one),
      admitsAsLastResort: (one) => state.admitsAsLastResort(one, of),
      dice: this.dice,
    });
    if (verdict.action === "stop") return this.answer(beganMs, finalFailure(failedAttempts).kind);
    if (!verdict.free) state.takeRetry(of.model);
    this.at(this.nowMs + verdict.afterMs, () => this.attempt(beganMs, planned, failedAttempts, verdict));
  }

  private answer(beganMs: number, outcome: Answered["outcome"]): void {
    this.answered.push({ beganMs, atMs: this.nowMs, outcome });
  }
}
