import type { ReceiptEntry } from "./receipt-entry.ts";
import { receiptColumnIndex } from "./receipt-row.ts";

/**
 * Whether a receipt is counted but not stored. Only plain successes are left out: the first attempt answered, its cost is certain, and
 * there is nothing to warn of, and it was not refused. The id decides, so that all processes agree and a repeated decision is the same.
 */
export function isThinned({ row }: ReceiptEntry, keptShare: number): boolean {
  return (
    keptShare < 1 &&
    row[column.state] === "complete" &&
    row[column.attemptAfterMs] !== null &&
    row[column.warning] === null &&
    !String(row[column.marks] ?? "").includes("refused") &&
    row[column.costUncertain] === 0 &&
    drawOf(row[column.id] as string) >= keptShare
  );
}

/** From 0 to 1, by the random end of a UUIDv7. An id that is none is always kept. */
function drawOf(id: string): number {
  const draw = Number.parseInt(id.slice(-8), 16) / 2 ** 32;
  return Number.isNaN(draw) ? 0 : draw;
}

const column = {
  id: receiptColumnIndex("id"),
  state: receiptColumnIndex("state"),
  attemptAfterMs: receiptColumnIndex("attempt_after_ms"),
  warning: receiptColumnIndex("warning"),
  marks: receiptColumnIndex("marks"),
  costUncertain: receiptColumnIndex("cost_uncertain"),
};
