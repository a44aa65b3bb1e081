/** How far receipts have been drained, counted since the process began. */
export interface DrainProgress {
  /** Receipts in the journal. */
  readonly written: number;
  /** Those of them that are not in the store yet. */
  readonly behind: number;
  /** Some receipts may not have reached the journal. */
  readonly stuck: boolean;
}

/**
 * Finds a time before which all receipts are in the store. Under a steady load some receipts are always on their way, so the end of
 * the journal is marked, and its time is reported when the store has reached the mark.
 */
export class DrainedMark {
  private mark: { readonly written: number; readonly atMs: number } | null = null;

  /** Starts with the given time: earlier receipts belong to other processes. */
  constructor(private drainedMs: number) {}

  look(nowMs: number, { written, behind, stuck }: DrainProgress): number {
    if (this.mark !== null && written - behind >= this.mark.written) {
      this.drainedMs = this.mark.atMs;
      this.mark = null;
    }
    // While receipts are stuck outside of the journal, its end says nothing about the present.
    if (!stuck) {
      if (behind === 0) this.drainedMs = nowMs;
      this.mark ??= { written, atMs: nowMs };
    }
    return this.drainedMs;
  }
}
