import type { Route } from "../../channels/channel.ts";
import { channelNamed } from "../../keys/budget-selector.ts";
import type { FailureKind } from "../../operations/failure.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import { operationSpecs } from "../../operations/operation.ts";
import { choicesSoFar, type Choice, type Plan } from "../../routing/plan.ts";
import { cacheSavedNanos, costNanos, type Cost } from "../../usage/cost.ts";
import type { PriceRates } from "../../usage/price.ts";
import type { AttemptReceipt, Figures, PlannedStep, Receipt, UnusualFinish } from "../../usage/receipt.ts";
import type { Admission } from "../admission/limiter.ts";
import { answeredBy, lostRace, type CallRecord, type AttemptRecord } from "./record.ts";

/** The price of a model at a time of the wall clock, or of the one that served in its place; null if it is unknown. */
export type RatesOf = (provider: string | null, model: string, atMs: number, served?: string) => PriceRates | null;

/** The receipt of a call that has ended: what each attempt used and cost, and what of it reached the client. */
export function receiptOf(record: CallRecord, admission: Admission, ratesOf: RatesOf): Receipt {
  const { attempts } = record;
  const receipts: AttemptReceipt[] = [];
  let generatedTokens: number | null = null;
  let billedNanos: number | null = 0;
  let hedgeWasteNanos = 0;
  let costUncertain = false;
  let estimated = false;
  let savedNanos: number | null = null;
  for (const one of attempts) {
    const attempt = attemptOf(one, record, admission, ratesOf);
    receipts.push(attempt);
    if (one.usage !== null && (one.usage.cachedTokens || one.usage.cacheWriteTokens)) {
      savedNanos = plus(
        savedNanos,
        cacheSavedNanos(ratesOf(one.provider, one.model, admission.startedMs, one.usage.servedModel), one.usage),
      );
    }
    generatedTokens = plus(generatedTokens, attempt.completionTokens);
    billedNanos = billedNanos === null || attempt.nanos === null ? null : billedNanos + attempt.nanos;
    if (one.failure === lostRace) hedgeWasteNanos += attempt.nanos ?? 0;
    costUncertain ||= attempt.costUncertain;
    estimated ||= attempt.estimated;
  }
  if (billedNanos === null && admission.nanos !== null) {
    billedNanos = leastNanos(record, receipts, admission, admission.nanos, ratesOf);
    costUncertain = true;
  }
  const answered = speakerOf(attempts);
  return {
    id: admission.id,
    requestId: record.id,
    keyId: record.keyId ?? "",
    operation: record.operation,
    model: record.model ?? "",
    channel: answered?.channel ?? null,
    upstreamModel: answered?.model ?? null,
    stream: record.stream,
    status: record.status,
    state: record.state,
    error: record.failure?.kind ?? null,
    startedMs: admission.startedMs,
    tookMs: Math.round(record.endedMs - record.startedMs),
    firstContentMs: record.firstContentMs === null ? null : Math.round(record.firstContentMs),
    delivered: deliveredBy(record, receipts),
    generatedTokens,
    billedNanos,
    hedgeWasteNanos,
    costUncertain,
    estimated,
    partial: record.state === "interrupted" || record.state === "abandoned",
    warning: admission.warning,
    finish: record.refused === true ? "content_filter" : record.finish === null ? null : (unusualFinishes.get(record.finish) ?? null),
    cacheSavedNanos: savedNanos,
    owners: admission.owners,
    channelTags: admission.owners.length === 0 ? noTags : channelTagsOf(admission.route, answered, receipts),
    attempts: receipts,
    plan: record.plan === null ? null : stepsOf(record.plan, record),
  };
}

const noTags: readonly string[] = [];

/** Upstreams that are passed on unchanged have words of their own. */
const unusualFinishes: ReadonlyMap<string, UnusualFinish> = new Map([
  ["length", "length"],
  ["max_tokens", "length"],
  ["max_output_tokens", "length"],
  ["content_filter", "content_filter"],
  ["refusal", "content_filter"],
  ["safety", "content_filter"],
]);

