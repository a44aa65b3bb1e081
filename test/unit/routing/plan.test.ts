import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Candidate, Route } from "../../../src/channels/channel.ts";
import { afterFailure, afterSuccess, type Health, opensAgainMs, withProbe } from "../../../src/channels/health.ts";
import { LastAsked } from "../../../src/channels/last-asked.ts";
import { startCall, newLoad, recordLatency } from "../../../src/channels/load.ts";
import { countRequest, newThrottle } from "../../../src/limits/throttle.ts";
import { failure, type Failure } from "../../../src/operations/failure.ts";
import { drawOne, indexOf } from "../../../src/routing/draw.ts";
import {
  type Candidates,
  type Choice,
  choicesSoFar,
  hasOneDeployment,
  plan,
  type PlanInput,
  type PlanRefusal,
  wholePlan,
} from "../../../src/routing/plan.ts";
import { candidate, candidates, diceOf, planInput, route, type Tables, tables } from "../../support/plan-world.ts";

const nowMs = 1_000_000;
const overloaded = failure("overloaded", "503");
const limited = (retryAfterMs: number): Failure => failure("rate_limited", "429", { retryAfterMs });

function failing(times: number, what: Failure, atMs: number): Health {
  let health: Health | undefined;
  for (let time = 0; time < times; time += 1) health = afterFailure(health, what, atMs, () => 0.5, atMs - 1);
  return health!;
}

/** Open until a while from now. */
function open(table: Tables, scope: string, forMs = 5_000): Health {
  const health = failing(5, overloaded, nowMs - 5_000 + forMs);
  table.health.set(scope, health);
  return health;
}

function halfOpen(table: Tables, scope: string): Health {
  return open(table, scope, -1_000);
}

function coolDown(table: Tables, scope: string, forMs: number): void {
  table.health.set(scope, failing(1, limited(forMs), nowMs));
}

function ahead(input: PlanInput): Candidates {
  const found = plan(input);
  if (!found.ok) throw new Error(`refused: ${found.kind}`);
  return found;
}

function refused(input: PlanInput): PlanRefusal {
  const found = plan(input);
  if (found.ok) throw new Error("went ahead");
  return found;
}

const namesOf = (choices: readonly Choice[]): string[] => choices.map(({ candidate: { deployment } }) => deployment.channel.name);
const names = (found: Candidates): string[] => namesOf(found.candidates);

/** Each was asked so long ago. */
function askedAgo(...asked: readonly (readonly [Candidate, number])[]): LastAsked {
  const last = new LastAsked(new Map());
  for (const [who, agoMs] of asked) last.asked(who, nowMs - agoMs);
  return last;
}

/** How often each channel comes first. */
function shares(of: Route, table: Tables, facts: Partial<PlanInput> = {}, times = 4_000): Record<string, number> {
  const dice = diceOf(7);
  const first: Record<string, number> = {};
  for (let time = 0; time < times; time += 1) {
    const name = names(ahead(planInput(of, table, { dice, ...facts })))[0]!;
    first[name] = (first[name] ?? 0) + 1 / times;
  }
  return first;
}

