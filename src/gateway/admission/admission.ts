import type { Opening } from "../../usage/receipt.ts";
import type { Grant } from "./limiter.ts";

/** A call that was let in: what its receipt begins with, and what was taken of its key's limits for it. */
export interface Admission extends Opening {
  readonly grant: Grant;
  /** When it is on record, which a call that may spend money waits for; null for all others. It rejects where the book is closed. */
  readonly onRecord: Promise<void> | null;
  /** As in its receipt. */
  readonly warning: string | null;
  /** Its receipt is written. */
  closed: boolean;
}
