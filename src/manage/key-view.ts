import { limitFields, limitsOf, type RateLimitFields, type SelectedBudgetFields } from "../limits/limit-fields.ts";
import type { BudgetPeriod, Limits } from "../limits/limits.ts";
import type { Operation } from "../operations/operation.ts";
import { dollarsNumber, nanosOf } from "../usage/dollars.ts";
import { isoMoment, isoOrNull } from "../usage/time-text.ts";
import { keyState, type KnownKey } from "./key-search.ts";

/** A key under the field names of the admin API, without its token. `--json` of the command line prints the same. */
export interface KeyView {
  readonly id: string;
  readonly name: string;
  readonly source: KnownKey["source"];
  readonly state: ReturnType<typeof keyState>;
  readonly owner: string | null;
  readonly note: string | null;
  readonly models: string[] | null;
  readonly operations: Operation[] | null;
  readonly channels: string[] | null;
  readonly limits: LimitsView;
  /** The id of its group. */
  readonly group: string | null;
  readonly long_audio: "off" | "split";
  readonly long_input: "off" | "split";
  readonly expires_at: string | null;
  readonly created_at: string | null;
  readonly revoked_at: string | null;
  readonly last_used_at: string | null;
  readonly tokens: { readonly last4: string; readonly created_at: string; readonly expires_at: string | null }[];
}

/** A key of the configuration has no owner, no note and no history. */
export function keyView(known: KnownKey, nowMs: number): KeyView {
  const { key, source } = known;
  const stored = known.source === "store" ? known.key : null;
  return {
    id: key.id,
    name: key.name,
    source,
    state: keyState(known, nowMs),
    owner: stored?.owner ?? null,
    note: stored?.note ?? null,
    models: key.models === null ? null : [...key.models],
    operations: key.operations === null ? null : [...key.operations],
    channels: key.channels === null ? null : [...key.channels],
    limits: limitsView(key.limits),
    group: key.group,
    long_audio: key.splits.audio ? "split" : "off",
    long_input: key.splits.input ? "split" : "off",
    expires_at: isoOrNull(key.expiresMs),
    created_at: isoOrNull(stored?.createdMs ?? null),
    revoked_at: isoOrNull(stored?.revokedMs ?? null),
    last_used_at: isoOrNull(stored?.lastUsedMs ?? null),
    tokens: (stored?.tokens ?? []).map(({ last4, createdMs, expiresMs }) => ({
      last4,
      created_at: isoMoment(createdMs),
      expires_at: isoOrNull(expiresMs),
    })),
  };
}

/** The limits of a key, with its budgets in dollars. A limit that is not set is left out. */
export interface LimitsView extends RateLimitFields {
  readonly budgets?: SelectedBudgetView[] | undefined;
  readonly unpriced?: Limits["unpriced"] | undefined;
  readonly per_model?: (RateLimitFields & { readonly model: string })[] | undefined;
}

export interface SelectedBudgetView {
  readonly name: string;
  readonly models?: string[] | undefined;
  readonly operations?: Operation[] | undefined;
  readonly channels?: string[] | undefined;
  readonly budget_usd: number;
  readonly budget_period?: BudgetPeriod | undefined;
}

export function limitsView(limits: Limits): LimitsView {
  const { per_model, budgets, ...own } = limitFields(limits);
  return {
    ...inDollars(own),
    ...(budgets === undefined ? {} : { budgets: budgets.map(selectedBudgetView) }),
    ...(per_model === undefined ? {} : { per_model: per_model.map(inDollars) }),
  };
}

/** The limits that such a view shows. */
export function limitsOfView({ budgets, per_model, ...own }: LimitsView): Limits {
  return limitsOf({
    ...inNanos(own),
    budgets: budgets?.map((budget) => ({ ...budget, budget_usd: nanosOf(budget.budget_usd) ?? 0 })),
    per_model: per_model?.map(inNanos),
  });
}

function inNanos<Fields extends RateLimitFields>(fields: Fields): Fields {
  return fields.budget_usd === undefined ? fields : { ...fields, budget_usd: nanosOf(fields.budget_usd) ?? 0 };
}

function selectedBudgetView({ name, models, operations, channels, budget_usd, budget_period }: SelectedBudgetFields): SelectedBudgetView {
  return {
    name,
    ...(models === undefined ? {} : { models: [...models] }),
    ...(operations === undefined ? {} : { operations: [...operations] }),
    ...(channels === undefined ? {} : { channels: [...channels] }),
    budget_usd: dollarsNumber(budget_usd),
    budget_period,
  };
}

function inDollars<Fields extends RateLimitFields>(fields: Fields): Fields {
  return fields.budget_usd === undefined ? fields : { ...fields, budget_usd: dollarsNumber(fields.budget_usd) };
}
