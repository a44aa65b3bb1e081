import { beforeEach, describe, expect, test } from "bun:test";
import type { CountCorrection, CountRequest, DistributedCounts, TakeResult } from "../../../src/limits/distributed-counts.ts";
import { ListedReservationRequest, type ReservationResult } from "../../../src/limits/rate-limit-store.ts";
import { LeasedRateLimits } from "../../../src/state/leases/leased-rate-limits.ts";
import { MemoryRateLimits } from "../../../src/state/memory-rate-limits.ts";
import { newLimitMemo, reserve } from "../../support/reserve.ts";

const limit = 60_000;

let nowMs: number;
let timers: { readonly atMs: number; readonly ring: () => void }[];
let counts: SlowCounts;
let rates: LeasedRateLimits;

/** A store that takes its time to answer. */
class SlowCounts {
  used = 0;
  takes = 0;
  /** How many wait for an answer. */
  asked = 0;
  constructor(private readonly takesMs: number) {}

  take([asked]: readonly CountRequest[]): Promise<TakeResult> {
    const { id, need, wish, sharers, limit: room } = asked!;
    this.takes += 1;
    const rest = room - this.used;
    const amount = Math.max(need, Math.min(wish, Math.floor(rest / sharers)));
    const isShort = rest < need;
    if (!isShort) this.used += amount;
    const answer: TakeResult = isShort
      ? { ok: false, short: id, waitMs: 1_000, remaining: rest }
      : { ok: true, granted: [{ id, amount, slot: 1, remaining: rest - amount }], slots: [] };
    this.asked += 1;
    return new Promise((resolve) => {
      after(this.takesMs, () => {
        this.asked -= 1;
        resolve(answer);
      });
    });
  }

  async correct(_: string, corrections: readonly CountCorrection[]): Promise<void> {
    for (const { by } of corrections) this.used += by;
  }
}

function after(ms: number, then: () => void): () => void {
  const timer = { atMs: nowMs + ms, ring: then };
  timers.push(timer);
  return () => void (timers = timers.filter((one) => one !== timer));
}

async function pass(ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 1) {
    nowMs += 1;
    const due = timers.filter(({ atMs }) => atMs <= nowMs);
    timers = timers.filter(({ atMs }) => atMs > nowMs);
    for (const { ring } of due) ring();
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
  }
}

const call = (): ReservationResult | Promise<ReservationResult> => reserve(rates, [{ id: "key rpm", limit, amount: 1 }], null);

beforeEach(() => {
  nowMs = 1_000_000;
  timers = [];
  counts = new SlowCounts(50);
  rates = leasedRates({});
});

function leasedRates(options: { readonly leasesMax?: number }): LeasedRateLimits {
  const guard = { open: true, stalledMs: 250, lostSinceMs: null, run: async <T>(work: () => Promise<T>): Promise<T> => work() };
  const local = new MemoryRateLimits(() => nowMs);
  const shared = counts as unknown as DistributedCounts;
  return new LeasedRateLimits({ counts: shared, guard, local, processes: () => 4, nowMs: () => nowMs, after, ...options });
}

/** As many calls, evenly over the time, each of which ends at once. Returns how many had to wait, and how many were admitted. */
async function calls(count: number, everyMs: number): Promise<{ readonly waited: number; readonly admitted: number }> {
  let waited = 0;
  let admitted = 0;
  for (let at = 0; at < count; at += 1) {
    const result = call();
    if (result instanceof Promise) waited += 1;
    void Promise.resolve(result).then((reservation) => {
      if (!reservation.ok) return;
      admitted += 1;
      reservation.settle([1]);
    });
    await pass(everyMs);
  }
  return { waited, admitted };
}

