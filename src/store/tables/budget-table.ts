import {
  StorageError,
  type BudgetHoldResult,
  type BudgetHoldRequest,
  type BudgetStorage,
  type HoldRenewal,
} from "../../gateway/storage.ts";
import { belongsTo } from "../../keys/rule-models.ts";
import type { Database } from "../database.ts";
import { selectsPaid, type PaidCalls } from "../../keys/budget-selector.ts";
import { spentAndHeld, storedSelector } from "./budget-sums.ts";
import { sql, type Sql, batches } from "../sql.ts";
import { parsedJson, textsFrom } from "../stored-json.ts";

/**
 * Budget holds: money that processes have set aside for their calls. One statement, and so one consistent view, reads what was spent
 * and what is held; the rest can be granted. The transaction that stores receipts deducts their cost from the holds, so that each
 * cost is at any time either in the sums or in a hold.
 */
export class BudgetTable implements BudgetStorage {
  constructor(
    private readonly database: Database,
    private readonly context: { readonly wallMs: () => number },
  ) {}

  async hold(request: BudgetHoldRequest): Promise<BudgetHoldResult> {
    checkRequest(request);
    const { budget, ownerId, models, exceptModels = [], selector = null, sinceMs, holder, ttlMs, back = 0 } = request;
    return this.database.transaction(async (transaction) => {
      // Locks the budgets of this key or group, so that two processes cannot be granted the same money.
      await transaction.run(sql`
        insert into budget_locks (key_id, turns) values (${ownerId}, 1)
        on conflict (key_id) do update set turns = budget_locks.turns + 1`);
      const now = this.#now(transaction);
      await transaction.run(sql`
        delete from budget_holds
        where budget = ${budget} and (expires_ms <= ${now} or (holder = ${holder} and since_ms <> ${sinceMs}))`);
      if (back > 0) await deduct(transaction, holder, amount({ budget, nanos: back }));
      const { spentNanos, heldNanos } = await spentAndHeld(transaction, request);
      const leftNanos = request.limitNanos - spentNanos - heldNanos;
      if (leftNanos < request.need || leftNanos <= 0) {
        if (request.recall === true) await recallFromOthers(transaction, request, now);
        return { ok: false, spentNanos, heldNanos, ...(await otherHolders(transaction, request, now)) };
      }
      const nanos = grantedNanos(request, leftNanos);
      await transaction.run(sql`
        insert into budget_holds (budget, key_id, models, except_models, selector, holder, since_ms, nanos, expires_ms)
        values (${budget}, ${ownerId}, ${models}, ${JSON.stringify(exceptModels)}, ${selector}, ${holder}, ${sinceMs}, ${nanos}, ${now} + ${ttlMs})
        on conflict (budget, holder) do update set nanos = budget_holds.nanos + excluded.nanos, expires_ms = excluded.expires_ms,
          models = excluded.models, except_models = excluded.except_models, selector = excluded.selector`);
      return { ok: true, nanos, spentNanos, leftNanos: leftNanos - nanos };
    });
  }

  /**
   * Budgets that are not listed keep their holds until they expire: they may have been granted a moment ago. For the same reason a
   * holder must not request more of a budget while it returns some of it.
   */
  async renew(holder: string, renewals: readonly HoldRenewal[], ttlMs: number): Promise<void> {
    for (const { nanos, back = 0 } of renewals) {
      checkNanos(nanos);
      checkNanos(back);
    }
    const byBudget = renewals.toSorted((a, b) => (a.budget < b.budget ? -1 : 1));
    const all = [...batches(byBudget, renewalRow)];
    for (const [at, rows] of all.entries()) {
      await this.database.transaction(async (transaction) => {
        // Spending may or may not have been deducted already, so that only the returned amount says exactly what is left.
        await transaction.run(sql`
          with kept(budget, nanos, back, answers) as (values ${rows})
          update budget_holds set expires_ms = ${this.#now(transaction)} + ${ttlMs},
            nanos = case when budget_holds.nanos <= kept.back then 0
              when budget_holds.nanos - kept.back > kept.nanos then kept.nanos else budget_holds.nanos - kept.back end,
            wanted = case when kept.answers = 1 then 0 else budget_holds.wanted end
          from kept where budget_holds.budget = kept.budget and budget_holds.holder = ${holder}`);
        // Once, because it reads all holds of the process, of which there may be tens of thousands.
        if (at === all.length - 1) await transaction.run(sql`delete from budget_holds where holder = ${holder} and nanos = 0`);
      });
    }
  }

  async wanted(holder: string): Promise<readonly string[]> {
    const rows = await this.database.all<{ readonly budget: string }>(
      sql`select budget from budget_holds where holder = ${holder} and wanted = 1 limit ${wantedMax}`,
    );
    return rows.map(({ budget }) => budget);
  }

  async release(holder: string): Promise<void> {
    await releaseHolds(this.database, holder);
  }

  /** Replicas use the clock of the PostgreSQL server; the processes of a SQLite file are on one machine and use its clock. */
  #now({ engine }: Database): Sql {
    if (engine === "sqlite") return sql`cast(${this.context.wallMs()} as bigint)`;
    return sql`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`;
  }
}

export interface Spending extends PaidCalls {
  /** The key that made the calls, or a group that they count for. */
  readonly ownerId: string;
  /** Whether it is from the sums of owners. Budgets of a key for all of its calls were paid from the other ones. */
  readonly asOwner: boolean;
  readonly nanos: number;
  /** When it is counted, in wall-clock milliseconds. A hold of a later period did not pay for it. */
  readonly atMs?: number;
}

