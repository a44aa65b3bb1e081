import { headLine, openingLine, receiptLine } from "../../../src/store/receipts/receipt-line.ts";
import { putFrame, roomFor } from "../../../src/store/journal/frame.ts";
import type { AttemptReceipt, Receipt, ReceiptOpening } from "../../../src/usage/receipt.ts";

/** Half past twelve on a Sunday, at which the sample store was last used. */
export const sampleMs = Date.UTC(2026, 10, 15, 12, 30);
const hourMs = 3_600_000;

/** In ids that a process makes while it runs: each round of a replay writes its own number in its place. */
export const roundMark = "0000feed";

/** A UUIDv7 of this moment. */
export function idAt(ms: number, last: string): string {
  const time = ms.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${last.padStart(12, "0")}`;
}

export function receiptOf(id: string, other: Partial<Receipt> = {}): Receipt {
  return {
    id,
    requestId: `req_${id.replaceAll("-", "")}`,
    keyId: "plain",
    operation: "chat",
    model: "gpt-4o",
    channel: "main",
    upstreamModel: "gpt-4o-2024",
    stream: true,
    status: 200,
    state: "complete",
    error: null,
    startedMs: Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16),
    tookMs: 1_234,
    firstContentMs: 345,
    delivered: { promptTokens: 100, cachedTokens: 20, completionTokens: 50, reasoningTokens: 5, audioSeconds: null, characters: null },
    generatedTokens: 50,
    billedNanos: 750_000,
    hedgeWasteNanos: 0,
    costUncertain: false,
    estimated: false,
    partial: false,
    warning: null,
    finish: null,
    cacheSavedNanos: null,
    owners: [],
    channelTags: [],
    attempts: [attemptOf()],
    plan: null,
    ...other,
  };
}

function attemptOf(other: Partial<AttemptReceipt> = {}): AttemptReceipt {
  return {
    channel: "main",
    model: "gpt-4o-2024",
    afterMs: 1,
    tookMs: 1_230,
    outcome: "answered",
    status: 200,
    error: null,
    blame: null,
    hedge: false,
    nanos: 750_000,
    costUncertain: false,
    estimated: false,
    promptTokens: 100,
    cachedTokens: 20,
    completionTokens: 50,
    reasoningTokens: 5,
    audioSeconds: null,
    characters: null,
    ...other,
  };
}

const yesterday = sampleMs - 14 * hourMs;
const morning = sampleMs - 2 * hourMs;
const none = {
  promptTokens: null,
  cachedTokens: null,
  completionTokens: null,
  reasoningTokens: null,
  audioSeconds: null,
  characters: null,
};
const failed = { outcome: "failed", status: 500, error: "upstream_error", blame: "channel", nanos: 0, ...none } as const;

/** Calls of two days: every state, every operation of the first version, and one whose id is of another hour than its start. */
export const storedReceipts: readonly Receipt[] = [
  receiptOf(idAt(yesterday, "1"), { requestId: "chosen-by-the-client" }),
  receiptOf(idAt(yesterday + 60_000, "2"), { keyId: "budgeted", billedNanos: 40_000_000, attempts: [attemptOf({ nanos: 40_000_000 })] }),
  receiptOf(idAt(yesterday + 120_000, "3"), {
    state: "failed",
    status: 502,
    error: "upstream_error",
    channel: null,
    upstreamModel: null,
    firstContentMs: null,
    delivered: none,
    generatedTokens: null,
    billedNanos: 0,
    attempts: [attemptOf(failed), attemptOf({ ...failed, channel: "spare", afterMs: 300 })],
    plan: [
      { channel: "main", model: "gpt-4o-2024", tier: 1, verdict: "taken", cause: null, forMs: null },
      { channel: "spare", model: "gpt-4o-2024", tier: 2, verdict: "cooling", cause: "rate_limited", forMs: 1_500 },
    ],
  }),
  receiptOf(idAt(morning, "4"), { state: "interrupted", error: "upstream_cut", partial: true, costUncertain: true, estimated: true }),
  receiptOf(idAt(morning + 1_000, "5"), {
    operation: "transcription",
    model: "whisper-1",
    upstreamModel: "whisper-1",
    stream: false,
    delivered: { ...none, audioSeconds: 61.5 },
    billedNanos: 6_150_000,
    attempts: [attemptOf({ ...none, audioSeconds: 61.5, model: "whisper-1", nanos: 6_150_000 })],
  }),
  receiptOf(idAt(morning + 2_000, "6"), {
    operation: "speech",
    model: "tts-1",
    upstreamModel: "tts-1",
    delivered: { ...none, characters: 420 },
    billedNanos: null,
    attempts: [attemptOf({ ...none, characters: 420, model: "tts-1", nanos: null })],
  }),
  receiptOf(idAt(morning + 3_000, "7"), {
    state: "abandoned",
    error: "client_left",
    hedgeWasteNanos: 250_000,
    billedNanos: 1_000_000,
    attempts: [attemptOf(), attemptOf({ channel: "spare", outcome: "abandoned", hedge: true, nanos: 250_000 })],
  }),
  // An upload that took an hour: its id is made when it begins.
  receiptOf(idAt(morning - hourMs, "8"), { startedMs: morning, keyId: "budgeted", billedNanos: 2_000_000 }),
  receiptOf(idAt(sampleMs - 60_000, "9"), { keyId: "rotated", finish: "length", cacheSavedNanos: 12_000 }),
];

/** The journal of a process that was killed: one call is in flight, two others ended and are not in the store yet. */
export const killedHolder = "killed-process";
export const killedReceipts = [
  receiptOf(idAt(sampleMs + 1_000, "b"), { keyId: "budgeted", billedNanos: 3_000_000, attempts: [attemptOf({ nanos: 3_000_000 })] }),
  receiptOf(idAt(sampleMs + 2_000, "c")),
];
export const killedOpening: ReceiptOpening = {
  id: idAt(sampleMs + 500, "a"),
  requestId: `req_${idAt(sampleMs + 500, "a").replaceAll("-", "")}`,
  keyId: "budgeted",
  operation: "chat",
  model: "gpt-4o",
  stream: true,
  startedMs: sampleMs + 500,
  promptTokens: 100,
  audioSeconds: null,
  characters: null,
  nanos: 5_000_000,
  owners: [],
};

/** What a process stores while it runs: receipts of an hour that is in the sums already, and of the present one. */
export const runningReceipts = [
  receiptOf(idAt(morning + 1_200_000, `${roundMark}0001`), { keyId: "budgeted", billedNanos: 100_000, attempts: [] }),
  receiptOf(idAt(sampleMs + 5_000, `${roundMark}0002`), { keyId: "budgeted", billedNanos: 200_000 }),
  receiptOf(idAt(sampleMs + 6_000, `${roundMark}0003`), { attempts: [attemptOf(failed), attemptOf({ channel: "spare", afterMs: 400 })] }),
  receiptOf(idAt(morning, `${roundMark}0004`), { startedMs: sampleMs, keyId: "rotated" }),
];

/** A segment of a journal with these lines. */
export function segmentOf(holder: string, segment: string, openings: readonly ReceiptOpening[], receipts: readonly Receipt[]): Buffer {
  const head = headLine({ segment, runId: `run-of-${holder}`, holder, receipts: 0, inFlight: openings.length });
  const lines = [head, ...openings.map(openingLine), ...receipts.map(receiptLine)];
  const bytes = Buffer.alloc(lines.reduce((sum, line) => sum + roomFor(line), 0));
  return bytes.subarray(
    0,
    lines.reduce((end, line) => putFrame(bytes, end, line), 0),
  );
}
