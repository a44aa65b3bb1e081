/** What a client is told as `x-request-id` where it brought none: the receipt's own id in other clothes, so that one leads to the other. */
export function requestNameOf(receiptId: string): string {
  return `req_${receiptId.replace(/-/g, "")}`;
}
