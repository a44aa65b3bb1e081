import { operations, type Operation } from "../../operations/operation.ts";
import {
  type AttemptReceipt,
  type Figures,
  type ReceiptOpening,
  type PlannedStep,
  type Receipt,
  requestNameOf,
} from "../../usage/receipt.ts";
import { textBytesMax } from "../journal/frame.ts";
import { ArrayReader } from "./array-reader.ts";
import { expandAttempt, compactAttempt } from "./compact-attempt.ts";
import { ownRequestName } from "./stored-request.ts";
import { nameCharactersMax } from "../stored-text.ts";

/**
 * The lines of a journal. Each is a JSON array whose first element says its kind: without field names it has less than half the
 * size. New fields are added at the end.
 */
export type JournalLine =
  | { readonly kind: "head"; readonly head: SegmentHeader }
  | { readonly kind: "opening"; readonly opening: ReceiptOpening }
  | { readonly kind: "receipt"; readonly receipt: Receipt };

export const receiptKind = 2;

/** The first line of each segment. */
export interface SegmentHeader {
  /** Unique for each segment on any machine. */
  readonly segment: string;
  /** The same for all segments of one process. */
  readonly runId: string;
  /** The name under which the process holds money of budgets. */
  readonly holder: string;
  /** How many receipts the process had written before this segment. */
  readonly receipts: number;
  /** How many calls were running: their openings follow. */
  readonly inFlight: number;
}

export function headLine({ segment, runId, holder, receipts, inFlight }: SegmentHeader): string {
  return JSON.stringify([0, segment, runId, holder, receipts, inFlight]);
}

export function openingLine(opening: ReceiptOpening): string {
  const fields: unknown[] = [
    1,
    opening.id,
    ownName(opening.requestId, opening.id),
    opening.keyId,
    opening.operation,
    clipped(opening.model),
    opening.stream,
    opening.startedMs,
    opening.promptTokens,
    opening.audioSeconds,
    opening.characters,
    opening.nanos,
    ownersText(opening.owners),
  ];
  // Optional, because few installations have groups.
  if (opening.owners.length === 0) fields.length -= 1;
  return JSON.stringify(fields);
}

export function receiptLine(receipt: Receipt): string {
  const line = lineWith(receipt, receipt.plan);
  return line.length * 3 <= textBytesMax ? line : lineWith(receipt, null);
}

/** A single attempt is stored as two numbers if it can be compact; otherwise there is a list of attempts. */
function lineWith(receipt: Receipt, plan: Receipt["plan"]): string {
  const { delivered } = receipt;
  const plain = compactAttempt(receipt);
  const fields: unknown[] = [
    receiptKind,
    receipt.id,
    ownName(receipt.requestId, receipt.id),
    receipt.keyId,
    receipt.operation,
    clipped(receipt.model),
    receipt.channel,
    receipt.upstreamModel,
    receipt.stream,
    receipt.status,
    receipt.state,
    receipt.error,
    receipt.startedMs,
    receipt.tookMs,
    receipt.firstContentMs,
    receipt.generatedTokens,
    receipt.billedNanos,
    receipt.hedgeWasteNanos,
    receipt.costUncertain,
    receipt.estimated,
    receipt.partial,
    plan?.map(({ channel, model, tier, verdict, cause, forMs }) => [channel, clipped(model), tier, verdict, cause, forMs]) ?? null,
    delivered.promptTokens,
    delivered.cachedTokens,
    delivered.completionTokens,
    delivered.reasoningTokens,
    delivered.audioSeconds,
    delivered.characters,
    plain === null ? null : plain.afterMs,
    plain === null ? receipt.attempts.slice(0, attemptsMax).map(attemptPart) : plain.tookMs,
    receipt.warning,
    ownersText(receipt.owners),
    wordsText(receipt.channelTags),
    receipt.finish,
    receipt.cacheSavedNanos,
  ];
  // Cut off where they say nothing: a list that grows instead is allocated again.
  fields.length -= emptyAtEnd(receipt);
  return JSON.stringify(fields);
}

