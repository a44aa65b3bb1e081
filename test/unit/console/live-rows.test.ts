import { describe, expect, test } from "bun:test";
import {
  matching,
  noRows,
  rowsMax,
  tokensPerSecond,
  unseenMs,
  withFrame as withFrameAt,
  type LiveFrameAnswer,
  type LiveRow,
  type LiveState,
} from "../../../src/console/pages/live/live-rows.ts";

function row(id: string, change: Partial<LiveRow> = {}): LiveRow {
  return {
    id,
    request_id: `req_${id}`,
    key: "key-1",
    key_name: "laptop",
    operation: "chat",
    model: "fast",
    stream: true,
    state: "running",
    status: null,
    error: null,
    started_ms: 0,
    took_ms: 0,
    first_content_ms: null,
    output_tokens: 0,
    cost_usd: null,
    attempts: [],
    ...change,
  };
}

const withFrame = (state: LiveState, next: LiveFrameAnswer) => withFrameAt(state, next, 0);
const frame = (calls: readonly LiveRow[], omitted = 0) => ({ calls, running: calls.length, omitted });

describe("the rows of the live view", () => {
  test("begin at the top, and keep their place while they change", () => {
    const first = withFrame(noRows, frame([row("a", { started_ms: 1 })]));
    const second = withFrame(first, frame([row("c", { started_ms: 3 }), row("b", { started_ms: 2 })]));
    const third = withFrame(second, frame([row("a", { state: "complete", started_ms: 1 })]));
    expect(third.rows.map(({ id, state }) => [id, state])).toEqual([
      ["c", "running"],
      ["b", "running"],
      ["a", "complete"],
    ]);
    // What did not change is the same object, which is not drawn again.
    expect(third.rows[0]).toBe(second.rows[0]);
  });

  test("do not come back to life when frames cross", () => {
    const ended = withFrame(noRows, frame([row("a", { state: "failed" })]));
    expect(withFrame(ended, frame([row("a")])).rows[0]?.state).toBe("failed");
  });

  test("are gone when they still run but are not sent any more, because their end was missed", () => {
    const states = ({ rows }: LiveState) => rows.map(({ id, state }) => [id, state]);
    let state = withFrameAt(noRows, frame([row("missed"), row("slow"), row("done", { state: "complete" })]), 0);
    state = withFrameAt(state, frame([row("slow")]), unseenMs - 100);
    expect(state.rows).toHaveLength(3);
    state = withFrameAt(state, frame([]), unseenMs + 100);
    expect(states(state)).toEqual([
      ["slow", "running"],
      ["done", "complete"],
    ]);
    expect([...state.seenMs.keys()]).toEqual(["slow"]);
    // After a pause, those that still run come with the next frames.
    state = withFrameAt(state, frame([row("new")]), 100_000);
    expect(states(state)).toEqual([
      ["new", "running"],
      ["done", "complete"],
    ]);
  });

  test("are bounded: the oldest that have ended go first, and running ones stay", () => {
    let state = withFrame(noRows, frame([row("slow", { started_ms: -1 })]));
    for (let at = 0; at < 20 * rowsMax; at += 50) {
      const calls = Array.from({ length: 50 }, (_, one) => row(`${at + one}`, { state: "complete", started_ms: at + one }));
      state = withFrame(state, frame(calls));
      expect(state.rows.length).toBeLessThanOrEqual(rowsMax);
    }
    expect(state.rows.some(({ id }) => id === "slow")).toBe(true);
    expect(state.rows[0]?.id).toBe(`${20 * rowsMax - 1}`);
    const flood = Array.from({ length: 3 * rowsMax }, (_, one) => row(`r${one}`, { started_ms: 1e6 + one }));
    expect(withFrame(state, frame(flood)).rows).toHaveLength(rowsMax);
  });

  test("count what was left out", () => {
    expect(withFrame(withFrame(noRows, frame([], 3)), frame([], 4)).omitted).toBe(7);
  });

  test("are found by words of what they show", () => {
    const attempt = { channel: "spare", model: "m", after_ms: 0, took_ms: 1, outcome: "answered", error: null, hedge: false };
    const rows = [row("a", { attempts: [attempt] }), row("b", { state: "failed", status: 429, error: "rate_limited" })];
    expect(matching(rows, "").length).toBe(2);
    expect(matching(rows, " SPARE chat ").map(({ id }) => id)).toEqual(["a"]);
    expect(matching(rows, "429").map(({ id }) => id)).toEqual(["b"]);
    expect(matching(rows, "429 spare")).toEqual([]);
  });

  test("tell the speed of a stream once there is something to divide", () => {
    expect(tokensPerSecond(row("a"))).toBeNull();
    expect(tokensPerSecond(row("a", { first_content_ms: 100, took_ms: 110, output_tokens: 9 }))).toBeNull();
    expect(tokensPerSecond(row("a", { first_content_ms: 500, took_ms: 2500, output_tokens: 100 }))).toBe(50);
  });
});
