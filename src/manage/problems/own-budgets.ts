import { budgetLabel } from "../../limits/limit-id.ts";
import { hasBudgets } from "../../limits/limits.ts";
import type { ManageContext } from "../context.ts";
import { allGroups, groupTree } from "../group-search.ts";
import { storedKeys } from "../key-search.ts";
import { budgetSpending, groupSpending, type BudgetSpending } from "../key-spending.ts";
import type { BudgetFact } from "./problems.ts";

export interface BudgetFacts {
  readonly budgets: readonly BudgetFact[];
  /** Whether there are no others. */
  readonly isWhole: boolean;
}

/**
 * What is spent of the budgets of all keys and groups that the caller may see, as far as a query for each may take. Groups go first. `known` has
 * those budgets of the whole gateway that were looked at, and says which of them refuse calls.
 */
export async function ownBudgets(context: ManageContext, known: readonly Omit<BudgetFact, "name">[]): Promise<BudgetFacts> {
  const tree = context.wholeTree ?? (await groupTree(context));
  const groups = (await allGroups(context))
    .map(({ group }) => tree.chainOf(group.id)?.groups[0] ?? group)
    .filter(({ limits }) => hasBudgets(limits));
  const ownKeys = [...context.fileKeys()];
  const inFile = ownKeys.length;
  for await (const key of storedKeys(context.reports, storedKeysMax)) ownKeys.push(key);
  const keys = ownKeys.map((key) => tree.attached(key) ?? key).filter(({ limits }) => hasBudgets(limits));
  const lookedGroups = groups.slice(0, ownersMax);
  const lookedKeys = keys.slice(0, ownersMax - lookedGroups.length);
  const refusing = new Set(known.filter(({ isRefusing }) => isRefusing).map(wordsOf));
  const budgets: BudgetFact[] = [];
  const add = (
    of: BudgetFact["of"],
    { id, name }: { readonly id: string; readonly name: string },
    spent: readonly BudgetSpending[],
  ): void => {
    for (const { name: selected, models: pattern, budget, spentNanos } of spent) {
      const models = budgetLabel(pattern, selected);
      const isRefusing = refusing.has(wordsOf({ of, id, models }));
      budgets.push({ of, id, name, models, limitNanos: budget.nanos, spentNanos, isRefusing });
    }
  };
  for (const key of lookedKeys) add("key", key, await budgetSpending(context, key));
  for (const group of lookedGroups) add("group", group, await groupSpending(context, group));
  const isWhole = ownKeys.length - inFile < storedKeysMax && lookedGroups.length + lookedKeys.length === groups.length + keys.length;
  return { budgets, isWhole };
}

function wordsOf({ of, id, models }: Pick<BudgetFact, "of" | "id" | "models">): string {
  return `${of} ${id} ${models}`;
}

const storedKeysMax = 1_000;
/** Pages ask every few seconds. */
const ownersMax = 100;