describe("a plan with healthy candidates", () => {
  test("goes tier by tier", () => {
    const of = route([candidate("a"), candidate("b")], [candidate("c")], [candidate("d"), candidate("e")]);
    for (let seed = 0; seed < 50; seed += 1) {
      const found = ahead(planInput(of, tables(), { dice: diceOf(seed) }));
      expect(found.mode).toBe("normal");
      expect(found.candidates.map(({ tier }) => tier)).toEqual([0, 0, 1, 2, 2]);
      expect(names(found).toSorted()).toEqual(["a", "b", "c", "d", "e"]);
      expect(found.skipped).toEqual([]);
    }
  });

  test("is the same for the same dice", () => {
    const of = route([candidate("a"), candidate("b"), candidate("c")], [candidate("d")]);
    expect(plan(planInput(of, tables()))).toEqual(plan(planInput(of, tables())));
  });

  test("shares a tier by weight", () => {
    const of = route([candidate("a", { weight: 6 }), candidate("b", { weight: 3 }), candidate("c", { weight: 1 })]);
    const { a, b, c } = shares(of, tables());
    expect(a).toBeCloseTo(0.6, 1);
    expect(b).toBeCloseTo(0.3, 1);
    expect(c).toBeCloseTo(0.1, 1);
  });

  test("shares a large tier by weight too", () => {
    const tier = Array.from({ length: 40 }, (_, at) => candidate(`c${at}`, { weight: at === 0 ? 39 : 1 }));
    expect(shares(route(tier), tables())["c0"]).toBeCloseTo(0.5, 1);
  });

  test("a pool has its channel's weight, not one for each key", () => {
    const of = route([...candidates("pool", { credentials: ["k1", "k2", "k3", "k4"] }), candidate("b")]);
    expect(shares(of, tables())["pool"]).toBeCloseTo(0.5, 1);
  });

  test("noise in the latencies does not defeat the weights", () => {
    const of = route([candidate("a", { weight: 3 }), candidate("b")]);
    const table = tables();
    for (const [id, ms, inFlight] of [
      ["a/m", 800, 6],
      ["b/m", 550, 2],
    ] as const) {
      const load = newLoad();
      recordLatency(load, ms, nowMs, true);
      for (let call = 0; call < inFlight; call += 1) startCall(load);
      table.load.set(id, load);
    }
    expect(shares(of, table)["a"]).toBeCloseTo(0.75, 1);
  });

  test("prefers a candidate that is much faster or much less busy", () => {
    for (const [ms, inFlight] of [
      [2_500, 0],
      [500, 40],
    ] as const) {
      const table = tables();
      const quick = newLoad();
      const other = newLoad();
      recordLatency(quick, 500, nowMs, true);
      recordLatency(other, ms, nowMs, true);
      for (let call = 0; call < inFlight; call += 1) startCall(other);
      table.load.set("a/m", quick).set("b/m", other);
      expect(shares(route([candidate("a"), candidate("b")]), table)["a"]).toBeGreaterThan(0.99);
    }
  });

  test("does not skip a new candidate that has no latency yet", () => {
    const table = tables();
    const known = newLoad();
    recordLatency(known, 50, nowMs, true);
    table.load.set("a/m", known);
    expect(shares(route([candidate("a"), candidate("b")]), table)["b"]).toBeCloseTo(0.5, 1);
  });

  test("a large first tier leaves room for the tiers below, and for another host", () => {
    const crowd = candidates("crowd", { credentials: Array.from({ length: 30 }, (_, at) => `k${at}`) });
    const of = route([...crowd, candidate("lone", { weight: 0.001 })], [candidate("x"), candidate("y")]);
    for (let seed = 0; seed < 100; seed += 1) {
      const found = names(ahead(planInput(of, tables(), { dice: diceOf(seed) })));
      expect(found.length).toBeLessThanOrEqual(8);
      expect(found).toContain("x");
      expect(found).toContain("y");
    }
    const small = route([...crowd.slice(0, 8), candidate("lone", { weight: 0.001 })]);
    for (let seed = 0; seed < 100; seed += 1) expect(names(ahead(planInput(small, tables(), { dice: diceOf(seed) })))).toContain("lone");
  });

  test("candidates on one host do not fill the whole tier", () => {
    const crowd = candidates("crowd", { credentials: ["k1", "k2", "k3", "k4", "k5", "k6", "k7"] });
    const of = route([...crowd, candidate("lone", { weight: 0.001 })], [candidate("x")], [candidate("y")]);
    for (let seed = 0; seed < 100; seed += 1) {
      const found = names(ahead(planInput(of, tables(), { dice: diceOf(seed) })));
      expect(found).toEqual(["crowd", "crowd", "crowd", "lone", "x", "y"]);
    }
  });

  test("draws by weight, to the edge of each share", () => {
    const tier = [3, 0, 1, 6].map((weight, at) => candidate(`c${at}`, { weight }));
    const drawn = [0, 0.29, 0.3, 0.39, 0.4, 0.999].map((dice) => drawOne(indexOf(tier), () => dice));
    expect(drawn).toEqual([0, 0, 2, 2, 3, 3]);
  });

  test("skewed weights still leave a candidate to fall back on", () => {
    const tier = Array.from({ length: 12 }, (_, at) => candidate(`c${at}`, { weight: at === 0 ? 1_000_000 : 1 }));
    for (let seed = 0; seed < 50; seed += 1) {
      expect(ahead(planInput(route(tier), tables(), { dice: diceOf(seed) })).candidates.length).toBeGreaterThanOrEqual(3);
    }
  });

  test("assesses no more of ten thousand candidates than of twenty", () => {
    const looks = (size: number): number => {
      const of = route(Array.from({ length: size }, (_, at) => candidate(`c${at}`)));
      let count = 0;
      const dice = diceOf(5);
      for (let time = 0; time < 200; time += 1) {
        plan(
          planInput(of, tables(), {
            dice,
            health: () => {
              count += 1;
              return undefined;
            },
          }),
        );
      }
      return count / 200;
    };
    expect(looks(10_000)).toBeLessThan(looks(20) * 1.3);
    // Two candidates with three scopes each, and now and then one that was drawn before.
    expect(looks(10_000)).toBeLessThan(6.1);
  });

  test("draws more of a large tier when they are asked for, and has the first one in its place", () => {
    const of = route(
      Array.from({ length: 200 }, (_, at) => candidate(`c${at}`)),
      [candidate("below")],
    );
    for (let seed = 0; seed < 100; seed += 1) {
      const table = tables();
      const found = ahead(planInput(of, table, { dice: diceOf(seed) }));
      const [first, second] = choicesSoFar(found);
      expect(choicesSoFar(found).length).toBe(2);
      // Meanwhile the first has become the worse one, and one that was not drawn yet has failed.
      const busy = newLoad();
      for (let call = 0; call < 100; call += 1) startCall(busy);
      table.load.set(first!.candidate.deployment.id, busy);
      const other = of.tiers[0]!.find((one) => one !== first!.candidate && one !== second!.candidate)!;
      coolDown(table, other.scopes.deployment, 30_000);
      expect(found.candidates[0]).toBe(first);
      expect(found.candidates).toContain(second!);
      expect(found.candidates.map(({ candidate: one }) => one)).not.toContain(other);
      expect(names(found)).toContain("below");
      expect(found.candidates.length).toBe(5);
      expect(choicesSoFar(found)).toBe(found.candidates);
    }
  });

  test("has the same candidates for the same dice, whether it is asked for one of them or for all", () => {
    const tier = Array.from({ length: 50 }, (_, at) => candidate(`c${at}`, { weight: 1 + (at % 5), host: `h${at % 2}` }));
    const of = route(tier, [candidate("x"), candidate("y")]);
    for (let seed = 0; seed < 100; seed += 1) {
      const table = tables();
      for (let at = 0; at < 50; at += 3) open(table, tier[at]!.scopes.deployment);
      const input = (): PlanInput => planInput(of, table, { dice: diceOf(seed) });
      const opened = ahead(input());
      const first = choicesSoFar(opened)[0];
      const whole = wholePlan(input());
      expect(whole.ok && whole.candidates[0]).toEqual(first);
      expect(opened.candidates).toEqual(whole.ok ? whole.candidates : []);
      expect(opened.skipped).toEqual(whole.skipped);
      expect(opened.reserve ?? []).toEqual((whole.ok && whole.reserve) || []);
    }
  });

  test("of a large tier, the better of two that are drawn by weight goes first", () => {
    const tier = Array.from({ length: 100 }, (_, at) => candidate(`c${at}`, { weight: at < 50 ? 3 : 1 }));
    const table = tables();
    const slow = newLoad();
    recordLatency(slow, 10_000, nowMs, true);
    const quick = newLoad();
    recordLatency(quick, 100, nowMs, true);
    // One tenth of the weight is slow: it goes first only where both draws hit it.
    tier.forEach(({ deployment }, at) => table.load.set(deployment.id, at >= 80 ? slow : quick));
    const dice = diceOf(11);
    let heavy = 0;
    let late = 0;
    for (let time = 0; time < 4_000; time += 1) {
      const { candidate: first } = choicesSoFar(ahead(planInput(route(tier), table, { dice })))[0]!;
      if (first.weight === 3) heavy += 1;
      if (table.load.get(first.deployment.id) === slow) late += 1;
    }
    expect(late / 4_000).toBeLessThan(0.02);
    // Of the quick ones, 150 of 180 of the weight is on the heavy ones.
    expect(heavy / (4_000 - late)).toBeCloseTo(150 / 180, 1);
  });
});

