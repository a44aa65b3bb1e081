import { expect, test } from "bun:test";
import type { Timeouts } from "../../../src/channels/channel.ts";
import { AttemptTimeouts } from "../../../src/gateway/attempt/attempt-timeouts.ts";
import type { Timer } from "../../../src/gateway/ports.ts";
import type { Failure } from "../../../src/operations/failure.ts";

const timeouts: Timeouts = {
  connectMs: 5_000,
  firstByteMs: 300_000,
  firstContentMs: 60_000,
  idleMs: 60_000,
  progressMs: 300_000,
  totalMs: 1_800_000,
};

/** A stream whose content has begun, on a clock that is moved by hand. */
function stream() {
  const state = { nowMs: 0, dueMs: Infinity, ended: null as Failure | null, endedMs: 0 };
  let armed: Timer | null = null;
  const ports = {
    nowMs: () => state.nowMs,
    timers: {
      set: (timer: Timer, ms: number): void => {
        armed = timer;
        state.dueMs = state.nowMs + ms;
      },
      clear: (): void => void (state.dueMs = Infinity),
    },
  };
  const attempt = {
    abandon: (reason: Failure): void => {
      state.ended ??= reason;
      state.endedMs = state.nowMs;
    },
  };
  const limits = { startedMs: 0, timeouts, stream: true, patienceMs: 60_000, deadlineMs: 600_000, slowMs: Infinity };
  const made = new AttemptTimeouts(ports, limits, attempt);
  made.headArrived();
  made.committed();
  const pass = (ms: number): void => {
    const untilMs = state.nowMs + ms;
    while (state.dueMs <= untilMs && state.ended === null) {
      state.nowMs = state.dueMs;
      state.dueMs = Infinity;
      armed!.fire();
    }
    state.nowMs = untilMs;
  };
  return { state, made, pass };
}

test("a stream whose choices are finished ends ten seconds after its last event, although comments go on", () => {
  const { state, made, pass } = stream();
  made.readBegins();
  made.readEnds(true);
  made.finished();
  for (let comment = 0; comment < 30 && state.ended === null; comment += 1) {
    made.readBegins();
    pass(5_000);
    made.readEnds(false);
  }
  expect(state.ended).toMatchObject({ kind: "timed_out", detail: "silent after the last choice was finished" });
  expect(state.endedMs).toBe(10_000);
});

test("an event after the last choice, such as the usage, gives a finished stream its ten seconds again", () => {
  const { state, made, pass } = stream();
  made.readBegins();
  made.readEnds(true);
  made.finished();
  made.readBegins();
  pass(9_000);
  made.readEnds(true);
  made.readBegins();
  pass(9_000);
  expect(state.ended).toBeNull();
  pass(1_000);
  expect(state.ended).toMatchObject({ kind: "timed_out" });
});

test("a stream that its client has not read within the total time ends without blame for the channel", () => {
  const { state, made, pass } = stream();
  made.readBegins();
  made.readEnds(true);
  pass(timeouts.totalMs + 60_000);
  expect(state.ended).toMatchObject({ kind: "deadline", blame: "gateway", scope: "request" });
  expect(state.endedMs).toBe(timeouts.totalMs);
});

test("a stream that is still being read after the total time is the channel's failure", () => {
  const { state, made, pass } = stream();
  while (state.nowMs < timeouts.totalMs) {
    made.readBegins();
    pass(30_000);
    if (state.ended === null) made.readEnds(true);
  }
  expect(state.ended).toMatchObject({ kind: "timed_out", blame: "channel" });
});

test("the longest gap of a stream is that between two events, without comments, the first content, and time in which nobody reads", () => {
  const { made, pass } = stream();
  const reads = (gapMs: number, withEvents = true): void => {
    made.readBegins();
    pass(gapMs);
    made.readEnds(withEvents);
  };
  expect(made.longestGapMs).toBeNull();
  reads(2_000);
  reads(500);
  expect(made.longestGapMs).toBe(2_000);
  // The client takes nothing for a while, and the upstream is silent before that and after it.
  reads(1_500, false);
  pass(20_000);
  reads(2_500);
  expect(made.longestGapMs).toBe(4_000);
  made.finished();
  reads(6_000);
  expect(made.longestGapMs).toBe(6_000);
});
