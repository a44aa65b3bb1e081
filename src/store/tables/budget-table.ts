import { StorageTrouble, type BudgetAnswer, type BudgetAsk, type BudgetStorage, type KeptHold } from "../../gateway/storage.ts";
import { belongsTo } from "../../keys/rule-models.ts";
import type { Database } from "../database.ts";
import { sql, type Sql, batches } from "../sql.ts";
import { parsedJson, textsFrom } from "../stored-json.ts";

/**
 * Money that processes hold of budgets. In one statement, and so of one moment, is read what was spent and what is held; what
 * is granted is what both leave. The transaction that writes receipts takes their cost off the holds, so that at every moment
 * a cost is in the one or in the other.
 */
export class BudgetTable implements BudgetStorage {
  constructor(
    private readonly database: Database,
    private readonly context: { readonly wallMs: () => number },
  ) {}

  async hold(ask: BudgetAsk): Promise<BudgetAnswer> {
    checkAsk(ask);
    const { budget, keyId, models, exceptModels = [], sinceMs, holder, lifeMs, back = 0 } = ask;
    return this.database.transaction(async (transaction) => {
      // Whoever has this row asks alone for budgets of this key, so that two cannot be granted the same money.
      await transaction.run(sql`
        insert into budget_locks (key_id, turns) values (${keyId}, 1)
        on conflict (key_id) do update set turns = budget_locks.turns + 1`);
      const now = this.#now(transaction);
      await transaction.run(sql`
        delete from budget_holds
        where budget = ${budget} and (expires_ms <= ${now} or (holder = ${holder} and since_ms <> ${sinceMs}))`);
      if (back > 0) await takeOff(transaction, holder, amount({ budget, nanos: back }));
      const { spentNanos, heldNanos } = await standing(transaction, ask);
      const leftNanos = ask.limitNanos - spentNanos - heldNanos;
      if (leftNanos < ask.need || leftNanos <= 0) {
        if (ask.press === true) await press(transaction, ask, now);
        return { ok: false, spentNanos, heldNanos, ...(await holders(transaction, ask, now)) };
      }
      const nanos = granted(ask, leftNanos);
      await transaction.run(sql`
        insert into budget_holds (budget, key_id, models, except_models, holder, since_ms, nanos, expires_ms)
        values (${budget}, ${keyId}, ${models}, ${JSON.stringify(exceptModels)}, ${holder}, ${sinceMs}, ${nanos}, ${now} + ${lifeMs})
        on conflict (budget, holder) do update set nanos = budget_holds.nanos + excluded.nanos, expires_ms = excluded.expires_ms,
          models = excluded.models, except_models = excluded.except_models`);
      return { ok: true, nanos, spentNanos, leftNanos: leftNanos - nanos };
    });
  }