/** What upstreams charge must count on the budgets for their channels, or whoever leaves before the first output would pay nothing. */
function channelTagsOf(route: Route, answered: AttemptRecord | null, receipts: readonly AttemptReceipt[]): readonly string[] {
  if (answered !== null) return channelNamed(route, answered.channel)?.tags ?? noTags;
  const charged = receipts.findLast(({ nanos }) => nanos !== 0);
  return charged === undefined ? noTags : [charged.channel, ...(channelNamed(route, charged.channel)?.tags ?? noTags)];
}

/** The attempt that answered. For a stream that broke off or that its client left: the last one that had output. */
function speakerOf(attempts: readonly AttemptRecord[]): AttemptRecord | null {
  const answered = answeredBy(attempts);
  if (answered !== null) return answered;
  for (let at = attempts.length - 1; at >= 0; at -= 1) if (attempts[at]!.outputTokens > 0) return attempts[at]!;
  return null;
}

function attemptOf(one: AttemptRecord, record: CallRecord, admission: Admission, ratesOf: RatesOf): AttemptReceipt {
  const work = workDoneBy(one);
  const usage = work === "none" || work === "doubtful" ? null : used(one, work, record);
  const cost = usage === null ? free : costOf(one, usage, admission.startedMs, ratesOf);
  return {
    promptTokens: usage?.promptTokens ?? null,
    cachedTokens: usage?.cachedTokens ?? null,
    completionTokens: usage?.completionTokens ?? null,
    reasoningTokens: usage?.reasoningTokens ?? null,
    audioSeconds: usage?.audioSeconds ?? null,
    characters: usage?.characters ?? null,
    channel: one.channel,
    model: one.model,
    afterMs: Math.max(0, Math.round(one.startedMs - record.startedMs)),
    tookMs: Math.round(one.tookMs),
    outcome: one.outcome,
    status: one.failure?.status ?? (work === "answered" || work === "broken" ? 200 : null),
    error: one.failure?.kind ?? null,
    blame: one.failure?.blame ?? null,
    hedge: one.hedge,
    nanos: cost.nanos,
    costUncertain: work === "doubtful" || work === "begun" || work === "broken",
    estimated: usage !== null && (isGuessed(one, record) || cost.estimated),
  };
}

/**
 * What a call with a budget cost at least, if some of it is unknown, such as searches without a rate. Otherwise it would cost its budget nothing,
 * and whoever searches could spend any amount. If there is no price any more, it costs what was reserved for it.
 */
function leastNanos(
  record: CallRecord,
  receipts: readonly AttemptReceipt[],
  { startedMs }: Admission,
  reservedNanos: number,
  ratesOf: RatesOf,
): number {
  let sum = 0;
  for (const [at, one] of record.attempts.entries()) {
    const nanos = receipts[at]!.nanos ?? knownNanos(one, used(one, workDoneBy(one), record), startedMs, ratesOf);
    if (nanos === null) return Math.max(sum, reservedNanos);
    sum += nanos;
  }
  return sum;
}

/** The cost of an attempt without its searches, and without the other models whose prices are unknown. */
function knownNanos({ provider, model, expected }: AttemptRecord, usage: MeteredUsage, atMs: number, ratesOf: RatesOf): number | null {
  const { webSearches: _web, fileSearches: _files, advice = [], ...others } = usage;
  const { nanos } = costNanos(ratesOf(provider, model, atMs, usage.servedModel), others, expected);
  if (nanos === null) return null;
  return advice.reduce((sum, one) => sum + (costNanos(ratesOf(provider, one.model, atMs), one.usage).nanos ?? 0), nanos);
}

