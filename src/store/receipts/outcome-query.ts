import { StorageError } from "../../gateway/storage.ts";
import { isGroupId } from "../../keys/group.ts";
import { everybody } from "../../keys/key.ts";
import { outcomeFigures, type OutcomeFigure } from "../../usage/call-outcome.ts";
import type { AnswerTimes, AnswerTimesQuery, OutcomeRow, UpstreamRow } from "../../usage/outcome-row.ts";
import type { UsageColumn, UsageQuery } from "../../usage/usage-row.ts";
import type { Database } from "../database.ts";
import { joinSql, nameSql, sql, type Sql } from "../sql.ts";
import { timeBuckets, upstreamFigures } from "./outcome-sums.ts";
import { name } from "./receipt-row.ts";
import { ceiling, clamped, compareRows, endMs, floor, grouping, isGroupOf, isKeyOf, refuseTooMany, rowsMax, shown } from "./usage-query.ts";
import { dayMs, hourMs } from "./usage-sums.ts";

type OutcomeSpan = Pick<UsageQuery, "sinceMs" | "untilMs">;
type FigureRow = Readonly<Record<string, string | number | bigint | null>>;

/** How calls ended, from sums, for the same query as their usage. Rows without anything special are missing. */
export async function outcomesOf(database: Database, query: UsageQuery): Promise<readonly OutcomeRow[]> {
  const by = [...new Set(query.by)];
  const { groupId = null } = query;
  if ((groupId !== null || by.includes("group")) && (query.keyId !== null || by.includes("key"))) {
    throw new StorageError("invalid", "What a group used is not known by key: leave out the group, or the key.");
  }
  const conditions = [ownerCondition(query, by, database.engine)];
  if (query.model !== null) conditions.push(sql`model = ${name(query.model)}`);
  if (query.channel !== null) conditions.push(sql`channel = ${name(query.channel)}`);
  const columns = by.map((column) => (column === "key" ? { text: sql`owner_id`, as: sql`by_key` } : grouping(column, false)));
  const listed = columns.map(({ text, as }) => sql`${text} as ${as}, `);
  const grouped = columns.length === 0 ? sql`` : sql` group by ${list(columns.map(({ text }) => text))}`;
  const source = spanOf(query, "outcome", joinSql(conditions, sql` and `), by.includes("hour"));
  const rows = await database.all<FigureRow>(
    sql`select ${joinSql(listed, sql``)}${sumsOf(outcomeFigures)} from (${source}) as ended${grouped} limit ${rowsMax + 1}`,
  );
  refuseTooMany(rows);
  return rows
    .map((row) => ({
      group: Object.fromEntries(by.map((column) => [column, shown(column, row[`by_${column}`] ?? null)])),
      figures: Object.fromEntries(outcomeFigures.map((figure) => [figure, Number(row[figure] ?? 0)])) as Record<OutcomeFigure, number>,
    }))
    .filter(({ group }) => (by.includes("key") ? !isGroupId(group.key ?? "") : !by.includes("group") || isGroupId(group.group ?? "")))
    .toSorted((one, other) => compareRows(one, other, by));
}

function ownerCondition(
  { keyId, groupId = null, groups = null, keysOf = null }: UsageQuery,
  by: readonly UsageColumn[],
  engine: Database["engine"],
): Sql {
  if (keyId !== null) return sql`owner_id = ${name(keyId)}`;
  if (groupId !== null) return sql`owner_id = ${name(groupId)}`;
  if (groups !== null) return isGroupOf(groups, engine);
  if (keysOf !== null) return isKeyOf(keysOf, engine, sql`owner_id`);
  return by.includes("key") || by.includes("group") ? sql`owner_id <> ${everybody}` : sql`owner_id = ${everybody}`;
}

/** How long calls of a model took. Of a group that is known by the day, so that the span is extended to whole days. */
export async function modelTimesOf(database: Database, query: AnswerTimesQuery): Promise<AnswerTimes> {
  const condition = sql`owner_id = ${name(query.groupId ?? everybody)} and model = ${name(query.model)}`;
  const span = query.groupId === null ? query : wholeDays(query);
  const rows = await database.all<FigureRow>(
    sql`select kind, ${sumsOf(timeBuckets)} from (${spanOf(span, "model_time", condition, false)}) as timed group by kind`,
  );
  const bucketsOf = (kind: string): readonly number[] => {
    const row = rows.find((each) => each["kind"] === kind);
    return timeBuckets.map((bucket) => Number(row?.[bucket] ?? 0));
  };
  return { first: bucketsOf("first"), took: bucketsOf("took") };
}

