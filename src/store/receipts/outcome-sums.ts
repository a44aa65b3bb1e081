import { isGroupId } from "../../keys/group.ts";
import { everybody } from "../../keys/key.ts";
import { outcomeFigures, type CallOutcome, type OutcomeFigure } from "../../usage/call-outcome.ts";
import { firstContentBoundsMs, firstContentBucket } from "../../usage/first-content.ts";
import type { Database } from "../database.ts";
import { valuesOf, type Value } from "../sql.ts";
import { summingRows, type BulkInsert } from "./bulk-insert.ts";
import type { ReceiptEntry } from "./receipt-entry.ts";
import { attemptColumn, receiptColumnIndex } from "./receipt-row.ts";
import type { UsageSum } from "./usage-sums.ts";

export const timeBuckets = [...firstContentBoundsMs.map((ms) => `ms_${ms}`), "ms_more"];
export const upstreamFigures = [
  ...["attempts", "answered", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "audio_ms", "characters"],
  ...["nanos", "unpriced", "uncertain", "estimated"],
] as const;

const byOutcome = { at_ms: "number", owner_id: "text", model: "text", channel: "text", operation: "text" } as const;
const byTime = { at_ms: "number", owner_id: "text", model: "text", kind: "text" } as const;
/** Where caches save something in each call, most sums have nothing else. */
const rarely = outcomeFigures.filter((figure) => figure !== "cache_saved_nanos");
const alike = [
  ["at_ms", "channel", "operation", ...rarely],
  ["at_ms", ...rarely],
];
const outcomeHours = summingRows("outcome_hours", byOutcome, outcomeFigures, [], alike);
const outcomeDays = summingRows("outcome_days", byOutcome, outcomeFigures, [], alike);
/** Answers take some seconds, or a fraction of one. */
const alikeTimes = [timeBuckets.slice(13), [...timeBuckets.slice(0, 9), ...timeBuckets.slice(-3)], []].map((buckets) => [
  "at_ms",
  "model",
  "kind",
  ...buckets,
]);
const timeHours = summingRows("model_time_hours", byTime, timeBuckets, []);
const timeDays = summingRows("model_time_days", byTime, timeBuckets, [], alikeTimes);
const upstreamDays = summingRows("upstream_days", { at_ms: "number", channel: "text", model: "text" }, upstreamFigures, []);

/**
 * Sums what the usage of calls does not tell: how those ended that were no plain success, how long the answers of each model took, and what
 * each channel used of each model, over all attempts.
 */
export class OutcomeSums {
  private readonly outcomes = new NamedSums(outcomeFigures.length);
  /** Of everybody. */
  private readonly times = new NamedSums(timeBuckets.length);
  private readonly upstreams = new NamedSums(upstreamFigures.length);

  /** `sum`: that of the receipt's key. `owners`: those of its other owners. */
  add(entry: ReceiptEntry, sum: UsageSum, owners: readonly UsageSum[]): void {
    const { row, outcome } = entry;
    // All receipts of a sum are counted at the same places.
    const places = (sum.places ??= newPlaces());
    const isFirst = row[column.stream] === 1 && row[column.firstContentMs] !== null;
    const first = isFirst ? firstContentBucket(row[column.firstContentMs] as number) : null;
    const took = row[column.state] === "complete" ? firstContentBucket(row[column.tookMs] as number) : null;
    if (first !== null) (places.first ??= this.times.of(sum.atMs, [everybody, sum.model, "first"]))[first]! += 1;
    if (took !== null) (places.took ??= this.times.of(sum.atMs, [everybody, sum.model, "took"]))[took]! += 1;
    this.addUpstreams(entry, sum, places);
    if (outcome !== null) this.addOutcome(outcome, sum, places, [everybody, sum.ownerId]);
    for (const owner of owners) {
      if (!isGroupId(owner.ownerId)) continue;
      if (first !== null) (owner.first ??= noTimes.slice())[first]! += 1;
      if (took !== null) (owner.took ??= noTimes.slice())[took]! += 1;
      if (outcome !== null) this.addOutcome(outcome, owner, (owner.places ??= newPlaces()), [owner.ownerId]);
    }
  }

