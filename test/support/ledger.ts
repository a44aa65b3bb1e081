import { Ledger } from "../../src/gateway/admission/ledger.ts";
import type { CallRecord } from "../../src/gateway/settlement/record.ts";

/** Books without limits and without receipts, for tests that look at the records themselves. */
export function plainLedger(log: (record: CallRecord) => void = () => {}): Ledger {
  return new Ledger({
    limiter: {
      precheck: () => null,
      reserveSlot: () => ({ kind: "slot", release: () => {} }),
      admit: () => ({ kind: "grant", rateLimitStatus: null, settle: () => {} }),
      preview: () => [],
    },
    receipts: { full: false, open: () => Promise.resolve(), openDeferred: () => {}, close: () => Promise.resolve() },
    ratesOf: () => null,
    wallMs: () => 0,
    log,
    onBug: (error) => {
      throw error;
    },
  });
}
