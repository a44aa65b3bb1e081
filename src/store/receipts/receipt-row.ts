import { tagsCharactersMax } from "../../keys/budget-selector.ts";
import { operations } from "../../operations/operation.ts";
import { type AttemptReceipt, type Figures, type Receipt, requestNameOf } from "../../usage/receipt.ts";
import { marksOf, type CallOutcome, type OutcomeMark } from "../../usage/call-outcome.ts";
import { BulkInsert, type ColumnTypes } from "./bulk-insert.ts";
import { expandAttempt, compactAttempt } from "./compact-attempt.ts";
import { blames, outcomes, planOf, planText, states, wordsOf, wordsText } from "./receipt-line.ts";
import { sql, type Value } from "../sql.ts";
import { parsedJson } from "../stored-json.ts";
import { ownRequestName } from "./stored-request.ts";
import { storableText, nameCharactersMax } from "../stored-text.ts";

/**
 * The rows of a receipt. All values are brought into a range that both engines accept: one odd receipt must not make the
 * transaction of all the others fail.
 */
const receiptColumns = {
  id: "text",
  request_id: "text",
  key_id: "text",
  operation: "text",
  model: "text",
  channel: "text",
  upstream_model: "text",
  stream: "number",
  status: "number",
  state: "text",
  error: "text",
  started_ms: "number",
  took_ms: "number",
  first_content_ms: "number",
  prompt_tokens: "number",
  cached_tokens: "number",
  completion_tokens: "number",
  reasoning_tokens: "number",
  audio_ms: "number",
  characters: "number",
  generated_tokens: "number",
  billed_nanos: "number",
  hedge_waste_nanos: "number",
  cost_uncertain: "number",
  estimated: "number",
  partial: "number",
  attempt_after_ms: "number",
  attempt_took_ms: "number",
  plan: "text",
  warning: "text",
  owners: "text",
  channel_tags: "text",
  marks: "text",
  cache_saved_nanos: "number",
} as const satisfies ColumnTypes;

const ofOneModel: readonly (keyof typeof receiptColumns)[] = [
  "request_id",
  "operation",
  "model",
  "channel",
  "upstream_model",
  "stream",
  "status",
  "state",
  "channel_tags",
];
const ofPlainCalls: readonly (keyof typeof receiptColumns)[] = [
  "error",
  "audio_ms",
  "characters",
  "hedge_waste_nanos",
  "cost_uncertain",
  "estimated",
  "partial",
  "plan",
  "warning",
  "marks",
  "cache_saved_nanos",
];

export const receiptRows = new BulkInsert({
  into: "receipts",
  columns: receiptColumns,
  conflict: sql`on conflict (id) do nothing`,
  identity: "id",
  storable: true,
  // One key that calls one model; many keys that do; and whoever makes plain calls without audio.
  shared: [["key_id", "owners", ...ofOneModel, ...ofPlainCalls], [...ofOneModel, ...ofPlainCalls], ofPlainCalls],
});

/** The index of a column in the values of a row. */
export function receiptColumnIndex(column: keyof typeof receiptColumns): number {
  return Object.keys(receiptColumns).indexOf(column);
}

/** `outcome`: as it is counted. */
export function receiptValues(receipt: Receipt, outcome: CallOutcome): readonly Value[] {
  const { delivered } = receipt;
  const plain = compactAttempt(receipt);
  return [
    name(receipt.id),
    maybeName(ownRequestName(receipt.requestId, receipt.id)),
    name(receipt.keyId),
    receipt.operation,
    name(receipt.model),
    maybeName(receipt.channel),
    maybeName(receipt.upstreamModel),
    flag(receipt.stream),
    status(receipt.status),
    receipt.state,
    maybeName(receipt.error),
    count(receipt.startedMs),
    count(receipt.tookMs),
    maybeCount(receipt.firstContentMs),
    maybeCount(delivered.promptTokens),
    maybeCount(delivered.cachedTokens),
    maybeCount(delivered.completionTokens),
    maybeCount(delivered.reasoningTokens),
    audioMs(delivered.audioSeconds),
    maybeCount(delivered.characters),
    maybeCount(receipt.generatedTokens),
    maybeNanos(receipt.billedNanos),
    maybeNanos(receipt.hedgeWasteNanos) ?? 0,
    flag(receipt.costUncertain),
    flag(receipt.estimated),
    flag(receipt.partial),
    plain === null ? null : count(plain.afterMs),
    plain === null ? null : count(plain.tookMs),
    text(planText(receipt.plan)),
    maybeName(receipt.warning),
    maybeOwners(wordsText(receipt.owners)),
    maybeTags(wordsText(receipt.channelTags)),
    maybeMarks(marksOf(outcome)),
    maybeSigned(receipt.cacheSavedNanos),
  ];
}