describe("a plan with some unhealthy candidates", () => {
  const [a, b, c] = [candidate("a"), candidate("b"), candidate("c")];

  test("skips candidates in cool-down, and says until when and why", () => {
    const table = tables();
    const health = open(table, a.scopes.host, 4_000);
    const found = ahead(planInput(route([a, b]), table));
    expect(names(found)).toEqual(["b"]);
    expect(found.skipped).toEqual([
      { candidate: a, because: "cooling", untilMs: opensAgainMs(health), scope: "host a.test", cause: "overloaded" },
    ]);
  });

  test.each(["host", "credential", "deployment", "quota"] as const)("any scope of a candidate can hold it back: %s", (scope) => {
    const grouped = candidate("g", { quota: "org" });
    const table = tables();
    open(table, grouped.scopes[scope]!);
    expect(names(ahead(planInput(route([grouped, b]), table)))).toEqual(["b"]);
  });

  test("one bad key of a pool leaves the others", () => {
    const pool = candidates("pool", { credentials: ["k1", "k2"] });
    const table = tables();
    open(table, "credential k1");
    expect(ahead(planInput(route(pool), table)).candidates.map(({ candidate: { credential } }) => credential)).toEqual(["k2"]);
  });

  test("skips a full channel", () => {
    const found = ahead(planInput(route([a, b]), tables(), { channelInFlight: (channel) => (channel.name === "a" ? 512 : 0) }));
    expect(names(found)).toEqual(["b"]);
    expect(found.skipped.map(({ because }) => because)).toEqual(["saturated"]);
  });

  test("a single candidate is planned as long as it is healthy and has capacity, and no longer", () => {
    const table = tables();
    const only = route([a]);
    const first = ahead(planInput(only, table));
    expect(first).toEqual({ ok: true, mode: "normal", candidates: [{ candidate: a, tier: 0, probe: false }], skipped: [] });
    expect(ahead(planInput(only, table))).toEqual(first);
    expect(refused(planInput(only, table, { channelInFlight: () => 512 })).kind).toBe("saturated");
    coolDown(table, a.scopes.host, 30_000);
    expect(refused(planInput(only, table)).kind).toBe("rate_limited");
    table.health.clear();
    halfOpen(table, a.scopes.credential);
    expect(ahead(planInput(only, table))).toMatchObject({ mode: "last_resort", candidates: [{ candidate: a, probe: true }] });
    table.health.clear();
    expect(ahead(planInput(only, table))).toEqual(first);
  });

  test("skips candidates whose context is clearly too small, unless all are", () => {
    const small = candidate("small", { contextTokens: 8_000 });
    const asked = { promptTokensEstimate: 20_000 };
    const found = ahead(planInput(route([small, b]), tables(), asked));
    expect(names(found)).toEqual(["b"]);
    expect(found.skipped.map(({ because }) => because)).toEqual(["context_too_small"]);
    expect(names(ahead(planInput(route([small]), tables(), asked)))).toEqual(["small"]);
    expect(names(ahead(planInput(route([small, b]), tables(), { promptTokensEstimate: 9_000 }))).length).toBe(2);
  });

  test("does not send a long prompt to a small fallback only because the large one is down", () => {
    const small = candidate("small", { contextTokens: 8_000 });
    const table = tables();
    coolDown(table, b.scopes.deployment, 30_000);
    expect(refused(planInput(route([b], [small]), table, { promptTokensEstimate: 50_000 })).kind).toBe("rate_limited");
  });

  test("a half-open candidate is probed in its turn, with another to fall back on", () => {
    const table = tables();
    halfOpen(table, a.scopes.deployment);
    const dice = diceOf(11);
    let probes = 0;
    for (let time = 0; time < 400; time += 1) {
      const found = ahead(planInput(route([a, b]), table, { dice }));
      expect(names(found).toSorted()).toEqual(["a", "b"]);
      expect(found.candidates.map(({ probe, candidate: one }) => probe === (one === a))).toEqual([true, true]);
      if (found.candidates[0]!.probe) probes += 1;
    }
    expect(probes / 400).toBeCloseTo(0.5, 1);
  });

  test("a half-open first tier is probed at once when a lower tier can take over", () => {
    const table = tables();
    halfOpen(table, a.scopes.deployment);
    expect(names(ahead(planInput(route([a], [b]), table)))).toEqual(["a", "b"]);
  });

  test("a half-open candidate of a lower tier is not probed before its tier is needed", () => {
    const table = tables();
    halfOpen(table, b.scopes.deployment);
    for (let seed = 0; seed < 30; seed += 1) {
      expect(names(ahead(planInput(route([a], [b, c]), table, { dice: diceOf(seed) })))).toEqual(["a", "c", "b"]);
    }
  });

  test("finds the only healthy candidate below any number of unhealthy tiers", () => {
    const table = tables();
    const above = Array.from({ length: 12 }, (_, at) => [candidate(`u${at}`), candidate(`v${at}`)]);
    for (const { scopes } of above.flat()) halfOpen(table, scopes.deployment);
    const found = ahead(planInput(route(...above, [c]), table));
    expect(found.mode).toBe("normal");
    expect(names(found)).toContain("c");
  });

  test("one probe at a time", () => {
    const table = tables();
    table.health.set(a.scopes.deployment, withProbe(halfOpen(table, a.scopes.deployment), nowMs - 10));
    const found = ahead(planInput(route([a, b]), table));
    expect(names(found)).toEqual(["b"]);
    expect(found.skipped.map(({ because }) => because)).toEqual(["half_open_busy"]);
  });

  test("a recovered candidate starts with a tenth of its weight, in a small tier and in a large one", () => {
    const slow = (table: Tables): void => {
      const opened = halfOpen(table, a.scopes.deployment);
      table.health.set(a.scopes.deployment, afterSuccess(afterSuccess(opened, nowMs, nowMs - 1), nowMs, nowMs - 1));
    };
    const table = tables();
    slow(table);
    expect(shares(route([a, b]), table)["a"]).toBeCloseTo(0.09, 1);
    const large = [candidate("a", { weight: 30 }), ...Array.from({ length: 30 }, (_, at) => candidate(`c${at}`))];
    expect(shares(route(large), tables())["a"]).toBeCloseTo(0.5, 1);
    expect(shares(route(large), table)["a"]).toBeLessThan(0.15);
  });

  test("finds the one healthy candidate among ten thousand", () => {
    const tier = Array.from({ length: 10_000 }, (_, at) => candidate(`c${at}`));
    const table = tables();
    tier.forEach(({ scopes }, at) => at !== 7_123 && open(table, scopes.deployment));
    const found = ahead(planInput(route(tier), table));
    expect(names(found)).toEqual(["c7123"]);
    expect(found.skipped.length).toBeLessThanOrEqual(32);
  });

  test("finds the one healthy candidate even during its slow start", () => {
    const tier = Array.from({ length: 30 }, (_, at) => candidate(`c${at}`));
    const table = tables();
    tier.forEach(({ scopes }) => open(table, scopes.deployment));
    table.health.set("deployment c3/m", failing(1, limited(1_000), nowMs - 1_000));
    for (let seed = 0; seed < 100; seed += 1) expect(names(ahead(planInput(route(tier), table, { dice: diceOf(seed) })))).toEqual(["c3"]);
  });
});

