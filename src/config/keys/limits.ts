import { limitsOf, type RateLimitFields } from "../../limits/limit-fields.ts";
import { unlimited, type Limits } from "../../limits/limits.ts";
import { problem, type Finding, type Path } from "../findings/problem.ts";
import type { LimitsEntry } from "../schema.ts";

/** Limits that are not given limit nothing. */
export function limitsIn(entry: LimitsEntry | undefined): Limits {
  return entry === undefined ? unlimited : limitsOf(entry);
}

/** What is wrong with limits that are well-formed. */
export function limitsFindings(limits: LimitsEntry | undefined, path: Path): readonly Finding[] {
  if (limits === undefined) return [];
  const names = limits.budgets.map(({ name }) => name);
  return [
    ...budgetsIn(limits).flatMap(([rulePath, { budget_period, budget_usd }]) =>
      budget_period === undefined || budget_usd !== undefined
        ? []
        : [problem([...path, ...rulePath, "budget_period"], "there is no budget for this period", "add budget_usd, or remove this line")],
    ),
    ...names.flatMap((name, at) =>
      names.indexOf(name) === at ? [] : [problem([...path, "budgets", at, "name"], "another budget has this name", "give each its own")],
    ),
  ];
}

function budgetsIn(limits: LimitsEntry): readonly (readonly [Path, RateLimitFields])[] {
  return [[[], limits], ...limits.per_model.map((rule, at) => [["per_model", at], rule] as const)];
}
