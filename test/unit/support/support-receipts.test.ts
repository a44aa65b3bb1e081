import { describe, expect, test } from "bun:test";
import type { AttemptReceipt, Receipt } from "../../../src/usage/receipt.ts";
import type { Attempt } from "../../support/chaos/ledger.ts";
import { faultOfAttempt, faultsOfSums, matched } from "../../support/receipt-truth.ts";
import { overspentRetries } from "../../support/retry-share.ts";
import { nanosOf } from "../../support/receipts.ts";

const usageSent = '{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}';

/** As much of an attempt as is looked at: three words in a stream that came to its end. */
function seen(facts: Partial<Attempt> = {}): Attempt {
  const words = ["a1:0", " a1:1", " a1:2"];
  const sent = { tokensSent: words, choicesSent: [words], thoughtsSent: 0, usageSent, statusSent: 200, bytesSent: 900 };
  return { id: "a1", at: 1, behaviour: "all-1", streamed: true, endedBy: "complete", connection: 1, ...sent, ...facts } as Attempt;
}

function said(facts: Partial<AttemptReceipt> = {}): AttemptReceipt {
  const known = { promptTokens: 7, completionTokens: 3, nanos: nanosOf(7, 3), status: 200, outcome: "answered" };
  return {
    channel: "a",
    error: null,
    blame: null,
    tookMs: 5,
    costUncertain: false,
    estimated: false,
    ...known,
    ...facts,
  } as AttemptReceipt;
}

const refused = seen({ statusSent: 503, behaviour: "fault:status@503", tokensSent: [], choicesSent: [[]], usageSent: null });
const cut = seen({ behaviour: "fault:rst-after@3", endedBy: "fault", usageSent: null });
const nothing = { promptTokens: null, completionTokens: null, nanos: 0 };
const refusal = said({ ...nothing, outcome: "failed", error: "overloaded", blame: "channel", status: 503 });
const half = said({ outcome: "failed", error: "interrupted", blame: "channel", costUncertain: true, estimated: true });

describe("a receipt is compared with what the upstream knows", () => {
  test.each([
    ["an answer", said(), seen()],
    ["an answer whose usage came too late", said({ estimated: true, tookMs: 200 }), seen({ endedBy: "client_closed" })],
    ["a refusal", refusal, refused],
    ["half an answer", half, cut],
  ])("and %s as it was is right", (_, claim, truth) => {
    expect(faultOfAttempt(claim, truth, true)).toBeNull();
  });

  test.each([
    ["a token too many", said({ completionTokens: 4, nanos: nanosOf(7, 4) }), seen()],
    ["a prompt too short", said({ promptTokens: 6, nanos: nanosOf(6, 3) }), seen()],
    ["another price", said({ nanos: nanosOf(7, 3) + 1 }), seen()],
    ["a price where none is known", said({ nanos: null }), seen()],
    ["an estimate in place of what was told", said({ estimated: true }), seen()],
    ["the same where the gateway did not wait", said({ estimated: true }), seen({ endedBy: "client_closed" })],
    ["a doubt that nobody has", said({ costUncertain: true }), seen()],
    ["a failure where the answer was sound", said({ outcome: "failed", error: "interrupted", costUncertain: true }), seen()],
    ["an answer where there was a refusal", said(nothing), refused],
    ["another status", { ...refusal, status: 500 }, refused],
    ["a refusal that costs", { ...refusal, completionTokens: 3, nanos: nanosOf(0, 3) }, refused],
    ["an answer where it broke off", said({ estimated: true }), cut],
    ["more than was sent", { ...half, completionTokens: 9, nanos: nanosOf(7, 9) }, cut],
    ["certainty about half an answer", { ...half, costUncertain: false }, cut],
  ])("and %s is noticed", (_, claim, truth) => {
    expect(faultOfAttempt(claim, truth, true)).toBeString();
  });

  test("and an answer that was sound came too late only where the upstream could not act for most of its time", async () => {
    const late = { ...half, error: "timed_out" as const, tookMs: 200 };
    await Bun.sleep(50);
    expect(faultOfAttempt(late, seen({ at: performance.now() + late.tookMs }), true)).toBeString();
    const at = performance.now() + late.tookMs;
    Bun.sleepSync(late.tookMs);
    await Bun.sleep(50);
    expect(faultOfAttempt(late, seen({ at }), true)).toBeNull();
    expect(faultOfAttempt({ ...late, error: "interrupted" }, seen({ at }), true)).toBeString();
  });

  test("and an attempt that was never made, or is not told of, is noticed", () => {
    const truth = { truth: seen(), repeatable: false };
    expect(matched([said()], [truth])).toHaveLength(1);
    expect(matched([said(), said()], [truth])).toBeString();
    expect(matched([said()], [truth, truth])).toBeString();
    // Without a connection nobody was reached, and a stale one is replaced for nothing.
    expect(matched([refusal, said({ outcome: "failed", error: "unreachable" })], [truth])).toHaveLength(1);
    expect(matched([said()], [{ ...truth, repeatable: true }, truth])).toHaveLength(1);
  });

  test("and one that ran out of time need not have been read, where somebody connected who was not", () => {
    const truth = { truth: seen(), repeatable: false };
    const late = said({ ...nothing, outcome: "failed", error: "timed_out", blame: "channel", status: null });
    expect(matched([late, said()], [truth], 1)).toEqual([[said(), truth.truth]]);
    expect(matched([late, said()], [truth], 0)).toBeString();
    expect(matched([late, late, said()], [truth], 1)).toBeString();
    expect(matched([late, late, said()], [truth, truth], 1)).toEqual([]);
    expect(matched([said(), said()], [truth], 1)).toBeString();
    // Who could not listen at all may have missed every one that was given up meanwhile, and no other.
    expect(matched([late, late, said()], [truth], Infinity)).toHaveLength(1);
    expect(matched([said(), said()], [truth], Infinity)).toBeString();
  });

  test("and sums that are not those of its attempts are noticed", () => {
    const attempts = [refusal, said()];
    const sums = { billedNanos: nanosOf(7, 3), generatedTokens: 3, delivered: { completionTokens: 3 }, costUncertain: false };
    const receipt = { ...sums, state: "complete", attempts } as unknown as Receipt;
    expect(faultsOfSums(receipt)).toEqual([]);
    for (const wrong of [{ billedNanos: 0 }, { generatedTokens: 4 }, { delivered: { completionTokens: 4 } }, { costUncertain: true }]) {
      expect(faultsOfSums({ ...receipt, ...wrong } as Receipt)).toHaveLength(1);
    }
  });
});

test("retries beyond the budget of a model are noticed", () => {
  const call = (model: string, startedMs: number, attempts: number) =>
    ({ model, startedMs, attempts: Array.from({ length: attempts }, (_, at) => ({ afterMs: at * 10 })) }) as unknown as Receipt;
  const storm = (calls: number, attempts: number, everyMs: number) =>
    Array.from({ length: calls }, (_, at) => call("m", at * everyMs, attempts));
  expect(overspentRetries(storm(15, 3, 1))).toBeNull();
  expect(overspentRetries(storm(22, 3, 1))).toContain("for m");
  expect(overspentRetries(storm(22, 3, 1_000))).toBeNull();
  expect(overspentRetries([...storm(15, 3, 1), ...storm(15, 3, 1).map((one) => ({ ...one, model: "n" }))])).toBeNull();
});
