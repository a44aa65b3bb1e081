import fc from "fast-check";
import { describe, expect, test } from "bun:test";
import type { CountCorrection, CountRequest, DistributedCounts, SlotLease, TakeResult } from "../../../src/limits/distributed-counts.ts";
import {
  ListedReservationRequest,
  type Claim,
  type RateLimitStore,
  type ReservationRequest,
  type ReservationResult,
  type SlotLimit,
} from "../../../src/limits/rate-limit-store.ts";
import { LeasedRateLimits } from "../../../src/state/leases/leased-rate-limits.ts";
import { MemoryRateLimits } from "../../../src/state/memory-rate-limits.ts";
import { numRuns } from "../../support/properties.ts";
import { newLimitMemo } from "../../support/reserve.ts";

/** The limits of some keys: each key has two per minute and one on concurrent calls, and shares those of a group with others. */
const keysMax = 4;
const limitsOf = (key: number): { readonly claims: readonly Claim[]; readonly slots: readonly SlotLimit[] } => ({
  claims: [
    { id: `k${key} requests`, limit: 600, amount: 1 },
    { id: `k${key} tokens`, limit: 200_000, amount: 0 },
    { id: `g${key % 2} requests`, limit: 900, amount: 1 },
  ],
  slots: [
    { id: `k${key} concurrency`, limit: 30 },
    { id: `g${key % 2} concurrency`, limit: 50 },
  ],
});

type Step =
  | { readonly kind: "call"; readonly key: number; readonly tokens: number; readonly count: number }
  | { readonly kind: "settle"; readonly open: number; readonly count: number; readonly share: number }
  | { readonly kind: "pass"; readonly ms: number }
  | { readonly kind: "loss"; readonly isLost: boolean }
  | { readonly kind: "emptied" };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("call" as const),
      key: fc.nat(keysMax - 1),
      tokens: fc.nat(9_000),
      count: fc.integer({ min: 1, max: 12 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("settle" as const),
      open: fc.nat(99),
      count: fc.integer({ min: 1, max: 12 }),
      share: fc.double({ min: 0, max: 2, noNaN: true }),
    }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.constantFrom(1, 40, 110, 600, 5_000, 61_000) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("loss" as const), isLost: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("emptied" as const) }) },
);

/** A store that answers in the next turn, and all that it was asked, in order. */
class RecordedCounts implements DistributedCounts {
  readonly asked: unknown[] = [];
  private readonly used = new Map<string, number>();
  private readonly taken = new Map<string, Set<string>>();
  readonly releasesInPassing = true;

  async take(
    requests: readonly CountRequest[],
    slots: readonly SlotLease[],
    released: readonly { id: string; calls: readonly string[] }[] = [],
  ) {
    this.asked.push(["take", structuredClone(requests), structuredClone(slots), structuredClone(released)]);
    for (const { id, calls } of released) for (const call of calls) this.slotsOf(id).delete(call);
    for (const { id, need, limit } of requests) {
      const remaining = limit - (this.used.get(id) ?? 0);
      if (remaining < need) return { ok: false, short: id, waitMs: 1_000, remaining } satisfies TakeResult;
    }
    for (const { id, limit } of slots) {
      if (this.slotsOf(id).size >= limit) return { ok: false, short: id, waitMs: 100, remaining: 0 } satisfies TakeResult;
    }
    const granted = requests.map(({ id, need, wish, limit, sharers }) => {
      const rest = limit - (this.used.get(id) ?? 0);
      const amount = Math.max(need, Math.min(wish, Math.floor(rest / sharers)));
      this.used.set(id, (this.used.get(id) ?? 0) + amount);
      return { id, amount, slot: 1, remaining: rest - amount };
    });
    const counts = slots.map(({ id, limit, call, more = [] }) => {
      const names = [call, ...more].slice(0, Math.max(1, limit - this.slotsOf(id).size));
      for (const name of names) this.slotsOf(id).add(name);
      return names.length;
    });
    return { ok: true, granted, slots: counts } satisfies TakeResult;
  }

  async correct(id: string, corrections: readonly CountCorrection[]): Promise<void> {
    this.asked.push(["correct", id, structuredClone(corrections)]);
    for (const { by } of corrections) this.used.set(id, Math.max(0, (this.used.get(id) ?? 0) + by));
  }

  async renew(leases: readonly SlotLease[]): Promise<void> {
    this.asked.push(["renew", structuredClone(leases)]);
    for (const { id, call } of leases) this.slotsOf(id).add(call);
  }

  async release(id: string, calls: readonly string[]): Promise<void> {
    this.asked.push(["release", id, [...calls]]);
    for (const call of calls) this.slotsOf(id).delete(call);
  }

  heartbeat = (): Promise<number> => Promise.resolve(3);
  leave = (): Promise<void> => Promise.resolve();
  forget = (): Promise<void> => Promise.resolve();
  close = (): void => {};

  private slotsOf(id: string): Set<string> {
    let taken = this.taken.get(id);
    if (taken === undefined) this.taken.set(id, (taken = new Set()));
    return taken;
  }
}

