import type { Database } from "../database.ts";
import { timeRangesOfKey, type KeyReceiptQuery, type TimeRange } from "./key-time-ranges.ts";
import { conditionsOf, filtersOf, idAt, idBoundsOf } from "./receipt-conditions.ts";
import { name } from "./receipt-row.ts";
import { joinSql, sql, type Sql } from "../sql.ts";

/**
 * The newest receipts of a key that match the query, newest first. There is no index by key (`receipt-minutes.ts` explains why): the
 * key's hourly sums say which ranges to read, a few at a time and no more than needed.
 */
export async function receiptIdsOfKey(database: Database, query: KeyReceiptQuery, limit: number): Promise<readonly string[]> {
  const ids = new Set<string>();
  let ranges: TimeRange[] = [];
  let calls = 0;
  const readRanges = async (): Promise<void> => {
    if (ranges.length > 0) for (const id of await idsIn(database, ranges, query, limit)) ids.add(id);
    ranges = [];
    calls = 0;
  };
  for await (const next of timeRangesOfKey(database, query)) {
    for (const range of next.ranges) {
      ranges.push(range);
      if (ranges.length === rangesMax) await readRanges();
    }
    calls += next.calls;
    if (ids.size + calls >= limit) await readRanges();
    if (ids.size >= limit) break;
  }
  if (ids.size < limit) await readRanges();
  for (const id of await strayIds(database, query, limit)) ids.add(id);
  return [...ids].sort((one, other) => (one < other ? 1 : -1)).slice(0, limit);
}

/** Each range is a query of its own, so that the engine can walk the primary key and stop at the limit. */
async function idsIn(database: Database, ranges: readonly TimeRange[], query: KeyReceiptQuery, limit: number): Promise<readonly string[]> {
  const { sinceId, untilId } = idBoundsOf(query);
  const bounds = ranges.map(({ fromMs, toMs }) => ({
    from: idAt(fromMs) > sinceId ? idAt(fromMs) : sinceId,
    to: untilId === null || idAt(toMs) < untilId ? idAt(toMs) : untilId,
  }));
  const within = (from: Sql, to: Sql): Sql => sql`select id from receipts
    where id >= ${from} and id < ${to} and ${joinSql(filtersOf(query), sql` and `)} order by id desc limit ${limit}`;
  const rows = await database.all<{ readonly id: string }>(
    database.engine === "postgres" ? lateralJoinOf(bounds, within) : unionOf(bounds, within),
  );
  return rows.map(({ id }) => id);
}

interface Bounds {
  readonly from: string;
  readonly to: string;
}

function unionOf(bounds: readonly Bounds[], within: (from: Sql, to: Sql) => Sql): Sql {
  const parts = bounds.map(({ from, to }) => sql`select id from (${within(sql`${from}`, sql`${to}`)}) as part`);
  return joinSql(parts, sql` union all `);
}

/** PostgreSQL would plan each part of a union separately. */
function lateralJoinOf(bounds: readonly Bounds[], within: (from: Sql, to: Sql) => Sql): Sql {
  const list = joinSql(
    bounds.map(({ from, to }) => sql`(cast(${from} as text), cast(${to} as text))`),
    sql`, `,
  );
  return sql`select part.id from (values ${list}) as span(lower, upper)
    cross join lateral (${within(sql`span.lower`, sql`span.upper`)}) as part`;
}

async function strayIds(database: Database, query: KeyReceiptQuery, limit: number): Promise<readonly string[]> {
  const strays = sql`select id from stray_receipts where key_id = ${name(query.keyId)}`;
  const rows = await database.all<{ readonly id: string }>(
    sql`select id from receipts where id in (${strays}) and ${conditionsOf(query)} order by id desc limit ${limit}`,
  );
  return rows.map(({ id }) => id);
}

/** Engines limit the parts of one statement to some hundreds. */
const rangesMax = 60;
