import type { OutcomeFigure } from "../../usage/call-outcome.ts";
import { dollarsNumber } from "../../usage/dollars.ts";
import { firstContentBoundsMs, firstContentTimes } from "../../usage/first-content.ts";
import type { UpstreamRow } from "../../usage/outcome-row.ts";
import { isoMoment, isoOrNull } from "../../usage/time-text.ts";
import { namedColumns } from "../../usage/usage-view.ts";
import { knownNanos, type UsageColumn, type UsageQuery, type UsageRow } from "../../usage/usage-row.ts";
import type { ManageContext } from "../context.ts";
import { usageNames } from "./usage-names.ts";

/** The figures of a row, in the order in which they are shown. */
export const outcomeViewFigures = [
  ...["calls", "failed", "truncated", "refused", "interrupted", "abandoned", "unknown"],
  ...["failed_over", "retried", "rescued", "rescue_failed", "hedges", "hedges_won", "extra_attempts", "extra_tokens"],
  ...["failover_usd", "hedge_usd", "rescue_usd"],
  ...["prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd", "cache_saved_usd", "unpriced"],
] as const;

export type OutcomeView = Readonly<Record<string, string | number | null>>;

/** How calls ended, with as much of their usage as that is compared with. */
export async function outcomeRows(context: ManageContext, query: UsageQuery): Promise<readonly OutcomeView[]> {
  const { receipts } = context.reports;
  const [usage, outcomes] = await Promise.all([receipts.usage(query), receipts.outcomes(query)]);
  const figuresOf = new Map(outcomes.map(({ group, figures }) => [identityOf(group, query.by), figures]));
  const names = await usageNames(context, usage);
  return usage.map((row) => ({
    ...namedColumns(row, (id) => names.get(id) ?? null),
    ...shownOutcome(row, figuresOf.get(identityOf(row.group, query.by)) ?? null),
  }));
}

function identityOf(group: UsageRow["group"], by: readonly UsageColumn[]): string {
  return JSON.stringify(by.map((column) => group[column] ?? null));
}

function shownOutcome(row: UsageRow, figures: Readonly<Record<OutcomeFigure, number>> | null) {
  const figure = (name: OutcomeFigure): number => figures?.[name] ?? 0;
  const nanos = knownNanos(row);
  return {
    calls: row.calls,
    failed: row.failedCalls,
    truncated: figure("truncated"),
    refused: figure("refused"),
    interrupted: figure("interrupted"),
    abandoned: figure("abandoned"),
    unknown: figure("unknown"),
    failed_over: figure("failed_over"),
    retried: figure("retried"),
    rescued: figure("rescued"),
    rescue_failed: figure("rescue_failed"),
    hedges: figure("hedges"),
    hedges_won: figure("hedges_won"),
    extra_attempts: figure("extra_attempts"),
    extra_tokens: figure("extra_tokens"),
    failover_usd: dollarsNumber(figure("failover_nanos")),
    hedge_usd: dollarsNumber(figure("hedge_nanos")),
    rescue_usd: dollarsNumber(figure("rescue_nanos")),
    prompt_tokens: row.promptTokens,
    cached_tokens: row.cachedTokens,
    completion_tokens: row.completionTokens,
    cost_usd: nanos === null ? null : dollarsNumber(nanos),
    cache_saved_usd: dollarsNumber(figure("cache_saved_nanos")),
    unpriced: row.unpricedCalls,
  };
}

/** Since when outcomes are counted; null if they are not yet. */
export async function countedFrom({ reports }: ManageContext): Promise<string | null> {
  return isoOrNull(await reports.receipts.outcomesFrom());
}

/** Some models over the same span, for a comparison. */
export async function modelRows(
  context: ManageContext,
  models: readonly string[],
  query: Pick<UsageQuery, "sinceMs" | "untilMs" | "groupId">,
) {
  const { receipts } = context.reports;
  const times = (buckets: readonly number[]) => {
    const found = firstContentTimes(firstContentBoundsMs, buckets);
    return found === null ? null : { p50_ms: found.p50_ms, p95_ms: found.p95_ms, calls: found.streams };
  };
  // One query for all models takes no longer than one for one of them.
  const asked: UsageQuery = { ...query, by: ["model"], keyId: null, model: null, channel: null };
  const [usage, outcomes] = await Promise.all([receipts.usage(asked), receipts.outcomes(asked)]);
  return Promise.all(
    models.map(async (model) => {
      const isOwn = ({ group }: Pick<UsageRow, "group">): boolean => group.model === model;
      const row = usage.find(isOwn) ?? nothing;
      const outcome = outcomes.find(isOwn);
      const { first, took } = await receipts.modelTimes({
        model,
        groupId: query.groupId ?? null,
        sinceMs: query.sinceMs,
        untilMs: query.untilMs,
      });
      const nanos = knownNanos(row);
      const priced = row.calls - row.unpricedCalls;
      return {
        model,
        ...shownOutcome(row, outcome?.figures ?? null),
        cost_per_call_usd: nanos === null || priced === 0 ? null : dollarsNumber(nanos / priced),
        cost_per_1k_output_usd:
          nanos === null || row.unpricedCalls > 0 || row.completionTokens === 0
            ? null
            : dollarsNumber((nanos * 1_000) / row.completionTokens),
        first_content: times(first),
        took: times(took),
      };
    }),
  );
}

export type ModelView = Awaited<ReturnType<typeof modelRows>>[number];

const nothing: UsageRow = {
  group: {},
  calls: 0,
  failedCalls: 0,
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
  reasoningTokens: 0,
  audioSeconds: 0,
  characters: 0,
  nanos: 0,
  unpricedCalls: 0,
  uncertainCalls: 0,
  estimatedCalls: 0,
};

/** The first moment of a calendar month in UTC such as `2027-01`, and that of the next one; null if it is none. */
export function monthSpan(text: string): { readonly sinceMs: number; readonly untilMs: number } | null {
  const [, year = "", month = ""] = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(text) ?? [];
  if (year === "") return null;
  return { sinceMs: Date.UTC(Number(year), Number(month) - 1), untilMs: Date.UTC(Number(year), Number(month)) };
}

/** What each channel used of each model of its upstream, over all attempts: what its provider puts on the invoice. */
export async function invoiceRows({ reports }: ManageContext, span: NonNullable<ReturnType<typeof monthSpan>>) {
  const rows = await reports.receipts.upstreamUse(span.sinceMs, span.untilMs);
  return { from_at: isoMoment(span.sinceMs), to_at: isoMoment(span.untilMs), rows: rows.map(shownUpstream) };
}

export type InvoiceView = Awaited<ReturnType<typeof invoiceRows>>["rows"][number];

function shownUpstream(row: UpstreamRow) {
  const isUnknown = row.unpriced > 0 && row.unpriced >= row.attempts;
  return {
    channel: row.channel === "" ? null : row.channel,
    model: row.model === "" ? null : row.model,
    attempts: row.attempts,
    answered: row.answered,
    prompt_tokens: row.promptTokens,
    cached_tokens: row.cachedTokens,
    completion_tokens: row.completionTokens,
    reasoning_tokens: row.reasoningTokens,
    audio_seconds: row.audioSeconds,
    characters: row.characters,
    cost_usd: isUnknown ? null : dollarsNumber(row.nanos),
    unpriced: row.unpriced,
    uncertain: row.uncertain,
    estimated: row.estimated,
  };
}
