import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Cancellation } from "../../../src/gateway/cancellation.ts";
import { type QueueBounds, type QueueOutcome, type QueueRequest, FairQueue } from "../../../src/gateway/admission/fair-queue.ts";
import { failure } from "../../../src/operations/failure.ts";

/** A clock that stands still until it is moved, and then rings every timer at its time. */
class Clock {
  nowMs = 1_000;
  private readonly timers = new Set<{ readonly atMs: number; readonly ring: () => void }>();

  readonly after = (ms: number, ring: () => void): (() => void) => {
    const timer = { atMs: this.nowMs + ms, ring };
    this.timers.add(timer);
    return () => this.timers.delete(timer);
  };

  get armed(): number {
    return this.timers.size;
  }

  async pass(ms: number): Promise<void> {
    const untilMs = this.nowMs + ms;
    for (;;) {
      await settle();
      const [next] = [...this.timers].filter(({ atMs }) => atMs <= untilMs).toSorted((one, other) => one.atMs - other.atMs);
      if (next === undefined) break;
      this.timers.delete(next);
      this.nowMs = Math.max(this.nowMs, next.atMs);
      next.ring();
    }
    this.nowMs = untilMs;
    await settle();
  }
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 8; turn += 1) await Promise.resolve();
}

interface WaitResult {
  readonly name: string;
  readonly keyId: string;
  readonly turn: QueueOutcome;
  readonly atMs: number;
}

function world(bounds?: QueueBounds) {
  const clock = new Clock();
  const room = new FairQueue({ nowMs: () => clock.nowMs, after: clock.after }, bounds);
  const results: WaitResult[] = [];
  const wait = (name: string, facts: Partial<QueueRequest> = {}): Cancellation => {
    const cancellation = facts.cancellation ?? new Cancellation();
    const keyId = facts.keyId ?? "key";
    const waiting = { route: "route", soonestMs: 5_000, deadlineMs: clock.nowMs + 60_000, ...facts, keyId, cancellation };
    void room.wait(waiting).then((turn) => results.push({ name, keyId, turn, atMs: clock.nowMs }));
    return cancellation;
  };
  const turns = (): Readonly<Record<string, QueueOutcome>> => Object.fromEntries(results.map(({ name, turn }) => [name, turn]));
  const gone = (): readonly string[] => results.filter(({ turn }) => turn === "go").map(({ name }) => name);
  return { clock, room, results, wait, turns, gone };
}

