import type { Grant } from "./limiter.ts";

/** A call that was let in: what was taken of its key's limits for it, and what is known of it should nobody report its use. */
export interface Admission {
  readonly grant: Grant;
  /** Of its receipt. */
  readonly receiptId: string;
  /** When it began, on the wall clock. */
  readonly startedWallMs: number;
  readonly requestId: string;
  readonly promptTokens: number | null;
  readonly audioSeconds: number | null;
  readonly characters: number | null;
  /** Its receipt is written. */
  closed: boolean;
}
