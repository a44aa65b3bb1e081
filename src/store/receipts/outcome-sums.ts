import { isGroupId } from "../../keys/group.ts";
import { outcomeFigures } from "../../usage/call-outcome.ts";
import { firstContentBoundsMs, firstContentBucket } from "../../usage/first-content.ts";
import type { Database } from "../database.ts";
import { valuesOf, type Value } from "../sql.ts";
import { summingRows, type BulkInsert } from "./bulk-insert.ts";
import type { ReceiptEntry } from "./receipt-entry.ts";
import { wordsOf } from "./receipt-line.ts";
import { attemptColumn, name, receiptColumnIndex } from "./receipt-row.ts";

export const timeBuckets = [...firstContentBoundsMs.map((ms) => `ms_${ms}`), "ms_more"];
export const upstreamFigures = [
  ...["attempts", "answered", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "audio_ms", "characters"],
  ...["nanos", "unpriced", "uncertain", "estimated"],
] as const;

const byOutcome = { at_ms: "number", owner_id: "text", model: "text", channel: "text", operation: "text" } as const;
const byTime = { at_ms: "number", owner_id: "text", model: "text", kind: "text" } as const;
const outcomeHours = summingRows("outcome_hours", byOutcome, outcomeFigures, []);
const outcomeDays = summingRows("outcome_days", byOutcome, outcomeFigures, []);
const timeHours = summingRows("model_time_hours", byTime, timeBuckets, []);
const timeDays = summingRows("model_time_days", byTime, timeBuckets, []);
const upstreamDays = summingRows("upstream_days", { at_ms: "number", channel: "text", model: "text" }, upstreamFigures, []);

/** The owner of the sums of all calls. No key and no group has this id. */
export const everybody = "*";

/**
 * Sums what the usage of calls does not tell: how those ended that were no plain success, how long the answers of each model took, and what
 * each channel used of each model, over all attempts.
 */
export class OutcomeSums {
  private readonly outcomes = new NamedSums(outcomeFigures.length);
  private readonly times = new NamedSums(timeBuckets.length);
  private readonly upstreams = new NamedSums(upstreamFigures.length);

  add(entry: ReceiptEntry): void {
    const { row, outcome } = entry;
    const startedMs = row[column.startedMs] as number;
    const hourStartMs = startedMs - (startedMs % hourMs);
    const owners = row[column.owners] as string | null;
    const groups =
      owners === null
        ? none
        : wordsOf(owners)
            .filter(isGroupId)
            .map((id) => name(id));
    this.addTimes(row, hourStartMs, groups);
    this.addUpstreams(entry, startedMs - (startedMs % dayMs));
    if (outcome === null) return;
    const about = [row[column.model] as string, (row[column.channel] ?? "") as string, row[column.operation] as string];
    for (const owner of [everybody, row[column.keyId] as string, ...groups]) {
      const figures = this.outcomes.of(hourStartMs, [owner, ...about]);
      for (const [at, figure] of outcomeFigures.entries()) figures[at]! += outcome[figure] ?? 0;
    }
  }

  private addTimes(row: ReceiptEntry["row"], atMs: number, groups: readonly string[]): void {
    const firstMs = row[column.stream] === 1 ? (row[column.firstContentMs] as number | null) : null;
    const tookMs = row[column.state] === "complete" ? (row[column.tookMs] as number) : null;
    const model = row[column.model] as string;
    const addFor = (owner: string): void => {
      if (firstMs !== null) this.times.of(atMs, [owner, model, "first"])[firstContentBucket(firstMs)]! += 1;
      if (tookMs !== null) this.times.of(atMs, [owner, model, "took"], 1)[firstContentBucket(tookMs)]! += 1;
    };
    addFor(everybody);
    for (const group of groups) addFor(group);
  }

  private addUpstreams({ row, attempts }: ReceiptEntry, atMs: number): void {
    const add = (channel: string, model: string, values: readonly Value[], places: readonly number[], isAnswer: boolean): void => {
      const figures = this.upstreams.of(atMs, [channel, model]);
      figures[0]! += 1;
      if (isAnswer) figures[1]! += 1;
      for (const [at, place] of places.entries()) figures[upstreamPlaces[at]!]! += (values[place] ?? 0) as number;
      if (values[places[places.length - 3]!] === null) figures[unpricedPlace]! += 1;
    };
    for (const attempt of attempts) {
      const isAnswer = attempt[attemptColumn.outcome] === "answered";
      add(attempt[attemptColumn.channel] as string, attempt[attemptColumn.model] as string, attempt, attemptPlaces, isAnswer);
    }
    if (attempts.length > 0) return;
    const isCompact = row[column.attemptAfterMs] !== null;
    // The process died, or the attempts could not be stored: it is not known who was asked.
    if (isCompact || row[column.billedNanos] !== 0) {
      add((row[column.channel] ?? "") as string, (row[column.upstreamModel] ?? "") as string, row, receiptPlaces, isCompact);
    }
  }

  async write(database: Database): Promise<void> {
    await this.outcomes.write(database, outcomeHours, outcomeDays);
    await this.times.write(database, timeHours, timeDays);
    await this.upstreams.write(database, upstreamDays, null);
  }
}

/** Sums by the start of an hour or a day, and by names. */
class NamedSums {
  private readonly all = new Map<string, NamedSum>();
  /** What was looked up last, for each number that `of` is given: of consecutive calls, many are alike. */
  private readonly last: (NamedSum | undefined)[] = [];
  private readonly zeros: readonly number[];

  constructor(figures: number) {
    this.zeros = Array.from({ length: figures }, () => 0);
  }

  /** Names contain no NUL. `place`: callers that take turns each have their own last sum. */
  of(atMs: number, names: readonly string[], place = 0): number[] {
    const last = this.last[place];
    if (last !== undefined && last.atMs === atMs && areEqual(last.names, names)) return last.figures;
    const key = `${String(atMs).padStart(16, "0")}\0${names.join("\0")}`;
    let sum = this.all.get(key);
    if (sum === undefined) {
      sum = { atMs, names, figures: this.zeros.slice() };
      this.all.set(key, sum);
    }
    this.last[place] = sum;
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

function areEqual(some: readonly string[], others: readonly string[]): boolean {
  for (let at = 0; at < some.length; at += 1) if (some[at] !== others[at]) return false;
  return true;
}

interface NamedSum {
  readonly atMs: number;
  readonly names: readonly string[];
  readonly figures: number[];
}

function valuesOfSum({ atMs, names, figures }: NamedSum): readonly Value[] {
  return [atMs, ...names, ...valuesOf({ values: figures })];
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const none: readonly string[] = [];

const column = {
  keyId: receiptColumnIndex("key_id"),
  startedMs: receiptColumnIndex("started_ms"),
  tookMs: receiptColumnIndex("took_ms"),
  firstContentMs: receiptColumnIndex("first_content_ms"),
  stream: receiptColumnIndex("stream"),
  state: receiptColumnIndex("state"),
  model: receiptColumnIndex("model"),
  upstreamModel: receiptColumnIndex("upstream_model"),
  channel: receiptColumnIndex("channel"),
  operation: receiptColumnIndex("operation"),
  billedNanos: receiptColumnIndex("billed_nanos"),
  owners: receiptColumnIndex("owners"),
  attemptAfterMs: receiptColumnIndex("attempt_after_ms"),
};

/** Where the summed columns are: in the figures, in an attempt, and in a receipt. The cost is the third from the end. */
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
