import { budgetNanosMax, budgetPeriods, limitsOf, rateLimitMax, type RateLimitFields } from "../../limits/limit-fields.ts";
import {
  unlimited,
  type Budget,
  type BudgetPeriod,
  type Limits,
  type ModelLimits,
  type RateLimits,
  type SelectedBudget,
} from "../../limits/limits.ts";
import { operations } from "../../operations/operation.ts";
import { nanosOf } from "../../usage/dollars.ts";

/** A change of a key's limits: null removes one, and an absent one stays as it is. */
export interface LimitChange {
  readonly rates: Partial<RateLimits>;
  readonly budgetNanos?: number | null;
  readonly budgetPeriod?: BudgetPeriod;
  readonly unpriced?: Limits["unpriced"];
  readonly budgets: readonly BudgetChange[];
  readonly rules: { readonly clears: boolean; readonly changes: readonly RuleChange[] };
}

/** The limits for models that match a pattern, or null to remove them. */
export interface RuleChange {
  readonly pattern: string;
  readonly limits: ModelLimits | null;
}

/** A budget with a selector, or null to remove the one of this name. */
export interface BudgetChange {
  readonly name: string;
  readonly budget: SelectedBudget | null;
}

/** Returns the changed limits, or a message that says why they cannot be changed. */
export function changedLimits(limits: Limits, change: LimitChange): Limits | string {
  const budget = changedBudget(limits.budget, change);
  if (typeof budget === "string") return budget;
  let models = change.rules.clears ? [] : limits.models;
  for (const { pattern, limits: rule } of change.rules.changes) {
    const at = models.findIndex((known) => known.pattern === pattern);
    if (rule === null && at === -1) return `There are no limits for ${pattern}. To see the limits of a key, run sluice keys limits KEY.`;
    if (rule === null) models = models.toSpliced(at, 1);
    else models = at === -1 ? [...models, rule] : models.with(at, rule);
  }
  let { budgets } = limits;
  for (const { name, budget: selected } of change.budgets) {
    const at = budgets.findIndex((known) => known.name === name);
    if (selected === null && at === -1) return `There is no budget ${name}.`;
    if (selected === null) budgets = budgets.toSpliced(at, 1);
    else budgets = at === -1 ? [...budgets, selected] : budgets.with(at, selected);
  }
  return { ...limits, ...change.rates, budget, budgets, models, unpriced: change.unpriced ?? limits.unpriced };
}

function changedBudget(before: Budget | null, { budgetNanos, budgetPeriod }: LimitChange): Budget | null | string {
  const nanos = budgetNanos === undefined ? (before?.nanos ?? null) : budgetNanos;
  if (nanos !== null) return { nanos, period: budgetPeriod ?? before?.period ?? "total" };
  return budgetPeriod === undefined ? null : "A budget period needs a budget: give --budget too.";
}

/** Reads `large-*:rpm=10,tpm=1000` or `large-*:off`. Returns a message if that is not possible. Names of models may contain colons. */
export function rule(text: string): RuleChange | string {
  const colon = text.lastIndexOf(":");
  const pattern = text.slice(0, Math.max(0, colon)).trim();
  if (pattern === "" || pattern.length > patternCharactersMax || /\p{Cc}/u.test(pattern)) {
    return "Give it as PATTERN:NAME=VALUE,…, such as 'large-*:rpm=10,budget_usd=5'.";
  }
  if (text.slice(colon + 1).trim() === "off") return { pattern, limits: null };
  const fields = limitFieldsOf(text.slice(colon + 1));
  if (typeof fields === "string") return fields;
  const [limits] = limitsOf({ per_model: [{ ...fields, model: pattern }] }).models;
  return limits === undefined ? "The rule sets no limit." : { pattern, limits };
}

/** Reads `rpm=10,tpm=1000`, or `off` for no limits. Returns a message if that is not possible. */
export function limitsOfText(text: string): Limits | string {
  if (text.trim() === "off") return unlimited;
  const fields = limitFieldsOf(text);
  return typeof fields === "string" ? fields : limitsOf(fields);
}