  /**
   * Budgets that are not named keep what they have until it expires: they may have been granted a moment ago. For the same
   * reason a holder does not ask for more of a budget while it gives back some of it.
   */
  async keep(holder: string, kept: readonly KeptHold[], lifeMs: number): Promise<void> {
    for (const { nanos, back = 0 } of kept) {
      checkNanos(nanos);
      checkNanos(back);
    }
    const byBudget = kept.toSorted((a, b) => (a.budget < b.budget ? -1 : 1));
    for (const rows of batches(byBudget, keptRow)) {
      await this.database.transaction(async (transaction) => {
        // What was spent may or may not have been taken off already, so that only what is given back tells exactly what is left.
        await transaction.run(sql`
          with kept(budget, nanos, back, answers) as (values ${rows})
          update budget_holds set expires_ms = ${this.#now(transaction)} + ${lifeMs},
            nanos = case when budget_holds.nanos <= kept.back then 0
              when budget_holds.nanos - kept.back > kept.nanos then kept.nanos else budget_holds.nanos - kept.back end,
            wanted = case when kept.answers = 1 then 0 else budget_holds.wanted end
          from kept where budget_holds.budget = kept.budget and budget_holds.holder = ${holder}`);
        await transaction.run(sql`delete from budget_holds where holder = ${holder} and nanos = 0`);
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

  /** Several machines agree on the time of the server they share; an embedded database has only the time of its machine. */
  #now({ engine }: Database): Sql {
    if (engine === "sqlite") return sql`cast(${this.context.wallMs()} as bigint)`;
    return sql`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`;
  }
}

export interface Spending {
  readonly keyId: string;
  /** As the client named it. */
  readonly model: string;
  readonly nanos: number;
  /** When it is counted, in wall-clock milliseconds: it was not paid from the hold of a period that began later. */
  readonly atMs?: number;
}

/**
 * Takes what was spent off what its holder held for it. Belongs into the transaction that adds the same spending to the sums:
 * then nothing is ever counted twice or not at all.
 */
export async function settleHolds(database: Database, holder: string, spent: readonly Spending[]): Promise<void> {
  // Most keys have no budget, and thousands of them may come in turn.
  const [any] = await database.all(sql`select 1 as held from budget_holds where holder = ${holder} limit 1`);
  if (any === undefined) return;
  const byKey = Map.groupBy(spent, ({ keyId }) => keyId);
  for (const some of batches([...byKey.keys()].toSorted(), (keyId) => sql`${keyId}`)) {
    const holds = await database.all<HoldRow>(sql`
      select budget, key_id, models, except_models, since_ms from budget_holds where holder = ${holder} and key_id in (${some}) order by budget`);
    const costs = holds.map((hold) => ({ budget: hold.budget, nanos: costTo(hold, byKey.get(hold.key_id) ?? []) }));
    for (const rows of batches(
      costs.filter(({ nanos }) => nanos > 0),
      amount,
    ))
      await takeOff(database, holder, rows);
  }
}

interface HoldRow {
  readonly budget: string;
  readonly key_id: string;
  readonly models: string | null;
  readonly except_models: string;
  readonly since_ms: number;
}

function costTo({ models, except_models, since_ms }: HoldRow, spent: readonly Spending[]): number {
  const exceptModels = textsFrom(parsedJson(except_models));
  // Nobody knows what was paid from a damaged hold. It is left as it is: its holder makes it smaller before long.
  if (exceptModels === null) return 0;
  return spent
    .filter(({ model, atMs }) => belongsTo(models, exceptModels, model) && (atMs === undefined || atMs >= since_ms))
    .reduce((sum, { nanos }) => sum + Math.max(0, nanos), 0);
}

async function takeOff(database: Database, holder: string, rows: Sql): Promise<void> {
  await database.run(sql`
    with spent(budget, nanos) as (values ${rows})
    update budget_holds set nanos = case when budget_holds.nanos > spent.nanos then budget_holds.nanos - spent.nanos else 0 end
    from spent where budget_holds.budget = spent.budget and budget_holds.holder = ${holder}`);
}

function amount({ budget, nanos }: { readonly budget: string; readonly nanos: number }): Sql {
  return sql`(${budget}, cast(${nanos} as bigint))`;
}

function keptRow({ budget, nanos, back = 0, answers = false }: KeptHold): Sql {
  return sql`(${budget}, cast(${nanos} as bigint), cast(${back} as bigint), cast(${answers ? 1 : 0} as integer))`;
}

function granted({ need, wish, waiting = 0, sharers = 1 }: BudgetAsk, leftNanos: number): number {
  return Math.min(Math.max(need, waiting, Math.min(wish, Math.floor(leftNanos / sharers))), leftNanos);
}

/** Asks the other holders to return what they do not need; they look for it every half a second. */
async function press(database: Database, ask: BudgetAsk, now: Sql): Promise<void> {
  const { budget, sinceMs, holder } = ask;
  await database.run(sql`
    update budget_holds set wanted = 1
    where budget = ${budget} and since_ms = ${sinceMs} and holder <> ${holder} and nanos > 0 and wanted = 0 and ${isHeardOf(ask, now)}`);
}

async function holders(
  database: Database,
  ask: BudgetAsk,
  now: Sql,
): Promise<{ readonly ownNanos: number; readonly others: number; readonly awaited: number }> {
  const { budget, sinceMs, holder } = ask;
  const [row] = await database.all<{ readonly own: number; readonly others: number; readonly awaited: number }>(sql`
    select cast(coalesce(sum(case when holder = ${holder} then nanos else 0 end), 0) as bigint) as own,
      cast(coalesce(sum(case when holder <> ${holder} and nanos > 0 then 1 else 0 end), 0) as bigint) as others,
      cast(coalesce(sum(case when holder <> ${holder} and nanos > 0 and wanted = 1 and ${isHeardOf(ask, now)} then 1 else 0 end), 0) as bigint)
        as awaited
    from budget_holds where budget = ${budget} and since_ms = ${sinceMs}`);
  return { ownNanos: row?.own ?? 0, others: row?.others ?? 0, awaited: row?.awaited ?? 0 };
}

/** A holder that has not prolonged its hold for so long is gone, or cannot reach the store: it would not answer. */
function isHeardOf({ lifeMs }: BudgetAsk, now: Sql): Sql {
  return sql`expires_ms > ${now} + ${lifeMs - silentMs}`;
}

/** Three times as long as holders leave between two renewals. */
const silentMs = 45_000;
const wantedMax = 1_000;
const dayMs = 86_400_000;

/** What was spent in the period, and what is held for it by anybody. */
async function standing(
  database: Database,
  { budget, keyId, models, exceptModels = [], sinceMs }: BudgetAsk,
): Promise<{ readonly spentNanos: number; readonly heldNanos: number }> {
  const sums = sinceMs % dayMs === 0 ? sql`usage_days` : sql`usage_hours`;
  const fit = models === null ? { condition: sql`1 = 1`, exact: true } : modelCondition(models);
  const byModel = !fit.exact || exceptModels.length > 0;
  const rows = await database.all<{ readonly kind: string; readonly model: string; readonly nanos: number }>(sql`
    select 'held' as kind, '' as model, cast(coalesce(sum(nanos), 0) as bigint) as nanos
    from budget_holds where budget = ${budget} and since_ms = ${sinceMs}
    union all
    select 'spent' as kind, ${byModel ? sql`model` : sql`''`} as model, cast(coalesce(sum(nanos), 0) as bigint) as nanos
    from ${sums} where key_id = ${keyId} and at_ms >= ${sinceMs} and ${fit.condition}
    ${byModel ? sql`group by model` : sql``}`);
  const counted = rows.filter(({ kind, model }) => kind === "held" || !byModel || belongsTo(models, exceptModels, model));
  const total = (wanted: string): number => counted.reduce((sum, { kind, nanos }) => (kind === wanted ? sum + nanos : sum), 0);
  return { spentNanos: total("spent"), heldNanos: total("held") };
}

function checkAsk({ limitNanos, sinceMs, need, wish, lifeMs, waiting = 0, sharers = 1, back = 0 }: BudgetAsk): void {
  for (const nanos of [limitNanos, need, wish, lifeMs, sinceMs, waiting, sharers, back]) checkNanos(nanos);
}

function checkNanos(nanos: number): void {
  if (!Number.isSafeInteger(nanos) || nanos < 0) throw new StorageTrouble("invalid", "Amounts of a budget are whole and not negative.");
}

/** A process that is gone, and whose receipts are all in the store, holds nothing any more. */
export async function releaseHolds(database: Database, holder: string): Promise<void> {
  await database.run(sql`delete from budget_holds where holder = ${holder}`);
}

/**
 * A pattern with `*` as a condition on the column `model`, with the same answer on every engine: `like` takes capitals for
 * small letters on one and not on the other. Where the pattern has more than one star the condition is only necessary, and
 * the pattern itself has the last word.
 */
function modelCondition(pattern: string): { readonly condition: Sql; readonly exact: boolean } {
  const parts = pattern.split("*");
  const first = parts[0] ?? "";
  if (parts.length === 1) return { condition: sql`model = ${first}`, exact: true };
  const last = parts.at(-1) ?? "";
  // Both engines count characters, not their halves.
  const [before, after] = [Array.from(first).length, Array.from(last).length];
  const begins = before === 0 ? sql`` : sql` and substr(model, 1, cast(${before} as integer)) = ${first}`;
  const ends = after === 0 ? sql`` : sql` and substr(model, length(model) - cast(${after - 1} as integer)) = ${last}`;
  return { condition: sql`length(model) >= ${before + after}${begins}${ends}`, exact: parts.length === 2 };
}
