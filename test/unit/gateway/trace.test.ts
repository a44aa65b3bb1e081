import { describe, expect, test } from "bun:test";
import { SpanIds, traceHeaders, traceOf, TraceSampler } from "../../../src/gateway/trace.ts";
import { requestNameOf } from "../../../src/usage/receipt.ts";

const receiptId = "019a9b1c-0000-7abc-8def-0123456789ab";
const receiptName = requestNameOf(receiptId);
const ids = { trace: "4bf92f3577b34da6a3ce929d0e0e4736", span: "00f067aa0ba902b7" };
const path = "/v1/chat/completions";
const rules = { sampler: new TraceSampler(0, Infinity, () => 0.5), passedOn: true };

function read(parent: string | null, state: string | null = null) {
  return traceOf(receiptName, { parent, state, path }, 0, rules);
}

describe("the trace of a call", () => {
  test("is the client's, if it sent one", () => {
    const trace = read(`00-${ids.trace}-${ids.span}-01`, "vendor=1");
    expect(trace).toMatchObject({ traceId: ids.trace, parentId: ids.span, sampled: true, state: "vendor=1" });
    expect(read(`00-${ids.trace}-${ids.span}-00`).sampled).toBe(false);
    // Only the last bit says it.
    expect(read(`00-${ids.trace}-${ids.span}-02`).sampled).toBe(false);
  });

  test("may be of a later version, which has more behind the flags", () => {
    expect(read(`cc-${ids.trace}-${ids.span}-01-what-the-future-brings`).traceId).toBe(ids.trace);
  });

  test.each([
    null,
    "",
    `00-${ids.trace}-${ids.span}`,
    `00-${ids.trace.toUpperCase()}-${ids.span}-01`,
    `00-${"0".repeat(32)}-${ids.span}-01`,
    `00-${ids.trace}-${"0".repeat(16)}-01`,
    `ff-${ids.trace}-${ids.span}-01`,
    `00-${ids.trace}-${ids.span}-01-more`,
    `00-${ids.trace}-${ids.span}-01,00-${ids.trace}-${ids.span}-01`,
    "x".repeat(100_000),
  ])("is that of the receipt without one, or with a malformed one (case %#)", (parent) => {
    expect(read(parent, "vendor=1")).toMatchObject({ traceId: receiptId.replaceAll("-", ""), parentId: null, state: null });
  });

  test("is recorded by chance where the client does not say", () => {
    const sampled = (share: number) => {
      const sampler = new TraceSampler(share, Infinity, () => 0.5);
      return traceOf(receiptName, { parent: null, state: null, path }, 0, { sampler, passedOn: true }).sampled;
    };
    expect([sampled(0), sampled(0.5), sampled(0.51), sampled(1)]).toEqual([false, false, true, true]);
  });

  test("is recorded by chance at most so often in a second, also if the clock stands still or is set back", () => {
    const sampler = new TraceSampler(1, 3, () => 0);
    const recorded = (...at: readonly number[]) => at.filter((nowMs) => sampler.isSampled(nowMs)).length;
    expect(recorded(0, 0, 500, 999, 999, 999)).toBe(3);
    expect(recorded(1000, 1000, 1999, 1999)).toBe(3);
    expect(recorded(10, 10, 2000, 2001, 2002, 2003)).toBe(3);
  });

  test("that the client records is not counted among those", () => {
    const sampler = new TraceSampler(1, 0, () => 0);
    const headers = { parent: `00-${ids.trace}-${ids.span}-01`, state: null, path };
    expect(traceOf(receiptName, headers, 0, { sampler, passedOn: true }).sampled).toBe(true);
  });

  test("is passed on with the flags that are known, and without others", () => {
    const passedOn = ["00", "01", "02", "03", "ff"].map((flags) =>
      traceHeaders(read(`00-${ids.trace}-${ids.span}-${flags}`), ids.span, {})?.traceparent.slice(-2),
    );
    expect(passedOn).toEqual(["00", "01", "02", "03", "03"]);
  });

  test("is passed on with the span of the attempt as the parent", () => {
    const trace = read(`00-${ids.trace}-${ids.span}-01`, "vendor=1");
    const traceparent = `00-${ids.trace}-00000000000000ab-01`;
    expect(traceHeaders(trace, "00000000000000ab", {})).toEqual({ traceparent, tracestate: "vendor=1" });
    expect(traceHeaders(read(null), "00000000000000ab", {})).toEqual({
      traceparent: `00-${receiptId.replaceAll("-", "")}-00000000000000ab-00`,
      tracestate: null,
    });
    expect(traceHeaders({ ...trace, passedOn: false }, "00000000000000ab", {})).toBeNull();
  });

  test("is not passed on beside headers of the channel's own", () => {
    const trace = read(`00-${ids.trace}-${ids.span}-01`, "vendor=1");
    expect(traceHeaders(trace, "00000000000000ab", { traceparent: "own" })).toBeNull();
    expect(traceHeaders(trace, "00000000000000ab", { tracestate: "own" })?.tracestate).toBeNull();
  });

  test.each([0, 0.25, 0.999_999_999_9])("has span ids of sixteen digits that are not zero (dice: %p)", (dice) => {
    expect(new SpanIds(() => dice).next()).toMatch(/^(?!0{16})[0-9a-f]{16}$/);
  });

  test("has span ids that are all different", () => {
    let rolls = 0;
    const spans = new SpanIds(() => (rolls += 1) / 100);
    const made = Array.from({ length: 20_000 }, () => spans.next());
    expect(new Set(made).size).toBe(made.length);
  });
});
