import { everybody } from "../../keys/key.ts";
import type { Database } from "../database.ts";
import { summingRows, type BulkInsert, type ColumnTypes } from "./bulk-insert.ts";
import { FirstContents } from "./first-contents.ts";
import { joinedTimes, OutcomeSums, type SumPlaces } from "./outcome-sums.ts";
import type { ReceiptEntry } from "./receipt-entry.ts";
import { minuteOfHour, MinuteSet, strayRows } from "./receipt-minutes.ts";
import { wordsOf } from "./receipt-line.ts";
import { name, receiptColumnIndex } from "./receipt-row.ts";
import { valuesOf, type Value } from "../sql.ts";

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** The hourly sums of some receipts: by key, and by the owners that a receipt has besides. */
export interface AddedSums {
  readonly keys: readonly UsageSum[];
  readonly owners: readonly UsageSum[];
}

/**
 * Adds receipts to the sums of their hours and days, in UTC, and to the index by which the receipts of a key are found. Returns the
 * hourly sums of the added receipts. The receipts must be new to the store. `thinned` are counted, but were not stored.
 */
export async function addToSums(
  database: Database,
  entries: readonly ReceiptEntry[],
  thinned: readonly ReceiptEntry[] = [],
): Promise<AddedSums> {
  const hours = new UsageSums(hourMs);
  const ownerHours = new UsageSums(hourMs);
  const firstContents = new FirstContents();
  const outcomes = new OutcomeSums();
  const strays: (readonly Value[])[] = [];
  const add = (entry: ReceiptEntry): UsageSum => {
    const { row } = entry;
    firstContents.add(row);
    const sum = hours.addRow(row, row[column.keyId] as string, "");
    const owners = ownersOf(row, sum, ownerHours);
    for (const owner of owners) addFigures(owner.figures, row);
    outcomes.add(entry, sum, owners);
    return sum;
  };
  for (const entry of entries) {
    const sum = add(entry);
    const id = entry.row[column.id] as string;
    const minute = minuteOfHour(id, sum.atMs);
    if (minute === null) strays.push([sum.ownerId, id]);
    else sum.minutes.add(minute);
  }
  for (const entry of thinned) add(entry);
  const sums = { keys: hours.all(), owners: ownerHours.all() };
  const totals = totalsOf(sums.keys);
  await strayRows.addAll(database, strays);
  await hourRows.addAll(database, sums.keys.map(hourValues));
  await dayRows.addAll(database, daysOf(sums.keys).map(dayValues));
  // Last, because all processes change the sums of a large group, and still later those of everybody and of all streams: the rows are
  // locked until the end of the transaction.
  const ownerDays = daysOf(sums.owners);
  await ownerHourRows.addAll(database, sums.owners.map(ownerHourValues));
  await ownerDayRows.addAll(database, ownerDays.map(ownerDayValues));
  await ownerHourRows.addAll(database, totals.map(ownerHourValues));
  await ownerDayRows.addAll(database, daysOf(totals).map(ownerDayValues));
  await firstContents.write(database);
  await outcomes.write(database, ownerDays);
  return sums;
}

/** The sums of the owners that a receipt has besides its key. They are remembered: those of the key's next receipt are nearly always the same. */
function ownersOf(row: ReceiptEntry["row"], sum: UsageSum, ownerHours: UsageSums): readonly UsageSum[] {
  const names = row[column.owners] as string | null;
  if (names === null) return none;
  const tags = (row[column.channelTags] ?? "") as string;
  if (sum.owned?.names !== names || sum.owned.tags !== tags) {
    const { atMs, model, channel, operation } = sum;
    const sums = wordsOf(names).map((owner) => ownerHours.of(name(owner, true), atMs, model, channel, tags, operation));
    sum.owned = { names, tags, sums };
  }
  return sum.owned.sums;
}

const none: readonly UsageSum[] = [];

function totalsOf(keys: readonly UsageSum[]): readonly UsageSum[] {
  const totals = new UsageSums(hourMs);
  for (const sum of keys) totals.add(sum, everybody);
  return totals.all();
}

/** Nearly always all receipts are of the same hour, and then the sums of the day are the same. */
function daysOf(hours: readonly UsageSum[]): readonly UsageSum[] {
  if (hours[0]?.atMs === hours.at(-1)?.atMs) return hours;
  const days = new UsageSums(dayMs);
  for (const sum of hours) days.add(sum);
  return days.all();
}

