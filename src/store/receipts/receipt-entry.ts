import { operations } from "../../operations/operation.ts";
import type { Receipt } from "../../usage/receipt.ts";
import { ArrayReader } from "./array-reader.ts";
import { marksOf, outcomeOf, type CallOutcome, type JudgedAttempt, type JudgedCall } from "../../usage/call-outcome.ts";
import { blames, finishOf, outcomes, receiptKind, states } from "./receipt-line.ts";
import {
  attemptColumn,
  attemptValues,
  audioMs,
  count,
  flag,
  maybeCount,
  maybeMarks,
  maybeName,
  maybeNanos,
  maybeOwners,
  maybeSigned,
  maybeTags,
  name,
  receiptValues,
  status,
} from "./receipt-row.ts";
import type { Value } from "../sql.ts";

/** The rows of a receipt: its own values, and those of its attempts unless they are stored in compact form. */
export interface ReceiptEntry {
  readonly row: readonly Value[];
  readonly attempts: readonly (readonly Value[])[];
  /** What is counted besides usage; null for a plain success. */
  readonly outcome: CallOutcome | null;
}

export function entryOf(receipt: Receipt): ReceiptEntry {
  const attempts = attemptValues(receipt);
  const outcome = countedOutcome(receipt, attempts);
  return { row: receiptValues(receipt, outcome), attempts, outcome: Object.keys(outcome).length === 0 ? null : outcome };
}

/** The same for a plain success: where caches are used, that is nearly every call. */
function cacheOutcome(nanos: number): CallOutcome {
  return nanos === 0 ? {} : { cache_saved_nanos: nanos };
}

/** From values that can be summed. */
function countedOutcome(call: Omit<JudgedCall, "attempts">, attempts: ReceiptEntry["attempts"]): CallOutcome {
  const { state, error, finish, hedgeWasteNanos, cacheSavedNanos } = call;
  return outcomeOf({
    state,
    error,
    finish,
    hedgeWasteNanos: maybeNanos(hedgeWasteNanos) ?? 0,
    cacheSavedNanos: maybeSigned(cacheSavedNanos),
    attempts: attempts.map(judgedAttempt),
  });
}

/**
 * The entry of a journal line; null for lines of another kind. It is the same as `entryOf` of the parsed receipt, without creating
 * that object, because thousands of lines per second go through here. `isPlain`: the texts contain only characters that each
 * database accepts. Throws if the line has an unexpected shape.
 */
export function entryOfLine(line: unknown, isPlain = false): ReceiptEntry | null {
  const fields = new ArrayReader(line);
  if (fields.next() !== receiptKind) return null;
  const id = name(fields.text(), isPlain);
  const requestId = fields.maybeText();
  const keyId = fields.text();
  const operation = fields.oneOf(operations);
  const model = fields.text();
  const channel = fields.maybeText();
  const upstreamModel = fields.maybeText();
  const stream = fields.flag();
  const httpStatus = fields.number();
  const state = fields.oneOf(states);
  const error = fields.maybeText();
  const startedMs = fields.number();
  const tookMs = fields.number();
  const firstContentMs = fields.maybeNumber();
  const generatedTokens = fields.maybeNumber();
  const billedNanos = fields.maybeNumber();
  const hedgeWasteNanos = fields.number();
  const costUncertain = fields.flag();
  const estimated = fields.flag();
  const partial = fields.flag();
  const plan = fields.next();
  const promptTokens = fields.maybeNumber();
  const cachedTokens = fields.maybeNumber();
  const completionTokens = fields.maybeNumber();
  const reasoningTokens = fields.maybeNumber();
  const audioSeconds = fields.maybeNumber();
  const characters = fields.maybeNumber();
  const attemptAfterMs = fields.maybeNumber();
  const attemptTookMs = attemptAfterMs === null ? null : fields.number();
  const attempts = attemptAfterMs === null ? fields.list().map((attempt, at) => attemptOfLine(id, at + 1, new ArrayReader(attempt))) : none;
  const warning = maybeName(fields.lastText(), isPlain);
  const owners = maybeOwners(fields.lastText());
  const tags = maybeTags(fields.lastText());
  const finish = finishOf(fields.lastText());
  const cacheSavedNanos = fields.lastNumber();
  const isSpecial = finish !== null || hedgeWasteNanos !== 0 || attempts.length > 0 || state !== "complete";
  const outcome = isSpecial
    ? countedOutcome({ state, error, finish, hedgeWasteNanos, cacheSavedNanos }, attempts)
    : cacheSavedNanos === null
      ? null
      : cacheOutcome(maybeSigned(cacheSavedNanos) ?? 0);
  return {
    row: [
      id,
      maybeName(requestId, isPlain),
      name(keyId, isPlain),
      operation,
      name(model, isPlain),
      maybeName(channel, isPlain),
      maybeName(upstreamModel, isPlain),
      flag(stream),
      status(httpStatus),
      state,
      maybeName(error, isPlain),
      count(startedMs),
      count(tookMs),
      maybeCount(firstContentMs),
      maybeCount(promptTokens),
      maybeCount(cachedTokens),
      maybeCount(completionTokens),
      maybeCount(reasoningTokens),
      audioMs(audioSeconds),
      maybeCount(characters),
      maybeCount(generatedTokens),
      maybeNanos(billedNanos),
      maybeNanos(hedgeWasteNanos),
      flag(costUncertain),
      flag(estimated),
      flag(partial),
      maybeCount(attemptAfterMs),
      maybeCount(attemptTookMs),
      Array.isArray(plan) ? JSON.stringify(plan) : null,
      warning,
      owners,
      tags,
      outcome === null ? null : maybeMarks(marksOf(outcome)),
      maybeSigned(cacheSavedNanos),
    ],
    attempts,
    outcome: outcome === null || Object.keys(outcome).length === 0 ? null : outcome,
  };
}

function judgedAttempt(values: readonly Value[]): JudgedAttempt {
  return {
    channel: values[attemptColumn.channel] as string,
    outcome: values[attemptColumn.outcome] as JudgedAttempt["outcome"],
    status: values[attemptColumn.status] as number | null,
    error: values[attemptColumn.error] as string | null,
    hedge: values[attemptColumn.hedge] === 1,
    promptTokens: values[attemptColumn.promptTokens] as number | null,
    completionTokens: values[attemptColumn.completionTokens] as number | null,
    nanos: values[attemptColumn.nanos] as number | null,
  };
}

function attemptOfLine(receiptId: string, number: number, fields: ArrayReader): readonly Value[] {
  const channel = name(fields.text());
  const model = name(fields.text());
  const afterMs = count(fields.number());
  const tookMs = count(fields.number());
  const outcome = fields.oneOf(outcomes);
  const httpStatus = fields.maybeNumber();
  const error = maybeName(fields.maybeText());
  const blame = fields.maybeOneOf(blames);
  const hedge = flag(fields.flag());
  const nanos = maybeNanos(fields.maybeNumber());
  const costUncertain = flag(fields.flag());
  const estimated = flag(fields.flag());
  return [
    receiptId,
    number,
    channel,
    model,
    afterMs,
    tookMs,
    outcome,
    httpStatus === null ? null : status(httpStatus),
    error,
    blame,
    hedge,
    maybeCount(fields.maybeNumber()),
    maybeCount(fields.maybeNumber()),
    maybeCount(fields.maybeNumber()),
    maybeCount(fields.maybeNumber()),
    audioMs(fields.maybeNumber()),
    maybeCount(fields.maybeNumber()),
    nanos,
    costUncertain,
    estimated,
  ];
}

const none: readonly (readonly Value[])[] = [];
