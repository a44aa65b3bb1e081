import {
  minute,
  slotsOf,
  slotWaitMs,
  type CountCorrection,
  type CountGrant,
  type SlotLease,
  type DistributedCounts,
  type TakeResult,
  type CountRequest,
} from "../../limits/distributed-counts.ts";
import { ownerOfLimit } from "../../limits/limit-id.ts";
import type { WindowSpan } from "../../limits/sliding-counter.ts";
import type { Database } from "../database.ts";
import { joinSql, sql, type Sql, batches } from "../sql.ts";

export interface SqlCountsOptions {
  /** The clock of this machine, which all processes of a SQLite file share. On PostgreSQL the clock of the server is used. */
  readonly wallMs: () => number;
  readonly span?: WindowSpan;
  /** How often expired rows are deleted. */
  readonly sweepMs?: number;
}

/**
 * Shared rate limit counts in the database, for installations without Redis. Changes to the counts of a key or a group are
 * serialized by a row lock. A call that needs several locks takes them in the order of their names, so that calls cannot deadlock.
 */
export class SqlCounts implements DistributedCounts {
  readonly releasesInPassing = false;
  private readonly span: WindowSpan;
  private readonly sweepMs: number;
  private sweptMs = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly database: Database,
    private readonly options: SqlCountsOptions,
  ) {
    this.span = options.span ?? minute;
    this.sweepMs = options.sweepMs ?? 60_000;
  }

  async take(requests: readonly CountRequest[], leases: readonly SlotLease[]): Promise<TakeResult> {
    if (requests.length + leases.length === 0) return { ok: true, granted: [], slots: [] };
    const owners = new Set([...requests, ...leases].map(({ id }) => ownerOfLimit(id)));
    const { nowMs, taken } = await this.database.transaction(async (transaction) => {
      const nowMs = await this.lock(transaction, [...owners].toSorted());
      return { nowMs, taken: await this.takeAt(transaction, nowMs, requests, leases) };
    });
    await this.sweepIfTime(nowMs);
    return taken;
  }

  async correct(id: string, corrections: readonly CountCorrection[]): Promise<void> {
    await this.database.transaction(async (transaction) => {
      const newest = this.slotAt(await this.lock(transaction, [ownerOfLimit(id)]));
      for (const { slot, ago = 0, by } of corrections) {
        const at = slot ?? newest - ago;
        if (!this.isIn(at, newest)) continue;
        await transaction.run(sql`
          insert into shared_counts (id, slot, used) values (${id}, ${at}, ${Math.max(0, by)})
          on conflict (id, slot) do update set
            used = case when shared_counts.used + ${by} > 0 then shared_counts.used + ${by} else 0 end`);
      }
    });
  }

  async renew(leases: readonly SlotLease[]): Promise<void> {
    // All processes lock the rows in the same order, so that they cannot deadlock.
    const inOrder = leases.toSorted((a, b) => (a.id === b.id ? (a.call < b.call ? -1 : 1) : a.id < b.id ? -1 : 1));
    for (let at = 0; at < inOrder.length; at += rowsMax) {
      const now = this.now();
      const rows = inOrder.slice(at, at + rowsMax).map(({ id, call, ttlMs }) => sql`(${id}, ${call}, ${now} + ${ttlMs})`);
      await this.database.run(sql`
        insert into shared_holds (id, call, expires_ms) values ${joinSql(rows, sql`, `)}
        on conflict (id, call) do update set expires_ms = excluded.expires_ms`);
    }
  }

  async release(id: string, calls: readonly string[]): Promise<void> {
    for (const names of batches(calls.toSorted(), (call) => sql`${call}`)) {
      await this.database.run(sql`delete from shared_holds where id = ${id} and call in (${names})`);
    }
  }

  async heartbeat(process: string, withinMs: number): Promise<number> {
    const now = this.now();
    await this.database.run(sql`
      insert into processes (id, seen_ms) values (${process}, ${now}) on conflict (id) do update set seen_ms = excluded.seen_ms`);
    await this.database.run(sql`delete from processes where seen_ms < ${now} - ${withinMs} or seen_ms > ${now} + ${withinMs}`);
    const [row] = await this.database.all<{ count: number }>(sql`select count(*) as count from processes`);
    return row?.count ?? 1;
  }

  async leave(process: string): Promise<void> {
    await this.database.run(sql`delete from processes where id = ${process}`);
  }

  async forget(process: string): Promise<void> {
    await this.leave(process);
    await this.database.run(sql`delete from shared_holds where call like ${`${slotsOf(process)}%`}`);
  }

  /** The database is closed by its owner. */
  close(): void {}

  private async takeAt(
    transaction: Database,
    nowMs: number,
    requests: readonly CountRequest[],
    leases: readonly SlotLease[],
  ): Promise<TakeResult> {
    const newest = this.slotAt(nowMs);
    const counted = await this.counted(transaction, requests, newest);
    const granted: CountGrant[] = [];
    for (const { id, limit, need, wish, sharers } of requests) {
      const slots = counted.get(id) ?? [];
      const rest = limit - slots.reduce((sum, { used }) => sum + used, 0);
      if (rest < need) return { ok: false, short: id, waitMs: this.waitMs(slots, limit, need, nowMs), remaining: Math.max(0, rest) };
      const amount = Math.max(need, Math.min(wish, Math.floor(rest / sharers)));
      granted.push({ id, amount, slot: newest, remaining: rest - amount });
    }
    const slots: (readonly string[])[] = [];
    for (const lease of leases) {
      const names = await freeSlots(transaction, lease, nowMs);
      if (names.length === 0) return { ok: false, short: lease.id, waitMs: slotWaitMs, remaining: 0 };
      slots.push(names);
    }
    for (const [at, lease] of leases.entries()) await takeSlots(transaction, lease, slots[at]!, nowMs);
    for (const { id, amount } of granted) {
      await transaction.run(sql`
        insert into shared_counts (id, slot, used) values (${id}, ${newest}, ${amount})
        on conflict (id, slot) do update set used = shared_counts.used + excluded.used`);
    }
    return { ok: true, granted, slots: slots.map((names) => names.length) };
  }

  private async counted(
    transaction: Database,
    requests: readonly CountRequest[],
    newest: number,
  ): Promise<ReadonlyMap<string, CountRow[]>> {
    const { slots } = this.span;
    const rows: CountRow[] = [];
    for (const ids of batches(requests, ({ id }) => sql`${id}`)) {
      const found = await transaction.all<CountRow>(sql`
        select id, slot, used from shared_counts
        where id in (${ids}) and slot >= 0 and slot > ${newest - slots} and slot <= ${newest + slots} order by slot`);
      rows.push(...found);
    }
    return Map.groupBy(rows, ({ id }) => id);
  }

  private waitMs(inOrder: readonly CountRow[], limit: number, need: number, nowMs: number): number {
    const { slotMs, slots } = this.span;
    let short = need - limit + inOrder.reduce((sum, { used }) => sum + used, 0);
    if (need <= limit) {
      for (const { slot, used } of inOrder) {
        short -= used;
        if (short <= 0) return (slot + slots) * slotMs - nowMs;
      }
    }
    return slots * slotMs;
  }

  /** Locks the counts of these owners, in their order, until the end of the transaction. Returns the time at which all were locked. */
  private async lock(transaction: Database, owners: readonly string[]): Promise<number> {
    const now = this.now();
    const rows = await transaction.all<{ now_ms: number }>(sql`
      insert into shared_counts (id, slot, used) values ${joinSql(
        owners.map((owner) => sql`(${owner}, ${lockSlot}, ${now})`),
        sql`, `,
      )}
      on conflict (id, slot) do update set used = ${now} returning ${now} as now_ms`);
    return Math.max(...rows.map(({ now_ms }) => now_ms));
  }

  private async sweepIfTime(nowMs: number): Promise<void> {
    if (Math.abs(nowMs - this.sweptMs) < this.sweepMs) return;
    this.sweptMs = nowMs;
    const { slotMs, slots } = this.span;
    const oldest = this.slotAt(nowMs) - slots;
    try {
      await this.database.run(sql`
        delete from shared_counts where (slot <> ${lockSlot} and (slot <= ${oldest} or slot > ${oldest + 2 * slots}))
          or (slot = ${lockSlot} and used < ${nowMs - 2 * slots * slotMs})`);
      await this.database.run(sql`delete from shared_holds where expires_ms <= ${nowMs}`);
    } catch {
      // The next sweep deletes the rest.
    }
  }

  private slotAt(nowMs: number): number {
    return Math.floor(nowMs / this.span.slotMs);
  }

  private isIn(slot: number, newest: number): boolean {
    return slot >= 0 && slot > newest - this.span.slots && slot <= newest + this.span.slots;
  }

  private now(): Sql {
    return nowSql(this.database.engine, this.options.wallMs);
  }
}

