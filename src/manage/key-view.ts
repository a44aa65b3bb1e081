import { limitFields, type RateLimitFields } from "../limits/limit-fields.ts";
import type { Limits } from "../limits/limits.ts";
import type { Operation } from "../operations/operation.ts";
import { dollarsNumber } from "../usage/dollars.ts";
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
  readonly unpriced?: Limits["unpriced"] | undefined;
  readonly per_model?: (RateLimitFields & { readonly model: string })[] | undefined;
}

export function limitsView(limits: Limits): LimitsView {
  const { per_model, ...own } = limitFields(limits);
  return { ...inDollars(own), ...(per_model === undefined ? {} : { per_model: per_model.map(inDollars) }) };
}

function inDollars<Fields extends RateLimitFields>(fields: Fields): Fields {
  return fields.budget_usd === undefined ? fields : { ...fields, budget_usd: dollarsNumber(fields.budget_usd) };
}