/** How many of the last five fields are not needed, because few receipts have them. */
function emptyAtEnd({ warning, owners, finish, cacheSavedNanos }: Receipt): number {
  if (finish !== null || cacheSavedNanos !== null) return 0;
  if (owners.length > 0) return 2;
  return warning === null ? 5 : 4;
}

const none: readonly string[] = [];

/** The calls of a key share one list of owners, which two lines of each call name. */
function ownersText(owners: readonly string[]): string {
  if (owners.length === 0) return "";
  let text = ownersTexts.get(owners);
  if (text === undefined) ownersTexts.set(owners, (text = wordsText(owners)));
  return text;
}

const ownersTexts = new WeakMap<readonly string[], string>();

/** Ids and tags without spaces as one text. */
export function wordsText(words: readonly string[]): string {
  return words.join(" ");
}

export function wordsOf(text: string | null): readonly string[] {
  return text === null || text === "" ? none : text.split(" ");
}

function attemptPart(attempt: AttemptReceipt): readonly unknown[] {
  return [
    attempt.channel,
    clipped(attempt.model),
    attempt.afterMs,
    attempt.tookMs,
    attempt.outcome,
    attempt.status,
    attempt.error,
    attempt.blame,
    attempt.hedge,
    attempt.nanos,
    attempt.costUncertain,
    attempt.estimated,
    attempt.promptTokens,
    attempt.cachedTokens,
    attempt.completionTokens,
    attempt.reasoningTokens,
    attempt.audioSeconds,
    attempt.characters,
  ];
}

function ownName(requestId: string, receiptId: string): string | null {
  const own = ownRequestName(requestId, receiptId);
  return own === null ? null : clipped(own);
}

/** PostgreSQL limits the length of indexed text, and clients choose these names. */
function clipped(text: string): string {
  return text.length <= nameCharactersMax ? text : text.slice(0, nameCharactersMax);
}

/** Far more than the routing rules allow. */
const attemptsMax = 1_000;

/** Looks only at the first characters, because it runs for each line. */
export function isOpeningLine(text: string): boolean {
  return text.startsWith("[1,");
}

/** Null for a line that this version does not know. */
export function lineOf(text: string): JournalLine | null {
  try {
    return lineOfParsed(JSON.parse(text));
  } catch {
    return null;
  }
}

/** Throws if the line has an unexpected shape. */
export function lineOfParsed(line: unknown): JournalLine | null {
  const fields = new ArrayReader(line);
  switch (fields.next()) {
    case 0:
      return { kind: "head", head: headOf(fields) };
    case 1:
      return { kind: "opening", opening: openingOf(fields) };
    case receiptKind:
      return { kind: "receipt", receipt: receiptOf(fields) };
    default:
      return null;
  }
}

function headOf(fields: ArrayReader): SegmentHeader {
  return { segment: fields.text(), runId: fields.text(), holder: fields.text(), receipts: fields.number(), inFlight: fields.number() };
}

function openingOf(fields: ArrayReader): ReceiptOpening {
  const id = fields.text();
  return {
    id,
    requestId: fields.maybeText() ?? requestNameOf(id),
    keyId: fields.text(),
    operation: fields.oneOf(operations),
    model: fields.text(),
    stream: fields.flag(),
    startedMs: fields.number(),
    promptTokens: fields.maybeNumber(),
    audioSeconds: fields.maybeNumber(),
    characters: fields.maybeNumber(),
    nanos: fields.maybeNumber(),
    owners: wordsOf(fields.lastText()),
  };
}

interface LastFields {
  warning: string | null;
  owners: readonly string[];
  channelTags: readonly string[];
  finish: Receipt["finish"];
  cacheSavedNanos: number | null;
}