/** The names of the requested concurrency slots for which there is room. */
async function freeSlots(transaction: Database, { id, limit, call, more = [] }: SlotLease, nowMs: number): Promise<readonly string[]> {
  await transaction.run(sql`delete from shared_holds where id = ${id} and expires_ms <= ${nowMs}`);
  const [row] = await transaction.all<{ others: number }>(sql`
    select count(*) as others from shared_holds where id = ${id} and call <> ${call}`);
  return [call, ...more].slice(0, Math.max(0, limit - (row?.others ?? 0)));
}

async function takeSlots(transaction: Database, { id, call, ttlMs }: SlotLease, names: readonly string[], nowMs: number): Promise<void> {
  for (const rows of batches(names, (name) => sql`(${id}, ${name}, ${nowMs + ttlMs})`)) {
    // Batches repeat their first row, and `on conflict do update` may not change a row twice.
    await transaction.run(sql`insert into shared_holds (id, call, expires_ms) values ${rows} on conflict (id, call) do nothing`);
  }
  await transaction.run(sql`update shared_holds set expires_ms = ${nowMs + ttlMs} where id = ${id} and call = ${call}`);
}

/** The current time in milliseconds, on a clock that all processes of a database share. */
export function nowSql(engine: Database["engine"], wallMs: () => number): Sql {
  if (engine === "postgres") return sql`cast(floor(extract(epoch from clock_timestamp()) * 1000) as bigint)`;
  return sql`${Math.floor(wallMs())}`;
}

interface CountRow {
  readonly id: string;
  readonly slot: number;
  readonly used: number;
}

/** Not a time slot: the row that is locked for a key or a group. */
const lockSlot = -1;
const rowsMax = 100;
