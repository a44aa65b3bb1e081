import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Candidate, Channel, Route } from "../src/channels/channel.ts";
import {
  afterFailure,
  afterSuccess,
  chargedScope,
  type Health,
  isProbing,
  probeAbandoned,
  scopeIds,
  standing,
  withProbe,
} from "../src/channels/health.ts";
import { begun, ended, type Load, newLoad, observed } from "../src/channels/load.ts";
import { countFirst, mayRetry, newRetryBudget, takeRetry } from "../src/limits/retry-budget.ts";
import { countAccept, countRequest, newThrottle } from "../src/limits/throttle.ts";
import { failure, type Failure } from "../src/operations/failure.ts";
import { admits } from "../src/routing/condition.ts";
import { finalFailure } from "../src/routing/final-failure.ts";
import { judge, type Tried } from "../src/routing/judge.ts";
import { type Ahead, plan } from "../src/routing/plan.ts";
import { candidate, candidates, diceOf, route } from "./support/plan-world.ts";

/** What an upstream does with a call that reaches it now. */
type Upstream = (nowMs: number, credential: string) => { readonly tookMs: number; readonly failure: Failure | null };

interface Sent {
  readonly channel: string;
  readonly credential: string;
  readonly atMs: number;
  readonly probe: boolean;
}

interface Answered {
  readonly beganMs: number;
  readonly atMs: number;
  readonly outcome: "served" | Failure["kind"];
}

const policy = {
  attemptsMax: 3,
  hedgeAfterMs: null,
  rescue: "error",
  streamDeadlineMs: 120_000,
  wholeDeadlineMs: 600_000,
  waitMs: 0,
} as const;

/** A whole gateway's worth of decisions on a clock of its own: everything but sockets. */
class Simulation {
  nowMs = 1_000_000;
  readonly startMs = this.nowMs;
  readonly sent: Sent[] = [];
  readonly answered: Answered[] = [];
  probesMax = 0;
  private probes = 0;
  private readonly healths = new Map<string, Health>();
  private readonly loads = new Map<string, Load>();
  private readonly inFlight = new Map<Channel, number>();
  private readonly budget = newRetryBudget();
  private readonly throttle = newThrottle();
  private panicking = 0;
  private running = 0;
  private normal = 0;
  private readonly agenda: { readonly atMs: number; readonly run: () => void }[] = [];

  constructor(
    private readonly of: Route,
    private readonly upstreams: Readonly<Record<string, Upstream>>,
    private readonly dice: () => number,
  ) {}

  /** Calls come at even intervals; then everything that is under way runs to its end. */
  run(requestsPerSecond: number, seconds: number): this {
    const startMs = this.nowMs;
    for (let call = 0; call < requestsPerSecond * seconds; call += 1) {
      this.at(startMs + (call * 1_000) / requestsPerSecond, () => this.call(this.nowMs, true));
    }
    for (let next = this.agenda.shift(); next !== undefined; next = this.agenda.shift()) {
      this.nowMs = Math.max(this.nowMs, next.atMs);
      next.run();
    }
    return this;
  }

  health(scope: string): Health | undefined {
    return this.healths.get(scope);
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
    const { nowMs, dice } = this;
    if (first) countFirst(this.budget, nowMs);
    const planned = plan({
      route: this.of,
      health: (scope) => this.healths.get(scope),
      load: (id) => this.loads.get(id),
      channelInFlight: (channel) => this.inFlight.get(channel) ?? 0,
      throttle: this.throttle,
      lastResorts: this.panicking,
      normalCalls: this.normal,
      promptTokensEstimate: 100,
      remainingMs: beganMs + policy.streamDeadlineMs - nowMs,
      nowMs,
      dice,
    });
    if (first) countRequest(this.throttle, nowMs, planned.go === "ahead");
    if (planned.go === "refuse") {
      if (planned.waitMs !== null && first) this.at(nowMs + planned.waitMs, () => this.call(beganMs, false));
      else this.answer(beganMs, planned.kind);
      return;
    }
    this.running += 1;
    if (planned.mode === "last_resort") this.panicking += 1;
    else this.normal += (this.running - this.normal) / 50;
    const [{ candidate: chosen, probe }] = planned.candidates as [Ahead["candidates"][number]];
    this.attempt(beganMs, planned, [], chosen, probe);
  }

