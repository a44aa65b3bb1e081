import { requestNameOf } from "../usage/request-name.ts";

/** The id of a request: the caller's own where it is harmless, else one made from the id of its receipt. */
export function requestIdOf(given: string | null, receiptId: string): string {
  return given !== null && harmless.test(given) ? given : requestNameOf(receiptId);
}

/** The id a receipt of this request would have: unique, and rising with time. */
export function newReceiptId(): string {
  return Bun.randomUUIDv7();
}

const harmless = /^[\w.-]{1,64}$/;
