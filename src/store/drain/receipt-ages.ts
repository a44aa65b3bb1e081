/**
 * Since when receipts wait for the store, to within a second, or a small part of that time if it is long. Receipts are written in order
 * and drained in order, so it is enough to know now and then how many there were.
 */
export class ReceiptAges {
  /** `before`: how many receipts had been written by then. */
  private marks: { readonly before: number; readonly atMs: number }[] = [];
  private written = 0;
  private drained = 0;
  private stepMs = stepMinMs;

  get size(): number {
    return this.marks.length;
  }

  /** Called after each write, with how many receipts have been written since the start. */
  wrote(written: number, nowMs: number): void {
    if (this.drained >= this.written) this.marks = [];
    const last = this.marks.at(-1);
    if (last === undefined || nowMs - last.atMs >= this.stepMs) {
      if (this.marks.length >= marksMax) {
        this.marks = this.marks.filter((_, at) => at % 2 === 0);
        this.stepMs *= 2;
      }
      this.marks.push({ before: this.written, atMs: nowMs });
    }
    this.written = written;
  }

  /** Called as receipts are drained, with how many have been since the start: times that nobody asks for any more make others coarser. */
  drainedTo(drained: number): void {
    this.drained = drained;
    const next = this.marks.findIndex(({ before }) => before > drained);
    this.marks.splice(0, (next === -1 ? this.marks.length : next) - 1);
    if (this.marks.length <= 1) this.stepMs = stepMinMs;
  }

  /** How long the oldest receipt has waited that is not drained; 0 if all are. */
  oldestMs(nowMs: number): number {
    const [oldest] = this.marks;
    return oldest === undefined || this.drained >= this.written ? 0 : nowMs - oldest.atMs;
  }
}

const stepMinMs = 1_000;
const marksMax = 128;
