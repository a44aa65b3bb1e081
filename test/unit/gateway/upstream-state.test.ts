import { expect, test } from "bun:test";
import { candidatesOf, type Candidate, type Route } from "../../../src/channels/channel.ts";
import { UpstreamState } from "../../../src/gateway/upstream-state/upstream-state.ts";
import type { Snapshot } from "../../../src/gateway/snapshot.ts";
import { failure } from "../../../src/operations/failure.ts";
import { choicesSoFar } from "../../../src/routing/plan.ts";
import { channel, diceOf, route, type ChannelFacts } from "../../support/plan-world.ts";

const overloaded = failure("overloaded", "503");

function candidate(name: string, facts: ChannelFacts = {}): Candidate {
  return candidatesOf({ id: `${name}/m`, channel: channel(name, facts), model: "m" })[0]!;
}

function world(clock = { nowMs: 1_000_000 }) {
  const upstreams = new UpstreamState({ nowMs: () => clock.nowMs, dice: diceOf(3), after: () => () => {} });
  const fail = (who: Candidate, times = 5): void => {
    for (let time = 0; time < times; time += 1) {
      clock.nowMs += 1;
      upstreams.begin({ candidate: who, probe: false }, "m", clock.nowMs, true).failed(overloaded, clock.nowMs + 1);
    }
  };
  const planned = (of: Route): readonly string[] => {
    const found = upstreams.plan(of, 10, 60_000, clock.nowMs);
    return found.ok && found.mode === "normal" ? found.candidates.map((choice) => choice.candidate.deployment.channel.name) : [];
  };
  const reload = (...routes: readonly Route[]): void => {
    const channels = routes.flatMap(({ tiers }) => tiers.flat().map(({ deployment }) => deployment.channel));
    upstreams.forgetUnknown({ channels, routes: new Map(routes.map((one) => [one.model, one])), wildcard: null } as unknown as Snapshot);
  };
  return { upstreams, clock, fail, planned, reload };
}

test("what happens to a candidate counts for the next plan, and until an operator says that its cause is gone", () => {
  const [a, b] = [candidate("a"), candidate("b")];
  const { upstreams, fail, planned } = world();
  expect(planned(route([a, b])).toSorted()).toEqual(["a", "b"]);
  fail(a);
  expect(planned(route([a, b]))).toEqual(["b"]);
  expect(upstreams.openBreakers([a]).length).toBe(1);
  expect(upstreams.clear([a])).toBe(1);
  expect(planned(route([a, b])).toSorted()).toEqual(["a", "b"]);
});

test("what was learned of a channel stays with it when the configuration is read again, and is one and the same for old and new calls", () => {
  const before = { a: candidate("a"), b: candidate("b") };
  const after = { a: candidate("a"), b: candidate("b") };
  const { fail, planned, reload, clock } = world();
  reload(route([before.a, before.b]));
  fail(before.a);
  reload(route([after.a, after.b]));
  expect(planned(route([after.a, after.b]))).toEqual(["b"]);
  // Healthy for so long that nothing is worth remembering: a reload forgets it, and both look for it again.
  clock.nowMs += 3_600_000;
  expect(planned(route([before.b]))).toEqual(["b"]);
  reload(route([after.a, after.b]));
  fail(after.b);
  expect(planned(route([before.b, candidate("c")]))).toEqual(["c"]);
  expect(planned(route([after.b, candidate("c")]))).toEqual(["c"]);
});

test("a channel that is gone is forgotten when a reload finds no call running on it, and its calls are counted until then", () => {
  const [a, b] = [candidate("a", { concurrencyMax: 1 }), candidate("b")];
  const again = candidate("a", { concurrencyMax: 1 });
  const { upstreams, planned, reload, clock } = world();
  reload(route([a, b]));
  const running = upstreams.begin({ candidate: a, probe: false }, "m", clock.nowMs, true);
  running.firstContent(clock.nowMs + 700);
  reload(route([b]));
  expect(upstreams.running("a")).toBe(1);
  reload(route([again, b]));
  expect(planned(route([again]))).toEqual([]);
  expect(upstreams.loadOf(again)?.averageMs).toBe(700);
  running.succeeded(clock.nowMs + 900);
  reload(route([again, b]));
  expect(upstreams.loadOf(candidate("a"))?.averageMs).toBe(700);
  reload(route([b]));
  expect(upstreams.running("a")).toBe(0);
  expect(upstreams.loadOf(candidate("a"))?.observedMs).toBeNull();
});

