import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Cancellation } from "../../../src/gateway/cancellation.ts";
import { CapacityQueue, type CapacityRequest } from "../../../src/gateway/admission/capacity-queue.ts";
import { failure } from "../../../src/operations/failure.ts";

/** A queue on a clock that stands still until it is moved; `told` is what became of whom. */
function world(bounds?: ConstructorParameters<typeof CapacityQueue>[1]) {
  let nowMs = 1_000;
  const timers = new Set<{ readonly atMs: number; readonly ring: () => void }>();
  const after = (ms: number, ring: () => void): (() => void) => {
    const timer = { atMs: nowMs + ms, ring };
    timers.add(timer);
    return () => timers.delete(timer);
  };
  const queue = new CapacityQueue({ nowMs: () => nowMs, after }, bounds);
  const outcomes: Record<string, string | null> = {};
  const wait = (name: string, facts: Partial<CapacityRequest> = {}): Cancellation => {
    const cancellation = facts.cancellation ?? new Cancellation();
    const waiting = { route: "m", channels: ["a"], untilMs: nowMs + 2_000, ...facts, cancellation };
    void queue.wait(waiting).then((channel) => (outcomes[name] = channel));
    return cancellation;
  };
  const pass = async (ms: number): Promise<void> => {
    nowMs += ms;
    for (const timer of timers) {
      if (timer.atMs > nowMs) continue;
      timers.delete(timer);
      timer.ring();
    }
    await settled();
  };
  return { queue, outcomes, wait, pass, armed: () => timers.size };
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 4; turn += 1) await Promise.resolve();
}

describe("a place at a full channel", () => {
  test("goes to whoever came last, one call for each", async () => {
    const { queue, outcomes, wait } = world();
    for (const name of ["first", "second", "third"]) wait(name);
    queue.freed("a");
    await settled();
    expect(outcomes).toEqual({ third: "a" });
    wait("fourth");
    for (let place = 0; place < 2; place += 1) queue.freed("a");
    await settled();
    expect(outcomes).toEqual({ third: "a", fourth: "a", second: "a" });
    queue.freed("a");
    queue.freed("a");
    await settled();
    expect(outcomes).toEqual({ third: "a", fourth: "a", second: "a", first: "a" });
    expect(queue.size).toBe(0);
  });

  test("is for those who can use it", async () => {
    const { queue, outcomes, wait } = world();
    wait("either", { channels: ["a", "b"] });
    wait("a only", { route: "other", channels: ["a"] });
    queue.freed("c");
    queue.freed("b");
    queue.freed("b");
    await settled();
    expect(outcomes).toEqual({ either: "b" });
  });

  test("is waited for until the call's time is up, and no longer than its client does", async () => {
    const { queue, outcomes, wait, pass, armed } = world();
    wait("patient");
    wait("hasty", { untilMs: 1_500 });
    wait("over", { untilMs: 1_000 });
    wait("nowhere", { channels: [] });
    wait("left").cancel(failure("client_gone", ""));
    const gone = new Cancellation();
    gone.cancel(failure("client_gone", ""));
    wait("gone", { cancellation: gone });
    await settled();
    expect(outcomes).toEqual({ over: null, nowhere: null, left: null, gone: null });
    await pass(500);
    expect(outcomes["hasty"]).toBeNull();
    expect(queue.size).toBe(1);
    await pass(1_500);
    expect(outcomes["patient"]).toBeNull();
    expect([queue.size, armed()]).toEqual([0, 0]);
  });

  test("is waited for by so many of a route, of whom the eldest gives way, and by so many in all", async () => {
    const { queue, outcomes, wait } = world({ routeMax: 2, allMax: 3 });
    for (const name of ["first", "second", "third"]) wait(name);
    await settled();
    expect(outcomes).toEqual({ first: null });
    wait("other", { route: "other" });
    wait("one too many", { route: "another" });
    wait("fourth");
    await settled();
    expect(outcomes).toEqual({ first: null, "one too many": null, second: null });
    expect(queue.size).toBe(3);
  });

  test("is given once, and nothing is left behind, whatever happens in whatever order", async () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant("wait" as const), channels: fc.uniqueArray(fc.constantFrom("a", "b", "c")), route: fc.nat(2) }),
      fc.record({ do: fc.constant("free" as const), channel: fc.constantFrom("a", "b", "c") }),
      fc.record({ do: fc.constant("leave" as const), who: fc.nat(30) }),
      fc.record({ do: fc.constant("pass" as const), ms: fc.nat(1_500) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { queue, outcomes, wait, pass, armed } = world({ routeMax: 4, allMax: 9 });
        const calls: Cancellation[] = [];
        let freed = 0;
        for (const one of steps) {
          if (one.do === "wait") calls.push(wait(String(calls.length), { channels: one.channels, route: String(one.route) }));
          else if (one.do === "leave") calls[one.who]?.cancel(failure("client_gone", ""));
          else if (one.do === "pass") await pass(one.ms);
          else {
            queue.freed(one.channel);
            freed += 1;
          }
          await settled();
          expect(queue.size).toBeLessThanOrEqual(9);
          expect(armed()).toBe(queue.size);
        }
        await pass(2_000);
        expect([queue.size, armed()]).toEqual([0, 0]);
        expect(Object.keys(outcomes).length).toBe(calls.length);
        expect(Object.values(outcomes).filter((channel) => channel !== null).length).toBeLessThanOrEqual(freed);
      }),
      { numRuns: 200 },
    );
  });
});