const attemptColumns = {
  receipt_id: "text",
  number: "number",
  channel: "text",
  model: "text",
  after_ms: "number",
  took_ms: "number",
  outcome: "text",
  status: "number",
  error: "text",
  blame: "text",
  hedge: "number",
  prompt_tokens: "number",
  cached_tokens: "number",
  completion_tokens: "number",
  reasoning_tokens: "number",
  audio_ms: "number",
  characters: "number",
  nanos: "number",
  cost_uncertain: "number",
  estimated: "number",
} as const satisfies ColumnTypes;

function attemptColumnIndex(column: keyof typeof attemptColumns): number {
  return Object.keys(attemptColumns).indexOf(column);
}

/** The places of some columns in the values of an attempt. */
export const attemptColumn = {
  channel: attemptColumnIndex("channel"),
  model: attemptColumnIndex("model"),
  outcome: attemptColumnIndex("outcome"),
  status: attemptColumnIndex("status"),
  error: attemptColumnIndex("error"),
  hedge: attemptColumnIndex("hedge"),
  promptTokens: attemptColumnIndex("prompt_tokens"),
  cachedTokens: attemptColumnIndex("cached_tokens"),
  completionTokens: attemptColumnIndex("completion_tokens"),
  reasoningTokens: attemptColumnIndex("reasoning_tokens"),
  audioMs: attemptColumnIndex("audio_ms"),
  characters: attemptColumnIndex("characters"),
  nanos: attemptColumnIndex("nanos"),
  costUncertain: attemptColumnIndex("cost_uncertain"),
  estimated: attemptColumnIndex("estimated"),
} as const;

export const attemptRows = new BulkInsert({
  into: "attempts",
  columns: attemptColumns,
  conflict: sql`on conflict (receipt_id, number) do nothing`,
  storable: true,
});

/** Empty if the attempt is stored in the receipt's own row. */
export function attemptValues(receipt: Receipt): readonly (readonly Value[])[] {
  if (compactAttempt(receipt) !== null) return [];
  return receipt.attempts.map((attempt, at) => valuesOf(name(receipt.id), at + 1, attempt));
}

function valuesOf(receiptId: string, number: number, attempt: AttemptReceipt): readonly Value[] {
  return [
    receiptId,
    number,
    name(attempt.channel),
    name(attempt.model),
    count(attempt.afterMs),
    count(attempt.tookMs),
    attempt.outcome,
    attempt.status === null ? null : status(attempt.status),
    maybeName(attempt.error),
    attempt.blame,
    flag(attempt.hedge),
    maybeCount(attempt.promptTokens),
    maybeCount(attempt.cachedTokens),
    maybeCount(attempt.completionTokens),
    maybeCount(attempt.reasoningTokens),
    audioMs(attempt.audioSeconds),
    maybeCount(attempt.characters),
    maybeNanos(attempt.nanos),
    flag(attempt.costUncertain),
    flag(attempt.estimated),
  ];
}

/** Whole milliseconds, because seconds have a fraction. */
export function audioMs(seconds: number | null): number | null {
  return seconds === null ? null : count(seconds * 1_000);
}

/** A value that can be summed. */
export function count(value: number): number {
  return bounded(value, countMax);
}

export function maybeCount(value: number | null): number | null {
  return value === null ? null : count(value);
}

export function maybeNanos(value: number | null): number | null {
  return value === null ? null : bounded(value, nanosMax);
}

/** Indexed text must be short, and the same in the receipt and in its sums. `isPlain`: the characters are known to be storable. */
export function name(value: string, isPlain = false): string {
  const isStorable = value.length <= nameCharactersMax && (isPlain || (value.isWellFormed() && !value.includes("\0")));
  return isStorable ? value : storableText(value, nameCharactersMax);
}

export function maybeName(value: string | null, isPlain = false): string | null {
  return value === null ? null : name(value, isPlain);
}

/** The ids of owners, of which none may be lost; null if there are none. */
export function maybeOwners(words: string | null): string | null {
  return words === null || words === "" ? null : storableText(words, ownersCharactersMax);
}

/** Tags, cut to a length that a primary key may have; null if there are none. */
export function maybeTags(words: string | null): string | null {
  if (words === null || words === "") return null;
  const end = words.length <= tagsCharactersMax ? words.length : Math.max(0, words.lastIndexOf(" ", tagsCharactersMax));
  return end === 0 ? null : storableText(words.slice(0, end), tagsCharactersMax);
}

/** What was special about a call; null if nothing was. */
export function maybeMarks(marks: readonly OutcomeMark[]): string | null {
  return marks.length === 0 ? null : wordsText(marks);
}

/** Money that may have been lost. */
export function maybeSigned(nanos: number | null): number | null {
  if (nanos === null) return null;
  return nanos < 0 ? -bounded(-nanos, nanosMax) : bounded(nanos, nanosMax);
}

function text(value: string | null): string | null {
  return value?.replaceAll("\0", "").toWellFormed() ?? null;
}

export function status(value: number): number {
  return bounded(value, 999);
}

export function flag(value: boolean): number {
  return value ? 1 : 0;
}