  private attempt(beganMs: number, planned: Ahead, tried: readonly Tried[], chosen: Candidate, probe: boolean): void {
    const startedMs = this.nowMs;
    const { channel, id } = chosen.deployment;
    this.sent.push({ channel: channel.name, credential: chosen.credential, atMs: startedMs, probe });
    if (probe) {
      this.probesMax = Math.max(this.probesMax, (this.probes += 1));
      for (const scope of scopeIds(chosen.scopes)) {
        const health = this.healths.get(scope);
        if (health !== undefined && standing(health, startedMs) === "half_open") this.healths.set(scope, withProbe(health, startedMs));
      }
    }
    const load = this.loads.get(id) ?? newLoad();
    this.loads.set(id, load);
    begun(load);
    this.inFlight.set(channel, (this.inFlight.get(channel) ?? 0) + 1);
    const answer = this.upstreams[channel.name]!(startedMs, chosen.credential);
    this.at(startedMs + answer.tookMs, () => {
      ended(load);
      this.inFlight.set(channel, this.inFlight.get(channel)! - 1);
      if (probe) this.probes -= 1;
      if (answer.failure === null) {
        observed(load, answer.tookMs, this.nowMs, true);
        for (const scope of scopeIds(chosen.scopes)) this.healths.set(scope, afterSuccess(this.healths.get(scope), this.nowMs, startedMs));
        countAccept(this.throttle, this.nowMs);
        this.finish(beganMs, planned, "served");
        return;
      }
      this.charge(chosen, answer.failure, startedMs, probe);
      this.goOn(beganMs, planned, [...tried, { candidate: chosen, failure: answer.failure, tookMs: answer.tookMs }]);
    });
  }

  private charge(chosen: Candidate, what: Failure, startedMs: number, probe: boolean): void {
    const charged = chargedScope(chosen, what);
    for (const scope of scopeIds(chosen.scopes)) {
      const health = this.healths.get(scope);
      if (scope === charged) this.healths.set(scope, afterFailure(health, what, this.nowMs, this.dice, startedMs));
      else if (probe && isProbing(health, this.nowMs)) this.healths.set(scope, probeAbandoned(health)!);
    }
  }

  private goOn(beganMs: number, planned: Ahead, tried: readonly Tried[]): void {
    const verdict = judge({
      policy,
      plan: planned,
      tried,
      deadlineMs: policy.streamDeadlineMs,
      remainingMs: beganMs + policy.streamDeadlineMs - this.nowMs,
      attemptTimerMs: 60_000,
      bodyBytes: 1_000,
      hostedTools: false,
      promptTokensEstimate: 100,
      upload: false,
      canRetry: mayRetry(this.budget, this.nowMs),
      admits: (one) => admits(one.scopes, (scope) => this.healths.get(scope), this.nowMs),
      dice: this.dice,
    });
    if (verdict.go === "stop") return this.finish(beganMs, planned, finalFailure(tried).kind);
    if (!verdict.free) takeRetry(this.budget, this.nowMs);
    this.at(this.nowMs + verdict.afterMs, () => this.attempt(beganMs, planned, tried, verdict.candidate, verdict.probe));
  }

  private finish(beganMs: number, planned: Ahead, outcome: Answered["outcome"]): void {
    this.running -= 1;
    if (planned.mode === "last_resort") this.panicking -= 1;
    this.answer(beganMs, outcome);
  }

  private answer(beganMs: number, outcome: Answered["outcome"]): void {
    this.answered.push({ beganMs, atMs: this.nowMs, outcome });
  }
}

const overloaded = failure("overloaded", "503", { status: 503 });
const well =
  (tookMs = 300): Upstream =>
  () => ({ tookMs, failure: null });
const dead =
  (what: Failure = overloaded, tookMs = 30): Upstream =>
  () => ({ tookMs, failure: what });

const [a, b, c] = [candidate("a"), candidate("b"), candidate("c")];

const errorShare = (simulation: Simulation): number =>
  simulation.answered.filter(({ outcome }) => outcome !== "served").length / simulation.answered.length;
const sentTo = (simulation: Simulation, name: string): Sent[] => simulation.sent.filter(({ channel }) => channel === name);

function worstFactor(simulation: Simulation): number {
  let worst = 0;
  const endMs = Math.max(...simulation.answered.map(({ beganMs }) => beganMs));
  for (let fromMs = simulation.startMs; fromMs + 10_000 <= endMs; fromMs += 250) {
    const within = (atMs: number): boolean => atMs >= fromMs && atMs < fromMs + 10_000;
    const requests = simulation.answered.filter(({ beganMs }) => within(beganMs)).length;
    worst = Math.max(worst, simulation.sent.filter(({ atMs }) => within(atMs)).length / requests);
  }
  return worst;
}

