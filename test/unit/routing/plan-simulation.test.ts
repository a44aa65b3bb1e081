import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { failure, type Failure } from "../../../src/operations/failure.ts";
import { candidate, candidates, diceOf, route } from "../../support/plan-world.ts";
import { Simulation, type Sent, type Upstream } from "../../support/routing-simulation.ts";

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
  const began = Float64Array.from(simulation.answered, ({ beganMs }) => beganMs).toSorted();
  const sent = Float64Array.from(simulation.sent, ({ atMs }) => atMs).toSorted();
  const endMs = began.at(-1)!;
  for (let fromMs = simulation.startMs; fromMs + 10_000 <= endMs; fromMs += 250) {
    const within = (sorted: Float64Array): number => countBefore(sorted, fromMs + 10_000) - countBefore(sorted, fromMs);
    worst = Math.max(worst, within(sent) / within(began));
  }
  return worst;
}

/** How many of these sorted times are earlier, by bisection. */
function countBefore(sorted: Float64Array, beforeMs: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < beforeMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

describe("a retry storm", () => {
  const kinds = ["unreachable", "overloaded", "rate_limited", "bad_response", "disconnected", "unauthorized"] as const;
  test.each(kinds)("every channel at %s and 200 requests a second: at most 1.25 calls a request", (kind) => {
    const down = dead(failure(kind, ""));
    expect(worstFactor(new Simulation(route([a, b], [c]), { a: down, b: down, c: down }, diceOf(1)).run(200, 40))).toBeLessThanOrEqual(
      1.25,
    );
  });

  test("also if no breaker opens, because every failure is slow", () => {
    const silent = dead(failure("timed_out", "", { scope: "request" }), 900);
    expect(worstFactor(new Simulation(route([a, b, c]), { a: silent, b: silent, c: silent }, diceOf(2)).run(200, 40))).toBeLessThanOrEqual(
      1.25,
    );
  });

  test("a single channel that keeps failing is asked less and less", () => {
    const simulation = new Simulation(route([a]), { a: dead() }, diceOf(3)).run(200, 180);
    const late = simulation.sent.filter(({ atMs }) => atMs > simulation.startMs + 120_000);
    expect(late.length / 60).toBeLessThan(8);
    expect(worstFactor(simulation)).toBeLessThanOrEqual(1.25);
  });
});

describe("a faulty channel beside a healthy one", () => {
  test("refusing connections: after five of them it is not dialled until its probe", () => {
    const simulation = new Simulation(route([a, b]), { a: dead(failure("unreachable", "")), b: well() }, diceOf(4)).run(20, 4);
    expect(errorShare(simulation)).toBe(0);
    expect(sentTo(simulation, "a").length).toBeLessThanOrEqual(6);
  });

  test("flapping every second: few calls fail, one probe at a time, growing pauses", () => {
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

  test("failing 30 %: not ejected, and nearly no call fails", () => {
    const dice = diceOf(6);
    const flaky: Upstream = () => (dice() < 0.3 ? { tookMs: 50, failure: overloaded } : { tookMs: 300, failure: null });
    const simulation = new Simulation(route([a, b]), { a: flaky, b: well() }, diceOf(7)).run(50, 120);
    expect(errorShare(simulation)).toBeLessThan(0.005);
    expect(sentTo(simulation, "a").length / simulation.answered.length).toBeGreaterThan(0.3);
  });

  test("recovering: back after two probes, with a slow start", () => {
    let recoversMs = Infinity;
    const recovering: Upstream = (nowMs) => (nowMs >= recoversMs ? { tookMs: 300, failure: null } : { tookMs: 30, failure: overloaded });
    const simulation = new Simulation(route([a, b]), { a: recovering, b: well() }, diceOf(8));
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
    const recovering: Upstream = (nowMs) => (nowMs >= recoversMs ? { tookMs: 300, failure: null } : { tookMs: 30, failure: overloaded });
    const simulation = new Simulation(route([a], [b]), { a: recovering, b: well() }, diceOf(9));
    recoversMs = simulation.startMs + 20_000;
    simulation.run(20, 120);
    const late = simulation.sent.filter(({ atMs }) => atMs > simulation.startMs + 60_000);
    expect(late.every(({ channel }) => channel === "a")).toBe(true);
    expect(errorShare(simulation)).toBe(0);
  });

  test("asking for a wait: it gets no request before the time is over", () => {
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

  test("hanging: each client waits for it once, and soon none does", () => {
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
      const recovering: Upstream = (nowMs) => (nowMs >= recoversMs ? { tookMs: 300, failure: null } : { tookMs: 30, failure: overloaded });
      const simulation = new Simulation(route([a]), { a: recovering }, diceOf(13));
      recoversMs = simulation.startMs + 120_000;
      simulation.run(rate, 150);
      const first = simulation.answered.find(({ atMs, outcome }) => atMs >= recoversMs && outcome === "served");
      expect(first!.atMs - recoversMs).toBeLessThanOrEqual(5_000);
      const settled = simulation.answered.filter(({ beganMs }) => beganMs > recoversMs + 5_000);
      expect(settled.every(({ outcome }) => outcome === "served")).toBe(true);
    },
  );

  test("an outage of a second is waited out", () => {
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

  test("failing 30 %: most calls are served by a retry", () => {
    const dice = diceOf(16);
    const flaky: Upstream = () => (dice() < 0.3 ? { tookMs: 50, failure: overloaded } : { tookMs: 300, failure: null });
    const simulation = new Simulation(route([a]), { a: flaky }, diceOf(17)).run(2, 300);
    expect(errorShare(simulation)).toBeLessThan(0.1);
  });
});

describe("when all channels are down", () => {
  test("the first to recover is found, even if another's cool-down ends sooner", () => {
    let recoversMs = Infinity;
    const recovering: Upstream = (nowMs) => (nowMs >= recoversMs ? { tookMs: 300, failure: null } : { tookMs: 30, failure: overloaded });
    const simulation = new Simulation(route([a, b, c]), { a: dead(), b: dead(), c: recovering }, diceOf(18));
    recoversMs = simulation.startMs + 100_000;
    simulation.run(20, 130);
    const first = simulation.answered.find(({ outcome, atMs }) => atMs >= recoversMs && outcome === "served");
    expect(first!.atMs - recoversMs).toBeLessThanOrEqual(5_000);
    const settled = simulation.answered.filter(({ beganMs }) => beganMs > recoversMs + 10_000);
    expect(settled.filter(({ outcome }) => outcome !== "served").length / settled.length).toBeLessThan(0.01);
  });

  test("all rate limited: clients are told so, and no upstream is asked before the time", () => {
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

  test("for every single call, beside two others with any kind of failure", () => {
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

  test("for every single call, in a lower tier than the failures", () => {
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
