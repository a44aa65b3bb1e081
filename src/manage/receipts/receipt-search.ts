import type { FigureBounds, ReceiptQuery, ReceiptStorage } from "../../gateway/storage.ts";
import type { Receipt } from "../../usage/receipt.ts";

export interface ReceiptPage {
  readonly receipts: readonly Receipt[];
  /** The `before` of the next page; null at the end. A page that is not full, or even empty, may be followed by another. */
  readonly next: string | null;
}

/**
 * One page of calls, newest first. A filter that few calls match must not read millions of them for one page: such a search stops
 * after `readMax`, and says where it goes on.
 */
export async function receiptPage(receipts: ReceiptStorage, query: ReceiptQuery): Promise<ReceiptPage> {
  const horizon = isKeyAlone(query) ? null : await receipts.horizon(query, readMax);
  const found = await receipts.list({ ...query, from: horizon });
  const last = found.at(-1);
  return { receipts: found, next: last !== undefined && found.length >= query.limit ? last.id : horizon };
}

/** The calls of a key are found by its hourly sums. */
function isKeyAlone({ keyId, groupId, model, channel, state, mark, figures }: ReceiptQuery): boolean {
  const isFigure = figures !== undefined && Object.keys(figures).length > 0;
  return keyId !== null && groupId == null && model === null && channel === null && state === null && mark == null && !isFigure;
}

/** A fraction of a second. */
const readMax = 100_000;

/** A status such as 429, or all that begin alike, such as 4xx; null if the text is neither. */
export function statusBounds(text: string): Pick<FigureBounds, "statusMin" | "statusMax"> | null {
  const [, hundreds, rest] = /^([1-5])(\d\d|xx)$/.exec(text) ?? [];
  if (hundreds === undefined) return null;
  if (rest !== "xx") return { statusMin: Number(text), statusMax: Number(text) };
  return { statusMin: Number(hundreds) * 100, statusMax: Number(hundreds) * 100 + 99 };
}

/** A million dollars. */
export const costNanosMax = 1e15;
/** No call takes a week. */
export const tookMsMax = 7 * 86_400_000;
