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

/** From 0 to 1, by all of the id: the random end of it is the same for all calls of a process in one second. */
function drawOf(id: string): number {
  return Bun.hash.xxHash32(id) / 2 ** 32;
}

const column = {
  id: receiptColumnIndex("id"),
  state: receiptColumnIndex("state"),
  attemptAfterMs: receiptColumnIndex("attempt_after_ms"),
  warning: receiptColumnIndex("warning"),
  marks: receiptColumnIndex("marks"),
  costUncertain: receiptColumnIndex("cost_uncertain"),
};
