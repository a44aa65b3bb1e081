import type { LimitStatus, LimitStatuses } from "./rate-limit-store.ts";

/** How limits stood, as it was seen. */
export class RecordedLimitStatuses implements LimitStatuses {
  constructor(private readonly looks: readonly LimitStatus[]) {}

  remaining(at: number): number {
    return this.looks[at]!.remaining;
  }

  resetMs(at: number): number {
    return this.looks[at]!.resetMs;
  }
}
