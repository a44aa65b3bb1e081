import type { Admission } from "../../src/gateway/admission/limiter.ts";
import { receiptOf, type RatesOf } from "../../src/gateway/settlement/receipt.ts";
import type { AttemptRecord, CallRecord } from "../../src/gateway/settlement/record.ts";
import { nothingCounted, type MeteredUsage } from "../../src/operations/usage.ts";
import type { PriceRates } from "../../src/usage/price.ts";
import type { Receipt } from "../../src/usage/receipt.ts";

/** A call that was answered with this report. */
export function recorded(usage: MeteredUsage | null): CallRecord {
  const tried: AttemptRecord = {
    channel: "one",
    provider: null,
    host: "upstream.test:443",
    model: "large",
    startedMs: 0,
    waitedMs: 0,
    outcome: "answered",
    failure: null,
    tookMs: 20,
    hedge: false,
    sent: true,
    expected: nothingCounted,
    usage,
    outputTokens: 5,
    longestGapMs: null,
  };
  return {
    id: "req",
    keyId: "key",
    operation: "chat",
    model: "large",
    stream: true,
    bytesIn: 100,
    startedMs: 0,
    waitedMs: 0,
    admission: null,
    status: 200,
    state: "complete",
    failure: null,
    attempts: [tried],
    endedMs: 20,
    firstContentMs: 10,
    usage,
    finish: "stop",
    bytesOut: 500,
    clampedTo: null,
    chunks: 0,
    skippedEvents: 0,
    plan: null,
  };
}

/** What it costs, at these rates or those that are known of its model. */
export function invoice(usage: MeteredUsage | null, known: PriceRates | RatesOf): Receipt {
  const admission = {
    id: "0199",
    startedMs: 1_700_000_000_000,
    owners: [] as readonly string[],
    nanos: null,
  } as Partial<Admission> as Admission;
  return receiptOf(recorded(usage), admission, typeof known === "function" ? known : () => known);
}
