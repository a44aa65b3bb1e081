import type { ReceiptQuery } from "../../gateway/storage.ts";
import type { Database } from "../database.ts";
import { minuteMs, MinuteSet, timeOfId } from "./receipt-minutes.ts";
import { name } from "./receipt-row.ts";
import { joinSql, sql, type Sql } from "../sql.ts";
import { dayMs, hourMs } from "./usage-sums.ts";

/** A time range in which a key has receipts, by their ids. The end is exclusive. */
export interface TimeRange {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface KeyTimeRanges {
  /** Newest first. */
  readonly ranges: readonly TimeRange[];
  /** How many receipts in the ranges may match the query. */
  readonly calls: number;
}

/**
 * The time ranges in which a key had matching calls, newest first. All of its receipts except strays lie in these ranges, and so do
 * receipts of other keys. Hourly sums have the resolution of a minute. Where they were deleted before the receipts, daily sums are
 * used.
 */
export async function* timeRangesOfKey(database: Database, query: KeyReceiptQuery): AsyncGenerator<KeyTimeRanges> {
  const [bounds] = await database.all<{ readonly oldest: string | null; readonly first_hour: number | null }>(
    sql`select (select min(id) from receipts) as oldest, (select min(at_ms) from usage_hours) as first_hour`,
  );
  const { oldest = null, first_hour: firstHour = null } = bounds ?? {};
  if (oldest === null) return;
  const fromMs = query.from == null ? 0 : (timeOfId(query.from) ?? 0);
  const sinceMs = Math.max(timeOfId(oldest) ?? 0, Math.floor(query.sinceMs ?? 0), fromMs);
  const untilMs = Math.min(Math.ceil(query.untilMs ?? endMs), beforeMs(query.before));
  // Of the oldest hour only some of the sums may be left.
  const hoursFromMs = firstHour === null ? endMs : firstHour + hourMs;
  yield* byHours(database, query, Math.max(hoursFromMs, startOf(sinceMs, hourMs)), untilMs);
  yield* byDays(database, query, { sinceMs: startOf(sinceMs, dayMs), untilMs, hoursFromMs });
}

export type KeyReceiptQuery = ReceiptQuery & { readonly keyId: string };

async function* byHours(database: Database, query: KeyReceiptQuery, sinceMs: number, untilMs: number): AsyncGenerator<KeyTimeRanges> {
  const asked = conditionsOf(query);
  const columns = sql`select at_ms, ${callsOf(query)} as matching, calls, placed, minutes_early, minutes_late from usage_hours`;
  for (let endsMs = untilMs; ;) {
    const some = await database.all<HourRow>(sql`${columns} where ${asked} and at_ms >= ${sinceMs} and at_ms < ${endsMs}
      order by at_ms desc limit ${rowsMax}`);
    const last = some.at(-1)?.at_ms;
    if (last === undefined) return;
    const isCut = some.length === rowsMax;
    // The last hour may have more rows.
    const rest = isCut ? await database.all<HourRow>(sql`${columns} where ${asked} and at_ms = ${last}`) : [];
    const rows = isCut ? [...some.filter(({ at_ms }) => at_ms !== last), ...rest] : some;
    for (const [atMs, sums] of Map.groupBy(rows, ({ at_ms }) => at_ms)) yield rangesOfHour(atMs, sums);
    if (!isCut) return;
    endsMs = last;
  }
}

interface HourRow {
  readonly at_ms: number;
  readonly matching: number;
  readonly calls: number;
  readonly placed: number;
  readonly minutes_early: number;
  readonly minutes_late: number;
}

function rangesOfHour(atMs: number, sums: readonly HourRow[]): KeyTimeRanges {
  const minutes = new MinuteSet();
  let calls = 0;
  for (const sum of sums) {
    calls += sum.matching;
    if (sum.placed === sum.calls) minutes.join(sum.minutes_early, sum.minutes_late);
    else minutes.fill();
  }
  const ranges: TimeRange[] = [];
  for (let minute = 59; minute >= 0; minute -= 1) {
    if (!minutes.has(minute)) continue;
    const end = minute + 1;
    while (minute > 0 && minutes.has(minute - 1)) minute -= 1;
    ranges.push({ fromMs: atMs + minute * minuteMs, toMs: atMs + end * minuteMs });
  }
  return { ranges, calls };
}

interface DaysAsked {
  readonly sinceMs: number;
  readonly untilMs: number;
  /** From here on hourly sums are used. */
  readonly hoursFromMs: number;
}

/** A day is not cut at the end of the query: the id of a call may be later than its start. */
async function* byDays(
  database: Database,
  query: KeyReceiptQuery,
  { sinceMs, untilMs, hoursFromMs }: DaysAsked,
): AsyncGenerator<KeyTimeRanges> {
  const beginBeforeMs = Math.min(untilMs, hoursFromMs);
  if (sinceMs >= beginBeforeMs) return;
  const days = await database.all<{ readonly at_ms: number; readonly matching: number }>(sql`
    select at_ms, cast(sum(${callsOf(query)}) as bigint) as matching from usage_days
    where ${conditionsOf(query)} and at_ms >= ${sinceMs} and at_ms < ${beginBeforeMs} group by at_ms order by at_ms desc`);
  for (const { at_ms, matching } of days) {
    yield { ranges: [{ fromMs: at_ms, toMs: Math.min(at_ms + dayMs, hoursFromMs) }], calls: matching };
  }
}

function conditionsOf(query: KeyReceiptQuery): Sql {
  const conditions = [sql`key_id = ${name(query.keyId)}`, sql`${callsOf(query)} > 0`];
  if (query.model !== null) conditions.push(sql`model = ${name(query.model)}`);
  if (query.channel !== null) conditions.push(sql`channel = ${name(query.channel)}`);
  return joinSql(conditions, sql` and `);
}

function callsOf({ state }: KeyReceiptQuery): Sql {
  if (state === null) return sql`calls`;
  return state === "complete" ? sql`(calls - failed)` : sql`failed`;
}

/** Matching ids sort before this one, and may be of the same millisecond. */
function beforeMs(before: string | null): number {
  const atMs = before === null ? null : timeOfId(before);
  return atMs === null ? endMs : atMs + 1;
}

function startOf(ms: number, lengthMs: number): number {
  return ms - (ms % lengthMs);
}

/** Later than any id. */
const endMs = 2 ** 48;
/** Some weeks of a key that uses few models and channels. */
const rowsMax = 500;
