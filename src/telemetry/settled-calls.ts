import type { LedgerPorts } from "../gateway/admission/ledger.ts";
import type { CallRecord } from "../gateway/settlement/record.ts";
import type { Receipt } from "../usage/receipt.ts";

/** Is told of each call when it is settled. */
export type CallObserver = NonNullable<LedgerPorts["observe"]>;

/**
 * Settled calls, handed to observers some at a time. What an observer touches has left the processor's caches when the next call is
 * settled: counting a call by itself takes several times what it takes beside others (`npm run bench -- --only telemetry`).
 *
 * Whoever reads what observers count calls `flush` first.
 */
export class SettledCalls {
  private readonly records: CallRecord[] = [];
  /** Those of the records at the same places. */
  private readonly receipts: (Receipt | null)[] = [];
  private isArmed = false;

  constructor(
    private readonly observers: readonly CallObserver[],
    /** Calls back once after `ms`. */
    private readonly after: (ms: number, then: () => void) => void,
  ) {}

  readonly observe = (record: CallRecord, receipt: Receipt | null): void => {
    this.records.push(record);
    this.receipts.push(receipt);
    if (this.records.length >= waitingMax) this.flush();
    else if (!this.isArmed) {
      this.isArmed = true;
      // Not taken back by a flush: under load it would be set anew a hundred times a second.
      this.after(waitsMs, () => {
        this.isArmed = false;
        this.flush();
      });
    }
  };

  flush(): void {
    const { records, receipts } = this;
    try {
      for (const observer of this.observers) for (let at = 0; at < records.length; at += 1) observer(records[at]!, receipts[at]!);
    } finally {
      // A bug in an observer costs these calls their figures. It must not count them twice, nor stay with all that follow.
      records.length = 0;
      receipts.length = 0;
    }
  }
}

const waitingMax = 128;
const waitsMs = 1_000;
