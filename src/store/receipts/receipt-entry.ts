import { operations } from "../../operations/operation.ts";
import type { Receipt } from "../../usage/receipt.ts";
import { Parts } from "./array-reader.ts";
import { blames, outcomes, receiptKind, states } from "./receipt-line.ts";
import { attemptValues, audioMs, count, flag, maybeCount, maybeName, maybeNanos, name, receiptValues, status } from "./receipt-row.ts";
import type { Value } from "../sql.ts";

/** A receipt on its way into the tables: the values of its row, and of its attempts where they have more to tell than it. */
export interface ReceiptEntry {
  readonly row: readonly Value[];
  readonly attempts: readonly (readonly Value[])[];
}

export function entryOf(receipt: Receipt): ReceiptEntry {
  return { row: receiptValues(receipt), attempts: attemptValues(receipt) };
}

/**
 * The entry of a line of the journal; null where the line is of another kind. It is what `entryOf` makes of the receipt that the
 * line tells, without making the receipt: thousands of them come in a second. `isPlain`: every store takes what its texts are made of.
 * Throws where the line has a wrong shape.
 */
export function entryOfLine(line: unknown, isPlain = false): ReceiptEntry | null {
  const parts = new Parts(line);
  if (parts.next() !== receiptKind) return null;
  const id = name(parts.text(), isPlain);
  const requestId = parts.maybeText();
  const keyId = parts.text();
  const operation = parts.oneOf(operations);
  const model = parts.text();
  const channel = parts.maybeText();
  const upstreamModel = parts.maybeText();
  const stream = parts.flag();
  const httpStatus = parts.number();
  const state = parts.oneOf(states);
  const error = parts.maybeText();
  const startedMs = parts.number();
  const tookMs = parts.number();
  const firstContentMs = parts.maybeNumber();
  const generatedTokens = parts.maybeNumber();
  const billedNanos = parts.maybeNumber();
  const hedgeWasteNanos = parts.number();
  const costUncertain = parts.flag();
  const estimated = parts.flag();
  const partial = parts.flag();
  const plan = parts.next();
  const promptTokens = parts.maybeNumber();
  const cachedTokens = parts.maybeNumber();
  const completionTokens = parts.maybeNumber();
  const reasoningTokens = parts.maybeNumber();
  const audioSeconds = parts.maybeNumber();
  const characters = parts.maybeNumber();
  const attemptAfterMs = parts.maybeNumber();
  const attemptTookMs = attemptAfterMs === null ? null : parts.number();
  const attempts = attemptAfterMs === null ? parts.list().map((attempt, at) => attemptOfLine(id, at + 1, new Parts(attempt))) : none;
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
      maybeName(parts.lastText(), isPlain),
    ],
    attempts,
  };
}

function attemptOfLine(receiptId: string, number: number, parts: Parts): readonly Value[] {
  const channel = name(parts.text());
  const model = name(parts.text());
  const afterMs = count(parts.number());
  const tookMs = count(parts.number());
  const outcome = parts.oneOf(outcomes);
  const httpStatus = parts.maybeNumber();
  const error = maybeName(parts.maybeText());
  const blame = parts.maybeOneOf(blames);
  const hedge = flag(parts.flag());
  const nanos = maybeNanos(parts.maybeNumber());
  const costUncertain = flag(parts.flag());
  const estimated = flag(parts.flag());
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
    maybeCount(parts.maybeNumber()),
    maybeCount(parts.maybeNumber()),
    maybeCount(parts.maybeNumber()),
    maybeCount(parts.maybeNumber()),
    audioMs(parts.maybeNumber()),
    maybeCount(parts.maybeNumber()),
    nanos,
    costUncertain,
    estimated,
  ];
}

const none: readonly (readonly Value[])[] = [];
