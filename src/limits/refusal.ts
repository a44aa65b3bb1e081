import { RecordedLimitStatuses } from "./looks.ts";
import type { LimitStatus } from "./rate-limit-store.ts";

/** A limit has no room, and nothing was taken of any. */
export class ReservationRefused extends RecordedLimitStatuses {
  readonly ok = false;

  constructor(
    readonly shortId: string,
    readonly waitMs: number,
    looks: readonly LimitStatus[],
  ) {
    super(looks);
  }
}
