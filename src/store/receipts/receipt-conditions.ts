import type { FigureBounds, ReceiptQuery } from "../../gateway/storage.ts";
import { name } from "./receipt-row.ts";
import { joinSql, sql, type Sql } from "../sql.ts";

/** The query as a condition. */
export function conditionsOf(query: ReceiptQuery): Sql {
  const { sinceId, untilId } = idBoundsOf(query);
  const conditions = [...filtersOf(query), sql`id >= ${sinceId}`];
  if (untilId !== null) conditions.push(sql`id < ${untilId}`);
  return joinSql(conditions, sql` and `);
}

/** The query without its bounds on the id. */
export function filtersOf(query: ReceiptQuery): readonly Sql[] {
  const facts = [sql`1 = 1`];
  if (query.keyId !== null) facts.push(sql`key_id = ${name(query.keyId)}`);
  if (query.groupId != null) facts.push(hasWord(sql`owners`, query.groupId));
  if (query.model !== null) facts.push(sql`model = ${name(query.model)}`);
  if (query.channel !== null) facts.push(sql`channel = ${name(query.channel)}`);
  if (query.state !== null) facts.push(sql`state = ${name(query.state)}`);
  if (query.mark != null) facts.push(hasWord(sql`marks`, query.mark));
  facts.push(...figureFilters(query.figures ?? {}));
  if (query.sinceMs !== null) facts.push(sql`started_ms >= ${Math.ceil(query.sinceMs)}`);
  if (query.untilMs !== null) facts.push(sql`started_ms < ${Math.ceil(query.untilMs)}`);
  return facts;
}

function figureFilters({ statusMin, statusMax, nanosMin, nanosMax, tookMsMin }: FigureBounds): readonly Sql[] {
  return [
    ...(statusMin === undefined ? [] : [sql`status >= ${Math.trunc(statusMin)}`]),
    ...(statusMax === undefined ? [] : [sql`status <= ${Math.trunc(statusMax)}`]),
    ...(nanosMin === undefined ? [] : [sql`billed_nanos >= ${Math.ceil(nanosMin)}`]),
    ...(nanosMax === undefined ? [] : [sql`billed_nanos <= ${Math.floor(nanosMax)}`]),
    ...(tookMsMin === undefined ? [] : [sql`took_ms >= ${Math.ceil(tookMsMin)}`]),
  ];
}

/** Not with `like`, which ignores case in SQLite. */
function hasWord(column: Sql, word: string): Sql {
  const words = sql`(' ' || ${column} || ' ')`;
  return sql`replace(${words}, ${` ${name(word)} `}, '') <> ${words}`;
}

/** Ids contain the time and are indexed. The start of a call may differ a little from the time in its id. */
export function idBoundsOf({ sinceMs, untilMs, before, from }: ReceiptQuery): {
  readonly sinceId: string;
  readonly untilId: string | null;
} {
  const startId = sinceMs === null ? "" : idAt(sinceMs - leewayMs);
  const fromId = from == null ? "" : name(from);
  const sinceId = fromId > startId ? fromId : startId;
  const untilId = untilMs === null ? null : idAt(untilMs + leewayMs);
  const beforeId = before === null ? null : name(before);
  if (untilId === null || beforeId === null) return { sinceId, untilId: beforeId ?? untilId };
  return { sinceId, untilId: beforeId < untilId ? beforeId : untilId };
}

/** A string that sorts before each UUIDv7 that is created from this moment on. */
export function idAt(ms: number): string {
  const hex = Math.trunc(Math.min(Math.max(0, ms), 2 ** 48 - 1))
    .toString(16)
    .padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}`;
}

const leewayMs = 60_000;