/**
 * Deducts what was spent from the holds of a process. Must run in the transaction that adds the same cost to the sums, so that no
 * cost is counted twice or not at all.
 */
export async function settleHolds(database: Database, holder: string, spent: readonly Spending[]): Promise<void> {
  // Most keys have no budget, and a batch may have thousands of keys.
  const [any] = await database.all(sql`select 1 as held from budget_holds where holder = ${holder} limit 1`);
  if (any === undefined) return;
  const byOwner = Map.groupBy(spent, ({ ownerId }) => ownerId);
  for (const ids of batches([...byOwner.keys()].toSorted(), (ownerId) => sql`${ownerId}`)) {
    const holds = await database.all<HoldRow>(sql`
      select budget, key_id, models, except_models, selector, since_ms from budget_holds where holder = ${holder} and key_id in (${ids}) order by budget`);
    const costs = holds.map((hold) => ({ budget: hold.budget, nanos: costTo(hold, byOwner.get(hold.key_id) ?? []) }));
    for (const rows of batches(
      costs.filter(({ nanos }) => nanos > 0),
      amount,
    ))
      await deduct(database, holder, rows);
  }
}

interface HoldRow {
  readonly budget: string;
  readonly key_id: string;
  readonly models: string | null;
  readonly except_models: string;
  readonly selector: string | null;
  readonly since_ms: number;
}

function costTo({ models, except_models, selector: text, since_ms }: HoldRow, spent: readonly Spending[]): number {
  const exceptModels = textsFrom(parsedJson(except_models));
  const selector = storedSelector(text);
  // It is unknown what a damaged hold has paid for, so that nothing is deducted. Its holder reduces it with the next renewal.
  if (exceptModels === null || selector === "damaged") return 0;
  let sum = 0;
  for (const one of spent) {
    if (one.asOwner !== (selector !== null) || (one.atMs !== undefined && one.atMs < since_ms)) continue;
    if (!belongsTo(models, exceptModels, one.model) || (selector !== null && !selectsPaid(selector, one))) continue;
    sum += Math.max(0, one.nanos);
  }
  return sum;
}

async function deduct(database: Database, holder: string, rows: Sql): Promise<void> {
  await database.run(sql`
    with spent(budget, nanos) as (values ${rows})
    update budget_holds set nanos = case when budget_holds.nanos > spent.nanos then budget_holds.nanos - spent.nanos else 0 end
    from spent where budget_holds.budget = spent.budget and budget_holds.holder = ${holder}`);
}

function amount({ budget, nanos }: { readonly budget: string; readonly nanos: number }): Sql {
  return sql`(${budget}, cast(${nanos} as bigint))`;
}

function renewalRow({ budget, nanos, back = 0, answers = false }: HoldRenewal): Sql {
  return sql`(${budget}, cast(${nanos} as bigint), cast(${back} as bigint), cast(${answers ? 1 : 0} as integer))`;
}

function grantedNanos({ need, wish, waiting = 0, sharers = 1 }: BudgetHoldRequest, leftNanos: number): number {
  return Math.min(Math.max(need, waiting, Math.min(wish, Math.floor(leftNanos / sharers))), leftNanos);
}

/** Asks the other holders to return what they do not need. They check for that every half a second. */
async function recallFromOthers(database: Database, request: BudgetHoldRequest, now: Sql): Promise<void> {
  const { budget, sinceMs, holder } = request;
  await database.run(sql`
    update budget_holds set wanted = 1
    where budget = ${budget} and since_ms = ${sinceMs} and holder <> ${holder} and nanos > 0 and wanted = 0 and ${isAlive(request, now)}`);
}

async function otherHolders(
  database: Database,
  request: BudgetHoldRequest,
  now: Sql,
): Promise<{ readonly ownNanos: number; readonly others: number; readonly awaited: number }> {
  const { budget, sinceMs, holder } = request;
  const [row] = await database.all<{ readonly own: number; readonly others: number; readonly awaited: number }>(sql`
    select cast(coalesce(sum(case when holder = ${holder} then nanos else 0 end), 0) as bigint) as own,
      cast(coalesce(sum(case when holder <> ${holder} and nanos > 0 then 1 else 0 end), 0) as bigint) as others,
      cast(coalesce(sum(case when holder <> ${holder} and nanos > 0 and wanted = 1 and ${isAlive(request, now)} then 1 else 0 end), 0) as bigint)
        as awaited
    from budget_holds where budget = ${budget} and since_ms = ${sinceMs}`);
  return { ownNanos: row?.own ?? 0, others: row?.others ?? 0, awaited: row?.awaited ?? 0 };
}

/** A holder that has not renewed its hold for longer has died or cannot reach the store, and would not answer. */
function isAlive({ ttlMs }: BudgetHoldRequest, now: Sql): Sql {
  return sql`expires_ms > ${now} + ${ttlMs - aliveMs}`;
}

/** Three renewal intervals. */
const aliveMs = 45_000;
const wantedMax = 1_000;

function checkRequest({ limitNanos, sinceMs, need, wish, ttlMs, waiting = 0, sharers = 1, back = 0 }: BudgetHoldRequest): void {
  for (const nanos of [limitNanos, need, wish, ttlMs, sinceMs, waiting, sharers, back]) checkNanos(nanos);
}

function checkNanos(nanos: number): void {
  if (!Number.isSafeInteger(nanos) || nanos < 0) throw new StorageError("invalid", "Budget amounts must be integers of at least 0.");
}

/** Deletes the holds of a process that has exited and whose receipts are all in the store. */
export async function releaseHolds(database: Database, holder: string): Promise<void> {
  await database.run(sql`delete from budget_holds where holder = ${holder}`);
}
