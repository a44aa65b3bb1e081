import type { Database } from "./database.ts";
import { Insertion } from "./insertion.ts";
import type { ReceiptEntry } from "./receipt-entry.ts";
import { receiptPlace } from "./receipt-row.ts";
import { joinSql, nameSql, sql, type Value } from "./sql.ts";

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/**
 * Adds receipts to what was used in their hours and days, in UTC, and returns what they came to by hours. Only to be called with
 * receipts that are new to the store.
 */
export async function addToSums(database: Database, entries: readonly ReceiptEntry[]): Promise<readonly Sum[]> {
  const hours = new Sums(hourMs);
  for (const entry of entries) hours.addEntry(entry);
  const days = new Sums(dayMs);
  const sums = hours.all();
  for (const sum of sums) days.add(sum);
  await hourRows.add(database, hours.rows());
  await dayRows.add(database, days.rows());
  return sums;
}

/** The figures that are added up as they stand in the receipts, and in which column there. */
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

const summedPlaces = Object.values(summed).map(receiptPlace);
const figureNames = ["calls", "failed", "unpriced", ...Object.keys(summed)];
const countedFigures = figureNames.length - summedPlaces.length;
const nanosFigure = figureNames.indexOf("nanos");

function rowsOf(table: string): Insertion {
  const adding = figureNames.map((column) => {
    const figure = nameSql(column);
    return sql`${figure} = ${nameSql(table)}.${figure} + excluded.${figure}`;
  });
  return new Insertion({
    into: table,
    columns: {
      key_id: "text",
      at_ms: "number",
      model: "text",
      channel: "text",
      operation: "text",
      ...Object.fromEntries(figureNames.map((figure) => [figure, "number"] as const)),
    },
    conflict: sql`on conflict (key_id, at_ms, model, channel, operation) do update set ${joinSql(adding, sql`, `)}`,
  });
}

const hourRows = rowsOf("usage_hours");
const dayRows = rowsOf("usage_days");

/** What was used of one model over one channel by one key in one span of time. */
export interface Sum {
  readonly keyId: string;
  readonly atMs: number;
  readonly model: string;
  readonly channel: string;
  readonly operation: string;
  readonly figures: number[];
}

export function nanosOf({ figures }: Sum): number {
  return figures[nanosFigure]!;
}

class Sums {
  /** By their spans: nearly all that comes together is of the same one. */
  private readonly spans = new Map<number, Map<string, Sum>>();

  constructor(private readonly spanMs: number) {}

  addEntry({ row }: ReceiptEntry): void {
    const keyId = row[place.keyId] as string;
    const model = row[place.model] as string;
    const channel = (row[place.channel] ?? "") as string;
    const operation = row[place.operation] as string;
    const { figures } = this.of(keyId, row[place.startedMs] as number, model, channel, operation);
    figures[0]! += 1;
    if (row[place.state] !== "complete") figures[1]! += 1;
    if (row[place.billedNanos] === null) figures[2]! += 1;
    for (let at = 0; at < summedPlaces.length; at += 1) figures[at + countedFigures]! += (row[summedPlaces[at]!] ?? 0) as number;
  }

  add({ keyId, atMs, model, channel, operation, figures }: Sum): void {
    const sum = this.of(keyId, atMs, model, channel, operation);
    for (let at = 0; at < figures.length; at += 1) sum.figures[at]! += figures[at]!;
  }

  private of(keyId: string, atMs: number, model: string, channel: string, operation: string): Sum {
    const beganMs = atMs - (atMs % this.spanMs);
    let span = this.spans.get(beganMs);
    if (span === undefined) {
      span = new Map();
      this.spans.set(beganMs, span);
    }
    // No name has a NUL in it.
    const key = `${keyId}\0${model}\0${channel}\0${operation}`;
    let sum = span.get(key);
    if (sum === undefined) {
      sum = { keyId, atMs: beganMs, model, channel, operation, figures: figureNames.map(() => 0) };
      span.set(key, sum);
    }
    return sum;
  }

  all(): readonly Sum[] {
    return [...this.spans.values()].flatMap((span) => [...span.values()]);
  }

  /** In the order of the table's key: processes that add to the same sums wait for each other, and never in a circle. */
  rows(): readonly (readonly Value[])[] {
    const named = this.all().map((sum) => ({ sum, key: `${sum.keyId}\0${sum.atMs}\0${sum.model}\0${sum.channel}\0${sum.operation}` }));
    return named
      .sort((one, other) => (one.key < other.key ? -1 : 1))
      .map(({ sum: { keyId, atMs, model, channel, operation, figures } }) => [keyId, atMs, model, channel, operation, ...figures]);
  }
}

const place = {
  keyId: receiptPlace("key_id"),
  startedMs: receiptPlace("started_ms"),
  model: receiptPlace("model"),
  channel: receiptPlace("channel"),
  operation: receiptPlace("operation"),
  state: receiptPlace("state"),
  billedNanos: receiptPlace("billed_nanos"),
};
