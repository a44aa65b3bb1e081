import type { Grant } from "./limiter.ts";

/** A call that was let in: what was taken of its key's limits for it, and what its receipt begins with. */
export interface Admission {
  readonly grant: Grant;
  /** Of its receipt. */
  readonly receiptId: string;
  /** When it began, on the wall clock. */
  readonly startedWallMs: number;
  /** Its receipt is written. */
  closed: boolean;
}
