import { describe, expect, test } from "bun:test";
import type { RunningCall } from "../../../src/gateway/admission/live-calls.ts";
import type { AttemptProgress } from "../../../src/gateway/attempt/attempt-progress.ts";
import { LiveFeed, type LiveFeedOptions, type LiveFrame } from "../../../src/telemetry/live/live-feed.ts";

const progress: AttemptProgress = {
  channel: "main",
  model: "m",
  startedMs: 110,
  endedMs: null,
  outcome: "running",
  error: null,
  hedge: false,
  firstContentMs: null,
  outputTokens: 0,
};

function running(id: string, attempts: readonly AttemptProgress[] = []): RunningCall {
  const facts = {
    id: `req_${id}`,
    keyId: "k",
    operation: "chat",
    model: "fast",
    stream: true,
    bytesIn: 1,
    startedMs: 100,
    admission: null,
  };
  return { facts, admission: { id }, attempts: attempts.map((one) => ({ progress: one })) } as unknown as RunningCall;
}

/** A feed with a clock and a timer that the test moves. */
function world(calls: () => readonly RunningCall[], others: Partial<LiveFeedOptions> = {}) {
  let nowMs = 1000;
  let due: (() => void) | null = null;
  let dueMs = 0;
  const frames: LiveFrame[] = [];
  const feed = new LiveFeed({
    running: calls,
    nowMs: () => nowMs,
    wallMs: () => nowMs + 1_000_000,
    after: (ms, then) => {
      due = then;
      dueMs = ms;
      return () => {
        due = null;
      };
    },
    processes: 1,
    otherReports: null,
    ...others,
  });
  const tick = (ms: number): void => {
    nowMs += ms;
    const then = due;
    due = null;
    then?.();
  };
  return {
    feed,
    frames,
    tick,
    isWaiting: () => due !== null,
    waitsMs: () => dueMs,
    watch: () => feed.watch((frame) => frames.push(frame)),
  };
}

describe("the live feed", () => {
  test("looks at nothing and keeps nothing while nobody watches", () => {
    let looks = 0;
    const { feed, watch, tick, isWaiting, frames } = world(() => {
      looks += 1;
      return [];
    });
    feed.observe({} as never, null);
    expect([looks, isWaiting()]).toEqual([0, false]);
    const stop = watch();
    tick(20);
    expect([looks, frames.length]).toEqual([1, 1]);
    stop?.();
    expect(isWaiting()).toBe(false);
  });

  test("sends a call when it changes, and its figures once a second", () => {
    let attempts: readonly AttemptProgress[] = [];
    const { watch, tick, frames } = world(() => [running("a", attempts)]);
    watch();
    tick(20);
    tick(250);
    attempts = [progress];
    tick(250);
    attempts = [{ ...progress, firstContentMs: 400, outputTokens: 3 }];
    tick(250);
    tick(250);
    tick(1000);
    expect(frames.map(({ calls }) => calls.length)).toEqual([1, 0, 1, 1, 0, 1]);
    expect(frames[3]?.calls[0]).toMatchObject({
      id: "a",
      state: "running",
      firstContentMs: 300,
      outputTokens: 3,
      attempts: [{ channel: "main", afterMs: 10 }],
    });
  });

  test("sends frames half as often while more happens than can be followed, and no call is missed", () => {
    const { feed, watch, tick, waitsMs, frames } = world(() => []);
    const end = (count: number): void => {
      for (let at = 0; at < count; at += 1) feed.observe({ attempts: [], failure: null, startedMs: 0, endedMs: 1 } as never, null);
    };
    watch();
    tick(20);
    const waits = [25, 26, 100, 3].map((count) => {
      end(count);
      tick(waitsMs());
      return waitsMs();
    });
    expect(waits).toEqual([250, 500, 500, 250]);
    expect(frames.map(({ calls, omitted }) => [calls.length, omitted])).toEqual([0, 25, 26, 100, 3].map((count) => [count, 0]));
  });

  test("sends all running calls to whoever joins", () => {
    const { watch, tick, frames } = world(() => [running("a")]);
    watch();
    tick(20);
    watch();
    tick(250);
    expect(frames.at(-1)?.calls).toHaveLength(1);
  });

  test("is bounded: it counts what it leaves out, and has room for so many watchers", () => {
    const many = Array.from({ length: 1000 }, (_, at) => running(String(at)));
    const { watch, tick, frames } = world(() => many);
    watch();
    tick(20);
    expect(frames[0]).toMatchObject({ running: 1000, omitted: 700 });
    expect(frames[0]?.calls).toHaveLength(300);
    let watchers = 1;
    while (watch() !== null) watchers += 1;
    expect(watchers).toBe(32);
  });

  test("joins what other workers report, on its own clock, and asks one that hangs no second time", async () => {
    const other = world(() => [running("b")], { wallMs: () => 5_000_000 });
    const asked: PromiseWithResolvers<readonly string[]>[] = [];
    const { watch, tick, frames } = world(() => [running("a")], {
      processes: 2,
      otherReports: () => {
        asked.push(Promise.withResolvers());
        return asked.at(-1)!.promise;
      },
    });
    const stop = watch();
    tick(20);
    tick(250);
    tick(250);
    expect(asked).toHaveLength(1);
    asked[0]!.resolve([other.feed.report()]);
    await asked[0]!.promise;
    await Promise.resolve();
    tick(250);
    expect(frames.map(({ running }) => running)).toEqual([1, 1, 1, 2]);
    // It began 900 ms before the report, when the wall clock of both was at 5,000,000 ms: here the monotonic one is 1,000,000 ms behind.
    expect(frames.at(-1)?.calls).toEqual([expect.objectContaining({ id: "b", state: "running", startedMs: 4_999_100 - 1_000_000 })]);
    expect(asked).toHaveLength(2);
    stop?.();
  });

  test("remembers calls for another worker while that one asks, and forgets them when it asks no more", () => {
    const record = { attempts: [], failure: null, startedMs: 0, endedMs: 1 } as never;
    const { feed, tick, isWaiting } = world(() => []);
    const reported = (): number => (JSON.parse(feed.report()) as LiveFrame).calls.length;
    feed.observe(record, null);
    expect(reported()).toBe(0);
    feed.observe(record, null);
    expect([reported(), reported()]).toEqual([1, 0]);
    feed.observe(record, null);
    tick(3000);
    expect(isWaiting()).toBe(false);
    feed.observe(record, null);
    expect(reported()).toBe(0);
  });

  test("sends no more of all workers together than of one", () => {
    const many = Array.from({ length: 1000 }, (_, at) => running(String(at)));
    const { feed } = world(() => many, { processes: 4 });
    expect((JSON.parse(feed.report()) as LiveFrame).calls).toHaveLength(75);
  });
});