/** The summed columns of the sums, and the receipt columns that they come from. */
const summed = {
  prompt_tokens: "prompt_tokens",
  cached_tokens: "cached_tokens",
  completion_tokens: "completion_tokens",
  reasoning_tokens: "reasoning_tokens",
  audio_ms: "audio_ms",
  characters: "characters",
  nanos: "billed_nanos",
  uncertain: "cost_uncertain",
  estimated: "estimated",
} as const;

const summedColumns = Object.values(summed).map(receiptColumnIndex);
const figureNames = ["calls", "failed", "unpriced", ...Object.keys(summed)];
const countedFigures = figureNames.length - summedColumns.length;
const nanosFigure = figureNames.indexOf("nanos");

/** Figures that most sums of a moment have in common. */
const rarelyDifferent = ["failed", "unpriced", "reasoning_tokens", "audio_ms", "characters", "uncertain", "estimated"];

function rowsOf(table: string, identity: ColumnTypes, added: readonly string[], merged: readonly string[]): BulkInsert {
  // Many keys that use one model alike differ in little more than their names; others still have no audio, no failures and no doubts.
  return summingRows(table, identity, added, merged, [
    [...Object.keys(identity).slice(1), ...merged, ...rarelyDifferent, "calls", ...added.filter((figure) => !figureNames.includes(figure))],
    ["at_ms", ...merged, ...rarelyDifferent],
  ]);
}

const ofKey = { key_id: "text", at_ms: "number", model: "text", channel: "text", operation: "text" } as const;
const ofOwner = { owner_id: "text", at_ms: "number", model: "text", channel: "text", tags: "text", operation: "text" } as const;

/**
 * `placed` counts the calls whose receipts are found through the minutes, or are strays, and `in_total` those that are in the sums of
 * everybody. An older version increments only `calls`; a trigger then adds what is missing in the sums of everybody.
 */
const hourRows = rowsOf("usage_hours", ofKey, [...figureNames, "placed", "in_total"], ["minutes_early", "minutes_late"]);
const dayRows = rowsOf("usage_days", ofKey, [...figureNames, "in_total"], []);
const ownerHourRows = rowsOf("owner_hours", ofOwner, figureNames, []);
const ownerDayRows = rowsOf("owner_days", ofOwner, figureNames, []);

function hourValues({ ownerId, atMs, model, channel, operation, figures, minutes }: UsageSum): readonly Value[] {
  return [ownerId, atMs, model, channel, operation, ...checked(figures), figures[0]!, figures[0]!, minutes.early, minutes.late];
}

function dayValues({ ownerId, atMs, model, channel, operation, figures }: UsageSum): readonly Value[] {
  return [ownerId, dayOf(atMs), model, channel, operation, ...checked(figures), figures[0]!];
}

function ownerHourValues({ ownerId, atMs, model, channel, tags, operation, figures }: UsageSum): readonly Value[] {
  return [ownerId, atMs, model, channel, tags, operation, ...checked(figures)];
}

function ownerDayValues({ ownerId, atMs, model, channel, tags, operation, figures }: UsageSum): readonly Value[] {
  return [ownerId, dayOf(atMs), model, channel, tags, operation, ...checked(figures)];
}

function dayOf(atMs: number): number {
  return atMs - (atMs % dayMs);
}

/** Names come from storable rows, but a sum may be too large to be exact. */
function checked(figures: readonly number[]): readonly Value[] {
  return valuesOf({ values: figures });
}

/** The usage of one owner, model, channel and operation in one hour or day. */
export interface UsageSum {
  /** The id of a key, or of another owner of limits. */
  readonly ownerId: string;
  readonly atMs: number;
  readonly model: string;
  readonly channel: string;
  /** The tags of the channel; empty in the sums of keys. */
  readonly tags: string;
  readonly operation: string;
  readonly figures: number[];
  /** The minutes of the hour that have receipts. */
  readonly minutes: MinuteSet;
  /** How many of its calls fell into each bucket of times, where that is counted. */
  first: number[] | null;
  took: number[] | null;
  /** Where the last of its receipts was counted besides, and by which names. */
  owned: { readonly names: string; readonly tags: string; readonly sums: readonly UsageSum[] } | null;
  places: SumPlaces | null;
}

export function nanosOf({ figures }: UsageSum): number {
  return figures[nanosFigure]!;
}

const zeros: readonly number[] = figureNames.map(() => 0);