describe("a retry storm", () => {
  const kinds = ["unreachable", "overloaded", "rate_limited", "bad_response", "disconnected", "unauthorized"] as const;
  test.each(kinds)("every channel at %s and 200 requests a second: at most 1.25 calls a request", (kind) => {
    const down = dead(failure(kind, ""));
    expect(worstFactor(new Simulation(route([a, b], [c]), { a: down, b: down, c: down }, diceOf(1)).run(200, 40))).toBeLessThanOrEqual(
      1.25,
    );
  });

  test("also when nothing ever opens, because every failure comes late", () => {
    const silent = dead(failure("timed_out", "", { scope: "request" }), 900);
    expect(worstFactor(new Simulation(route([a, b, c]), { a: silent, b: silent, c: silent }, diceOf(2)).run(200, 40))).toBeLessThanOrEqual(
      1.25,
    );
  });

  test("a single channel that fails for good is asked ever less", () => {
    const simulation = new Simulation(route([a]), { a: dead() }, diceOf(3)).run(200, 180);
    const late = simulation.sent.filter(({ atMs }) => atMs > simulation.startMs + 120_000);
    expect(late.length / 60).toBeLessThan(8);
    expect(worstFactor(simulation)).toBeLessThanOrEqual(1.25);
  });
});

describe("a channel that misbehaves beside one that is well", () => {
  test("refusing connections: after five of them it is not dialled until its probe", () => {
    const simulation = new Simulation(route([a, b]), { a: dead(failure("unreachable", "")), b: well() }, diceOf(4)).run(20, 4);
    expect(errorShare(simulation)).toBe(0);
    expect(sentTo(simulation, "a").length).toBeLessThanOrEqual(6);
  });

  test("a second up, a second down: clients hardly notice, one probe at a time, ever longer pauses", () => {
    const flapping: Upstream = (nowMs) =>
      Math.floor(nowMs / 1_000) % 2 === 0 ? { tookMs: 200, failure: null } : { tookMs: 20, failure: overloaded };
    const simulation = new Simulation(route([a, b]), { a: flapping, b: well() }, diceOf(5)).run(50, 120);
    expect(errorShare(simulation)).toBeLessThan(0.01);
    expect(simulation.probesMax).toBe(1);
    const failuresIn = (fromS: number, toS: number): number =>
      sentTo(simulation, "a").filter(
        ({ atMs }) =>
          atMs >= simulation.startMs + fromS * 1_000 && atMs < simulation.startMs + toS * 1_000 && Math.floor(atMs / 1_000) % 2 === 1,
      ).length;
    expect(failuresIn(60, 120)).toBeLessThan(60);
  });

  test("failing 30 %: not ejected, and the clients see next to nothing of it", () => {
    const dice = diceOf(6);
    const flaky: Upstream = () => (dice() < 0.3 ? { tookMs: 50, failure: overloaded } : { tookMs: 300, failure: null });
    const simulation = new Simulation(route([a, b]), { a: flaky, b: well() }, diceOf(7)).run(50, 120);
    expect(errorShare(simulation)).toBeLessThan(0.005);
    expect(sentTo(simulation, "a").length / simulation.answered.length).toBeGreaterThan(0.3);
  });

  test("recovering: back after two probes, with a slow start", () => {
    let recoversMs = Infinity;
    const mended: Upstream = (nowMs) => (nowMs >= recoversMs ? { tookMs: 300, failure: null } : { tookMs: 30, failure: overloaded });
    const simulation = new Simulation(route([a, b]), { a: mended, b: well() }, diceOf(8));
    recoversMs = simulation.startMs + 12_000;
    simulation.run(50, 90);
    const after = sentTo(simulation, "a").filter(({ atMs }) => atMs >= recoversMs);
    expect(after.filter(({ probe }) => probe).length).toBe(2);
    const backMs = after[2]!.atMs;
    const share = (fromMs: number, toMs: number): number => {
      const within = simulation.sent.filter(({ atMs }) => atMs >= backMs + fromMs && atMs < backMs + toMs);
      return within.filter(({ channel }) => channel === "a").length / within.length;
    };
    expect(share(0, 5_000)).toBeLessThan(0.25);
    expect(share(35_000, 50_000)).toBeGreaterThan(0.4);
    expect(errorShare(simulation)).toBe(0);
  });

  test("a first tier that recovers takes its traffic back from the fallback", () => {
    let recoversMs = Infinity;
    const mended: Upstream = (nowMs) => (nowMs >= recoversMs ? { tookMs: 300, failure: null } : { tookMs: 30, failure: overloaded });
    const simulation = new Simulation(route([a], [b]), { a: mended, b: well() }, diceOf(9));
    recoversMs = simulation.startMs + 20_000;
    simulation.run(20, 120);
    const late = simulation.sent.filter(({ atMs }) => atMs > simulation.startMs + 60_000);
    expect(late.every(({ channel }) => channel === "a")).toBe(true);
    expect(errorShare(simulation)).toBe(0);
  });

  test("asking us to stay away: nobody calls it before the time is over", () => {
    let untilMs = 0;
    let served = 0;
    const limiting: Upstream = (nowMs) => {
      if (nowMs < untilMs) throw new Error("called before its time");
      if ((served += 1) % 50 !== 0) return { tookMs: 1, failure: null };
      untilMs = nowMs + 7_000;
      return { tookMs: 0, failure: failure("rate_limited", "", { retryAfterMs: 7_000, status: 429 }) };
    };
    const simulation = new Simulation(route([a, b]), { a: limiting, b: well() }, diceOf(10)).run(50, 120);
    expect(errorShare(simulation)).toBe(0);
    expect(sentTo(simulation, "a").length).toBeGreaterThan(200);
  });

  test("one exhausted key of a pool does not stop the others", () => {
    const pool = candidates("pool", { credentials: ["k1", "k2", "k3"] });
    const upstream: Upstream = (_nowMs, credential) =>
      credential === "k1" ? { tookMs: 20, failure: failure("quota_exhausted", "", { status: 429 }) } : { tookMs: 300, failure: null };
    const simulation = new Simulation(route(pool), { pool: upstream }, diceOf(11)).run(10, 60);
    expect(errorShare(simulation)).toBe(0);
    expect(simulation.sent.filter(({ credential }) => credential === "k1").length).toBeLessThan(4);
  });

  test("hanging: the clients wait for it once each, and soon not at all", () => {
    const hung = dead(failure("timed_out", ""), 60_000);
    const simulation = new Simulation(route([a, b]), { a: hung, b: well() }, diceOf(12)).run(10, 300);
    expect(errorShare(simulation)).toBe(0);
    const late = sentTo(simulation, "a").filter(({ atMs }) => atMs > simulation.startMs + 65_000);
    expect(late.length).toBeLessThan(10);
  });
});

