import { describe, expect, test } from "bun:test";
import { ReceiptIds } from "../../../src/http/receipt-ids.ts";
import { entryOf } from "../../../src/store/receipts/receipt-entry.ts";
import { isThinned } from "../../../src/store/receipts/thinning.ts";
import { sampleReceipt } from "../../support/journal-receipts.ts";

describe("receipts that are thinned", () => {
  test("keep their share of the calls of each second, and not all of one second and none of the next", () => {
    const ids = new ReceiptIds();
    for (let second = 0; second < 10; second += 1) {
      const entries = Array.from({ length: 1_000 }, (_, ms) =>
        entryOf(sampleReceipt({ id: ids.next(1_790_000_000_000 + second * 1_000 + ms) })),
      );
      const kept = entries.filter((entry) => !isThinned(entry, 0.25)).length;
      // A quarter; about seven standard deviations either way.
      expect(kept).toBeGreaterThan(150);
      expect(kept).toBeLessThan(350);
    }
  });
});