/** One gateway, whose calls are prepared for its keys or not. */
class World {
  private nowMs = 1_000_000;
  private timers: { readonly atMs: number; readonly ring: () => void }[] = [];
  private readonly counts = new RecordedCounts();
  private readonly guard = {
    open: true,
    stalledMs: 250,
    lostSinceMs: null as number | null,
    run: <T>(ask: () => Promise<T>): Promise<T> => (this.guard.open ? ask() : Promise.reject(new Error("it is lost"))),
  };
  private readonly prepared = Array.from({ length: keysMax }, (_, key) => {
    const { claims, slots } = limitsOf(key);
    return {
      claims: claims.map((claim) => ({ ...claim, memo: newLimitMemo() })),
      slots: slots.map((slot) => ({ ...slot, memo: newLimitMemo() })),
    };
  });
  private readonly open: { readonly amounts: readonly number[]; readonly settle: (amounts: readonly number[]) => void }[] = [];
  private calls = 0;
  readonly seen: unknown[] = [];

  constructor(
    private readonly isPrepared: boolean,
    isShared: boolean,
  ) {
    // So few that limits are forgotten all the time.
    const local = new MemoryRateLimits(() => this.nowMs, 9);
    this.rates = isShared
      ? new LeasedRateLimits({
          counts: this.counts,
          guard: this.guard,
          local,
          processes: () => 3,
          nowMs: () => this.nowMs,
          after: (ms, ring) => this.after(ms, ring),
          process: "one",
          leasesMax: 5,
        })
      : local;
  }

  private readonly rates: RateLimitStore;

  async take(one: Step): Promise<void> {
    if (one.kind === "call") for (let at = 0; at < one.count; at += 1) this.call(one.key, one.tokens);
    else if (one.kind === "settle") for (let at = 0; at < one.count; at += 1) this.settle(one.open, one.share);
    else if (one.kind === "pass") await this.pass(one.ms);
    else if (one.kind === "loss") {
      this.guard.open = !one.isLost;
      this.guard.lostSinceMs = one.isLost ? this.nowMs : null;
    } else if (this.rates instanceof LeasedRateLimits) this.rates.emptied();
    await this.pass(0);
  }

  async end(): Promise<unknown> {
    this.guard.open = true;
    this.guard.lostSinceMs = null;
    while (this.open.length > 0) this.settle(0, 1);
    for (let second = 0; second < 5; second += 1) await this.pass(1_000);
    if (this.rates instanceof LeasedRateLimits) await this.rates.stop();
    return [this.seen, this.counts.asked];
  }

  private call(key: number, tokens: number): void {
    const serial = (this.calls += 1);
    const result = this.rates.reserve(this.request(key, tokens, `call ${serial}`));
    this.seen.push([serial, result instanceof Promise ? "waits" : "at once"]);
    if (result instanceof Promise) void result.then((late) => this.answered(serial, tokens, late));
    else this.answered(serial, tokens, result);
  }

  private request(key: number, tokens: number, call: string): ReservationRequest {
    const { claims, slots } = this.isPrepared ? this.prepared[key]! : limitsOf(key);
    const asked = claims.map((claim) => (claim.id.endsWith("tokens") ? { ...claim, amount: tokens } : claim));
    return new ListedReservationRequest(asked, slots, call);
  }

  private answered(serial: number, tokens: number, result: ReservationResult): void {
    const left = limitsOf(0).claims.map((_, at) => [result.remaining(at), result.resetMs(at)]);
    this.seen.push([serial, result.ok ? "granted" : [result.shortId, result.waitMs], left]);
    if (result.ok) this.open.push({ amounts: [1, tokens, 1], settle: (amounts) => result.settle(amounts) });
  }

  private settle(at: number, share: number): void {
    const [one] = this.open.splice(at % Math.max(1, this.open.length), 1);
    one?.settle([one.amounts[0]!, Math.round(one.amounts[1]! * share), one.amounts[2]!]);
  }

  private after(ms: number, ring: () => void): () => void {
    const timer = { atMs: this.nowMs + ms, ring };
    this.timers.push(timer);
    return () => void (this.timers = this.timers.filter((one) => one !== timer));
  }

  private async pass(ms: number): Promise<void> {
    const endMs = this.nowMs + ms;
    for (;;) {
      for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
      const next = this.timers.toSorted((one, other) => one.atMs - other.atMs)[0];
      if (next === undefined || next.atMs > endMs) break;
      this.timers = this.timers.filter((one) => one !== next);
      this.nowMs = Math.max(this.nowMs, next.atMs);
      next.ring();
    }
    this.nowMs = endMs;
  }
}

describe("calls of keys whose limits were prepared", () => {
  test.each([
    ["in memory", false],
    ["by leases", true],
  ])("are granted, refused and counted as all others, %s", async (_, isShared) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 120 }), async (steps) => {
        const worlds = [new World(true, isShared), new World(false, isShared)];
        for (const one of steps) for (const world of worlds) await world.take(one);
        const [prepared, others] = [await worlds[0]!.end(), await worlds[1]!.end()];
        expect(prepared).toEqual(others);
      }),
      { numRuns: numRuns(300) },
    );
  });
});