describe("a route with a single channel", () => {
  test.each([[1], [20], [200]])(
    "failing for two minutes at %p requests a second, then well: the first success comes within five seconds",
    (rate) => {
      let recoversMs = Infinity;
      const mended: Upstream = (nowMs) => (nowMs >= recoversMs ? { tookMs: 300, failure: null } : { tookMs: 30, failure: overloaded });
      const simulation = new Simulation(route([a]), { a: mended }, diceOf(13));
      recoversMs = simulation.startMs + 120_000;
      simulation.run(rate, 150);
      const first = simulation.answered.find(({ atMs, outcome }) => atMs >= recoversMs && outcome === "served");
      expect(first!.atMs - recoversMs).toBeLessThanOrEqual(5_000);
      const settled = simulation.answered.filter(({ beganMs }) => beganMs > recoversMs + 5_000);
      expect(settled.every(({ outcome }) => outcome === "served")).toBe(true);
    },
  );

  test("a hiccup of a second is slept out", () => {
    const hiccup: Upstream = (nowMs) =>
      nowMs >= 1_010_000 && nowMs < 1_010_400 ? { tookMs: 5, failure: overloaded } : { tookMs: 300, failure: null };
    const simulation = new Simulation(route([a]), { a: hiccup }, diceOf(14)).run(5, 30);
    expect(errorShare(simulation)).toBeLessThan(0.02);
  });

  test("limited for three seconds: the calls wait, and are served", () => {
    let untilMs = 0;
    let count = 0;
    const limiting: Upstream = (nowMs) => {
      if (nowMs < untilMs) return { tookMs: 5, failure: failure("rate_limited", "", { retryAfterMs: untilMs - nowMs, status: 429 }) };
      if ((count += 1) % 40 === 0) untilMs = nowMs + 3_000;
      return { tookMs: 200, failure: null };
    };
    const simulation = new Simulation(route([a]), { a: limiting }, diceOf(15)).run(5, 60);
    expect(errorShare(simulation)).toBe(0);
  });

  test("failing 30 %: most are served by asking again", () => {
    const dice = diceOf(16);
    const flaky: Upstream = () => (dice() < 0.3 ? { tookMs: 50, failure: overloaded } : { tookMs: 300, failure: null });
    const simulation = new Simulation(route([a]), { a: flaky }, diceOf(17)).run(2, 300);
    expect(errorShare(simulation)).toBeLessThan(0.1);
  });
});

