import type { Admission } from "../../src/gateway/admission/limiter.ts";
import { receiptOf } from "../../src/gateway/settlement/receipt.ts";
import type { AttemptRecord, CallRecord } from "../../src/gateway/settlement/record.ts";
import { failure, type FailureKind } from "../../src/operations/failure.ts";
import { nothingCounted } from "../../src/operations/usage.ts";
import type { PriceRates } from "../../src/usage/price.ts";
import type { Receipt } from "../../src/usage/receipt.ts";

/** Records of calls that never were, for what is made of records. A dollar for a million tokens of prompts, two for those of answers. */
export const rates: PriceRates = { input: 1_000_000_000, output: 2_000_000_000 };

export function attempt(facts: Partial<AttemptRecord> = {}): AttemptRecord {
  return {
    channel: "one",
    provider: "openai",
    host: "upstream.test:443",
    model: "large-1",
    startedMs: 1_010,
    waitedMs: 0,
    outcome: "answered",
    failure: null,
    tookMs: 980,
    hedge: false,
    sent: true,
    expected: { ...nothingCounted, promptTokens: 10 },
    usage: { ...nothingCounted, promptTokens: 100, completionTokens: 50, cachedTokens: 40, reasoningTokens: 20 },
    outputTokens: 50,
    longestGapMs: 300,
    ...facts,
  };
}

/** One that ended before it had output. */
export function failedAttempt(kind: FailureKind, facts: Partial<AttemptRecord> = {}): AttemptRecord {
  return attempt({ outcome: "failed", failure: failure(kind, "in a test"), usage: null, outputTokens: 0, longestGapMs: null, ...facts });
}

export function callRecord(attempts: readonly AttemptRecord[], facts: Partial<CallRecord> = {}): CallRecord {
  return {
    id: "req_1",
    keyId: "key-1",
    operation: "chat",
    model: "large",
    stream: true,
    bytesIn: 100,
    startedMs: 1_000,
    waitedMs: 0,
    admission: null,
    status: 200,
    state: "complete",
    failure: null,
    attempts,
    endedMs: 2_000,
    firstContentMs: 200,
    usage: null,
    finish: "stop",
    bytesOut: 500,
    chunks: 17,
    clampedTo: null,
    skippedEvents: 0,
    plan: null,
    ...facts,
  };
}

export function admissionOf(record: CallRecord, id = "019a9b1c-0000-7abc-8def-0123456789ab"): Admission {
  return {
    grant: { kind: "grant", rateLimitStatus: null, settle: () => {} },
    id,
    requestId: record.id,
    keyId: record.keyId ?? "",
    operation: record.operation,
    model: record.model ?? "",
    stream: record.stream,
    startedMs: 1_700_000_000_000,
    promptTokens: null,
    audioSeconds: null,
    characters: null,
    nanos: null,
    owners: [],
    route: { model: record.model ?? "", tiers: [], size: 0 },
    onRecord: null,
    warning: null,
    closed: false,
  };
}

export function receiptFor(record: CallRecord, known: PriceRates | null = rates): Receipt {
  return receiptOf(record, record.admission ?? admissionOf(record), () => known);
}
