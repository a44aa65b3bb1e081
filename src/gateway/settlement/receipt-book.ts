import type { Opening, Receipt } from "../../usage/receipt.ts";

/** Where receipts go: kept when the promise resolves, in the sense that no death of this process can lose them any more. */
export interface ReceiptBook {
  /** There is no room for more: a call whose cost must be known may not begin. */
  readonly full: boolean;
  /** A call was let in: on record when this resolves, which a call that may spend money waits for. */
  open(opening: Opening): Promise<void>;
  /** The same for a call that nobody holds to a budget: on record within a moment, unless it is over by then. */
  openSoon(opening: Opening): void;
  /** A call is over. Its answer's last bytes wait for this. */
  close(receipt: Receipt): Promise<void>;
}