describe("when everybody is down", () => {
  test("whoever recovers first is found, even if another one's time is up sooner", () => {
    let recoversMs = Infinity;
    const mended: Upstream = (nowMs) => (nowMs >= recoversMs ? { tookMs: 300, failure: null } : { tookMs: 30, failure: overloaded });
    const simulation = new Simulation(route([a, b, c]), { a: dead(), b: dead(), c: mended }, diceOf(18));
    recoversMs = simulation.startMs + 100_000;
    simulation.run(20, 130);
    const first = simulation.answered.find(({ outcome, atMs }) => atMs >= recoversMs && outcome === "served");
    expect(first!.atMs - recoversMs).toBeLessThanOrEqual(5_000);
    const settled = simulation.answered.filter(({ beganMs }) => beganMs > recoversMs + 10_000);
    expect(settled.filter(({ outcome }) => outcome !== "served").length / settled.length).toBeLessThan(0.01);
  });

  test("all limited: the clients are told so, and nobody is asked before the time", () => {
    const limiting = dead(failure("rate_limited", "", { retryAfterMs: 30_000, status: 429 }));
    const simulation = new Simulation(route([a, b]), { a: limiting, b: limiting }, diceOf(19)).run(20, 24);
    expect(new Set(simulation.answered.map(({ outcome }) => outcome))).toEqual(new Set(["rate_limited"]));
    expect(simulation.sent.length).toBeLessThan(8);
  });
});

describe("one healthy channel is enough", () => {
  const trouble = fc.constantFrom<Failure>(
    overloaded,
    failure("unreachable", ""),
    failure("tls_failed", ""),
    failure("disconnected", ""),
    failure("rate_limited", ""),
    failure("rate_limited", "", { retryAfterMs: 2_000, status: 429 }),
    failure("quota_exhausted", ""),
    failure("unauthorized", ""),
    failure("model_missing", ""),
    failure("redirected", ""),
    failure("bad_response", ""),
    failure("timed_out", ""),
  );

  test("for every single call, beside two others in any kind of trouble", () => {
    fc.assert(
      fc.property(trouble, trouble, fc.integer({ min: 0, max: 2 }), fc.integer(), (first, second, at, seed) => {
        const behaviours = [dead(first), dead(second)];
        behaviours.splice(at, 0, well());
        const [one, two, three] = behaviours as [Upstream, Upstream, Upstream];
        const simulation = new Simulation(route([a, b, c]), { a: one, b: two, c: three }, diceOf(seed)).run(2, 60);
        expect(errorShare(simulation)).toBe(0);
      }),
      { numRuns: 60 },
    );
  });

  test("for every single call, in a lower tier than the trouble", () => {
    fc.assert(
      fc.property(trouble, fc.integer(), (what, seed) => {
        const simulation = new Simulation(route([a], [b]), { a: dead(what), b: well() }, diceOf(seed)).run(2, 60);
        expect(errorShare(simulation)).toBe(0);
      }),
      { numRuns: 40 },
    );
  });
});

describe("balance", () => {
  /** Heavy-tailed, as times to first content are. */
  const noisy =
    (medianMs: number, dice: () => number): Upstream =>
    () => {
      const normal = Math.sqrt(-2 * Math.log(1 - dice())) * Math.cos(2 * Math.PI * dice());
      return { tookMs: medianMs * Math.exp(0.7 * normal), failure: null };
    };

  test.each([[1], [10], [100]])("channels of equal speed share by weight, at %p requests a second", (rate) => {
    const [heavy, light] = [candidate("a", { weight: 3 }), candidate("b", { weight: 1 })];
    const dice = diceOf(20);
    const simulation = new Simulation(route([heavy, light]), { a: noisy(700, dice), b: noisy(700, dice) }, diceOf(21)).run(
      rate,
      20_000 / rate,
    );
    expect(sentTo(simulation, "a").length / simulation.sent.length).toBeGreaterThan(0.68);
    expect(sentTo(simulation, "a").length / simulation.sent.length).toBeLessThan(0.82);
  });

  test.each([[1], [10], [100]])(
    "one that is five times as slow gets far less than its share, but is not forgotten, at %p requests a second",
    (rate) => {
      const dice = diceOf(22);
      const simulation = new Simulation(route([a, b]), { a: noisy(400, dice), b: noisy(2_000, dice) }, diceOf(23)).run(rate, 20_000 / rate);
      const share = sentTo(simulation, "b").length / simulation.sent.length;
      expect(share).toBeLessThan(0.3);
      expect(share).toBeGreaterThan(0.001);
    },
  );
});
