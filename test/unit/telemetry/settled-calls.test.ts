import { describe, expect, test } from "bun:test";
import { SettledCalls } from "../../../src/telemetry/settled-calls.ts";
import { attempt, callRecord, receiptFor } from "../../support/call-records.ts";

describe("settled calls", () => {
  function collecting() {
    const seen: (readonly [observer: string, model: string | null])[] = [];
    const timers: { readonly ms: number; readonly fire: () => void }[] = [];
    const observer = (name: string) => (record: { readonly model: string | null }) => void seen.push([name, record.model]);
    const calls = new SettledCalls([observer("first"), observer("second")], (ms, fire) => void timers.push({ ms, fire }), noBug);
    const settle = (model: string) => {
      const record = callRecord([attempt()], { model });
      calls.observe(record, receiptFor(record));
    };
    return { seen, timers, calls, settle };
  }

  test("reach every observer in their order, once, when they are flushed", () => {
    const { seen, calls, settle } = collecting();
    settle("one");
    settle("two");
    expect(seen).toEqual([]);
    calls.flush();
    calls.flush();
    expect(seen).toEqual([
      ["first", "one"],
      ["first", "two"],
      ["second", "one"],
      ["second", "two"],
    ]);
  });

  test("reach other observers, and the same one later, if it throws, which is reported once with the number of calls", () => {
    const seen: (readonly [observer: string, model: string | null])[] = [];
    const bugs: (readonly [error: unknown, calls: number])[] = [];
    const calls = new SettledCalls(
      [
        ({ model }) => {
          seen.push(["first", model]);
          if (model?.startsWith("bad") === true) throw new Error(model);
        },
        ({ model }) => void seen.push(["second", model]),
      ],
      () => {},
      (error, count) => void bugs.push([error, count]),
    );
    const settle = (model: string) => calls.observe(callRecord([attempt()], { model }), null);
    for (const model of ["bad-1", "good-1", "bad-2"]) settle(model);
    calls.flush();
    settle("good-2");
    calls.flush();
    expect(seen).toEqual([
      ...["bad-1", "good-1", "bad-2"].map((model) => ["first", model] as const),
      ...["bad-1", "good-1", "bad-2"].map((model) => ["second", model] as const),
      ["first", "good-2"],
      ["second", "good-2"],
    ]);
    expect(bugs).toEqual([[new Error("bad-1"), 2]]);
  });

  test("wait for at most a second, by one timer at a time, which serves all that wait", () => {
    const { seen, timers, calls, settle } = collecting();
    settle("one");
    calls.flush();
    settle("two");
    expect(timers.map(({ ms }) => ms)).toEqual([1000]);
    timers[0]!.fire();
    expect(seen.filter(([name]) => name === "first")).toEqual([
      ["first", "one"],
      ["first", "two"],
    ]);
    settle("three");
    expect(timers).toHaveLength(2);
  });

  test("never are more than 127 that wait, however fast they come", () => {
    const { seen, settle } = collecting();
    for (let count = 1; count <= 640; count += 1) {
      settle("one");
      expect(count - seen.length / 2).toBeLessThan(128);
    }
    expect(seen).toHaveLength(1280);
  });
});

function noBug(error: unknown): void {
  expect.unreachable(String(error));
}
