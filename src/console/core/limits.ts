import { money, short } from "./format.ts";
import type { KeyAnswer } from "./answers.ts";

export type ShownLimits = KeyAnswer["limits"];

/** The limits of a key or a group in a few words. */
export function limitsText(limits: ShownLimits): string {
  const parts = [
    limits.budget_usd === undefined ? null : `${money(limits.budget_usd)} ${periods[limits.budget_period ?? "total"]}`,
    limits.rpm === undefined ? null : `${short(limits.rpm)} requests/min`,
    limits.tpm === undefined ? null : `${short(limits.tpm)} tokens/min`,
    limits.audio_seconds === undefined ? null : `${short(limits.audio_seconds)} s of audio/min`,
    limits.characters === undefined ? null : `${short(limits.characters)} characters/min`,
    limits.concurrency === undefined ? null : `${limits.concurrency} at a time`,
    limits.per_model === undefined || limits.per_model.length === 0 ? null : `${limits.per_model.length} for single models`,
    limits.budgets === undefined || limits.budgets.length === 0 ? null : someBudgets(limits.budgets.length),
  ].filter((part) => part !== null);
  return parts.length === 0 ? "none" : parts.join(", ");
}

function someBudgets(count: number): string {
  return `${count} ${count === 1 ? "budget" : "budgets"} for some calls`;
}

export const periods: Readonly<Record<NonNullable<ShownLimits["budget_period"]>, string>> = {
  hour: "an hour",
  day: "a day",
  week: "a week",
  month: "a month",
  total: "in all",
};

export const periodOptions: readonly (readonly [value: string, text: string])[] = Object.entries(periods);

/** What the form says of limits, as the admin API takes them. An empty field is no limit; limits that it does not show stay as they are. */
export function limitsBody(fields: Readonly<Record<string, string>>, before: ShownLimits, prefix = ""): Readonly<Record<string, unknown>> {
  const text = (name: string): string => (fields[`${prefix}${name}`] ?? "").trim();
  const numbers = (["rpm", "tpm", "concurrency"] as const).flatMap((name) =>
    text(name) === "" ? [] : [[name, Number(text(name))] as const],
  );
  return {
    ...hiddenLimits(before),
    ...Object.fromEntries(numbers),
    ...(text("budget_usd") === "" ? {} : { budget_usd: text("budget_usd"), budget_period: text("budget_period") || "total" }),
  };
}

/** All that the form has no field for, whatever limits there will be. */
function hiddenLimits(limits: ShownLimits): Partial<ShownLimits> {
  const { rpm: _rpm, tpm: _tpm, concurrency: _concurrency, budget_usd: _budget, budget_period: _period, ...hidden } = limits;
  return hidden;
}

/** Names separated by commas or lines. */
export function listOf(text: string): readonly string[] {
  return text
    .split(/[,\n]/)
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

/** How full a budget is, and when that needs attention. */
export function fullness(spent: number, limit: number): { readonly share: number; readonly tone: "" | "warn" | "bad" } {
  const share = limit <= 0 ? 1 : Math.min(1, spent / limit);
  return { share, tone: share >= 1 ? "bad" : share >= 0.8 ? "warn" : "" };
}
