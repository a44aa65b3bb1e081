import type { Budget, Limits, RateLimits, SelectedBudget } from "../../limits/limits.ts";
import { limitsOfView, type KeyView } from "../../manage/key-view.ts";
import { isoMinute, money, plural } from "../shown-text.ts";
import { facts, table } from "../table.ts";

export function keyTable(keys: readonly KeyView[]): string {
  return table<KeyView>(
    [
      { title: "ID", cell: ({ id }) => id },
      { title: "NAME", cell: ({ name }) => name },
      { title: "OWNER", cell: ({ owner }) => owner ?? "-" },
      { title: "STATE", cell: ({ state }) => state },
      { title: "EXPIRES", cell: ({ expires_at }) => whenOr(expires_at, "never") },
      { title: "LAST USED", cell: ({ last_used_at }) => whenOr(last_used_at, "-") },
      { title: "ENDS IN", cell: ({ tokens }) => tokens[0]?.last4 ?? "-" },
      { title: "SOURCE", cell: ({ source }) => source },
    ],
    keys,
  );
}

export function keyFacts(key: KeyView, spent: string | null): string {
  const limits = limitsOfView(key.limits);
  const isStored = key.source === "store";
  return facts([
    ["id", key.id],
    ["name", key.name],
    ["state", key.state],
    ["source", key.source],
    ["owner", key.owner],
    ["note", key.note],
    ["models", key.models?.join(", ") ?? "all"],
    ["operations", key.operations?.join(", ") ?? "all"],
    ["channels", key.channels?.join(", ") ?? "all"],
    ["group", key.group],
    ["limits", limitsLine(limits)],
    ...limits.models.map(({ pattern, budget, ...rates }) => [`  ${pattern}`, ratesLine(rates, budget)] as const),
    ...limits.budgets.map((budget) => [`  budget ${budget.name}`, selectedText(budget)] as const),
    ["spent", spent],
    ["long audio", key.long_audio === "split" ? "split" : null],
    ["long input", key.long_input === "split" ? "split" : null],
    ["expires", whenOr(key.expires_at, "never")],
    ["created", key.created_at === null ? null : isoMinute(key.created_at)],
    ["revoked", key.revoked_at === null ? null : isoMinute(key.revoked_at)],
    ["last used", isStored ? whenOr(key.last_used_at, "never, or not recorded yet") : null],
    ...key.tokens.map(
      ({ last4, created_at, expires_at }) =>
        [
          "token",
          `…${last4}, created ${isoMinute(created_at)}${expires_at === null ? "" : `, valid until ${isoMinute(expires_at)}`}`,
        ] as const,
    ),
  ]);
}

/** One line for the key itself, and one for each of its rules. */
export function limitsFacts(limits: Limits): string {
  return facts([
    ["all models", limitsLine(limits)],
    ...limits.models.map(({ pattern, budget, ...rates }) => [pattern, ratesLine(rates, budget)] as const),
    ...limits.budgets.map((budget) => [`budget ${budget.name}`, selectedText(budget)] as const),
  ]);
}

function selectedText(budget: SelectedBudget): string {
  const { models, operations, channels } = budget;
  const parts = [
    models === null ? null : `models ${models.join(", ")}`,
    operations === null ? null : `operations ${operations.join(", ")}`,
    channels === null ? null : `channels ${channels.join(", ")}`,
  ].filter((part) => part !== null);
  return `${budgetText(budget)} for ${parts.length === 0 ? "all calls" : parts.join("; ")}`;
}

export function limitsLine({ budget, budgets, unpriced, ...rates }: Limits): string {
  const own = ratesLine(rates, budget);
  const some = budgets.length === 0 ? "" : `${plural(budgets.length, "budget")} for some calls`;
  const allowed = (budget !== null || some !== "") && unpriced === "allow" ? "; calls of unknown price are allowed" : "";
  return `${some === "" ? own : own === "none" ? some : `${own}, ${some}`}${allowed}`;
}

/** The same where the rules for some models are not listed beside it. */
export function limitsSummary(limits: Limits): string {
  const own = limitsLine(limits);
  const { length: count } = limits.models;
  if (count === 0) return own;
  const rules = `${plural(count, "rule")} for some models`;
  return own === "none" ? rules : `${own}, ${rules}`;
}

function ratesLine({ requests, tokens, audioSeconds, characters, concurrency }: RateLimits, budget: Budget | null): string {
  const parts = [
    requests === null ? null : `${plural(requests, "request")}/min`,
    tokens === null ? null : `${plural(tokens, "token")}/min`,
    audioSeconds === null ? null : `${audioSeconds} s of audio/min`,
    characters === null ? null : `${plural(characters, "character")}/min`,
    concurrency === null ? null : `${concurrency} at the same time`,
    budget === null ? null : budgetText(budget),
  ].filter((part) => part !== null);
  return parts.length === 0 ? "none" : parts.join(", ");
}

export function budgetText({ nanos, period }: Budget): string {
  return `${money(nanos)} dollars ${period === "total" ? "in total" : `a ${period}`}`;
}

function whenOr(moment: string | null, otherwise: string): string {
  return moment === null ? otherwise : isoMinute(moment);
}
