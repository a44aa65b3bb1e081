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
    /** An observer threw for so many calls, which lack in its figures. `error` is the first. */
    private readonly onBug: (error: unknown, calls: number) => void,
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

  /** Never throws: it runs within the settlement of a call that may have nothing to do with a bug. */
  flush(): void {
    for (const observer of this.observers) this.show(observer);
    this.records.length = 0;
    this.receipts.length = 0;
  }

  private show(observer: CallObserver): void {
    const { records, receipts } = this;
    let bug: unknown = null;
    let calls = 0;
    for (let at = 0; at < records.length; at += 1) {
      try {
        observer(records[at]!, receipts[at]!);
      } catch (error) {
        if (calls === 0) bug = error;
        calls += 1;
      }
    }
    if (calls > 0) this.onBug(bug, calls);
  }
}

const waitingMax = 128;
const waitsMs = 1_000;
