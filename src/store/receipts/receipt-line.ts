import { operations, type Operation } from "../../operations/operation.ts";
import type { AttemptReceipt, Figures, ReceiptOpening, PlannedStep, Receipt } from "../../usage/receipt.ts";
import { textBytesMax } from "../journal/frame.ts";
import { Parts } from "./array-reader.ts";
import { attemptFrom, plainAttempt } from "./compact-attempt.ts";
import { ownRequestName } from "./stored-request.ts";
import { nameCharactersMax } from "../stored-text.ts";
import { requestNameOf } from "../../usage/request-name.ts";

/**
 * What a journal says, a line at a time. A line is a JSON array whose first element tells its kind: without the names of
 * fields it takes less than half of the bytes, and no longer to make. New fields go to the end.
 */
export type Line =
  | { readonly kind: "head"; readonly head: Head }
  | { readonly kind: "opening"; readonly opening: ReceiptOpening }
  | { readonly kind: "receipt"; readonly receipt: Receipt };

export const receiptKind = 2;

/** What every segment begins with. */
export interface Head {
  /** Different for every segment there ever was, on any machine. */
  readonly segment: string;
  /** The same for all segments of one process. */
  readonly life: string;
  /** Under which name the process holds money of budgets. */
  readonly holder: string;
  /** How many receipts the process had kept before it. */
  readonly receipts: number;
  /** How many calls were under way: their openings follow. */
  readonly underWay: number;
}

export function headLine({ segment, life, holder, receipts, underWay }: Head): string {
  return JSON.stringify([0, segment, life, holder, receipts, underWay]);
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
  const plain = plainAttempt(receipt);
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
export function lineOf(text: string): Line | null {
  try {
    return lineOfParsed(JSON.parse(text));
  } catch {
    return null;
  }
}

/** Throws where the line has a wrong shape. */
export function lineOfParsed(line: unknown): Line | null {
  const parts = new Parts(line);
  switch (parts.next()) {
    case 0:
      return { kind: "head", head: headOf(parts) };
    case 1:
      return { kind: "opening", opening: openingOf(parts) };
    case receiptKind:
      return { kind: "receipt", receipt: receiptOf(parts) };
    default:
      return null;
  }
}

function headOf(parts: Parts): Head {
  return { segment: parts.text(), life: parts.text(), holder: parts.text(), receipts: parts.number(), underWay: parts.number() };
}

function openingOf(parts: Parts): ReceiptOpening {
  const id = parts.text();
  return {
    id,
    requestId: parts.maybeText() ?? requestNameOf(id),
    keyId: parts.text(),
    operation: parts.oneOf(operations),
    model: parts.text(),
    stream: parts.flag(),
    startedMs: parts.number(),
    promptTokens: parts.maybeNumber(),
    audioSeconds: parts.maybeNumber(),
    characters: parts.maybeNumber(),
    nanos: parts.maybeNumber(),
  };
}

function receiptOf(parts: Parts): Receipt {
  const id = parts.text();
  const attempts: AttemptReceipt[] = [];
  const receipt: Mutable<Receipt> = {
    id,
    requestId: parts.maybeText() ?? requestNameOf(id),
    keyId: parts.text(),
    operation: parts.oneOf<Operation>(operations),
    model: parts.text(),
    channel: parts.maybeText(),
    upstreamModel: parts.maybeText(),
    stream: parts.flag(),
    status: parts.number(),
    state: parts.oneOf(states),
    error: parts.maybeText(),
    startedMs: parts.number(),
    tookMs: parts.number(),
    firstContentMs: parts.maybeNumber(),
    generatedTokens: parts.maybeNumber(),
    billedNanos: parts.maybeNumber(),
    hedgeWasteNanos: parts.number(),
    costUncertain: parts.flag(),
    estimated: parts.flag(),
    partial: parts.flag(),
    plan: planOf(parts.next()),
    delivered: figuresOf(parts),
    warning: null,
    attempts,
  };
  const afterMs = parts.maybeNumber();
  if (afterMs !== null) attempts.push(attemptFrom({ afterMs, tookMs: parts.number() }, receipt));
  else for (const attempt of parts.list()) attempts.push(attemptOf(new Parts(attempt)));
  receipt.warning = parts.lastText();
  return receipt;
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] };

function figuresOf(parts: Parts): Figures {
  return {
    promptTokens: parts.maybeNumber(),
    cachedTokens: parts.maybeNumber(),
    completionTokens: parts.maybeNumber(),
    reasoningTokens: parts.maybeNumber(),
    audioSeconds: parts.maybeNumber(),
    characters: parts.maybeNumber(),
  };
}

function attemptOf(parts: Parts): AttemptReceipt {
  return {
    channel: parts.text(),
    model: parts.text(),
    afterMs: parts.number(),
    tookMs: parts.number(),
    outcome: parts.oneOf(outcomes),
    status: parts.maybeNumber(),
    error: parts.maybeText(),
    blame: parts.maybeOneOf(blames),
    hedge: parts.flag(),
    nanos: parts.maybeNumber(),
    costUncertain: parts.flag(),
    estimated: parts.flag(),
    ...figuresOf(parts),
  };
}

/** Also as it stands in the store, where it is text. */
export function planOf(plan: unknown): readonly PlannedStep[] | null {
  return Array.isArray(plan) ? plan.map((step) => stepOf(new Parts(step))) : null;
}

function stepOf(parts: Parts): PlannedStep {
  return {
    channel: parts.text(),
    model: parts.text(),
    tier: parts.maybeNumber(),
    verdict: parts.text(),
    cause: parts.maybeText(),
    forMs: parts.maybeNumber(),
  };
}

export function planText(plan: Receipt["plan"]): string | null {
  if (plan === null) return null;
  return JSON.stringify(plan.map(({ channel, model, tier, verdict, cause, forMs }) => [channel, model, tier, verdict, cause, forMs]));
}

export const states: readonly Receipt["state"][] = ["complete", "failed", "interrupted", "abandoned", "unknown"];
export const outcomes: readonly AttemptReceipt["outcome"][] = ["answered", "failed", "abandoned"];
export const blames: readonly NonNullable<AttemptReceipt["blame"]>[] = ["client", "channel", "gateway"];
