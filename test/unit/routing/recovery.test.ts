import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Route } from "../../../src/channels/channel.ts";
import { failure, type Failure } from "../../../src/operations/failure.ts";
import { candidate, candidates, diceOf, route } from "../../support/plan-world.ts";
import { numRuns } from "../../support/properties.ts";
import { Simulation, type Happening, type Sent, type Upstream } from "../../support/routing-simulation.ts";

/** What outages look like from here: what an attempt meets, and after how long. */
const outages = {
  refused: { tookMs: 2, failure: failure("unreachable", "") },
  reset: { tookMs: 40, failure: failure("disconnected", "") },
  overloaded: { tookMs: 30, failure: failure("overloaded", "", { status: 503 }) },
  "slowly failing": { tookMs: 4_000, failure: failure("overloaded", "", { status: 502 }) },
  silent: { tookMs: 8_000, failure: failure("timed_out", "") },
  "cutting streams": { tookMs: 700, failure: failure("interrupted", "") },
  nonsense: { tookMs: 50, failure: failure("bad_response", "") },
  "refusing the key": { tookMs: 30, failure: failure("unauthorized", "", { status: 401 }) },
  "without the model": { tookMs: 30, failure: failure("model_missing", "", { status: 404 }) },
  redirecting: { tookMs: 30, failure: failure("redirected", "", { status: 302 }) },
  limiting: { tookMs: 20, failure: failure("rate_limited", "", { retryAfterMs: 3_000, status: 429 }) },
  "failing, with a wait": { tookMs: 20, failure: failure("overloaded", "", { retryAfterMs: 2_000, status: 503 }) },
} satisfies Record<string, { readonly tookMs: number; readonly failure: Failure }>;

type Outage = keyof typeof outages;

/** From when on a channel is well, or what is the matter with it. */
interface Phase {
  readonly fromMs: number;
  readonly state: State;
}

type State = "well" | Outage;

const startMs = 1_000_000;
const stateAt = (phases: readonly Phase[], atMs: number): State => phases.findLast(({ fromMs }) => fromMs <= atMs)!.state;

/** What each channel does, by name and time. */
type Script = (name: string, atMs: number) => State;

const namesOf = (of: Route): readonly string[] => [...new Set(of.tiers.flat().map(({ deployment }) => deployment.channel.name))];

function simulate(of: Route, script: Script, seed: number, callsPerSecond: number, seconds: number): Simulation {
  const upstream = (name: string): Upstream => {
    return (nowMs) => {
      const state = script(name, nowMs);
      return state === "well" ? { tookMs: 200, failure: null } : outages[state];
    };
  };
  const upstreams = Object.fromEntries(namesOf(of).map((name) => [name, upstream(name)]));
  return new Simulation(of, upstreams, diceOf(seed)).run(callsPerSecond, seconds);
}

describe("whenever one channel of a route is healthy, some call reaches it within 2 s, whatever happened before", () => {
  const seconds = 100;
  const [a, b, c] = [candidate("a"), candidate("b"), candidate("c")];
  const routes: Readonly<Record<string, Route>> = {
    "a, b": route([a, b]),
    "a | b": route([a], [b]),
    "a, b | c": route([a, b], [c]),
    "a | b | c": route([a], [b], [c]),
    "a | pool": route([a], candidates("b", { credentials: ["k1", "k2"] })),
    "one host | c": route([candidate("a", { host: "shared.test" }), candidate("b", { host: "shared.test" })], [c]),
  };

  const phases = fc
    .array(
      fc.record({
        lastsMs: fc.oneof(fc.integer({ min: 500, max: 8_000 }), fc.integer({ min: 5_000, max: 50_000 })),
        state: fc.oneof(
          { weight: 1, arbitrary: fc.constant("well" as const) },
          { weight: 3, arbitrary: fc.constantFrom(...(Object.keys(outages) as Outage[])) },
        ),
      }),
      { minLength: 2, maxLength: 12 },
    )
    .map((made): readonly Phase[] => {
      let fromMs = startMs;
      return made.map(({ lastsMs, state }) => {
        const phase = { fromMs, state };
        fromMs += lastsMs;
        return phase;
      });
    });

  /** A host that cannot be reached, or sends everybody elsewhere, does so for all of its channels. */
  const ofHost: ReadonlySet<State> = new Set<State>(["refused", "redirecting"]);

  function scriptOf(shape: string, [ofA, ofB, ofC]: readonly [readonly Phase[], readonly Phase[], readonly Phase[]]): Script {
    return (name, atMs) => {
      const state = stateAt(name === "a" ? ofA : name === "b" ? ofB : ofC, atMs);
      if (shape !== "one host | c" || name !== "b") return state;
      const shared = stateAt(ofA, atMs);
      return ofHost.has(shared) ? shared : ofHost.has(state) ? "overloaded" : state;
    };
  }

  /** Until when each channel asked not to be called, by what it said so far: that is obeyed. */
  function waitsBy({ sent }: Simulation, script: Script): (name: string, atMs: number) => number {
    const waits = sent.map(({ channel, atMs }) => {
      const state = script(channel, atMs);
      const outage = state === "well" ? null : outages[state];
      return { channel, atMs, untilMs: outage?.failure.retryAfterMs == null ? 0 : atMs + outage.tookMs + outage.failure.retryAfterMs };
    });
    return (name, atMs) =>
      waits.reduce((latest, one) => (one.channel === name && one.atMs <= atMs ? Math.max(latest, one.untilMs) : latest), 0);
  }

  const everyMs = (fromMs: number, toMs: number, stepMs: number): readonly number[] =>
    Array.from({ length: Math.floor((toMs - fromMs) / stepMs) + 1 }, (_, step) => fromMs + step * stepMs);

  test("over random outages of two or three channels", () => {
    let judged = 0;
    fc.assert(
      fc.property(fc.constantFrom(...Object.keys(routes)), fc.tuple(phases, phases, phases), fc.integer(), (shape, scripts, seed) => {
        const script = scriptOf(shape, scripts);
        const simulation = simulate(routes[shape]!, script, seed, 5, seconds);
        const waits = waitsBy(simulation, script);
        const names = namesOf(routes[shape]!);
        for (const fromMs of everyMs(startMs, startMs + (seconds - 3) * 1_000, 500)) {
          const toMs = fromMs + 2_000;
          const moments = everyMs(fromMs, toMs, 50);
          const healthy = names.filter((name) => moments.every((atMs) => script(name, atMs) === "well") && waits(name, fromMs) <= fromMs);
          const sent = simulation.sent.filter(({ atMs }) => atMs >= fromMs && atMs <= toMs);
          // Of one that was well and says nothing any more nobody knows before the first calls have waited in vain.
          const isSilent = ({ channel, atMs, lastResort, probe }: Sent): boolean => {
            const state = script(channel, atMs);
            return !lastResort && !probe && state !== "well" && outages[state].tookMs >= 500;
          };
          if (healthy.length === 0 || sent.some(isSilent)) continue;
          judged += 1;
          if (sent.some(({ channel, atMs }) => script(channel, atMs) === "well")) continue;
          throw new Error(`${healthy.join()} was not reached from ${(fromMs - startMs) / 1_000} s on`);
        }
      }),
      { numRuns: numRuns(40) },
    );
    expect(judged).toBeGreaterThan(1_000);
  });
});