test("a call that began before its channel was removed counts against the channel when it is back", () => {
  const [a, b] = [candidate("a", { concurrencyMax: 1 }), candidate("b")];
  const again = candidate("a", { concurrencyMax: 1 });
  const { upstreams, planned, reload, clock } = world();
  reload(route([a, b]));
  upstreams.begin({ candidate: a, probe: false }, "m", clock.nowMs, true).abandoned();
  reload(route([b]));
  const late = upstreams.begin({ candidate: a, probe: false }, "m", clock.nowMs, true);
  expect(upstreams.hasCapacity(a)).toBe(false);
  reload(route([again, b]));
  expect(upstreams.running("a")).toBe(1);
  expect(planned(route([again]))).toEqual([]);
  late.abandoned();
  expect(planned(route([again]))).toEqual(["a"]);
});

test("a failing host keeps out all candidates on it, and the attempts of a channel count for all its models", () => {
  const [a, b, c] = [candidate("a", { host: "h" }), candidate("b", { host: "h" }), candidate("c", { concurrencyMax: 1 })];
  const { upstreams, planned, clock } = world();
  const other = candidatesOf({ id: "c/other", channel: c.deployment.channel, model: "other" })[0]!;
  expect(planned(route([a, b, c])).toSorted()).toEqual(["a", "b", "c"]);
  for (let time = 0; time < 5; time += 1) {
    clock.nowMs += 1;
    upstreams.begin({ candidate: a, probe: false }, "m", clock.nowMs, true).failed(failure("unreachable", ""), clock.nowMs + 1);
  }
  expect(planned(route([a, b, c]))).toEqual(["c"]);
  const running = upstreams.begin({ candidate: other, probe: false }, "other", clock.nowMs, true);
  expect(upstreams.running("c")).toBe(1);
  expect(planned(route([a, b, c]))).toEqual([]);
  running.abandoned();
  expect(upstreams.running("c")).toBe(0);
  expect(planned(route([a, b, c]))).toEqual(["c"]);
});

test("of thousands of channels each gets its calls by weight, and those with an open breaker get none", () => {
  const tier = Array.from({ length: 3_000 }, (_, at) => candidate(`c${at}`, { weight: at % 2 === 0 ? 1 : 3 }));
  const { upstreams, fail, clock, reload } = world();
  const of = route(tier);
  reload(of);
  const broken = new Set(tier.filter((_, at) => at % 10 === 0));
  for (const who of broken) fail(who);
  const calls = new Map<Candidate, number>();
  let heavy = 0;
  for (let call = 0; call < 6_000; call += 1) {
    clock.nowMs += 0.1;
    const found = upstreams.plan(of, 10, 60_000, clock.nowMs);
    if (!found.ok) throw new Error(found.kind);
    const choice = choicesSoFar(found)[0]!;
    expect(broken.has(choice.candidate)).toBe(false);
    const reporter = upstreams.begin(choice, "m", clock.nowMs, true);
    reporter.firstContent(clock.nowMs + 1);
    reporter.succeeded(clock.nowMs + 1);
    calls.set(choice.candidate, (calls.get(choice.candidate) ?? 0) + 1);
    if (choice.candidate.weight === 3) heavy += 1;
  }
  // 1,500 of weight three, and 1,200 of weight one that are well.
  expect(heavy / 6_000).toBeCloseTo(4_500 / 5_700, 1);
  expect(calls.size).toBeGreaterThan(1_800);
  expect(Math.max(...calls.values())).toBeLessThan(20);
});