  private addOutcome(
    outcome: CallOutcome,
    { atMs, model, channel, operation }: UsageSum,
    places: SumPlaces,
    owners: readonly string[],
  ): void {
    places.outcomes ??= owners.map((owner) => this.outcomes.of(atMs, [owner, model, channel, operation]));
    for (const figures of places.outcomes) addOutcome(figures, outcome);
  }

  private addUpstreams({ row, attempts }: ReceiptEntry, { atMs, channel }: UsageSum, places: SumPlaces): void {
    const dayStartMs = atMs - (atMs % dayMs);
    for (const attempt of attempts) {
      const names = [attempt[attemptColumn.channel] as string, attempt[attemptColumn.model] as string];
      addUse(this.upstreams.of(dayStartMs, names), attempt, attemptPlaces, attempt[attemptColumn.outcome] === "answered");
    }
    if (attempts.length > 0) return;
    const isCompact = row[column.attemptAfterMs] !== null;
    // Otherwise the process died, or the attempts could not be stored: it is not known who was asked.
    if (!isCompact && row[column.billedNanos] === 0) return;
    const model = (row[column.upstreamModel] ?? "") as string;
    if (places.upstream === null || places.upstreamModel !== model) {
      places.upstream = this.upstreams.of(dayStartMs, [channel, model]);
      places.upstreamModel = model;
    }
    addUse(places.upstream, row, receiptPlaces, isCompact);
  }

  /** `ownerDays`: the sums of owners by day, sorted. */
  async write(database: Database, ownerDays: readonly UsageSum[]): Promise<void> {
    await this.outcomes.write(database, outcomeHours, outcomeDays);
    await this.times.write(database, timeHours, timeDays);
    await timeDays.addAll(database, timesOfGroups(ownerDays));
    await this.upstreams.write(database, upstreamDays, null);
  }
}

/** Where the receipts of one sum of usage are counted. */
export interface SumPlaces {
  first: number[] | null;
  took: number[] | null;
  /** The model that `upstream` is of. */
  upstreamModel: string | null;
  upstream: number[] | null;
  outcomes: readonly number[][] | null;
}

function newPlaces(): SumPlaces {
  return { first: null, took: null, upstreamModel: null, upstream: null, outcomes: null };
}

/** How long calls of groups took, by model. There is one sum for each channel and operation, beside those of the same group and model. */
function timesOfGroups(ownerDays: readonly UsageSum[]): readonly (readonly Value[])[] {
  const rows: (readonly Value[])[] = [];
  for (let from = 0, until = 0; from < ownerDays.length; from = until) {
    const { ownerId, atMs, model, first, took } = ownerDays[from]!;
    let [began, ended] = [first, took];
    for (until = from + 1; until < ownerDays.length; until += 1) {
      const next = ownerDays[until]!;
      if (next.ownerId !== ownerId || next.model !== model || next.atMs !== atMs) break;
      began = joinedTimes(began, next.first);
      ended = joinedTimes(ended, next.took);
    }
    const dayStartMs = atMs - (atMs % dayMs);
    if (began !== null) rows.push([dayStartMs, ownerId, model, "first", ...began]);
    if (ended !== null) rows.push([dayStartMs, ownerId, model, "took", ...ended]);
  }
  return rows;
}

/** Two sums of times as one. */
export function joinedTimes(one: number[] | null, other: number[] | null): number[] | null {
  if (one === null || other === null) return one ?? other;
  return one.map((count, bucket) => count + other[bucket]!);
}

function addOutcome(figures: number[], outcome: CallOutcome): void {
  for (const figure in outcome) figures[outcomePlaces[figure]!]! += outcome[figure as OutcomeFigure]!;
}

