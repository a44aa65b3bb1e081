import type { Opening } from "../usage/receipt.ts";
import type { Grant } from "./limiter.ts";

/** A call that was let in: what its receipt begins with, and what was taken of its key's limits for it. */
export interface Admission extends Opening {
  readonly grant: Grant;
  /** Its receipt is written. */
  closed: boolean;
}
