import { StorageError, type Payment } from "../../gateway/storage.ts";
import { isGroupId } from "../../keys/group.ts";
import { everybody } from "../../keys/key.ts";
import type { UsageColumn, UsageQuery, UsageRow } from "../../usage/usage-row.ts";
import type { Database } from "../database.ts";
import { wordsOf } from "./receipt-line.ts";
import { name } from "./receipt-row.ts";
import { joinSql, sql, type Sql } from "../sql.ts";
import { isOneOf, rowsOf } from "../text-list.ts";
import { dayMs, hourMs } from "./usage-sums.ts";

/**
 * Answers from the sums: whole days from the daily ones, the rest of the range from the hourly ones, which are kept for a shorter time.
 * The rows are sorted by the requested columns.
 */
export async function usageOf(database: Database, query: UsageQuery): Promise<readonly UsageRow[]> {
  const by = [...new Set(query.by)];
  const { groupId = null } = query;
  const ofGroups = groupId !== null || by.includes("group");
  if (ofGroups && (query.keyId !== null || by.includes("key"))) {
    throw new StorageError("invalid", "What a group used is not known by key: leave out the group, or the key.");
  }
  const { source, wholeDays } = sourceOf(query, by, database.engine);
  const columns = by.map((column) => grouping(column, wholeDays, query.keysOf != null));
  const listed = columns.map(({ text, as }) => sql`${text} as ${as}, `);
  const grouped =
    columns.length === 0
      ? sql``
      : sql` group by ${joinSql(
          columns.map(({ text }) => text),
          sql`, `,
        )}`;
  const rows = await database.all<Record<string, string | number | bigint | null>>(
    sql`select ${joinSql(listed, sql``)}${sums} from (${source}) as used${grouped} limit ${rowsMax + 1}`,
  );
  refuseTooMany(rows);
  const shownRows = rows.map((row) => usageRow(row, by));
  // Keys with a budget that has a selector are owners, too.
  const ofOwners = by.includes("group") ? shownRows.filter(({ group }) => isGroupId(group.group ?? "")) : shownRows;
  return ofOwners.toSorted((one, other) => compareRows(one, other, by));
}

export function refuseTooMany(rows: readonly unknown[]): void {
  if (rows.length <= rowsMax) return;
  throw new StorageError("invalid", `The result has more than ${rowsMax} rows. Choose a shorter time, one key or model, or fewer columns.`);
}

/** What was paid for calls that count for an owner, from the start of an hour on. */
export async function paymentsOf(database: Database, ownerId: string, sinceMs: number): Promise<readonly Payment[]> {
  const from = sinceMs % dayMs === 0 ? sql`owner_days` : sql`owner_hours`;
  const rows = await database.all<Omit<Payment, "tags"> & { readonly tags: string }>(sql`
    select model, channel, tags, operation, cast(sum(nanos) as bigint) as nanos from ${from}
    where owner_id = ${ownerId} and at_ms >= ${sinceMs} group by model, channel, tags, operation`);
  return rows.map((row) => ({ ...row, tags: wordsOf(row.tags) }));
}

const figures = [
  sql`calls`,
  sql`failed`,
  sql`prompt_tokens`,
  sql`cached_tokens`,
  sql`completion_tokens`,
  sql`reasoning_tokens`,
  sql`audio_ms`,
  sql`characters`,
  sql`nanos`,
  sql`unpriced`,
  sql`uncertain`,
  sql`estimated`,
];
const sums = joinSql(
  figures.map((column) => sql`cast(coalesce(sum(${column}), 0) as bigint) as ${column}`),
  sql`, `,
);

/** The lengths of a day and an hour are literals: PostgreSQL would not recognise two parameters as the same expression. */
export function grouping(column: UsageColumn, wholeDays: boolean, someKeys = false): { readonly text: Sql; readonly as: Sql } {
  switch (column) {
    case "key":
      // An expression instead of the column, because SQLite would walk the index by key and look up each row. Of some keys it does well to.
      return { text: someKeys ? sql`key_id` : sql`key_id || ''`, as: sql`by_key` };
    case "group":
      return { text: sql`owner_id`, as: sql`by_group` };
    case "model":
      return { text: sql`model`, as: sql`by_model` };
    case "channel":
      return { text: sql`channel`, as: sql`by_channel` };
    case "operation":
      return { text: sql`operation`, as: sql`by_operation` };
    case "day":
      // The bare column can use the index.
      return { text: wholeDays ? sql`at_ms` : sql`at_ms - at_ms % 86400000`, as: sql`by_day` };
    case "hour":
      return { text: sql`at_ms - at_ms % 3600000`, as: sql`by_hour` };
  }
}

