// Needs: alone. It measures the memory of its process.
import { heapStats } from "bun:jsc";
import { expect, test } from "bun:test";
import { candidatesOf, type Route } from "../../src/channels/channel.ts";
import { UpstreamState } from "../../src/gateway/upstream-state/upstream-state.ts";
import type { Snapshot } from "../../src/gateway/snapshot.ts";
import { failure } from "../../src/operations/failure.ts";
import { channel } from "../support/plan-world.ts";

const anyModel = channel("any");
const configured = channel("configured");

function routeTo(model: string, through = anyModel): Route {
  return { model, tiers: [candidatesOf({ id: `${through.name}/${model}`, channel: through, model })], size: 1 };
}

function upstreamsWith(routes: readonly Route[]) {
  const clock = { nowMs: 1_000_000 };
  const upstreams = new UpstreamState({ nowMs: () => clock.nowMs, dice: () => 0.5, after: () => () => {} });
  const named = new Map(routes.map((route) => [route.model, route]));
  const snapshot = { channels: [anyModel, configured], routes: named, wildcard: (model: string) => routeTo(model) };
  upstreams.forgetUnknown(snapshot as unknown as Snapshot);
  const call = (route: Route, outcome: "served" | "failed" | "missing"): void => {
    clock.nowMs += 1;
    const plan = upstreams.plan(route, 10, 60_000, clock.nowMs);
    if (!plan.ok) return;
    upstreams.callBegins(route.model, false, clock.nowMs);
    const reporter = upstreams.begin(plan.candidates[0]!, route.model, clock.nowMs, true);
    if (outcome === "served") {
      reporter.firstContent(clock.nowMs + 1);
      reporter.succeeded(clock.nowMs + 1);
    } else {
      reporter.failed(failure(outcome === "failed" ? "overloaded" : "model_missing", ""), clock.nowMs + 1);
    }
  };
  return { upstreams, call };
}

/** What is alive, in bytes, by the collector's own count. */
function heldBytes(): number {
  Bun.gc(true);
  Bun.gc(true);
  const { heapSize, extraMemorySize } = heapStats();
  return heapSize + extraMemorySize;
}

test.each(["served", "missing"] as const)("sixty thousand names that clients made up cost a few megabytes (%s)", (outcome) => {
  const { upstreams, call } = upstreamsWith([]);
  call(routeTo("first"), outcome);
  const beforeBytes = heldBytes();
  for (let name = 0; name < 60_000; name += 1) call(routeTo(`made-up-${name}`), outcome);
  expect(heldBytes() - beforeBytes).toBeLessThan(9_000_000);
  expect(upstreams.running("any")).toBe(0);
});

test("names that clients made up do not make the gateway forget what it knows of the others", () => {
  const routes = Array.from({ length: 20 }, (_, at) => routeTo(`real-${at}`, configured));
  const { upstreams, call } = upstreamsWith(routes);
  for (const route of routes) for (let time = 0; time < 5; time += 1) call(route, "failed");
  const troubles = (): number => upstreams.openBreakers(routes.flatMap(({ tiers }) => tiers.flat())).length;
  expect(troubles()).toBe(20);
  for (let name = 0; name < 30_000; name += 1) call(routeTo(`made-up-${name}`), "missing");
  expect(troubles()).toBe(20);
});
