import type { BudgetRefusals } from "../../limits/budget-refusal.ts";
import { hasBudgets } from "../../limits/limits.ts";
import { GroupTree } from "../../keys/group-tree.ts";
import type { ManageContext } from "../context.ts";
import { allGroups } from "../group-search.ts";
import { storedKeys } from "../key-search.ts";
import { budgetSpending, groupSpending, toldBudget, type BudgetSpending } from "../key-spending.ts";
import type { BudgetFact } from "./problems.ts";

export interface BudgetFacts {
  readonly budgets: readonly BudgetFact[];
  /** Whether there are no others. */
  readonly isWhole: boolean;
}

/**
 * What is spent of the budgets that the administrators of a group may see, as of the last minute: pages ask every few seconds, and each of
 * these budgets takes a query.
 */
export class OwnBudgets {
  private readonly checks = new Map<string, BudgetCheck>();

  /** `refusals`: of all budgets. */
  async of(groupId: string, context: ManageContext, refusals: BudgetRefusals): Promise<BudgetFacts> {
    const nowMs = context.wallMs();
    const known = this.checks.get(groupId);
    if (known !== undefined && !isOld(known, nowMs)) return known.facts;
    for (const [id, check] of this.checks) if (isOld(check, nowMs)) this.checks.delete(id);
    const check: BudgetCheck = { sinceMs: nowMs, isRunning: true, facts: checked(context, refusals) };
    this.checks.set(groupId, check);
    try {
      return await check.facts;
    } catch (error) {
      this.checks.delete(groupId);
      throw error;
    } finally {
      check.isRunning = false;
    }
  }
}

interface BudgetCheck {
  readonly sinceMs: number;
  isRunning: boolean;
  readonly facts: Promise<BudgetFacts>;
}

function isOld({ sinceMs, isRunning }: BudgetCheck, nowMs: number): boolean {
  // A clock that was set back would keep it until it is what it was.
  return !isRunning && (nowMs < sinceMs || nowMs - sinceMs >= everyMs);
}

/** Looks up the budgets of all keys and groups in the scope, as far as a query for each may take. Groups go first. */
async function checked(context: ManageContext, refusals: BudgetRefusals): Promise<BudgetFacts> {
  const { scope } = context;
  const seen = (await allGroups(context)).map(({ group }) => group);
  const tree = new GroupTree([...seen, ...(scope === undefined ? [] : (await scope.treeAbove(scope.groupId)).all())]);
  const groups = seen.map((group) => tree.chainOf(group.id)?.groups[0] ?? group).filter(({ limits }) => hasBudgets(limits));
  const ownKeys = [...context.fileKeys()];
  const inFile = ownKeys.length;
  for await (const key of storedKeys(context.reports, storedKeysMax)) ownKeys.push(key);
  const keys = ownKeys.map((key) => tree.attached(key) ?? key).filter(({ limits }) => hasBudgets(limits));
  const checkedGroups = groups.slice(0, ownersMax);
  const checkedKeys = keys.slice(0, ownersMax - checkedGroups.length);
  const budgets: BudgetFact[] = [];
  const add = (of: BudgetFact["of"], { id, name }: Pick<BudgetFact, "id" | "name">, spent: readonly BudgetSpending[]): void => {
    for (const one of spent) budgets.push(toldBudget({ of, id, name }, one, { refusals, nowMs: context.wallMs() }));
  };
  for (const key of checkedKeys) add("key", key, await budgetSpending(context, key));
  for (const group of checkedGroups) add("group", group, await groupSpending(context, group));
  const isWhole = ownKeys.length - inFile < storedKeysMax && checkedGroups.length + checkedKeys.length === groups.length + keys.length;
  return { budgets, isWhole };
}

const everyMs = 60_000;
const storedKeysMax = 1_000;
/** Each takes a query or two, and every group with administrators has its own. */
const ownersMax = 100;
