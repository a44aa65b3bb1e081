import { beforeEach, describe, expect, test } from "bun:test";
import type { SlotLease } from "../../../src/limits/distributed-counts.ts";
import { newLimitMemo } from "../../support/reserve.ts";
import { SlotLeases, type HeldSlot } from "../../../src/state/leases/slot-leases.ts";

const ttlMs = 30_000;
const idleMs = 100;

let nowMs: number;
/** The calls of each renewal. */
let renewed: string[][];
let released: string[][];
let isDown: boolean;
let leases: SlotLeases;

beforeEach(() => {
  nowMs = 1_000;
  renewed = [];
  released = [];
  isDown = false;
  const counts = {
    renew: async (some: readonly SlotLease[]): Promise<void> => {
      renewed.push(some.map(({ id }) => id));
      if (isDown) throw new Error("it is down");
    },
    release: async (id: string): Promise<void> => void released.push([id]),
  };
  const guard = { open: true, run: async <T>(work: () => Promise<T>): Promise<T> => work() };
  leases = new SlotLeases(counts, guard, () => nowMs, ttlMs, idleMs, "process");
});

const taken = (id: string): HeldSlot => leases.granted(leases.request(id, 5, 0), 1);

/** As the timer does it, ten times a second. */
async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += idleMs) {
    nowMs += idleMs;
    await leases.maintain();
  }
}

describe("slots", () => {
  test("of calls that end within ten seconds cost no renewal, however many there are", async () => {
    for (let call = 0; call < 40; call += 1) {
      const lease = taken(`key-${call}`);
      await pass(2_000);
      leases.callEnded(lease);
      await pass(1_000);
    }
    expect(renewed).toEqual([]);
    expect(released).toHaveLength(40);
  });

  test("of long calls are renewed in time, with those that would need it soon", async () => {
    taken("long");
    await pass(4_000);
    taken("later");
    await pass(5_000);
    taken("young");
    await pass(1_000);
    expect(renewed).toEqual([["long", "later"]]);
    await pass(8_900);
    expect(renewed).toHaveLength(1);
    await pass(200);
    expect(renewed[1]).toEqual(["young", "long", "later"]);
    // Twelve in two minutes, where the leases would be lost with fewer than four.
    await pass(120_000);
    expect(renewed.length).toBeWithin(10, 16);
  });

  test("are renewed again soon after that has failed", async () => {
    taken("long");
    isDown = true;
    await pass(10_200);
    expect(renewed.length).toBeGreaterThan(1);
    isDown = false;
    await pass(idleMs);
    const tries = renewed.length;
    await pass(9_000);
    expect(renewed).toHaveLength(tries);
  });

  test("are all told to the store at once after it has lost them", async () => {
    taken("known");
    await pass(1_000);
    taken("young");
    leases.renewSoon();
    await pass(idleMs);
    expect(renewed).toEqual([["known", "young"]]);
    await pass(1_000);
    expect(renewed).toHaveLength(1);
  });

  test("that were taken without the store are told to it with the next renewal, and not each by itself: it may be busy", async () => {
    taken("known");
    for (let call = 0; call < 20; call += 1) {
      leases.unreportedSlot(`unknown-${call}`, 5);
      await pass(idleMs);
    }
    expect(renewed).toEqual([]);
    await pass(8_000);
    expect(renewed.map((calls) => calls.length)).toEqual([21]);
  });

  test("that are taken again after all of a limit were released are found for calls whose limits were prepared before", async () => {
    const memo = newLimitMemo();
    for (let round = 0; round < 2; round += 1) {
      leases.callEnded(taken("key"));
      const again = leases.takeIdle(leases.pool("key", memo), 5);
      expect(again).not.toBeNull();
      leases.callEnded(again!);
      await pass(1_000);
      expect(released).toHaveLength(round + 1);
      expect(leases.takeIdle(leases.pool("key", memo), 5)).toBeNull();
    }
  });
});
