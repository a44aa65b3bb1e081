import type { DistributedCounts } from "../../src/limits/distributed-counts.ts";
import type { Claim, ReservationResult } from "../../src/limits/rate-limit-store.ts";
import type { WindowSpan } from "../../src/limits/sliding-counter.ts";
import { LeasedRateLimits, type StoreLossRule } from "../../src/state/leases/leased-rate-limits.ts";
import { MemoryRateLimits } from "../../src/state/memory-rate-limits.ts";
import { StoreGuard } from "../../src/state/store-guard.ts";
import { reserve, type SlotClaim } from "./reserve.ts";

export interface LimitRigOptions {
  readonly counts: DistributedCounts;
  readonly drop?: () => void;
  /** The window is 61 of these. Everything else that has to do with it is as much shorter. */
  readonly slotMs?: number;
  readonly processes?: number;
  readonly skipMs?: number;
  readonly deadlineMs?: number;
  readonly holdMs?: number;
  readonly onStoreLoss?: StoreLossRule;
  readonly nowMs?: () => number;
  readonly leasesMax?: number;
}

/** One process' rates over shared counts, as the gateway has them, on a minute that may be shorter. */
export function limitRig(options: LimitRigOptions): LimitRig {
  const { counts, drop, slotMs = 1_000, processes = 1, skipMs = 10_000, deadlineMs = 100 } = options;
  const nowMs = options.nowMs ?? (() => performance.now());
  const guard = new StoreGuard({
    nowMs,
    after,
    deadlineMs,
    skipMs,
    probe: () => counts.heartbeat("probe", 15_000),
    ...(drop === undefined ? {} : { overdue: drop }),
  });
  const rates = new LeasedRateLimits({
    counts,
    guard,
    local: new MemoryRateLimits(() => (nowMs() * 1_000) / slotMs),
    processes: () => processes,
    nowMs,
    after,
    windowMs: 61 * slotMs,
    leaseMs: slotMs / 2,
    holdMs: options.holdMs ?? 30_000,
    onStoreLoss: options.onStoreLoss ?? "split",
    leasesMax: options.leasesMax ?? 50_000,
  });
  return { rates, guard };
}

export interface LimitRig {
  readonly rates: LeasedRateLimits;
  readonly guard: StoreGuard;
}

export function span(slotMs: number): WindowSpan {
  return { slotMs, slots: 61 };
}

export function after(ms: number, then: () => void): () => void {
  const timer = setTimeout(then, ms);
  return () => clearTimeout(timer);
}

export function requests(key: string, limit: number): Claim {
  return { id: `${key} rpm`, limit, amount: 1 };
}

export function tokens(key: string, limit: number, amount: number): Claim {
  return { id: `${key} tpm`, limit, amount };
}

export function slotClaim(key: string, limit: number, call: string): SlotClaim {
  return { id: `${key} slots`, limit, call };
}

/** Takes and settles at once, as estimated. */
export async function admitted(rates: LeasedRateLimits, claims: readonly Claim[]): Promise<boolean> {
  const reservation = await reserve(rates, claims, null);
  if (reservation.ok) reservation.settle(claims.map(({ amount }) => amount));
  return reservation.ok;
}

export function granted(reservation: ReservationResult): Extract<ReservationResult, { ok: true }> {
  if (!reservation.ok) throw new Error(`refused: ${reservation.shortId}`);
  return reservation;
}

/** Whatever wraps the counts sees how often they are asked. */
export function counted(counts: DistributedCounts): DistributedCounts & { asked: number } {
  const seen = { asked: 0 };
  return new Proxy(counts, {
    get(target, name) {
      if (name === "asked") return seen.asked;
      const value = Reflect.get(target, name) as unknown;
      if (typeof value !== "function") return value;
      return (...parts: unknown[]) => {
        seen.asked += 1;
        return (value as (...parts: unknown[]) => unknown).apply(target, parts);
      };
    },
  }) as DistributedCounts & { asked: number };
}