describe("a call that waits", () => {
  test("goes when the soonest cool-down ends, and not before", async () => {
    const { clock, wait, results } = world();
    wait("call", { soonestMs: 5_000 });
    await clock.pass(4_999);
    expect(results).toEqual([]);
    await clock.pass(1);
    expect(results).toEqual([{ name: "call", keyId: "key", turn: "go", atMs: 6_000 }]);
  });

  test("whose deadline comes before the soonest opening is refused at once", async () => {
    const { clock, room, wait, turns } = world();
    wait("late", { soonestMs: 5_000, deadlineMs: clock.nowMs + 5_000 });
    wait("in time", { soonestMs: 5_000, deadlineMs: clock.nowMs + 5_001 });
    await settle();
    expect(turns()).toEqual({ late: "late" });
    expect(room.size).toBe(1);
  });

  test("is refused when its deadline passes, to the millisecond", async () => {
    const { clock, wait, results } = world();
    wait("first", { soonestMs: 100 });
    wait("second", { soonestMs: 100, deadlineMs: clock.nowMs + 1_500 });
    await clock.pass(5_000);
    expect(results).toEqual([
      { name: "first", keyId: "key", turn: "go", atMs: 1_100 },
      { name: "second", keyId: "key", turn: "late", atMs: 2_500 },
    ]);
  });

  test("leaves at once with its client, and those behind it move up", async () => {
    const { clock, room, wait, turns, gone } = world();
    const first = wait("first");
    wait("second");
    first.cancel(failure("client_gone", "the test left"));
    await settle();
    expect(turns()).toEqual({ first: "gone" });
    expect(room.size).toBe(1);
    await clock.pass(5_000);
    expect(gone()).toEqual(["second"]);
  });

  test("leaves no timer and no ear behind, however it leaves", async () => {
    let ears = 0;
    class Counted extends Cancellation {
      override listen(listener: Parameters<Cancellation["listen"]>[0]): () => void {
        const unlisten = super.listen(listener);
        ears += 1;
        return () => {
          ears -= 1;
          unlisten();
        };
      }
    }
    const { clock, room, wait, turns } = world({ routeMax: 2, allMax: 10 });
    const leaving = wait("leaves", { cancellation: new Counted(), keyId: "one" });
    wait("pushed out", { cancellation: new Counted(), keyId: "one" });
    wait("goes", { cancellation: new Counted(), keyId: "two" });
    leaving.cancel(failure("client_gone", "the test left"));
    room.opened("route");
    room.opened("route");
    await settle();
    expect(turns()).toEqual({ "pushed out": "full", leaves: "gone", goes: "go" });
    expect({ ears, timers: clock.armed }).toEqual({ ears: 0, timers: 0 });
  });

  test("does not enter when its client has left already", async () => {
    const { room, wait, turns } = world();
    const cancellation = new Cancellation();
    cancellation.cancel(failure("client_gone", "the test left"));
    wait("call", { cancellation });
    await settle();
    expect(turns()).toEqual({ call: "gone" });
    expect(room.size).toBe(0);
  });

  test("is not held up by one whose own candidates open later", async () => {
    const { clock, wait, gone } = world();
    wait("long", { soonestMs: 50_000 });
    wait("short", { soonestMs: 1_000 });
    await clock.pass(1_000);
    expect(gone()).toEqual(["short"]);
  });

  test("looks now and then where nobody knows when it opens, and does not spin", async () => {
    const { clock, room, wait, results } = world();
    wait("0", { soonestMs: 0 });
    let looks = 0;
    for (let step = 0; step < 1_000; step += 1) {
      await clock.pass(10);
      if (results.length === looks) continue;
      looks = results.length;
      wait(String(looks), { soonestMs: 0, again: true });
    }
    expect(looks).toBeGreaterThan(50);
    expect(looks).toBeLessThanOrEqual(100);
    expect(room.size).toBe(1);
  });
});

