import type { Settings } from "../config/settings.ts";
import type { DistributedCounts } from "../limits/distributed-counts.ts";
import type { ItemMemory } from "../operations/conversation/kept-items.ts";
import type { TextSeal } from "../operations/conversation/sealed-parts.ts";
import { CoolDownHints } from "../state/cool-down-hints.ts";
import { DistributedItems } from "../state/distributed-items.ts";
import { LeasedRateLimits } from "../state/leases/leased-rate-limits.ts";
import type { LocalItems } from "../state/local-items.ts";
import { Membership } from "../state/membership.ts";
import { MemoryRateLimits } from "../state/memory-rate-limits.ts";
import { Partition } from "../state/partition.ts";
import { RedisCounts } from "../state/redis/counts.ts";
import { RedisHints } from "../state/redis/hints.ts";
import { RedisLink } from "../state/redis/link.ts";
import { RedisTexts } from "../state/redis/texts.ts";
import { StoreGuard } from "../state/store-guard.ts";
import type { Database } from "../store/database.ts";
import { countsInThread } from "../store/sqlite/storage-in-thread.ts";
import { ThreadDatabase } from "../store/sqlite/thread-database.ts";
import { SqlAbsences } from "../store/tables/absence-table.ts";
import { SqlCounts } from "../store/tables/count-table.ts";
import { SqlHints } from "../store/tables/hint-table.ts";
import type { Log } from "../telemetry/log.ts";

/** What a process shares with others: those of its machine, or replicas elsewhere. */
export interface SharedState {
  readonly kind: string;
  readonly rates: LeasedRateLimits;
  readonly membership: Membership;
  readonly hints: CoolDownHints;
  readonly guard: StoreGuard;
  /** Items that other processes find as well, except where there is no place for them but a disk. */
  items(local: LocalItems, seal: TextSeal): ItemMemory;
  /** Frees the concurrency slots of a process that has ended. */
  freeMember(member: string): Promise<void>;
  stop(): Promise<void>;
}

export interface SharedStateOptions {
  readonly settings: Pick<Settings, "state" | "stateLoss">;
  readonly database: Database;
  /** How many processes of this machine share the port. */
  readonly workers: number;
  /** The name of this process. */
  readonly holder: string;
  readonly log: Log;
  readonly nowMs: () => number;
  readonly after: After;
  readonly onHint: (scope: string, cause: string, forMs: number) => void;
}

/** Opens the state that is shared with other processes, through Redis or the database. */
export function openSharedState(options: SharedStateOptions): SharedState {
  const { settings, database, holder, log, nowMs, after } = options;
  const link = settings.state === "memory" ? null : new RedisLink({ url: settings.state });
  const kind = link !== null ? "redis" : database.engine;
  const redisCounts = link === null ? null : new RedisCounts(link);
  const counts: DistributedCounts =
    redisCounts ?? (database instanceof ThreadDatabase ? countsInThread(database) : new SqlCounts(database, { wallMs: Date.now }));
  const guard: StoreGuard = new StoreGuard({
    nowMs,
    after,
    probe: () => membership.heartbeat(),
    overdue: () => link?.drop(),
    notice: (lost, reason) => (lost ? log.warn("state_lost", { kind, detail: reason }) : log.info("state_back", { kind })),
    ...(link !== null ? { deadlineMs: redisMs } : { deadlineMs: sqlMs, stalledMs: sqlStalledMs }),
  });
  const membership: Membership = new Membership({ counts, guard, process: holder, startTogether: options.workers, nowMs, after });
  const partition =
    link === null || database.engine === "sqlite"
      ? null
      : new Partition({
          absences: new SqlAbsences(database, { wallMs: Date.now }),
          counts,
          guard,
          process: holder,
          processes: membership.count,
          recount: membership.recount,
          nowMs,
          after,
        });
  const rates = new LeasedRateLimits({
    counts,
    guard,
    process: holder,
    local: new MemoryRateLimits(nowMs),
    ...(partition === null
      ? { processes: membership.count }
      : { processes: partition.allProcesses, share: partition.share, unreportedShare: partition.unreportedShare }),
    nowMs,
    after,
    onStoreLoss: settings.stateLoss,
  });
  if (redisCounts !== null) redisCounts.onEmptied = () => rates.emptied();
  const sharedHints = link !== null ? new RedisHints(link) : new SqlHints(database, { wallMs: Date.now });
  const hints = new CoolDownHints({ hints: sharedHints, guard, after, onHint: options.onHint });
  return {
    kind,
    rates,
    membership,
    hints,
    guard,
    items: (local, seal) => (link === null ? local : new DistributedItems({ local, texts: new RedisTexts(link), guard, seal })),
    freeMember: (member) => freeWithRetries(counts, member, after),
    stop: async () => {
      hints.stop();
      await rates.stop();
      await membership.stop();
      await partition?.stop();
      guard.stop();
      link?.close();
    },
  };
}

/** If the store does not answer for so long, the slots expire before it does. */
async function freeWithRetries(counts: DistributedCounts, member: string, after: After): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      // A server that is gone may never answer.
      await Promise.race([counts.forget(member), rejectedAfter(freeMs, after)]);
      return;
    } catch (error) {
      if (attempt >= freeAttempts) throw error;
      await new Promise<void>((resolve) => void after(freeAgainMs, resolve));
    }
  }
}

function rejectedAfter(ms: number, after: After): Promise<never> {
  return new Promise((_, reject) => void after(ms, () => reject(new Error(`The shared store did not answer within ${ms} ms.`))));
}

type After = (ms: number, then: () => void) => () => void;

const redisMs = 100;
/** A transaction in the database takes longer than a command of Redis. */
const sqlMs = 500;
const sqlStalledMs = 250;
const freeAttempts = 60;
const freeAgainMs = 250;
const freeMs = 5_000;