/** The cost is the third from the end. */
function addUse(figures: number[], values: readonly Value[], places: readonly number[], isAnswer: boolean): void {
  figures[0]! += 1;
  if (isAnswer) figures[1]! += 1;
  for (let at = 0; at < places.length; at += 1) figures[upstreamPlaces[at]!]! += (values[places[at]!] ?? 0) as number;
  if (values[places[places.length - 3]!] === null) figures[unpricedPlace]! += 1;
}

const noTimes: readonly number[] = timeBuckets.map(() => 0);

/** Sums by the start of an hour or a day, and by names. */
class NamedSums {
  private readonly all = new Map<string, NamedSum>();
  private readonly zeros: readonly number[];
  /** The moment that was used last, as it is sorted. */
  private text = "";
  private textOfMs = -1;

  constructor(figures: number) {
    this.zeros = Array.from({ length: figures }, () => 0);
  }

  /** Names contain no NUL. */
  of(atMs: number, names: readonly string[]): number[] {
    if (this.textOfMs !== atMs) {
      this.textOfMs = atMs;
      this.text = String(atMs).padStart(16, "0");
    }
    const key = `${this.text}\0${names.join("\0")}`;
    let sum = this.all.get(key);
    if (sum === undefined) {
      sum = { atMs, names, figures: this.zeros.slice() };
      this.all.set(key, sum);
    }
    return sum.figures;
  }

  async write(database: Database, rows: BulkInsert, days: BulkInsert | null): Promise<void> {
    const sums = this.sorted();
    await rows.addAll(database, sums.map(valuesOfSum));
    if (days === null) return;
    // Nearly always all are of the same day.
    const ofDays = new NamedSums(this.zeros.length);
    for (const { atMs, names, figures } of sums) {
      const whole = ofDays.of(atMs - (atMs % dayMs), names);
      for (let at = 0; at < figures.length; at += 1) whole[at]! += figures[at]!;
    }
    await days.addAll(database, ofDays.sorted().map(valuesOfSum));
  }

  /** Processes that update the same rows lock them in the same order and cannot deadlock. */
  private sorted(): readonly NamedSum[] {
    return [...this.all.keys()].sort().map((key) => this.all.get(key)!);
  }
}

interface NamedSum {
  readonly atMs: number;
  readonly names: readonly string[];
  readonly figures: number[];
}

function valuesOfSum({ atMs, names, figures }: NamedSum): readonly Value[] {
  return [atMs, ...names, ...valuesOf({ values: figures })];
}

const dayMs = 24 * 3_600_000;

const column = {
  tookMs: receiptColumnIndex("took_ms"),
  firstContentMs: receiptColumnIndex("first_content_ms"),
  stream: receiptColumnIndex("stream"),
  state: receiptColumnIndex("state"),
  upstreamModel: receiptColumnIndex("upstream_model"),
  billedNanos: receiptColumnIndex("billed_nanos"),
  attemptAfterMs: receiptColumnIndex("attempt_after_ms"),
};

const outcomePlaces: Readonly<Record<string, number>> = Object.fromEntries(outcomeFigures.map((figure, at) => [figure, at]));

/** Where the summed columns are: in the figures, in an attempt, and in a receipt. */
const summed = ["prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "audio_ms", "characters"] as const;
const upstreamPlaces = [...summed, "nanos" as const, "uncertain" as const, "estimated" as const].map((figure) =>
  upstreamFigures.indexOf(figure),
);
const unpricedPlace = upstreamFigures.indexOf("unpriced");
const attemptPlaces = [
  attemptColumn.promptTokens,
  attemptColumn.cachedTokens,
  attemptColumn.completionTokens,
  attemptColumn.reasoningTokens,
  attemptColumn.audioMs,
  attemptColumn.characters,
  attemptColumn.nanos,
  attemptColumn.costUncertain,
  attemptColumn.estimated,
];
const receiptPlaces = [...summed, "billed_nanos" as const, "cost_uncertain" as const, "estimated" as const].map(receiptColumnIndex);