describe("a route that opens", () => {
  test("is tried by one call at first, and by two more for each that is served", async () => {
    const { clock, room, wait, gone } = world();
    for (let index = 0; index < 10; index += 1) wait(String(index));
    await clock.pass(5_000);
    expect(gone().length).toBe(1);
    room.opened("route");
    await settle();
    expect(gone().length).toBe(3);
    room.opened("route");
    room.opened("route");
    await settle();
    expect(gone()).toEqual(["0", "1", "2", "3", "4", "5", "6"]);
  });

  test("is tried by one at a time again after a failure", async () => {
    const { clock, room, wait, gone } = world();
    for (let index = 0; index < 10; index += 1) wait(String(index));
    await clock.pass(5_000);
    room.opened("route");
    await settle();
    expect(gone().length).toBe(3);
    // Of the two that are under way one fails: the other is the one that tries.
    room.failed("route");
    await settle();
    expect(gone().length).toBe(3);
    room.failed("route");
    await settle();
    expect(gone().length).toBe(4);
  });

  test("before its time lets calls go at once", async () => {
    const { clock, room, wait, gone } = world();
    for (let index = 0; index < 5; index += 1) wait(String(index), { soonestMs: 30_000 });
    await clock.pass(1);
    expect(gone()).toEqual([]);
    room.opened("route");
    await settle();
    expect(gone()).toEqual(["0", "1"]);
  });

  test("lets the next one try when nothing was heard of the first for two seconds", async () => {
    const { clock, wait, results } = world();
    for (let index = 0; index < 3; index += 1) wait(String(index), { soonestMs: 1_000 });
    await clock.pass(10_000);
    expect(results.map(({ atMs }) => atMs)).toEqual([2_000, 4_000, 6_000]);
  });

  test("and is shut again keeps the place of who tried in vain, and asks nobody before the new time", async () => {
    const { clock, wait, gone, results } = world();
    wait("first");
    wait("second");
    await clock.pass(5_000);
    expect(gone()).toEqual(["first"]);
    wait("first again", { soonestMs: 3_000, again: true });
    await settle();
    // The other one learns for itself that it is shut.
    expect(gone()).toEqual(["first", "second"]);
    wait("second again", { soonestMs: 3_000, again: true });
    await clock.pass(2_999);
    expect(results.length).toBe(2);
    await clock.pass(1);
    expect(gone()).toEqual(["first", "second", "first again"]);
  });

  test("and is shut again keeps the place of who tried in vain, in front of its key's other calls", async () => {
    const { clock, room, wait, gone } = world();
    wait("first", { soonestMs: 5_000 });
    wait("second", { soonestMs: 30_000 });
    await clock.pass(5_000);
    wait("first again", { soonestMs: 3_000, again: true });
    room.opened("route");
    await settle();
    expect(gone()).toEqual(["first", "first again", "second"]);
  });

  test("and is shut again keeps the order of keys, too, in front of those that came later", async () => {
    const { clock, room, wait, gone } = world();
    for (const keyId of ["a", "b", "c"]) wait(keyId, { keyId });
    await clock.pass(5_000);
    wait("a again", { keyId: "a", soonestMs: 3_000, again: true });
    await settle();
    wait("b again", { keyId: "b", soonestMs: 3_000, again: true });
    await settle();
    expect(gone()).toEqual(["a", "b", "c"]);
    wait("d", { keyId: "d", soonestMs: 3_000 });
    wait("c again", { keyId: "c", soonestMs: 3_000, again: true });
    await clock.pass(3_000);
    for (let served = 0; served < 3; served += 1) room.opened("route");
    await settle();
    expect(gone().slice(3)).toEqual(["a again", "b again", "c again", "d"]);
  });

  test("does not wake the calls of other routes", async () => {
    const { room, wait, gone } = world();
    wait("here", { route: "here" });
    wait("there", { route: "there" });
    room.opened("here");
    await settle();
    expect(gone()).toEqual(["here"]);
    expect([room.waiting("here"), room.waiting("there")]).toEqual([0, 1]);
  });
});

describe("keys", () => {
  test("take turns, however many calls each has", async () => {
    const { clock, room, wait, gone } = world();
    for (let index = 0; index < 6; index += 1) wait(`many ${index}`, { keyId: "many" });
    wait("few 0", { keyId: "few" });
    wait("one 0", { keyId: "one" });
    wait("few 1", { keyId: "few" });
    await clock.pass(5_000);
    for (let served = 0; served < 8; served += 1) {
      room.opened("route");
      await settle();
    }
    expect(gone()).toEqual(["many 0", "few 0", "one 0", "many 1", "few 1", "many 2", "many 3", "many 4", "many 5"]);
  });

  test("that hold most of a full room give a place to those that hold few; others are refused at once", async () => {
    const { wait, turns, room } = world({ routeMax: 4, allMax: 100 });
    for (let index = 0; index < 4; index += 1) wait(`many ${index}`, { keyId: "many" });
    wait("many 4", { keyId: "many" });
    wait("few 0", { keyId: "few" });
    wait("few 1", { keyId: "few" });
    wait("few 2", { keyId: "few" });
    await settle();
    expect(turns()).toEqual({ "many 4": "full", "many 3": "full", "many 2": "full", "few 2": "full" });
    expect(room.size).toBe(4);
  });

  test("that hold as many as the newcomer would then have give nothing", async () => {
    const { wait, turns } = world({ routeMax: 3, allMax: 100 });
    for (const [index, keyId] of ["two", "two", "one"].entries()) wait(`${keyId} ${index}`, { keyId });
    wait("one more", { keyId: "one" });
    await settle();
    expect(turns()).toEqual({ "one more": "full" });
  });

  test("cannot fill the room for all over many routes", async () => {
    const { wait, turns, room } = world({ routeMax: 10, allMax: 4 });
    for (let index = 0; index < 4; index += 1) wait(`many ${index}`, { keyId: "many", route: `route ${index % 2}` });
    wait("few", { keyId: "few", route: "another" });
    wait("many 4", { keyId: "many", route: "another" });
    await settle();
    expect(Object.values(turns())).toEqual(["full", "full"]);
    expect(turns()["few"]).toBeUndefined();
    expect(turns()["many 4"]).toBe("full");
    expect(room.size).toBe(4);
  });
});

