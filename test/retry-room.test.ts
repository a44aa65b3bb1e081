import { describe, expect, test } from "bun:test";
import { Board, type Retry } from "../src/gateway/board.ts";
import { retriesMax } from "../src/limits/retry-share.ts";
import { failure } from "../src/operations/failure.ts";
import { candidate } from "./support/plan-world.ts";

function boardWith({ calls = 0, model = "m" } = {}): Board {
  const board = new Board({ nowMs: () => 0, dice: () => 0.5, after: () => () => {} });
  for (let call = 0; call < calls; call += 1) board.callBegins(model, "normal", false);
  return board;
}

function taken(board: Board, into: ReturnType<typeof candidate>, times = 1_000): readonly Retry[] {
  const retries: Retry[] = [];
  for (let time = 0; time < times; time += 1) {
    const retry = board.takeRetry(into, "m");
    if (retry !== null) retries.push(retry);
  }
  return retries;
}

describe("retries into one channel", () => {
  test("are a fifth of the calls in flight at a time, and three in any case", () => {
    expect([0, 1, 15, 16, 19, 20, 24, 100, 512].map(retriesMax)).toEqual([3, 3, 3, 3, 3, 4, 4, 20, 102]);
  });

  test("are counted from the decision until they are over, each once", () => {
    const [a, b] = [candidate("a"), candidate("b")];
    const board = boardWith({ calls: 1 });
    const into = taken(board, a);
    expect(into.length).toBe(3);
    expect([board.hasRoom(a, "m"), board.hasRoom(b, "m")]).toEqual([false, true]);
    into[0]!.over();
    into[0]!.over();
    expect(taken(board, a).length).toBe(1);
    expect(taken(board, b).length).toBe(3);
  });

  test("cost no budget where there is no room for them", () => {
    const [a, b] = [candidate("a"), candidate("b")];
    const board = boardWith({ calls: 1 });
    taken(board, a, 10_000);
    expect(board.mayRetry("m")).toBe(true);
    expect(taken(board, b).length).toBe(3);
  });

  test("have more room where the channel, or the model that falls back on it, has more calls", () => {
    const [a, b] = [candidate("a"), candidate("b")];
    expect(taken(boardWith({ calls: 50 }), b).length).toBe(10);
    const busy = boardWith({ calls: 1 });
    for (let call = 0; call < 50; call += 1) busy.begin({ candidate: a, probe: false }, "other", 0);
    expect(taken(busy, a).length).toBe(10);
    expect(taken(busy, b).length).toBe(3);
  });

  test("take no place that is not there", () => {
    const narrow = candidate("narrow", { concurrencyMax: 2 });
    const board = boardWith({ calls: 3 });
    const tickets = [1, 2].map(() => board.begin({ candidate: narrow, probe: false }, "m", 0));
    expect(board.takeRetry(narrow, "m")).toBeNull();
    tickets[0]!.succeeded(0);
    expect(board.takeRetry(narrow, "m")).not.toBeNull();
  });

  test.each([
    ["with its first content", (ticket: ReturnType<Board["begin"]>): void => ticket.firstContent(1)],
    ["with its failure", (ticket: ReturnType<Board["begin"]>): void => ticket.failed(failure("overloaded", ""), 1)],
    ["when nobody wants it any more", (ticket: ReturnType<Board["begin"]>): void => ticket.abandoned()],
  ])("are over %s", (_, end) => {
    const a = candidate("a");
    const board = boardWith({ calls: 1 });
    const tickets = taken(board, a).map((retry) => board.begin({ candidate: a, probe: false }, "m", 0, retry));
    expect(board.hasRoom(a, "m")).toBe(false);
    end(tickets[0]!);
    expect(taken(board, a).length).toBe(1);
  });
});