describe("a plan without healthy candidates", () => {
  const [a, b] = [candidate("a"), candidate("b")];

  test("respects the waits that all upstreams asked for, and names the shortest", () => {
    const table = tables();
    coolDown(table, a.scopes.deployment, 40_000);
    coolDown(table, b.scopes.deployment, 20_000);
    const found = refused(planInput(route([a, b]), table));
    expect(found).toMatchObject({ kind: "rate_limited", soonestMs: 20_000, waitMs: null });
    expect(found.skipped.map(({ cause }) => cause)).toEqual(["rate_limited", "rate_limited"]);
  });

  test("a single deployment that asked for a wait is not asked either", () => {
    const table = tables();
    coolDown(table, a.scopes.deployment, 40_000);
    expect(refused(planInput(route([a]), table)).kind).toBe("rate_limited");
  });

  test("a short wait is waited for if it is a small part of the remaining time", () => {
    const table = tables();
    coolDown(table, a.scopes.deployment, 3_000);
    const { waitMs } = refused(planInput(route([a]), table));
    expect(waitMs).toBeGreaterThanOrEqual(3_000);
    expect(waitMs).toBeLessThanOrEqual(3_600);
    expect(refused(planInput(route([a]), table, { remainingMs: 8_000 })).waitMs).toBeNull();
  });

  test("an overload with Retry-After is respected, but is not reported as a rate limit", () => {
    const table = tables();
    table.health.set(a.scopes.deployment, failing(1, failure("overloaded", "", { retryAfterMs: 9_000 }), nowMs));
    expect(refused(planInput(route([a]), table)).kind).toBe("no_channel");
  });

  test("full channels are reported as saturated", () => {
    const table = tables();
    open(table, a.scopes.deployment);
    expect(refused(planInput(route([a, b]), table, { channelInFlight: () => 512 })).kind).toBe("saturated");
  });

  test("a last resort is the candidate that was asked longest ago, then the others", () => {
    const table = tables();
    const c = candidate("c");
    for (const one of [a, b, c]) open(table, one.scopes.deployment, 4_000);
    const order = (...asked: readonly (readonly [Candidate, number])[]): string[] => {
      const found = ahead(planInput(route([a], [b, c]), table, { lastAsked: askedAgo(...asked) }));
      expect(found.mode).toBe("last_resort");
      return [...names(found), ...namesOf(found.reserve!)];
    };
    expect(order()).toEqual(["a", "b", "c"]);
    expect(order([a, 1_000], [b, 3_000], [c, 2_000])).toEqual(["b", "c", "a"]);
    expect(order([a, 1_000], [c, 2_000])).toEqual(["b", "c", "a"]);
  });

  test("a last resort asks each deployment once a second, and says when the next is due", () => {
    const table = tables();
    open(table, a.scopes.deployment, 4_000);
    open(table, b.scopes.deployment, 2_000);
    const lastAsked = askedAgo([a, 999], [b, 300]);
    const turnedAway = refused(planInput(route([a, b]), table, { lastAsked }));
    expect(turnedAway).toMatchObject({ kind: "no_channel", soonestMs: 2_000, againMs: 1 });
    const found = ahead(planInput(route([a, b]), table, { lastAsked, nowMs: nowMs + 1 }));
    expect([names(found), found.reserve]).toEqual([["a"], []]);
  });

  test("a last resort lets the credentials of a pool take turns", () => {
    const table = tables();
    const pool = candidates("pool", { credentials: ["k1", "k2", "k3"] });
    for (const { scopes } of [...pool, b]) open(table, scopes.credential);
    const lastAsked = askedAgo([pool[1]!, 5_000], [pool[0]!, 4_000], [b, 100]);
    const keys = ahead(planInput(route(pool, [b]), table, { lastAsked }));
    expect([keys.candidates[0]!, ...keys.reserve!].map(({ candidate: { credential } }) => credential)).toEqual(["k3", "k2", "k1"]);
  });

  test("a candidate that has answered a probe is asked again at once, by one call at a time", () => {
    const table = tables();
    const passed = afterSuccess(open(table, a.scopes.deployment, 4_000), nowMs - 20, nowMs - 50);
    table.health.set(a.scopes.deployment, passed);
    open(table, b.scopes.deployment);
    const lastAsked = askedAgo([a, 50], [b, 60_000]);
    const found = ahead(planInput(route([a, b]), table, { lastAsked }));
    expect([...found.candidates, ...found.reserve!]).toMatchObject([
      { candidate: a, probe: true },
      { candidate: b, probe: false },
    ]);
    table.health.set(a.scopes.deployment, withProbe(passed, nowMs - 10));
    expect(names(ahead(planInput(route([a, b]), table, { lastAsked })))).toEqual(["b"]);
  });

  test("a probe without an answer does not keep others from asking after a second", () => {
    const table = tables();
    table.health.set(a.scopes.deployment, withProbe(halfOpen(table, a.scopes.deployment), nowMs - 1_000));
    open(table, b.scopes.deployment);
    const found = ahead(planInput(route([a, b]), table, { lastAsked: askedAgo([a, 1_000], [b, 500]) }));
    expect(found.candidates).toMatchObject([{ candidate: a, probe: false, lastResort: true }]);
  });

  test("a call that waited in vain for capacity may ask a candidate with an open breaker", () => {
    const table = tables();
    open(table, a.scopes.deployment);
    const full = { channelInFlight: ({ name }: { readonly name: string }): number => (name === "b" ? 512 : 0) };
    expect(refused(planInput(route([a, b]), table, full)).kind).toBe("saturated");
    expect(names(ahead(planInput(route([a, b]), table, { ...full, waited: true })))).toEqual(["a"]);
  });

  test("beside healthy candidates, those with an open breaker are kept in reserve unless they fail slowly", () => {
    const table = tables();
    const [quick, slow, limits] = [candidate("quick"), candidate("slow"), candidate("limits")];
    open(table, quick.scopes.deployment);
    let health: Health | undefined;
    for (let time = 0; time < 5; time += 1) health = afterFailure(health, failure("timed_out", ""), nowMs, () => 0.5, nowMs - 60_000);
    table.health.set(slow.scopes.deployment, health!);
    coolDown(table, limits.scopes.deployment, 30_000);
    const found = ahead(planInput(route([quick, slow, limits, a]), table));
    expect([found.mode, names(found), namesOf(found.reserve!)]).toEqual(["normal", ["a"], ["quick"]]);
  });

  test("a last resort is never a candidate that asked for a wait", () => {
    const table = tables();
    open(table, a.scopes.deployment, 4_000);
    coolDown(table, b.scopes.deployment, 1_000);
    expect(names(ahead(planInput(route([a, b]), table)))).toEqual(["a"]);
  });

  test("of two scopes the longer wait counts, and the candidate is not asked if either wait was requested by the upstream", () => {
    const grouped = candidate("g", { quota: "org" });
    const table = tables();
    coolDown(table, grouped.scopes.deployment, 2_000);
    open(table, grouped.scopes.quota!, 4_000);
    expect(refused(planInput(route([grouped]), table))).toMatchObject({ soonestMs: 4_000 });
    open(table, grouped.scopes.deployment, 3_000);
    halfOpen(table, grouped.scopes.host);
    table.health.delete(grouped.scopes.quota!);
    expect(ahead(planInput(route([grouped]), table)).candidates[0]!.probe).toBe(false);
  });

  test("a half-open candidate without another to fall back on is a last resort, and still a probe", () => {
    const table = tables();
    halfOpen(table, a.scopes.deployment);
    open(table, b.scopes.deployment);
    const found = ahead(planInput(route([a, b]), table));
    expect(found).toMatchObject({ mode: "last_resort", candidates: [{ candidate: a, probe: true }] });
    const turnedAway = refused(planInput(route([a, b]), table, { lastAsked: askedAgo([a, 10], [b, 10]) }));
    expect(turnedAway.skipped.map(({ because }) => because).toSorted()).toEqual(["cooling", "half_open_alone"]);
  });

  test("a single deployment is throttled instead of shut off", () => {
    const table = tables();
    open(table, a.scopes.deployment);
    const throttle = newThrottle();
    for (let call = 0; call < 99; call += 1) countRequest(throttle, nowMs, true);
    const withDice = (value: number, atMs = nowMs): ReturnType<typeof plan> =>
      plan(planInput(route([a]), table, { throttle, dice: () => value, nowMs: atMs }));
    expect(withDice(0.5).ok).toBe(false);
    expect(withDice(0.995).ok).toBe(true);
    expect(withDice(0, nowMs + 1_000).ok).toBe(true);
    expect(plan(planInput(route([a]), table)).ok).toBe(true);
  });

  test("a pool is one deployment, two channels are not", () => {
    expect(hasOneDeployment(route(candidates("pool", { credentials: ["k1", "k2"] })))).toBe(true);
    expect(hasOneDeployment(route([a]))).toBe(true);
    expect(hasOneDeployment(route([a], [b]))).toBe(false);
  });

  test("a route without any candidate refuses", () => {
    expect(refused(planInput(route(), tables()))).toMatchObject({ kind: "no_channel", waitMs: null });
  });
});