describe("a primary that was down for 45 s from the start serves again within 12 s of its return", () => {
  const of = route([candidate("primary")], [candidate("spare")]);
  const returnsMs = startMs + 45_000;
  const kinds: readonly Outage[] = ["refused", "reset", "overloaded"];

  /** How long after its return calls are served by the primary, and by nobody else any more. */
  function backAfterMs(script: Script, seed: number, callsPerSecond: number): number {
    const { sent } = simulate(of, script, seed, callsPerSecond, 90);
    const elsewhere = sent.findLast(({ channel, atMs }) => channel === "spare" && atMs >= returnsMs);
    return (elsewhere?.atMs ?? returnsMs) - returnsMs;
  }

  describe.each(kinds)("%s", (kind) => {
    test.each([1, 2, 3, 4, 5])("beside a spare that is well (seed %p)", (seed) => {
      const script: Script = (name, atMs) => (name === "primary" && atMs < returnsMs ? kind : "well");
      for (const callsPerSecond of [1, 5, 50]) expect(backAfterMs(script, seed, callsPerSecond)).toBeLessThanOrEqual(12_000);
    });

    test.each([1, 2, 3, 4, 5])("after an outage of both, from which the spare recovered first (seed %p)", (seed) => {
      const script: Script = (name, atMs) => (atMs < (name === "primary" ? returnsMs : returnsMs - 10_000) ? kind : "well");
      for (const callsPerSecond of [1, 5, 50]) expect(backAfterMs(script, seed, callsPerSecond)).toBeLessThanOrEqual(12_000);
    });
  });
});

describe("answers that take minutes do not delay recovery", () => {
  const of = route([candidate("primary")], [candidate("spare")]);
  const returnsMs = startMs + 45_000;
  const down: Happening = outages.overloaded;
  const stream: Happening = { tookMs: 180_000, contentMs: 300, failure: null };

  test("beside a healthy spare, the primary has all calls again within 12 s", () => {
    const primary: Upstream = (nowMs) => (nowMs < returnsMs ? down : stream);
    const { sent } = new Simulation(of, { primary, spare: () => stream }, diceOf(1)).run(5, 90);
    expect(sent.findLast(({ channel }) => channel === "spare")!.atMs - returnsMs).toBeLessThanOrEqual(12_000);
  });

  test("after an outage of both, all calls are served within 3 s of the return of one", () => {
    const spare: Upstream = (nowMs) => (nowMs < returnsMs ? down : stream);
    const { answered } = new Simulation(of, { primary: () => down, spare }, diceOf(2)).run(20, 60);
    const refused = answered.filter(({ beganMs, outcome }) => outcome !== "served" && beganMs > returnsMs + 3_000);
    expect(refused).toEqual([]);
  });

  test("but if streams broke off, only a complete one counts", () => {
    const cut: Happening = { tookMs: 5_000, contentMs: 300, failure: outages["cutting streams"].failure };
    const simulation = new Simulation(of, { primary: () => cut, spare: () => stream }, diceOf(3)).run(5, 120);
    // Those before the breaker opened, and then one probe at a time, ever later.
    const late = simulation.sent.filter(({ channel, atMs }) => channel === "primary" && atMs > startMs + 10_000);
    expect(late.length).toBeLessThanOrEqual(5);
    expect(simulation.probesMax).toBe(1);
  });
});
