import { expect, test } from "bun:test";
import { channelStates } from "../../../src/app/telemetry/metrics.ts";
import { candidatesOf, type Candidate, type Channel, type Route } from "../../../src/channels/channel.ts";
import type { Snapshot } from "../../../src/gateway/snapshot.ts";
import { UpstreamState } from "../../../src/gateway/upstream-state/upstream-state.ts";
import { failure, type FailureKind } from "../../../src/operations/failure.ts";
import { channel, diceOf, route } from "../../support/plan-world.ts";

/** A gateway with one channel. Without routes, the channel takes any model. */
function world(of: Channel, routes: readonly Route[]) {
  const clock = { nowMs: 1_000_000 };
  const upstreams = new UpstreamState({ nowMs: () => clock.nowMs, dice: diceOf(3), after: () => () => {} });
  const snapshot = {
    channels: [of],
    routes: new Map(routes.map((one) => [one.model, one])),
    wildcard: routes.length === 0 ? () => null : null,
  } as unknown as Snapshot;
  upstreams.forgetUnknown(snapshot);
  const ask = (who: Candidate, failed: FailureKind | null, probe = false): void => {
    clock.nowMs += 1;
    const reporter = upstreams.begin({ candidate: who, probe }, who.deployment.model, clock.nowMs, true);
    clock.nowMs += 1;
    if (failed !== null) return reporter.failed(failure(failed, ""), clock.nowMs);
    reporter.firstContent(clock.nowMs);
    reporter.succeeded(clock.nowMs);
  };
  const fail = (who: Candidate, kind: FailureKind): void => {
    for (let time = 0; time < 5; time += 1) ask(who, kind);
  };
  const state = () => {
    const { isAvailable, isProven, openBreakers, halfOpenBreakers } = channelStates(snapshot, upstreams)[0]!;
    return { isAvailable, isProven, openBreakers, halfOpenBreakers };
  };
  return { upstreams, snapshot, clock, ask, fail, state };
}

const model = (of: Channel, name: string): Candidate => candidatesOf({ id: `${of.name}/${name}`, channel: of, model: name })[0]!;
const well = { isAvailable: true, isProven: true, openBreakers: 0, halfOpenBreakers: 0 };

test("a channel whose breaker lets a probe through may be asked, and is proved only by answers", () => {
  const of = channel("one");
  const who = model(of, "m");
  const { state, fail, ask, clock } = world(of, [route([who])]);
  expect(state()).toEqual(well);
  fail(who, "overloaded");
  expect(state()).toEqual({ isAvailable: false, isProven: false, openBreakers: 1, halfOpenBreakers: 0 });
  clock.nowMs += 20_000;
  expect(state()).toEqual({ isAvailable: true, isProven: false, openBreakers: 0, halfOpenBreakers: 1 });
  ask(who, "overloaded", true);
  expect(state()).toMatchObject({ isAvailable: false, isProven: false });
  clock.nowMs += 20_000;
  for (const probe of [true, true]) ask(who, null, probe);
  expect(state()).toEqual(well);
});

test("a channel that takes any model is down when all that it was asked for fails", () => {
  const of = channel("any");
  const { state, fail, ask } = world(of, []);
  expect(state()).toEqual(well);
  ask(model(of, "good"), null);
  fail(model(of, "bad"), "overloaded");
  expect(state()).toEqual({ isAvailable: true, isProven: true, openBreakers: 1, halfOpenBreakers: 0 });
  fail(model(of, "good"), "timed_out");
  expect(state()).toEqual({ isAvailable: false, isProven: false, openBreakers: 2, halfOpenBreakers: 0 });
});

test("a channel that takes any model is down with its host, also after a reload, and until an operator says that the cause is gone", () => {
  const of = channel("any");
  const { state, fail, upstreams, snapshot, clock } = world(of, []);
  fail(model(of, "m"), "unreachable");
  expect(state()).toMatchObject({ isAvailable: false, openBreakers: 1 });
  upstreams.forgetUnknown(snapshot);
  expect(state()).toMatchObject({ isAvailable: false, openBreakers: 1 });
  clock.nowMs += 1;
  expect(upstreams.clearChannel("any", snapshot)).toBe(1);
  expect(state()).toEqual(well);
});

test("what was cleared for a channel that takes any model does not hide what fails next", () => {
  const of = channel("any");
  const { state, fail, upstreams, snapshot } = world(of, []);
  expect(upstreams.clearChannel("any", snapshot)).toBe(0);
  fail(model(of, "m"), "overloaded");
  expect(state()).toMatchObject({ isAvailable: false, openBreakers: 1 });
});

test("names that clients made up are no fault of a channel that takes any model", () => {
  const of = channel("any");
  const { state, ask } = world(of, []);
  for (const name of ["gtp-4", "clade", "lama"]) ask(model(of, name), "model_missing");
  expect(state()).toEqual(well);
});
