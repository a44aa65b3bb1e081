import type { Opening, Receipt } from "../../usage/receipt.ts";

/** Where receipts are written. When a promise resolves, the receipt survives a crash of this process. */
export interface ReceiptBook {
  /** No more receipts fit. A call of a key with a budget must not begin. */
  readonly full: boolean;
  /** A call was admitted. A call of a key with a budget waits until this resolves. */
  open(opening: Opening): Promise<void>;
  /** The same for a call without a budget: written within a moment, unless the call ends before that. */
  openSoon(opening: Opening): void;
  /** A call has ended. The last bytes of its answer wait for this. */
  close(receipt: Receipt): Promise<void>;
}