function sourceOf(
  query: UsageQuery,
  by: readonly UsageColumn[],
  engine: Database["engine"],
): { readonly source: Sql; readonly wholeDays: boolean } {
  const sinceMs = query.sinceMs === null ? 0 : floor(clamped(query.sinceMs), hourMs);
  const untilMs = query.untilMs === null ? endMs : ceiling(clamped(query.untilMs), hourMs);
  const firstDayMs = ceiling(sinceMs, dayMs);
  const lastDayMs = floor(untilMs, dayMs);
  const ofKeys = by.includes("key") || query.keyId !== null || query.keysOf != null;
  const [days, hours] = ofKeys ? [sql`usage_days`, sql`usage_hours`] : [sql`owner_days`, sql`owner_hours`];
  const columns = engine === "sqlite" && query.keysOf == null && by.length === 1 && by[0] === "key" ? keysInOrder : everything;
  const conditions = conditionsOf(query, !ofKeys && !by.includes("group"), engine);
  const part = (table: Sql, fromMs: number, toMs: number): Sql =>
    sql`select ${columns.listed} from ${table} where at_ms >= ${fromMs} and at_ms < ${toMs}${conditions}${columns.grouped}`;
  if (by.includes("hour") || firstDayMs >= lastDayMs) return { source: part(hours, sinceMs, untilMs), wholeDays: false };
  const parts = [part(days, firstDayMs, lastDayMs)];
  if (sinceMs < firstDayMs) parts.push(part(hours, sinceMs, firstDayMs));
  if (lastDayMs < untilMs) parts.push(part(hours, lastDayMs, untilMs));
  return { source: joinSql(parts, sql` union all `), wholeDays: parts.length === 1 };
}

interface SourceColumns {
  readonly listed: Sql;
  readonly grouped: Sql;
}

const everything: SourceColumns = { listed: sql`*`, grouped: sql`` };
/** SQLite stores the sums in the order of time and key. Summing in that order first leaves few rows to sort by key. */
const keysInOrder: SourceColumns = { listed: sql`at_ms, key_id, ${sums}`, grouped: sql` group by at_ms, key_id` };

function conditionsOf(query: UsageQuery, ofAll: boolean, engine: Database["engine"]): Sql {
  const conditions: Sql[] = [];
  if (query.keyId !== null) conditions.push(sql`key_id = ${name(query.keyId)}`);
  if (query.keysOf != null) conditions.push(isKeyOf(query.keysOf, engine));
  if (query.groupId != null) conditions.push(sql`owner_id = ${name(query.groupId)}`);
  else if (query.groups != null) conditions.push(isGroupOf(query.groups, engine));
  else if (ofAll) conditions.push(sql`owner_id = ${everybody}`);
  if (query.model !== null) conditions.push(sql`model = ${name(query.model)}`);
  if (query.channel !== null) conditions.push(sql`channel = ${name(query.channel)}`);
  return joinSql(
    conditions.map((condition) => sql` and ${condition}`),
    sql``,
  );
}

/** Administrators of a group must not wait for the sums of all others, which may be too many to be read. */
export function isGroupOf(groups: readonly string[], engine: Database["engine"]): Sql {
  return isOneOf(sql`owner_id`, groups.map(named), engine);
}

/** One list and not two with `or`, so that each key is looked up in the index by key. */
export function isKeyOf({ groups, keys }: NonNullable<UsageQuery["keysOf"]>, engine: Database["engine"], id = sql`key_id`): Sql {
  const lists = [
    ...(groups.length === 0 ? [] : [sql`select id from keys where ${isOneOf(sql`group_id`, groups.map(named), engine)}`]),
    ...(keys.length === 0 ? [] : [rowsOf(keys.map(named), engine)]),
  ];
  return lists.length === 0 ? sql`1 = 0` : sql`${id} in (${joinSql(lists, sql` union all `)})`;
}

function named(text: string): string {
  return name(text);
}

function usageRow(row: Readonly<Record<string, string | number | bigint | null>>, by: readonly UsageColumn[]): UsageRow {
  const figure = (column: string): number => Number(row[column] ?? 0);
  return {
    group: Object.fromEntries(by.map((column) => [column, shown(column, row[`by_${column}`] ?? null)])),
    calls: figure("calls"),
    failedCalls: figure("failed"),
    promptTokens: figure("prompt_tokens"),
    cachedTokens: figure("cached_tokens"),
    completionTokens: figure("completion_tokens"),
    reasoningTokens: figure("reasoning_tokens"),
    audioSeconds: figure("audio_ms") / 1_000,
    characters: figure("characters"),
    nanos: figure("nanos"),
    unpricedCalls: figure("unpriced"),
    uncertainCalls: figure("uncertain"),
    estimatedCalls: figure("estimated"),
  };
}

export function shown(column: UsageColumn, value: string | number | bigint | null): string | null {
  switch (column) {
    case "day":
      return new Date(Number(value)).toISOString().slice(0, 10);
    case "hour":
      return `${new Date(Number(value)).toISOString().slice(0, 13)}:00Z`;
    case "channel":
      return value === "" ? null : String(value);
    case "key":
    case "group":
    case "model":
    case "operation":
      return String(value);
  }
}

/** Sorted here, because databases sort text by different rules. */
export function compareRows(one: Pick<UsageRow, "group">, other: Pick<UsageRow, "group">, by: readonly UsageColumn[]): number {
  for (const column of by) {
    const left = one.group[column] ?? "";
    const right = other.group[column] ?? "";
    if (left !== right) return left < right ? -1 : 1;
  }
  return 0;
}

export function clamped(ms: number): number {
  return Math.min(endMs, Math.max(0, Math.trunc(ms)));
}

export function floor(ms: number, lengthMs: number): number {
  return ms - (ms % lengthMs);
}

export function ceiling(ms: number, lengthMs: number): number {
  return floor(ms + lengthMs - 1, lengthMs);
}

/** The last day that a JavaScript Date can represent. */
export const endMs = 8_640_000_000_000_000;
export const rowsMax = 100_000;