function bounded(value: number, max: number): number {
  // Nearly all values are small integers.
  const whole = value | 0;
  if (whole === value && whole >= 0 && whole <= max) return whole;
  return Number.isNaN(value) ? 0 : Math.round(Math.min(max, Math.max(0, value)));
}

/** More than any call can use, and small enough that sums stay within 64 bits. */
const countMax = 1e13;
/** A key and three groups. */
const ownersCharactersMax = 4 * (nameCharactersMax + 1);
/** One million dollars. */
const nanosMax = 1e15;

export type ReceiptRow = Readonly<Record<string, string | number | bigint | null>>;

export function receiptOfRow(row: ReceiptRow, attempts: readonly ReceiptRow[]): Receipt {
  const read = new RowReader(row);
  const id = read.text("id");
  const receipt: Receipt = {
    id,
    requestId: read.maybeText("request_id") ?? requestNameOf(id),
    keyId: read.text("key_id"),
    operation: read.oneOf("operation", operations),
    model: read.text("model"),
    channel: read.maybeText("channel"),
    upstreamModel: read.maybeText("upstream_model"),
    stream: read.flag("stream"),
    status: read.number("status"),
    state: read.oneOf("state", states),
    error: read.maybeText("error"),
    startedMs: read.number("started_ms"),
    tookMs: read.number("took_ms"),
    firstContentMs: read.maybeNumber("first_content_ms"),
    delivered: figuresOf(read),
    generatedTokens: read.maybeNumber("generated_tokens"),
    billedNanos: read.maybeNumber("billed_nanos"),
    hedgeWasteNanos: read.number("hedge_waste_nanos"),
    costUncertain: read.flag("cost_uncertain"),
    estimated: read.flag("estimated"),
    partial: read.flag("partial"),
    warning: read.maybeText("warning"),
    finish: finishIn(wordsOf(read.maybeText("marks")), read.maybeText("error")),
    cacheSavedNanos: read.maybeNumber("cache_saved_nanos"),
    owners: wordsOf(read.maybeText("owners")),
    channelTags: wordsOf(read.maybeText("channel_tags")),
    attempts: attempts.map((attempt) => attemptOf(new RowReader(attempt))),
    plan: storedPlan(read.maybeText("plan")),
  };
  const afterMs = read.maybeNumber("attempt_after_ms");
  if (afterMs === null) return receipt;
  return { ...receipt, attempts: [expandAttempt({ afterMs, tookMs: read.number("attempt_took_ms") }, receipt)] };
}

/** A refusal of the request has an error, and no end. */
function finishIn(marks: readonly string[], error: string | null): Receipt["finish"] {
  if (marks.includes("truncated")) return "length";
  return marks.includes("refused") && error !== "content_policy" ? "content_filter" : null;
}

function attemptOf(read: RowReader): AttemptReceipt {
  return {
    channel: read.text("channel"),
    model: read.text("model"),
    afterMs: read.number("after_ms"),
    tookMs: read.number("took_ms"),
    outcome: read.oneOf("outcome", outcomes),
    status: read.maybeNumber("status"),
    error: read.maybeText("error"),
    blame: read.maybeText("blame") === null ? null : read.oneOf("blame", blames),
    hedge: read.flag("hedge"),
    nanos: read.maybeNumber("nanos"),
    costUncertain: read.flag("cost_uncertain"),
    estimated: read.flag("estimated"),
    ...figuresOf(read),
  };
}

function figuresOf(read: RowReader): Figures {
  const audio = read.maybeNumber("audio_ms");
  return {
    promptTokens: read.maybeNumber("prompt_tokens"),
    cachedTokens: read.maybeNumber("cached_tokens"),
    completionTokens: read.maybeNumber("completion_tokens"),
    reasoningTokens: read.maybeNumber("reasoning_tokens"),
    audioSeconds: audio === null ? null : audio / 1_000,
    characters: read.maybeNumber("characters"),
  };
}

/** Plans are for display only: one that this version cannot parse is left out. */
function storedPlan(plan: string | null): Receipt["plan"] {
  if (plan === null) return null;
  try {
    return planOf(parsedJson(plan));
  } catch {
    return null;
  }
}

class RowReader {
  constructor(private readonly row: ReceiptRow) {}

  text(column: string): string {
    return String(this.row[column] ?? "");
  }

  maybeText(column: string): string | null {
    const value = this.row[column];
    return value === null || value === undefined ? null : String(value);
  }

  number(column: string): number {
    return Number(this.row[column] ?? 0);
  }

  maybeNumber(column: string): number | null {
    const value = this.row[column];
    return value === null || value === undefined ? null : Number(value);
  }

  flag(column: string): boolean {
    return this.number(column) !== 0;
  }

  /** Unknown words, from a newer version, are returned as they are: receipts are only displayed. */
  oneOf<T extends string>(column: string, known: readonly T[]): T {
    const value = this.text(column);
    return known.find((word) => word === value) ?? (value as T);
  }
}