describe("any plan", () => {
  const condition = fc.constantFrom("well", "well", "open", "half_open", "told", "probing", "full");
  const tier = fc.array(condition, { minLength: 1, maxLength: 14 });

  test("names each candidate once, best tier first, none in cool-down, and is never empty", () => {
    fc.assert(
      fc.property(fc.array(tier, { minLength: 1, maxLength: 4 }), fc.integer(), (tiers, seed) => {
        const table = tables();
        const full = new Set<string>();
        const built = tiers.map((conditions, at) =>
          conditions.map((one, place): Candidate => {
            const made = candidate(`t${at}c${place}`, { weight: 1 + (place % 3) });
            const scope = made.scopes.deployment;
            if (one === "open") open(table, scope);
            if (one === "half_open") halfOpen(table, scope);
            if (one === "told") coolDown(table, scope, 30_000);
            if (one === "probing") table.health.set(scope, withProbe(halfOpen(table, scope), nowMs));
            if (one === "full") full.add(made.deployment.channel.name);
            return made;
          }),
        );
        const found = plan(
          planInput(route(...built), table, {
            dice: diceOf(seed),
            channelInFlight: ({ name }) => (full.has(name) ? 512 : 0),
          }),
        );
        const all = tiers.flat();
        if (all.includes("well")) expect(found.ok && found.mode).toBe("normal");
        if (all.every((one) => one === "told")) expect(found).toMatchObject({ ok: false, kind: "rate_limited" });
        if (!found.ok) return;

        expect(found.candidates.length).toBeGreaterThan(0);
        expect(found.candidates.length).toBeLessThanOrEqual(8);
        expect(new Set(found.candidates.map((choice) => choice.candidate)).size).toBe(found.candidates.length);
        expect(found.candidates.map((choice) => choice.tier)).toEqual(
          found.candidates.map((choice) => choice.tier).toSorted((x, y) => x - y),
        );
        for (const choice of found.candidates) {
          expect(built[choice.tier]).toContain(choice.candidate);
          const state = tiers[choice.tier]![built[choice.tier]!.indexOf(choice.candidate)]!;
          if (found.mode === "normal") expect(choice.probe ? state === "half_open" : state === "well").toBe(true);
          else expect(["open", "half_open", "probing"]).toContain(state);
        }
        // Every tier that has somebody well is in the plan, so that one healthy channel is enough.
        if (found.mode === "normal" && tiers.length <= 3) {
          tiers.forEach((conditions, at) => {
            if (conditions.includes("well")) expect(found.candidates.some((choice) => choice.tier === at && !choice.probe)).toBe(true);
          });
        }
      }),
      { numRuns: 1_000 },
    );
  });
});
