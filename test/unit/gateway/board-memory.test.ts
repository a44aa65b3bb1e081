import { heapStats } from "bun:jsc";
import { expect, test } from "bun:test";
import { candidatesOf, type Route } from "../../../src/channels/channel.ts";
import { Board } from "../../../src/gateway/upstream-state/board.ts";
import type { Snapshot } from "../../../src/gateway/snapshot.ts";
import { failure } from "../../../src/operations/failure.ts";
import { channel } from "../../support/plan-world.ts";

const anyModel = channel("any");
const configured = channel("configured");

function routeTo(model: string, through = anyModel): Route {
  return { model, tiers: [candidatesOf({ id: `${through.name}/${model}`, channel: through, model })], size: 1 };
}

function boardWith(routes: readonly Route[]) {
  const clock = { nowMs: 1_000_000 };
  const board = new Board({ nowMs: () => clock.nowMs, dice: () => 0.5, after: () => () => {} });
  const snapshot = { routes: new Map(routes.map((route) => [route.model, route])), wildcard: (model: string) => routeTo(model) };
  board.forgetStrangers(snapshot as unknown as Snapshot);
  const call = (route: Route, outcome: "served" | "failed" | "missing"): void => {
    clock.nowMs += 1;
    const plan = board.plan(route, 10, 60_000, clock.nowMs);
    if (plan.go === "refuse") return;
    board.callBegins(route.model, false, clock.nowMs);
    const ticket = board.begin(plan.candidates[0]!, route.model, clock.nowMs, true);
    if (outcome === "served") {
      ticket.firstContent(clock.nowMs + 1);
      ticket.succeeded(clock.nowMs + 1);
    } else {
      ticket.failed(failure(outcome === "failed" ? "overloaded" : "model_missing", ""), clock.nowMs + 1);
    }
  };
  return { board, call };
}

/** What is alive, in bytes, by the collector's own count. */
function heldBytes(): number {
  Bun.gc(true);
  Bun.gc(true);
  const { heapSize, extraMemorySize } = heapStats();
  return heapSize + extraMemorySize;
}

test.each(["served", "missing"] as const)("sixty thousand names that clients made up cost a few megabytes (%s)", (outcome) => {
  const { board, call } = boardWith([]);
  call(routeTo("first"), outcome);
  const beforeBytes = heldBytes();
  for (let name = 0; name < 60_000; name += 1) call(routeTo(`made-up-${name}`), outcome);
  expect(heldBytes() - beforeBytes).toBeLessThan(9_000_000);
  expect(board.running("any")).toBe(0);
});

test("names that clients made up do not make the gateway forget what it knows of the others", () => {
  const routes = Array.from({ length: 20 }, (_, at) => routeTo(`real-${at}`, configured));
  const { board, call } = boardWith(routes);
  for (const route of routes) for (let time = 0; time < 5; time += 1) call(route, "failed");
  const troubles = (): number => board.troubles(routes.flatMap(({ tiers }) => tiers.flat())).length;
  expect(troubles()).toBe(20);
  for (let name = 0; name < 30_000; name += 1) call(routeTo(`made-up-${name}`), "missing");
  expect(troubles()).toBe(20);
});