describe("leases of limits per minute", () => {
  test("of a busy limit are followed by the next one before they end, so that no call waits for a store that is slow", async () => {
    await calls(1_000, 1);
    expect((await calls(5_000, 1)).waited).toBe(0);
    expect(counts.takes).toBeLessThan(25);
  });

  test("of a limit that is little used are not requested before a call needs one", async () => {
    await calls(50, 100);
    const before = counts.takes;
    await calls(50, 100);
    expect(counts.takes - before).toBeLessThanOrEqual(11);
  });

  test("leave nothing counted but what calls used", async () => {
    const { admitted } = await calls(3_000, 1);
    await pass(1_000);
    expect(counts.used).toBe(admitted);
    expect(admitted).toBe(3_000);
  });

  test("are returned by a process that stops, also one that arrives while it does", async () => {
    let { admitted } = await calls(1_000, 1);
    while (counts.asked === 0) admitted += (await calls(1, 1)).admitted;
    const stopped = rates.stop();
    await pass(200);
    await stopped;
    expect(counts.used).toBe(admitted);
  });

  test("admit no call beyond the limit", async () => {
    counts.used = limit - 500;
    const { admitted } = await calls(3_000, 1);
    await pass(1_000);
    expect(admitted).toBe(500);
    expect(counts.used).toBe(limit);
  });
});

describe("a lease that was forgotten, because there are too many", () => {
  beforeEach(() => {
    rates = leasedRates({ leasesMax: 1 });
  });

  /** Another limit is asked for, so that the first one is forgotten. */
  const forget = (): void => void reserve(rates, [{ id: "other rpm", limit, amount: 1 }], null);

  test("is replaced by one that serves as many calls, also of a key whose limits were prepared before", async () => {
    const before = await calls(300, 10);
    const takes = counts.takes;
    forget();
    const since = await calls(300, 10);
    expect(since.waited).toBeLessThanOrEqual(before.waited + 5);
    expect(counts.takes).toBeLessThanOrEqual(2 * takes + 1);
  });

  test("and is granted after all, serves calls whose limits were prepared without asking for each", async () => {
    const memo = newLimitMemo();
    const prepared = (): ReservationResult | Promise<ReservationResult> =>
      rates.reserve(new ListedReservationRequest([{ id: "key rpm", limit, amount: 1, memo }], [], ""));
    await calls(300, 10);
    await pass(600);
    // The first asks for as much as was used lately, the second for itself alone; the third waits for it.
    const first = prepared();
    forget();
    const waiting = [first, prepared(), prepared()];
    await pass(60);
    for (const reservation of await Promise.all(waiting)) expect(reservation.ok).toBe(true);
    for (let call = 0; call < 3; call += 1) expect(prepared()).not.toBeInstanceOf(Promise);
  });

  test("gives what its calls did not use to the store, although it has not ended", async () => {
    const { admitted } = await calls(300, 10);
    const early = await call();
    forget();
    if (early.ok) early.settle([0]);
    await pass(1_000);
    expect(counts.used).toBe(admitted + 1);
  });
});

describe("a concurrency slot", () => {
  test("that was granted by an answer which got lost is given back at once, and not taken until it expires", async () => {
    const asked: string[] = [];
    const released: string[] = [];
    const losing: Partial<DistributedCounts> = {
      take: async (_, slots) => {
        for (const { call: name } of slots) asked.push(name);
        throw new Error("the connection was reset");
      },
      release: async (_, names) => void released.push(...names),
      renew: async () => {},
    };
    const guard = { open: true, stalledMs: 250, lostSinceMs: null, run: async <T>(work: () => Promise<T>): Promise<T> => work() };
    const local = new MemoryRateLimits(() => nowMs);
    rates = new LeasedRateLimits({
      counts: losing as DistributedCounts,
      guard,
      local,
      processes: () => 1,
      nowMs: () => nowMs,
      after,
    });
    const reservation = await rates.reserve(new ListedReservationRequest([], [{ id: "key concurrency", limit: 1 }], "call"));
    expect(reservation.ok).toBe(true);
    await pass(10);
    expect(asked).toHaveLength(1);
    expect(released).toEqual(asked);
  });
});
