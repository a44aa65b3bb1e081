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
 * What a journal says, a line at a time. A line is a JSON array whose first element tells its kind: without the names of
 * fields it takes less than half of the bytes, and no longer to make. New fields go to the end.
 */
export type JournalLine =
  | { readonly kind: "head"; readonly head: SegmentHeader }
  | { readonly kind: "opening"; readonly opening: ReceiptOpening }
  | { readonly kind: "receipt"; readonly receipt: Receipt };

export const receiptKind = 2;

/** What every segment begins with. */
export interface SegmentHeader {
  /** Different for every segment there ever was, on any machine. */
  readonly segment: string;
  /** The same for all segments of one process. */
  readonly life: string;
  /** Under which name the process holds money of budgets. */
  readonly holder: string;
  /** How many receipts the process had kept before it. */
  readonly receipts: number;
  /** How many calls were under way: their openings follow. */
  readonly inFlight: number;
}

export function headLine({ segment, life, holder, receipts, inFlight }: SegmentHeader): string {
  return JSON.stringify([0, segment, life, holder, receipts, inFlight]);
}

export function openingLine(opening: ReceiptOpening): string {
  return JSON.stringify([
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
  ]);
}

export function receiptLine(receipt: Receipt): string {
  const line = lineWith(receipt, receipt.plan);
  return line.length * 3 <= textBytesMax ? line : lineWith(receipt, null);
}

/** The only attempt is kept as a pair of numbers, where that is all it has to tell; otherwise there is a list of attempts. */
function lineWith(receipt: Receipt, plan: Receipt["plan"]): string {
  const { delivered } = receipt;
  const plain = compactAttempt(receipt);
  return JSON.stringify([
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
    // Few have one.
    ...(receipt.warning === null ? none : [receipt.warning]),
  ]);
}

const none: readonly string[] = [];

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

/** Names that clients choose are indexed, and PostgreSQL takes no long ones there. */
function clipped(text: string): string {
  return text.length <= nameCharactersMax ? text : text.slice(0, nameCharactersMax);
}

/** Far beyond what the routing rules allow. */
const attemptsMax = 1_000;

/** Which kind of line a text is, told from its beginning without reading all of it. */
export function isOpeningLine(text: string): boolean {
  return text.startsWith("[1,");
}

/** What a line says; null where it is none that this version knows. */
export function lineOf(text: string): JournalLine | null {
  try {
    return lineOfParsed(JSON.parse(text));
  } catch {
    return null;
  }
}

/** Throws where the line has a wrong shape. */
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
  return { segment: fields.text(), life: fields.text(), holder: fields.text(), receipts: fields.number(), inFlight: fields.number() };
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
  };
}

function receiptOf(fields: ArrayReader): Receipt {
  const id = fields.text();
  const attempts: AttemptReceipt[] = [];
  // The warning stands last in the line.
  const receipt: Omit<Receipt, "warning"> & { warning: string | null } = {
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
    warning: null,
    attempts,
  };
  const afterMs = fields.maybeNumber();
  if (afterMs !== null) attempts.push(expandAttempt({ afterMs, tookMs: fields.number() }, receipt));
  else for (const attempt of fields.list()) attempts.push(attemptOf(new ArrayReader(attempt)));
  receipt.warning = fields.lastText();
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

/** Also as it stands in the store, where it is text. */
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

export const states: readonly Receipt["state"][] = ["complete", "failed", "interrupted", "abandoned", "unknown"];
export const outcomes: readonly AttemptReceipt["outcome"][] = ["answered", "failed", "abandoned"];
export const blames: readonly NonNullable<AttemptReceipt["blame"]>[] = ["client", "channel", "gateway"];