/** What the model that served costs, and those that it asked. If one of them is unknown, so is the sum. */
function costOf({ provider, model, expected }: AttemptRecord, usage: MeteredUsage, atMs: number, ratesOf: RatesOf): Cost {
  const own = costNanos(ratesOf(provider, model, atMs, usage.servedModel), usage, expected);
  if (usage.advice === undefined) return own;
  let { nanos } = own;
  for (const one of usage.advice) {
    const other = costNanos(ratesOf(provider, one.model, atMs), one.usage).nanos;
    nanos = nanos === null || other === null ? null : nanos + other;
  }
  return { ...own, nanos };
}

/**
 * How much an upstream did for an attempt. `answered`: everything; `broken`: some output arrived; `begun`: it was working when the
 * gateway left; `doubtful`: it may have worked, but nothing arrived; `none`: it rejected the request or was not reached.
 */
type WorkDone = "answered" | "broken" | "begun" | "doubtful" | "none";

function workDoneBy({ outcome, failure, sent, outputTokens }: AttemptRecord): WorkDone {
  if (outcome === "answered") return "answered";
  if (outputTokens > 0) return "broken";
  if (!sent || failure === null) return "none";
  // The upstream charges for it like for any other.
  if (failure.served === true) return "begun";
  if (ours.has(failure.kind)) return "begun";
  return doubtful.has(failure.kind) ? "doubtful" : "none";
}

/** The gateway ended the attempt. An attempt that was sent is `saturated` where the gateway lost the process that converts its audio. */
const ours: ReadonlySet<FailureKind> = new Set<FailureKind>([
  "client_gone",
  "deadline",
  "key_revoked",
  "shutting_down",
  "internal",
  "saturated",
]);

const doubtful: ReadonlySet<FailureKind> = new Set<FailureKind>([
  "disconnected",
  "timed_out",
  "bad_response",
  "model_failed",
  "interrupted",
]);

/** The usage that the upstream reported, completed with estimates. */
function used(
  { usage, expected, outputTokens, failure, tookMs }: AttemptRecord,
  work: WorkDone,
  { operation, stream }: CallRecord,
): MeteredUsage {
  const chat = operationSpecs[operation].unit === "tokens";
  if (chat && usage !== null && usage.promptTokens !== null && usage.completionTokens !== null) return usage;
  // A whole answer is invisible until it is complete. A client that leaves before has used part of it.
  const unseen = work === "begun" && !stream && failure?.kind === "client_gone";
  const output = unseen ? Math.min(expected.completionTokens ?? 0, Math.ceil(tookMs * tokensPerMs)) : outputTokens;
  const figures: MeteredUsage = {
    promptTokens: usage?.promptTokens ?? (chat ? expected.promptTokens : null),
    completionTokens: usage?.completionTokens ?? (chat ? output : null),
    cachedTokens: usage?.cachedTokens ?? null,
    reasoningTokens: usage?.reasoningTokens ?? null,
    audioSeconds: usage?.audioSeconds ?? expected.audioSeconds ?? null,
    // The gateway knows the length of the text itself.
    characters: usage?.characters ?? expected.characters ?? null,
  };
  return usage === null || isPlain(usage) ? figures : { ...usage, ...figures };
}

/** Whether a figure is an estimate: nobody reported it, or the report contradicted itself. */
function isGuessed({ usage }: AttemptRecord, { operation }: CallRecord): boolean {
  if (usage?.corrected === true) return true;
  if (usage?.estimated === true) return true;
  for (const figure of operationSpecs[operation].reportedUsage) if (usage?.[figure] == null) return true;
  return false;
}

/** Whether it has only the figures that every report has. */
function isPlain(usage: MeteredUsage): boolean {
  const { cacheWriteTokens, audioInputTokens, audioOutputTokens, images, webSearches, fileSearches, statedNanos } = usage;
  const counted = cacheWriteTokens ?? audioInputTokens ?? audioOutputTokens ?? images ?? webSearches ?? fileSearches;
  return (counted ?? statedNanos ?? usage.estimated ?? usage.servedModel ?? usage.advice) === undefined;
}