/** Adds one receipt. */
function addFigures(figures: number[], row: ReceiptEntry["row"]): void {
  figures[0]! += 1;
  if (row[column.state] !== "complete") figures[1]! += 1;
  if (row[column.billedNanos] === null) figures[2]! += 1;
  for (let at = 0; at < summedColumns.length; at += 1) figures[at + countedFigures]! += (row[summedColumns[at]!] ?? 0) as number;
}

/** The sums of some owners who used the same, by their ids. */
interface SumsOfKind extends Pick<UsageSum, "atMs" | "model" | "channel" | "tags" | "operation"> {
  readonly owners: Map<string, UsageSum>;
}

class UsageSums {
  /** By the start of the hour or day: nearly always there is only one. */
  private readonly ranges = new Map<number, Map<string, SumsOfKind>>();
  /** That of the last receipt, and often of the next one as well. */
  private last: SumsOfKind | null = null;

  constructor(private readonly lengthMs: number) {}

  addRow(row: ReceiptEntry["row"], ownerId: string, tags: string): UsageSum {
    const model = row[column.model] as string;
    const channel = (row[column.channel] ?? "") as string;
    const operation = row[column.operation] as string;
    const sum = this.of(ownerId, row[column.startedMs] as number, model, channel, tags, operation);
    addFigures(sum.figures, row);
    return sum;
  }

  add(added: UsageSum, ownerId = added.ownerId): void {
    const { atMs, model, channel, tags, operation, figures, first, took } = added;
    const sum = this.of(ownerId, atMs, model, channel, tags, operation);
    for (let at = 0; at < figures.length; at += 1) sum.figures[at]! += figures[at]!;
    sum.first = joinedTimes(sum.first, first);
    sum.took = joinedTimes(sum.took, took);
  }

  of(ownerId: string, atMs: number, model: string, channel: string, tags: string, operation: string): UsageSum {
    const beganMs = atMs - (atMs % this.lengthMs);
    const { owners } = this.kindOf(beganMs, model, channel, tags, operation);
    let sum = owners.get(ownerId);
    if (sum === undefined) {
      const figures = zeros.slice();
      const minutes = new MinuteSet();
      sum = {
        ownerId,
        atMs: beganMs,
        model,
        channel,
        tags,
        operation,
        figures,
        minutes,
        first: null,
        took: null,
        owned: null,
        places: null,
      };
      owners.set(ownerId, sum);
    }
    return sum;
  }

  private kindOf(atMs: number, model: string, channel: string, tags: string, operation: string): SumsOfKind {
    const { last } = this;
    if (
      last !== null &&
      last.atMs === atMs &&
      last.model === model &&
      last.channel === channel &&
      last.tags === tags &&
      last.operation === operation
    )
      return last;
    let range = this.ranges.get(atMs);
    if (range === undefined) {
      range = new Map();
      this.ranges.set(atMs, range);
    }
    // Names contain no NUL.
    const key = `${model}\0${channel}\0${tags}\0${operation}`;
    let kind = range.get(key);
    if (kind === undefined) {
      kind = { atMs, model, channel, tags, operation, owners: new Map() };
      range.set(key, kind);
    }
    this.last = kind;
    return kind;
  }

  /** Sorted, so that processes that update the same sums lock the rows in the same order and cannot deadlock: by time, owner and kind. */
  all(): readonly UsageSum[] {
    const ranges = [...this.ranges].sort(([one], [other]) => one - other);
    return ranges.flatMap(([, range]) => {
      if (range.size === 1) return [...range.values()].flatMap(({ owners }) => [...owners.keys()].sort().map((id) => owners.get(id)!));
      const sums = new Map<string, UsageSum[]>();
      for (const key of [...range.keys()].sort()) {
        for (const [ownerId, sum] of range.get(key)!.owners) {
          const others = sums.get(ownerId);
          if (others === undefined) sums.set(ownerId, [sum]);
          else others.push(sum);
        }
      }
      // Sorting strings without a comparator takes a fraction of the time.
      return [...sums.keys()].sort().flatMap((ownerId) => sums.get(ownerId)!);
    });
  }
}

const column = {
  id: receiptColumnIndex("id"),
  keyId: receiptColumnIndex("key_id"),
  startedMs: receiptColumnIndex("started_ms"),
  model: receiptColumnIndex("model"),
  channel: receiptColumnIndex("channel"),
  operation: receiptColumnIndex("operation"),
  state: receiptColumnIndex("state"),
  billedNanos: receiptColumnIndex("billed_nanos"),
  owners: receiptColumnIndex("owners"),
  channelTags: receiptColumnIndex("channel_tags"),
};