function wholeDays({ sinceMs, untilMs }: OutcomeSpan): OutcomeSpan {
  return {
    sinceMs: sinceMs === null ? null : floor(clamped(sinceMs), dayMs),
    untilMs: untilMs === null ? null : ceiling(clamped(untilMs), dayMs),
  };
}

/** What channels used of the models of their upstreams, on whole days of UTC. */
export async function upstreamUseOf(database: Database, sinceMs: number, untilMs: number): Promise<readonly UpstreamRow[]> {
  const rows = await database.all<FigureRow>(
    sql`select channel, model, ${sumsOf(upstreamFigures)} from upstream_days
      where at_ms >= ${floor(clamped(sinceMs), dayMs)} and at_ms < ${ceiling(clamped(untilMs), dayMs)} group by channel, model limit ${rowsMax + 1}`,
  );
  refuseTooMany(rows);
  const figure = (row: FigureRow, column: (typeof upstreamFigures)[number]): number => Number(row[column] ?? 0);
  return rows
    .map((row) => ({
      channel: String(row["channel"]),
      model: String(row["model"]),
      attempts: figure(row, "attempts"),
      answered: figure(row, "answered"),
      promptTokens: figure(row, "prompt_tokens"),
      cachedTokens: figure(row, "cached_tokens"),
      completionTokens: figure(row, "completion_tokens"),
      reasoningTokens: figure(row, "reasoning_tokens"),
      audioSeconds: figure(row, "audio_ms") / 1_000,
      characters: figure(row, "characters"),
      nanos: figure(row, "nanos"),
      unpriced: figure(row, "unpriced"),
      uncertain: figure(row, "uncertain"),
      estimated: figure(row, "estimated"),
    }))
    .toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
}

function keyOf({ channel, model }: Pick<UpstreamRow, "channel" | "model">): string {
  return `${channel}\0${model}`;
}

/** The first day of which outcomes are counted; null if there is none yet. Earlier calls have usage alone. */
export async function outcomesFrom(database: Database): Promise<number | null> {
  const [row] = await database.all<{ readonly at_ms: number | bigint | null }>(sql`select min(at_ms) as at_ms from upstream_days`);
  return row?.at_ms == null ? null : Number(row.at_ms);
}

/** Whole days from the daily sums, the rest of the range from the hourly ones, which are kept for a shorter time. */
function spanOf(query: OutcomeSpan, table: "outcome" | "model_time", condition: Sql, isByHour: boolean): Sql {
  const sinceMs = query.sinceMs === null ? 0 : floor(clamped(query.sinceMs), hourMs);
  const untilMs = query.untilMs === null ? endMs : ceiling(clamped(query.untilMs), hourMs);
  const firstDayMs = ceiling(sinceMs, dayMs);
  const lastDayMs = floor(untilMs, dayMs);
  const part = (unit: "hours" | "days", fromMs: number, toMs: number): Sql =>
    sql`select * from ${nameSql(`${table}_${unit}`)} where ${condition} and at_ms >= ${fromMs} and at_ms < ${toMs}`;
  if (isByHour || firstDayMs >= lastDayMs) return part("hours", sinceMs, untilMs);
  const parts = [part("days", firstDayMs, lastDayMs)];
  if (sinceMs < firstDayMs) parts.push(part("hours", sinceMs, firstDayMs));
  if (lastDayMs < untilMs) parts.push(part("hours", lastDayMs, untilMs));
  return joinSql(parts, sql` union all `);
}

function sumsOf(figures: readonly string[]): Sql {
  return list(figures.map((figure) => sql`cast(coalesce(sum(${nameSql(figure)}), 0) as bigint) as ${nameSql(figure)}`));
}

function list(parts: readonly Sql[]): Sql {
  return joinSql(parts, sql`, `);
}
