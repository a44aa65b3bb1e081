import type { Receipt } from "../usage/receipt.ts";
import type { Database } from "./database.ts";
import { Insertion } from "./insertion.ts";
import { audioMs, count, maybeNanos, name } from "./receipt-row.ts";
import { joinSql, nameSql, sql, type Value } from "./sql.ts";

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** Adds receipts to what was used in their hours and days, in UTC. Only to be called with receipts that are new to the store. */
export async function addToSums(database: Database, receipts: readonly Receipt[]): Promise<void> {
  const hours = new Sums(hourMs);
  for (const receipt of receipts) hours.addReceipt(receipt);
  const days = new Sums(dayMs);
  for (const sum of hours.all()) days.add(sum, sum.figures);
  await hourRows.add(database, hours.rows());
  await dayRows.add(database, days.rows());
}

const figureColumns = {
  calls: "number",
  failed: "number",
  prompt_tokens: "number",
  cached_tokens: "number",
  completion_tokens: "number",
  reasoning_tokens: "number",
  audio_ms: "number",
  characters: "number",
  nanos: "number",
  unpriced: "number",
  uncertain: "number",
  estimated: "number",
} as const;

function rowsOf(table: string): Insertion {
  const adding = Object.keys(figureColumns).map((column) => {
    const figure = nameSql(column);
    return sql`${figure} = ${nameSql(table)}.${figure} + excluded.${figure}`;
  });
  return new Insertion({
    into: table,
    columns: { key_id: "text", at_ms: "number", model: "text", channel: "text", operation: "text", ...figureColumns },
    conflict: sql`on conflict (key_id, at_ms, model, channel, operation) do update set ${joinSql(adding, sql`, `)}`,
  });
}

const hourRows = rowsOf("usage_hours");
const dayRows = rowsOf("usage_days");

interface What {
  readonly keyId: string;
  readonly atMs: number;
  readonly model: string;
  readonly channel: string;
  readonly operation: string;
}

interface Sum extends What {
  readonly figures: number[];
}

class Sums {
  private readonly sums = new Map<string, Sum>();

  constructor(private readonly spanMs: number) {}

  addReceipt(receipt: Receipt): void {
    const { keyId, model, channel, operation, startedMs } = receipt;
    const what = {
      keyId: name(keyId),
      atMs: count(startedMs),
      model: name(model),
      channel: channel === null ? "" : name(channel),
      operation,
    };
    this.add(what, figuresOf(receipt));
  }

  add({ keyId, atMs, model, channel, operation }: What, figures: readonly number[]): void {
    const beganMs = atMs - (atMs % this.spanMs);
    // No name has a NUL in it.
    const key = `${keyId}\0${beganMs}\0${model}\0${channel}\0${operation}`;
    const sum = this.sums.get(key);
    if (sum === undefined) this.sums.set(key, { keyId, atMs: beganMs, model, channel, operation, figures: [...figures] });
    else for (let at = 0; at < figures.length; at += 1) sum.figures[at]! += figures[at]!;
  }

  all(): Iterable<Sum> {
    return this.sums.values();
  }

  /** In the order of the table's key: processes that add to the same sums wait for each other, and never in a circle. */
  rows(): readonly (readonly Value[])[] {
    const sorted = [...this.sums].sort(([one], [other]) => (one < other ? -1 : 1));
    return sorted.map(([, { keyId, atMs, model, channel, operation, figures }]) => [keyId, atMs, model, channel, operation, ...figures]);
  }
}

function figuresOf({ delivered, billedNanos, state, costUncertain, estimated }: Receipt): readonly number[] {
  return [
    1,
    state === "complete" ? 0 : 1,
    count(delivered.promptTokens ?? 0),
    count(delivered.cachedTokens ?? 0),
    count(delivered.completionTokens ?? 0),
    count(delivered.reasoningTokens ?? 0),
    audioMs(delivered.audioSeconds) ?? 0,
    count(delivered.characters ?? 0),
    maybeNanos(billedNanos) ?? 0,
    billedNanos === null ? 1 : 0,
    costUncertain ? 1 : 0,
    estimated ? 1 : 0,
  ];
}
