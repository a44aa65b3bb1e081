import { requestNameOf } from "../../usage/receipt.ts";

/** Most requests have the name that we made from their receipt's id: it is not kept a second time. */
export function ownRequestName(requestId: string, receiptId: string): string | null {
  return requestId.length === madeLength && isMadeFrom(receiptId, requestId) ? null : requestId;
}

/** Compares as `requestNameOf` would build it, without building it: this is asked several times for every call. */
function isMadeFrom(receiptId: string, requestId: string): boolean {
  if (!requestId.startsWith(made)) return false;
  let place = made.length;
  for (let at = 0; at < receiptId.length; at += 1) {
    const code = receiptId.charCodeAt(at);
    if (code === dash) continue;
    if (requestId.charCodeAt(place) !== code) return false;
    place += 1;
  }
  return place === requestId.length;
}

const made = requestNameOf("");
const madeLength = requestNameOf("00000000-0000-0000-0000-000000000000").length;
const dash = "-".charCodeAt(0);

/** The receipt that a request's name was made from; null where it is not a name of that kind. */
export function receiptIdIn(requestName: string): string | null {
  const parts = /^req_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/.exec(requestName);
  return parts === null ? null : parts.slice(1).join("-");
}