function receiptOf(fields: ArrayReader): Receipt {
  const id = fields.text();
  const attempts: AttemptReceipt[] = [];
  // These stand last in the line.
  const last: LastFields = { warning: null, owners: none, channelTags: none, finish: null, cacheSavedNanos: null };
  const receipt: Omit<Receipt, keyof LastFields> & LastFields = {
    id,
    requestId: fields.maybeText() ?? requestNameOf(id),
    keyId: fields.text(),
    operation: fields.oneOf<Operation>(operations),
    model: fields.text(),
    channel: fields.maybeText(),
    upstreamModel: fields.maybeText(),
    stream: fields.flag(),
    status: fields.number(),
    state: fields.oneOf(states),
    error: fields.maybeText(),
    startedMs: fields.number(),
    tookMs: fields.number(),
    firstContentMs: fields.maybeNumber(),
    generatedTokens: fields.maybeNumber(),
    billedNanos: fields.maybeNumber(),
    hedgeWasteNanos: fields.number(),
    costUncertain: fields.flag(),
    estimated: fields.flag(),
    partial: fields.flag(),
    plan: planOf(fields.next()),
    delivered: figuresOf(fields),
    ...last,
    attempts,
  };
  const afterMs = fields.maybeNumber();
  if (afterMs !== null) attempts.push(expandAttempt({ afterMs, tookMs: fields.number() }, receipt));
  else for (const attempt of fields.list()) attempts.push(attemptOf(new ArrayReader(attempt)));
  receipt.warning = fields.lastText();
  receipt.owners = wordsOf(fields.lastText());
  receipt.channelTags = wordsOf(fields.lastText());
  receipt.finish = finishOf(fields.lastText());
  receipt.cacheSavedNanos = fields.lastNumber();
  return receipt;
}

function figuresOf(fields: ArrayReader): Figures {
  return {
    promptTokens: fields.maybeNumber(),
    cachedTokens: fields.maybeNumber(),
    completionTokens: fields.maybeNumber(),
    reasoningTokens: fields.maybeNumber(),
    audioSeconds: fields.maybeNumber(),
    characters: fields.maybeNumber(),
  };
}

function attemptOf(fields: ArrayReader): AttemptReceipt {
  return {
    channel: fields.text(),
    model: fields.text(),
    afterMs: fields.number(),
    tookMs: fields.number(),
    outcome: fields.oneOf(outcomes),
    status: fields.maybeNumber(),
    error: fields.maybeText(),
    blame: fields.maybeOneOf(blames),
    hedge: fields.flag(),
    nanos: fields.maybeNumber(),
    costUncertain: fields.flag(),
    estimated: fields.flag(),
    ...figuresOf(fields),
  };
}

/** Also parses the plan that is stored in the database, as JSON. */
export function planOf(plan: unknown): readonly PlannedStep[] | null {
  return Array.isArray(plan) ? plan.map((step) => stepOf(new ArrayReader(step))) : null;
}

function stepOf(fields: ArrayReader): PlannedStep {
  return {
    channel: fields.text(),
    model: fields.text(),
    tier: fields.maybeNumber(),
    verdict: fields.text(),
    cause: fields.maybeText(),
    forMs: fields.maybeNumber(),
  };
}

export function planText(plan: Receipt["plan"]): string | null {
  if (plan === null) return null;
  return JSON.stringify(plan.map(({ channel, model, tier, verdict, cause, forMs }) => [channel, model, tier, verdict, cause, forMs]));
}

/** Null for one that this version does not know. */
export function finishOf(text: string | null): Receipt["finish"] {
  return text === "length" || text === "content_filter" ? text : null;
}

export const states: readonly Receipt["state"][] = ["complete", "failed", "interrupted", "abandoned", "unknown"];
export const outcomes: readonly AttemptReceipt["outcome"][] = ["answered", "failed", "abandoned"];
export const blames: readonly NonNullable<AttemptReceipt["blame"]>[] = ["client", "channel", "gateway"];
