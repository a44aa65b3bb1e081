import { firstContentBoundsMs, firstContentBucket } from "../../usage/first-content.ts";
import type { Database } from "../database.ts";
import { joinSql, nameSql, sql, type Value } from "../sql.ts";
import { summingRows } from "./bulk-insert.ts";
import type { ReceiptEntry } from "./receipt-entry.ts";
import { receiptColumnIndex } from "./receipt-row.ts";

const bucketNames = [...firstContentBoundsMs.map((ms) => `ms_${ms}`), "ms_more"];
const hourRows = summingRows("first_content_hours", { at_ms: "number", operation: "text" }, bucketNames, []);

/**
 * Counts the times to first content of streams, by hour and operation. There are few such rows, however many keys, models and calls there
 * are, so that they are kept like the sums of days.
 */
export class FirstContents {
  private readonly hours = new Map<string, { readonly atMs: number; readonly operation: string; readonly buckets: number[] }>();

  add(row: ReceiptEntry["row"]): void {
    const ms = row[column.firstContentMs] as number | null;
    if (ms === null || row[column.stream] !== 1) return;
    const startedMs = row[column.startedMs] as number;
    const atMs = startedMs - (startedMs % hourMs);
    const operation = row[column.operation] as string;
    const key = `${String(atMs).padStart(16, "0")} ${operation}`;
    let hour = this.hours.get(key);
    if (hour === undefined) {
      hour = { atMs, operation, buckets: bucketNames.map(() => 0) };
      this.hours.set(key, hour);
    }
    hour.buckets[firstContentBucket(ms)]! += 1;
  }

  async write(database: Database): Promise<void> {
    // Sorted, so that processes that update the same rows lock them in the same order and cannot deadlock.
    const sorted = [...this.hours].sort(([one], [other]) => (one < other ? -1 : 1));
    await hourRows.addAll(
      database,
      sorted.map(([, { atMs, operation, buckets }]): readonly Value[] => [atMs, operation, ...buckets]),
    );
  }
}

/** How many streams fell into each bucket, from `sinceMs` to `untilMs`, extended to whole hours. */
export async function firstContentsOf(database: Database, sinceMs: number, untilMs: number | null): Promise<readonly number[]> {
  const sums = bucketNames.map((bucket) => sql`cast(coalesce(sum(${nameSql(bucket)}), 0) as bigint) as ${nameSql(bucket)}`);
  const from = Math.trunc(sinceMs - (sinceMs % hourMs));
  const until = untilMs === null ? sql`` : sql` and at_ms < ${Math.trunc(untilMs)}`;
  const [row] = await database.all<Readonly<Record<string, number | bigint>>>(
    sql`select ${joinSql(sums, sql`, `)} from first_content_hours where at_ms >= ${from}${until}`,
  );
  return bucketNames.map((bucket) => Number(row?.[bucket] ?? 0));
}

const hourMs = 3_600_000;

const column = {
  stream: receiptColumnIndex("stream"),
  operation: receiptColumnIndex("operation"),
  startedMs: receiptColumnIndex("started_ms"),
  firstContentMs: receiptColumnIndex("first_content_ms"),
};
