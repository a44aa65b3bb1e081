import { describe, expect, test } from "bun:test";
import { explainedCall } from "../../../src/cli/explain/explained-call.ts";
import { shownReceipt } from "../../../src/manage/receipts/receipt-view.ts";
import { sampleReceipt } from "../../support/journal-receipts.ts";

const [answered] = sampleReceipt().attempts;
const receipt = sampleReceipt({ id: "id-1", requestId: "req_1" });

describe("a call, explained", () => {
  test("tells what happened, how long it took and what it cost", () => {
    expect(explainedCall(shownReceipt(receipt, "laptop"))).toBe(`channel-1 answered at once.

id           req_1 (receipt id-1)
started      2026-01-31T14:05:00.000Z
key          laptop
asked for    chat, streamed, model model-1
answered by  channel-1 (upstream-model-1)
status       200 complete
took         1234 ms, first content after 345 ms
used         10 tokens in (2 from the cache), 20 tokens out (5 for reasoning)
cost         0.000001 dollars

Attempts:
AFTER      FOR  CHANNEL    MODEL             OUTCOME
 1 ms  1230 ms  channel-1  upstream-model-1  answered`);
  });

  test("tells why it went elsewhere, and what can be done about it", () => {
    const refused = { ...answered!, channel: "main", outcome: "failed", status: 401, error: "unauthorized" } as const;
    const text = explainedCall(
      shownReceipt(
        {
          ...receipt,
          attempts: [refused, answered!],
          plan: [{ channel: "spare", model: "m", tier: 2, verdict: "cooling", cause: "rate_limited", forMs: 12_000 }],
        },
        null,
      ),
    );
    expect(text).toContain("channel-1 answered after 1 failed attempt.");
    expect(text).toContain("it refused its credential: check the key of the channel [401]");
    expect(text).toContain("spare (tier 2) cooled down after failures: it said that it has too many requests (429), for another 12.0 s");
  });

  test("does not let names of clients move the cursor", () => {
    const named = shownReceipt({ ...receipt, model: "\u001B[2Jgone", channel: "a\rb" }, "\u001B]0;x\u0007");
    expect(explainedCall(named)).not.toMatch(/[\u001B\r\u0007]/);
  });
});
