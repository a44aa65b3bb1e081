import { expect, test } from "bun:test";
import { slotName, type DistributedCounts, type TakeResult, type CountRequest } from "../../src/limits/distributed-counts.ts";
import { eventually } from "./eventually.ts";

export interface CountsWorld {
  /** Another process' view of the same counts, with slots of 20 ms: a window of 1.22 s. */
  open(): Promise<DistributedCounts>;
}

export const contractSlotMs = 20;
const windowMs = 61 * contractSlotMs;

/** What every implementation of shared counts must do, whichever store it uses. */
export function testCountsContract(world: CountsWorld): void {
  let serial = 0;
  const newKey = (): string => `key-${(serial += 1)}`;

  // The two at once: each waits for a window of its own to pass.
  test.concurrent("an amount is granted as long as the limit has room, and what is refused says when there will be", async () => {
    const counts = await world.open();
    const key = newKey();
    for (let call = 0; call < 3; call += 1) {
      expect(await counts.take([one(key, 3)], [])).toMatchObject({ ok: true, granted: [{ amount: 1, remaining: 2 - call }] });
    }
    const refused = await counts.take([one(key, 3)], []);
    if (refused.ok) throw new Error("granted beyond the limit");
    expect(refused).toMatchObject({ short: `${key} rpm`, remaining: 0 });
    expect(refused.waitMs).toBeGreaterThan(0);
    expect(refused.waitMs).toBeLessThanOrEqual(windowMs);
    await Bun.sleep(refused.waitMs);
    expect(await counts.take([one(key, 3)], [])).toMatchObject({ ok: true });
  });

  test.concurrent("no stretch as long as the window, wherever it begins, holds more than the limit", async () => {
    const counts = await world.open();
    const key = newKey();
    const slots: number[] = [];
    const untilMs = performance.now() + 1.8 * windowMs;
    while (performance.now() < untilMs) {
      slots.push(...slotsOf(await counts.take([one(key, 25)], [])));
      await Bun.sleep(Math.random() * 12);
    }
    expect(slots.length).toBeGreaterThan(25);
    for (const first of slots) expect(slots.filter((slot) => slot >= first && slot <= first + 60).length).toBeLessThanOrEqual(25);
  });

  test("a call takes all of its limits or none, its slot included", async () => {
    const counts = await world.open();
    const key = newKey();
    const tokens: CountRequest = { id: `${key} tpm`, limit: 100, need: 101, wish: 101, sharers: 1 };
    expect(await counts.take([one(key, 1), tokens], [])).toMatchObject({ ok: false, short: tokens.id, waitMs: windowMs });
    const full = { id: `${key} slots`, limit: 0, call: "a", ttlMs: 1_000 };
    expect(await counts.take([one(key, 1)], [full])).toMatchObject({ ok: false, short: full.id });
    expect(await counts.take([one(key, 1)], [{ ...full, limit: 1 }])).toMatchObject({ ok: true, granted: [{ remaining: 0 }] });
    // The refused take of the rate must not have left its slot behind.
    expect(await counts.take([one(key, 1)], [{ ...full, limit: 2, call: "b" }])).toMatchObject({ ok: false, short: `${key} rpm` });
    expect(await counts.take([], [{ ...full, limit: 2, call: "c" }])).toMatchObject({ ok: true });
  });

  test("a lease is as large as wished, but never more than a fair part of what is left", async () => {
    const counts = await world.open();
    const id = `${newKey()} rpm`;
    expect(await counts.take([{ id, limit: 1_000, need: 1, wish: 20, sharers: 8 }], [])).toMatchObject({ granted: [{ amount: 20 }] });
    expect(await counts.take([{ id, limit: 1_000, need: 1, wish: 500, sharers: 8 }], [])).toMatchObject({ granted: [{ amount: 122 }] });
    expect(await counts.take([{ id, limit: 1_000, need: 855, wish: 900, sharers: 8 }], [])).toMatchObject({ granted: [{ amount: 855 }] });
    expect(await counts.take([{ id, limit: 1_000, need: 1, wish: 500, sharers: 8 }], [])).toMatchObject({
      granted: [{ amount: 1, remaining: 2 }],
    });
  });

  test("callers in parallel, from several processes, get exactly the limit", async () => {
    const views = await Promise.all([world.open(), world.open(), world.open()]);
    const key = newKey();
    const takes = Array.from({ length: 45 }, (_, call) => views[call % 3]!.take([one(key, 20)], [hold(key, 30, `call-${call}`)]));
    const taken = await Promise.all(takes);
    expect(taken.filter(({ ok }) => ok)).toHaveLength(20);
  });

  test("a call takes the limits and slots of its key and its groups in one step, or none of them", async () => {
    const counts = await world.open();
    const org = newKey();
    const [key, team] = [`${org}>a`, `${org}>team`];
    const call = [one(key, 2), one(team, 2), one(org, 1)];
    const slots = (name: string, teamMax: number) => [hold(key, 9, name), hold(team, teamMax, name)];
    expect(await counts.take(call, slots("a", 0))).toMatchObject({ ok: false, short: `${team} slots` });
    expect(await counts.take(call, slots("a", 1))).toMatchObject({ ok: true, granted: [{}, {}, { remaining: 0 }], slots: [1, 1] });
    expect(await counts.take(call, [])).toMatchObject({ ok: false, short: `${org} rpm` });
    // What the others had room for was not taken.
    expect(await counts.take([one(key, 2), one(team, 2)], [])).toMatchObject({ ok: true, granted: [{ remaining: 0 }, { remaining: 0 }] });
    expect(await counts.take([], [hold(key, 2, "b")])).toMatchObject({ ok: true });
    expect(await counts.take([], [{ ...hold(key, 4, "c"), more: ["d", "e", "f"] }, hold(team, 2, "c")])).toMatchObject({ slots: [2, 1] });
    await counts.release(`${team} slots`, ["a"]);
    expect(await counts.take([], slots("g", 1))).toMatchObject({ ok: false, short: `${team} slots` });
  });

  test("callers of many keys, from several processes and in any order, get exactly what their groups have", async () => {
    const views = await Promise.all([world.open(), world.open(), world.open()]);
    const org = newKey();
    const takes = Array.from({ length: 60 }, (_, call) => {
      const team = `${org}>team-${call % 2}`;
      const limits = [one(`${org}>key-${call % 6}`, 5), one(team, 12), one(org, 18)];
      const slots = [hold(team, 11, `call-${call}`), hold(org, 30, `call-${call}`)];
      return views[call % 3]!.take(call % 4 < 2 ? limits : limits.toReversed(), call % 5 < 2 ? slots : slots.toReversed());
    });
    const teams = (await Promise.all(takes)).flatMap(({ ok }, call) => (ok ? [call % 2] : []));
    expect(teams).toHaveLength(18);
    for (const team of [0, 1]) expect(teams.filter((one) => one === team).length).toBeLessThanOrEqual(11);
  });

  test("an amount that is returned has room again, and one that was used in excess has not", async () => {
    const counts = await world.open();
    const id = `${newKey()} tpm`;
    const want = (need: number): CountRequest => ({ id, limit: 1_000, need, wish: need, sharers: 1 });
    const [slot = 0] = slotsOf(await counts.take([want(1_000)], []));
    await counts.correct(id, [{ slot, by: -300 }]);
    expect(await counts.take([want(301)], [])).toMatchObject({ ok: false, remaining: 300 });
    await counts.correct(id, [{ slot: null, by: 100 }]);
    expect(await counts.take([want(201)], [])).toMatchObject({ ok: false, remaining: 200 });
    // What never was, or is long gone, cannot be given back.
    await counts.correct(id, [
      { slot: slot + 40, by: -500 },
      { slot: slot - 100, by: -500 },
      { slot: slot + 100_000, by: 500 },
    ]);
    expect(await counts.take([want(201)], [])).toMatchObject({ ok: false, remaining: 200 });
    // A slot that was overdrawn is empty, not below.
    await counts.correct(id, [{ slot, by: -5_000 }]);
    expect(await counts.take([want(900)], [])).toMatchObject({ ok: true });
    expect(await counts.take([want(101)], [])).toMatchObject({ ok: false });
  });

  test("a slot is free when its call ends, or some time after its process died", async () => {
    const counts = await world.open();
    const key = newKey();
    expect(await counts.take([], [hold(key, 2, "a")])).toMatchObject({ ok: true });
    expect(await counts.take([], [{ ...hold(key, 2, "dead"), ttlMs: 1_000 }])).toMatchObject({ ok: true });
    expect(await counts.take([], [hold(key, 2, "b")])).toMatchObject({ ok: false, short: `${key} slots` });
    await counts.release(`${key} slots`, ["a"]);
    expect(await counts.take([], [hold(key, 2, "b")])).toMatchObject({ ok: true });
    expect(await counts.take([], [hold(key, 2, "c")])).toMatchObject({ ok: false });
    await eventually("the dead one's slot is free", async () => (await counts.take([], [hold(key, 2, "c")])).ok);
  });

  test("a slot that is renewed lives on, and one that was forgotten is restored", async () => {
    const counts = await world.open();
    const key = newKey();
    const short = { ...hold(key, 1, "long"), ttlMs: 1_200 };
    await counts.take([], [short]);
    for (let round = 0; round < 4; round += 1) {
      await Bun.sleep(450);
      await counts.renew([short]);
      expect((await counts.take([], [hold(key, 1, "other")])).ok).toBe(false);
    }
    await counts.release(short.id, [short.call]);
    await counts.renew([short]);
    expect((await counts.take([], [hold(key, 1, "other")])).ok).toBe(false);
  });

  test("the slots of a process that has ended are free at once where it is forgotten, and those of others are not", async () => {
    const counts = await world.open();
    const [one, other, both] = [newKey(), newKey(), newKey()];
    await counts.heartbeat("dead", 60_000);
    for (const key of [one, both]) expect((await counts.take([], [hold(key, 2, slotName("dead", 1))])).ok).toBe(true);
    for (const key of [other, both]) expect((await counts.take([], [hold(key, 2, slotName("dead2", 7))])).ok).toBe(true);
    expect((await counts.take([], [hold(both, 2, "new")])).ok).toBe(false);
    await counts.forget("dead");
    expect(await counts.take([], [{ ...hold(one, 2, "a"), more: ["b", "c"] }])).toMatchObject({ ok: true, slots: [2] });
    expect(await counts.take([], [{ ...hold(both, 2, "a"), more: ["b", "c"] }])).toMatchObject({ ok: true, slots: [1] });
    expect(await counts.take([], [{ ...hold(other, 2, "a"), more: ["b", "c"] }])).toMatchObject({ ok: true, slots: [1] });
    expect(await counts.heartbeat("alone", 60_000)).toBe(1);
    await counts.leave("alone");
  });

  test("processes that announce themselves are counted until they leave or stop", async () => {
    const counts = await world.open();
    await counts.heartbeat("a", 1_500);
    await counts.heartbeat("b", 1_500);
    expect(await counts.heartbeat("c", 1_500)).toBe(3);
    await counts.leave("b");
    expect(await counts.heartbeat("c", 1_500)).toBe(2);
    await eventually("the silent one is not counted", async () => (await counts.heartbeat("c", 1_500)) === 1);
    await counts.leave("c");
  });
}

function one(key: string, limit: number): CountRequest {
  return { id: `${key} rpm`, limit, need: 1, wish: 1, sharers: 4 };
}

function hold(key: string, limit: number, call: string): { id: string; limit: number; call: string; ttlMs: number } {
  return { id: `${key} slots`, limit, call, ttlMs: 30_000 };
}

function slotsOf(taken: TakeResult): readonly number[] {
  return taken.ok ? taken.granted.map(({ slot }) => slot) : [];
}
