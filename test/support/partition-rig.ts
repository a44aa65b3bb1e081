import type { DistributedAbsences } from "../../src/limits/distributed-counts.ts";
import { Membership } from "../../src/state/membership.ts";
import { LeasedRateLimits } from "../../src/state/leases/leased-rate-limits.ts";
import { MemoryRateLimits } from "../../src/state/memory-rate-limits.ts";
import { Partition } from "../../src/state/partition.ts";
import { RedisCounts } from "../../src/state/redis/counts.ts";
import { RedisLink } from "../../src/state/redis/link.ts";
import { StoreGuard } from "../../src/state/store-guard.ts";
import { after, span } from "./joint-rig.ts";

export interface MemberOptions {
  readonly name: string;
  readonly port: number;
  readonly absences: DistributedAbsences;
  /** What all names in Redis begin with. */
  readonly prefix: string;
  /** The window is 61 of these. Everything else that has to do with it is as much shorter. */
  readonly slotMs: number;
  /** How long Redis may take to answer. Default: as in the gateway. */
  readonly deadlineMs?: number;
}

/** One of several processes over one Redis and one store, wired as the gateway wires it, on a minute that is shorter. */
export function joined({ name, port, absences, prefix, slotMs, deadlineMs = 100 }: MemberOptions): Member {
  const nowMs = (): number => performance.now();
  const link = new RedisLink({ url: `redis://127.0.0.1:${port}` });
  const counts = new RedisCounts(link, { prefix, span: span(slotMs) });
  const guard: StoreGuard = new StoreGuard({
    nowMs,
    after,
    probe: () => membership.heartbeat(),
    overdue: () => link.drop(),
    skipMs: slotMs * 10,
    deadlineMs,
  });
  const membership: Membership = new Membership({ counts, guard, process: name, nowMs, after, everyMs: slotMs * 2 });
  const partition = new Partition({
    absences,
    counts,
    guard,
    process: name,
    processes: membership.count,
    recount: membership.recount,
    nowMs,
    after,
    everyMs: slotMs,
    windowMs: slotMs * 61,
  });
  const rates = new LeasedRateLimits({
    counts,
    guard,
    local: new MemoryRateLimits(() => (nowMs() * 1_000) / slotMs),
    processes: partition.allProcesses,
    share: partition.share,
    unreportedShare: partition.unreportedShare,
    nowMs,
    after,
    windowMs: 61 * slotMs,
    leaseMs: slotMs / 2,
  });
  const stop = async (): Promise<void> => {
    await rates.stop();
    await membership.stop();
    await partition.stop();
    guard.stop();
    link.close();
  };
  return { rates, guard, membership, partition, stop };
}

export interface Member {
  readonly rates: LeasedRateLimits;
  readonly guard: StoreGuard;
  readonly membership: Membership;
  readonly partition: Partition;
  readonly stop: () => Promise<void>;
}