/** A fast model generates about a hundred tokens per second. */
const tokensPerMs = 0.1;

const free = { nanos: 0, estimated: false };

/**
 * The figures of all output that the client received: of the attempt that answered, of every part of a long call, or of a broken
 * stream and its continuation. Only committed attempts have output.
 */
function deliveredBy({ bytesOut, state, attempts }: CallRecord, receipts: readonly AttemptReceipt[]): Figures {
  // A silent recording has an empty transcript, which is a valid answer.
  if (bytesOut === 0 && state !== "complete") return nothing;
  // Nearly always there is one attempt, and its figures are the sum.
  if (receipts.length === 1) return isSeen(attempts[0]!) ? receipts[0]! : nothing;
  const seen: AttemptReceipt[] = [];
  for (let at = 0; at < receipts.length; at += 1) if (isSeen(attempts[at]!)) seen.push(receipts[at]!);
  return sumOf(seen);
}

function isSeen({ outcome, outputTokens }: AttemptRecord): boolean {
  return outcome === "answered" || outputTokens > 0;
}

/** The sum of each figure. A figure that is unknown everywhere stays unknown. */
export function sumOf(figures: readonly Figures[]): Figures {
  let promptTokens: number | null = null;
  let cachedTokens: number | null = null;
  let completionTokens: number | null = null;
  let reasoningTokens: number | null = null;
  let audioSeconds: number | null = null;
  let characters: number | null = null;
  for (const one of figures) {
    promptTokens = plus(promptTokens, one.promptTokens);
    cachedTokens = plus(cachedTokens, one.cachedTokens);
    completionTokens = plus(completionTokens, one.completionTokens);
    reasoningTokens = plus(reasoningTokens, one.reasoningTokens);
    audioSeconds = plus(audioSeconds, one.audioSeconds);
    characters = plus(characters, one.characters);
  }
  return { promptTokens, cachedTokens, completionTokens, reasoningTokens, audioSeconds, characters };
}

const nothing: Figures = sumOf([]);

function plus(sum: number | null, more: number | null): number | null {
  return sum === null ? more : more === null ? sum : sum + more;
}

/** Omitted if there was one candidate and it was asked: the attempts show that. */
function stepsOf(plan: Plan, record: CallRecord): readonly PlannedStep[] | null {
  const candidates = plan.ok ? choicesSoFar(plan) : noChoices;
  return candidates.length <= 1 && plan.skipped.length === 0 ? null : allStepsOf(plan, candidates, record);
}

const noChoices: readonly Choice[] = [];

function allStepsOf(plan: Plan, candidates: readonly Choice[], record: CallRecord): readonly PlannedStep[] {
  const asked = new Set(record.attempts.map(({ channel, model }) => `${channel}/${model}`));
  const ready = candidates.map(({ candidate: { deployment }, probe }): PlannedStep => ({
    channel: deployment.channel.name,
    model: deployment.model,
    tier: deployment.channel.tier,
    verdict: asked.has(deployment.id) ? (probe ? "probed" : "taken") : "ready",
    cause: null,
    forMs: null,
  }));
  // The reserve is asked after others have failed.
  const reserve = new Set(plan.ok && record.attempts.length > 1 ? plan.reserve?.map(({ candidate }) => candidate) : []);
  const passed = plan.skipped.map(({ candidate, candidate: { deployment }, because, cause, untilMs }): PlannedStep => ({
    channel: deployment.channel.name,
    model: deployment.model,
    tier: null,
    // It was asked despite its open breaker, after all others had failed.
    verdict: reserve.has(candidate) && asked.has(deployment.id) ? "taken" : because,
    cause,
    forMs: untilMs === null ? null : Math.max(0, Math.round(untilMs - record.startedMs)),
  }));
  return [...ready, ...passed].slice(0, stepsMax);
}

const stepsMax = 16;
