import type { Budget, Limits, RateLimits, SelectedBudget } from "../../limits/limits.ts";
import { keyState, type KnownKey } from "../../manage/key-search.ts";
import { localMinute, money, plural } from "../shown-text.ts";
import { facts, table } from "../table.ts";

export function keyTable(keys: readonly KnownKey[], nowMs: number): string {
  return table<KnownKey>(
    [
      { title: "ID", cell: ({ key }) => key.id },
      { title: "NAME", cell: ({ key }) => key.name },
      { title: "OWNER", cell: (known) => (known.source === "store" ? (known.key.owner ?? "-") : "-") },
      { title: "STATE", cell: (known) => keyState(known, nowMs) },
      { title: "EXPIRES", cell: ({ key }) => whenOr(key.expiresMs, "never") },
      { title: "LAST USED", cell: (known) => whenOr(known.source === "store" ? known.key.lastUsedMs : null, "-") },
      { title: "ENDS IN", cell: (known) => (known.source === "store" ? (known.key.tokens[0]?.last4 ?? "-") : "-") },
      { title: "SOURCE", cell: ({ source }) => source },
    ],
    keys,
  );
}

export function keyFacts(known: KnownKey, nowMs: number, spent: string | null): string {
  const { key, source } = known;
  const stored = known.source === "store" ? known.key : null;
  return facts([
    ["id", key.id],
    ["name", key.name],
    ["state", keyState(known, nowMs)],
    ["source", source],
    ["owner", stored?.owner ?? null],
    ["note", stored?.note ?? null],
    ["models", key.models?.join(", ") ?? "all"],
    ["operations", key.operations?.join(", ") ?? "all"],
    ["channels", key.channels?.join(", ") ?? "all"],
    ["group", key.group],
    ["limits", limitsLine(key.limits)],
    ...key.limits.models.map(({ pattern, budget, ...rates }) => [`  ${pattern}`, ratesLine(rates, budget)] as const),
    ...key.limits.budgets.map((budget) => [`  budget ${budget.name}`, selectedText(budget)] as const),
    ["spent", spent],
    ["long audio", key.splits.audio ? "split" : null],
    ["long input", key.splits.input ? "split" : null],
    ["expires", whenOr(key.expiresMs, "never")],
    ["created", stored === null ? null : localMinute(stored.createdMs)],
    ["revoked", stored === null || stored.revokedMs === null ? null : localMinute(stored.revokedMs)],
    ["last used", stored === null ? null : whenOr(stored.lastUsedMs, "never, or not recorded yet")],
    ...(stored?.tokens ?? []).map(
      ({ last4, createdMs, expiresMs }) =>
        [
          "token",
          `…${last4}, created ${localMinute(createdMs)}${expiresMs === null ? "" : `, valid until ${localMinute(expiresMs)}`}`,
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

function whenOr(ms: number | null, otherwise: string): string {
  return ms === null ? otherwise : localMinute(ms);
}
