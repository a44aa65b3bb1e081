import { describe, expect, test } from "bun:test";
import { EventEmitter } from "node:events";
import { onEndSignals, type EndSignal } from "../../../src/cli/process/end-signals.ts";

/** Sends signals at the given milliseconds, and returns those that were heeded. */
function heeded(env: Record<string, string>, signals: readonly (readonly [EndSignal, number])[]): readonly string[] {
  const own = Object.assign(new EventEmitter(), { env });
  const heard: string[] = [];
  let nowMs = 0;
  onEndSignals(
    own as unknown as NodeJS.Process,
    (signal) => void heard.push(`${signal} at ${nowMs}`),
    () => nowMs,
  );
  for (const [signal, atMs] of signals) {
    nowMs = atMs;
    own.emit(signal);
  }
  return heard;
}

const underNpm = { npm_lifecycle_event: "start" };

describe("a second signal", () => {
  test("is npm's copy of the first where npm runs the gateway and it comes within a moment", () => {
    expect(
      heeded(underNpm, [
        ["SIGINT", 1000],
        ["SIGINT", 1002],
      ]),
    ).toEqual(["SIGINT at 1000"]);
  });

  test("is a person's own where it comes later, or is another one", () => {
    expect(
      heeded(underNpm, [
        ["SIGINT", 1000],
        ["SIGINT", 1300],
      ]),
    ).toHaveLength(2);
    expect(
      heeded(underNpm, [
        ["SIGINT", 1000],
        ["SIGTERM", 1002],
      ]),
    ).toHaveLength(2);
  });

  test("has its own copy, which is no third", () => {
    expect(
      heeded(underNpm, [
        ["SIGTERM", 0],
        ["SIGTERM", 1],
        ["SIGTERM", 900],
        ["SIGTERM", 901],
      ]),
    ).toEqual(["SIGTERM at 0", "SIGTERM at 900"]);
  });

  test("is heeded at once without npm", () => {
    expect(
      heeded({}, [
        ["SIGTERM", 1000],
        ["SIGTERM", 1001],
      ]),
    ).toHaveLength(2);
  });
});