/** Reads `images:operations=image,budget_usd=5,budget_period=day`, or `images:off`. Several values are separated by `|`. */
export function budgetChange(text: string): BudgetChange | string {
  const colon = text.indexOf(":");
  const name = text.slice(0, Math.max(0, colon)).trim();
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) {
    return "Give it as NAME:FIELD=VALUE,…, such as 'images:operations=image,budget_usd=5'.";
  }
  const rest = text.slice(colon + 1).trim();
  if (rest === "off") return { name, budget: null };
  const parts = rest.split(",").map((part) => part.trim());
  const listed = (field: string): readonly string[] | null => {
    const part = parts.find((one) => one.startsWith(`${field}=`));
    return part === undefined ? null : part.slice(field.length + 1).split("|");
  };
  const twice = ["models", "operations", "channels"].find((field) => parts.filter((part) => part.startsWith(`${field}=`)).length > 1);
  if (twice !== undefined) return `${twice} is given twice: separate several values by |.`;
  const others = parts.filter((part) => !/^(models|operations|channels)=/.test(part));
  const fields = others.length === 0 ? {} : limitFieldsOf(others.join(","));
  if (typeof fields === "string") return fields;
  if (Object.keys(fields).some((field) => !field.startsWith("budget_")))
    return "A budget has models, operations, channels, budget_usd and budget_period.";
  if (fields.budget_usd === undefined) return "A budget needs budget_usd.";
  const named = listed("operations");
  const unknown = named?.find((one) => !operations.some((known) => known === one));
  if (unknown !== undefined) return `There is no operation ${JSON.stringify(unknown)}: use ${operations.join(", ")}.`;
  const [models, channels] = [listed("models"), listed("channels")];
  if ([models, channels].some((list) => list?.some((one) => one === "" || one.length > patternCharactersMax) === true)) {
    return `Names of models and channels have 1 to ${patternCharactersMax} characters.`;
  }
  const operationsNamed = named === null ? null : operations.filter((known) => named.includes(known));
  const selected = {
    name,
    models,
    operations: operationsNamed,
    channels,
    nanos: fields.budget_usd,
    period: fields.budget_period ?? "total",
  };
  return { name, budget: selected };
}

function limitFieldsOf(text: string): RateLimitFields | string {
  const fields: Record<string, number | string> = {};
  for (const part of text.split(",")) {
    const [name = "", value = ""] = part.split("=", 2).map((side) => side.trim());
    const read = Object.hasOwn(fieldReaders, name) ? fieldReaders[name] : undefined;
    if (read === undefined) return `There is no such limit: use ${Object.keys(fieldReaders).join(", ")}.`;
    const parsed = read(value);
    if (parsed === null) return `The value of ${name} is invalid: use ${allowedValues(name)}.`;
    if (fields[name] !== undefined) return `${name} is given twice: keep one of the two.`;
    fields[name] = parsed;
  }
  if (fields["budget_period"] !== undefined && fields["budget_usd"] === undefined) return "budget_period needs budget_usd too.";
  return fields;
}

const patternCharactersMax = 256;

const fieldReaders: Readonly<Record<string, (value: string) => number | string | null>> = {
  rpm: count(rateLimitMax.rpm),
  tpm: count(rateLimitMax.tpm),
  audio_seconds: count(rateLimitMax.audio_seconds),
  characters: count(rateLimitMax.characters),
  concurrency: count(rateLimitMax.concurrency),
  budget_usd: (value) => {
    const nanos = nanosOf(value);
    return nanos !== null && nanos <= budgetNanosMax ? nanos : null;
  },
  budget_period: (value) => budgetPeriods.find((period) => period === value) ?? null,
};

function allowedValues(name: string): string {
  if (name === "budget_period") return budgetPeriods.join(", ");
  if (name === "budget_usd") return `an amount of dollars of at most ${budgetNanosMax / 1e9}`;
  return `a whole number from 1 to ${rateLimitMax[name as keyof typeof rateLimitMax]}`;
}

function count(max: number): (value: string) => number | null {
  return (value) => {
    const number = /^\d{1,15}$/.test(value) ? Number(value) : 0;
    return number >= 1 && number <= max ? number : null;
  };
}
