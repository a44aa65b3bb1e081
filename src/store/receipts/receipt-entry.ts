import { operations } from "../../operations/operation.ts";
import type { Receipt } from "../../usage/receipt.ts";
import { ArrayReader } from "./array-reader.ts";
import { blames, outcomes, receiptKind, states } from "./receipt-line.ts";
import {
  attemptValues,
  audioMs,
  count,
  flag,
  maybeCount,
  maybeName,
  maybeNanos,
  maybeOwners,
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
}

export function entryOf(receipt: Receipt): ReceiptEntry {
  return { row: receiptValues(receipt), attempts: attemptValues(receipt) };
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
      maybeName(fields.lastText(), isPlain),
      maybeOwners(fields.lastText()),
      maybeTags(fields.lastText()),
    ],
    attempts,
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
