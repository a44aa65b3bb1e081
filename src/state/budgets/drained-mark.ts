/** How far receipts have come, all counted since the process began. */
export interface DrainStanding {
  /** In the journal. */
  readonly written: number;
  /** Of those, not in the store yet. */
  readonly behind: number;
  /** Some may not have got into the journal. */
  readonly stuck: boolean;
}

/**
 * Knows a moment before which everything that was written down is in the store. Under a steady load there are always some
 * receipts on their way; so a mark is put where the journal ends, and passed on when the store has come to it.
 */
export class DrainedMark {
  private mark: { readonly written: number; readonly atMs: number } | null = null;

  /** What was written down before the first moment is none of ours. */
  constructor(private drainedMs: number) {}

  look(nowMs: number, { written, behind, stuck }: DrainStanding): number {
    if (this.mark !== null && written - behind >= this.mark.written) {
      this.drainedMs = this.mark.atMs;
      this.mark = null;
    }
    // While something is stuck outside of the journal, its end says nothing about what was written down until now.
    if (!stuck) {
      if (behind === 0) this.drainedMs = nowMs;
      this.mark ??= { written, atMs: nowMs };
    }
    return this.drainedMs;
  }
}