type Step =
  | { readonly kind: "wait"; readonly keyId: string; readonly route: string; readonly soonestMs: number; readonly lifeMs: number }
  | { readonly kind: "cancel"; readonly which: number }
  | { readonly kind: "opened" | "failed"; readonly route: string }
  | { readonly kind: "pass"; readonly ms: number };

const routes = fc.constantFrom("one", "two", "three");
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("wait" as const),
      keyId: fc.constantFrom("a", "b", "c", "d"),
      route: routes,
      soonestMs: fc.integer({ min: 0, max: 3_000 }),
      lifeMs: fc.integer({ min: 1, max: 20_000 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("cancel" as const), which: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom("opened" as const, "failed" as const), route: routes }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 1, max: 2_000 }) }) },
);

describe("whatever happens", () => {
  test("every call is told exactly once, within its deadline; the bounds hold; nothing is left behind", async () => {
    const bounds = { routeMax: 5, allMax: 9 };
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { clock, room, results, wait } = world(bounds);
        const calls: { readonly deadlineMs: number; readonly cancellation: Cancellation }[] = [];
        for (const one of steps) {
          if (one.kind === "wait") {
            const deadlineMs = clock.nowMs + one.lifeMs;
            calls.push({ deadlineMs, cancellation: wait(String(calls.length), { ...one, deadlineMs }) });
          } else if (one.kind === "cancel") {
            calls[one.which % Math.max(1, calls.length)]?.cancellation.cancel(failure("client_gone", "the test left"));
          } else if (one.kind === "pass") {
            await clock.pass(one.ms);
          } else {
            room[one.kind](one.route);
          }
          expect(room.size).toBeLessThanOrEqual(bounds.allMax);
          for (const route of ["one", "two", "three"]) expect(room.waiting(route)).toBeLessThanOrEqual(bounds.routeMax);
        }
        await clock.pass(60_000);
        expect(results.map(({ name }) => Number(name)).toSorted((one, other) => one - other)).toEqual(calls.map((_, index) => index));
        for (const { name, atMs } of results) expect(atMs).toBeLessThanOrEqual(calls[Number(name)]!.deadlineMs);
        expect({ size: room.size, timers: clock.armed }).toEqual({ size: 0, timers: 0 });
        const tables = Object.values(room).filter((value) => value instanceof Map);
        expect(tables.map((table) => table.size)).toEqual([0, 0]);
      }),
      { numRuns: 150 },
    );
  });

  test("a key that waits has its turn before any other has two, and each key's calls keep their order", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom("a", "b", "c", "d"), { minLength: 1, maxLength: 60 }), async (keys) => {
        const { clock, room, results, wait } = world();
        for (const [index, keyId] of keys.entries()) wait(String(index), { keyId, deadlineMs: clock.nowMs + 1_000_000 });
        await clock.pass(5_000);
        while (room.size > 0) {
          room.opened("route");
          await settle();
        }
        expect(results.length).toBe(keys.length);
        for (const keyId of new Set(keys)) {
          const own = results.filter((one) => one.keyId === keyId).map(({ name }) => Number(name));
          expect(own).toEqual(own.toSorted((one, other) => one - other));
        }
        for (let at = 0; at < results.length; at += 1) {
          // Between two turns of a key, everybody else who still waits has had one.
          const next = results.findIndex((one, index) => index > at && one.keyId === results[at]!.keyId);
          if (next < 0) continue;
          const between = new Set(results.slice(at + 1, next).map((one) => one.keyId));
          const later = new Set(results.slice(next + 1).map((one) => one.keyId));
          for (const other of later) if (other !== results[at]!.keyId) expect(between.has(other)).toBe(true);
        }
      }),
      { numRuns: 100 },
    );
  });
});
