import { requestNameOf } from "../../usage/receipt.ts";

/** Null for a request id that was derived from the receipt's id, as most are: those need not be stored. */
export function ownRequestName(requestId: string, receiptId: string): string | null {
  return requestId.length === derivedLength && isDerivedFrom(receiptId, requestId) ? null : requestId;
}

/** Compares without building the name, because it runs several times per call. */
function isDerivedFrom(receiptId: string, requestId: string): boolean {
  if (!requestId.startsWith(prefix)) return false;
  let position = prefix.length;
  for (let at = 0; at < receiptId.length; at += 1) {
    const code = receiptId.charCodeAt(at);
    if (code === dash) continue;
    if (requestId.charCodeAt(position) !== code) return false;
    position += 1;
  }
  return position === requestId.length;
}

const prefix = requestNameOf("");
const derivedLength = requestNameOf("00000000-0000-0000-0000-000000000000").length;
const dash = "-".charCodeAt(0);

/** The receipt id that a request id was derived from; null for other request ids. */
export function receiptIdIn(requestName: string): string | null {
  const parts = /^req_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/.exec(requestName);
  return parts === null ? null : parts.slice(1).join("-");
}
