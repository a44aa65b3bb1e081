// Needs: quiet, long. It mostly waits for timers of two seconds to ring.
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Timers } from "../../src/clock/timers.ts";

test.concurrent("a timer rings once, not before its time, and soon after it, short or long", async () => {
  const timers = new Timers(() => performance.now());
  const delays = [0, 10, 1999, 2000, 2025, 2060];
  const rung = await Promise.all(
    delays.map((ms) => {
      const began = performance.now();
      return new Promise<number>((resolve) => timers.after(ms, () => resolve(performance.now() - began)));
    }),
  );
  // Native timers may be a millisecond early by their own clock.
  for (const [at, ms] of delays.entries()) expect(rung[at]).toBeGreaterThanOrEqual(ms - 1);
});

test.concurrent("a timer that was taken back never rings, and the others of its tick do", async () => {
  const timers = new Timers(() => performance.now());
  let wrong = 0;
  const right = new Promise<void>((resolve) => timers.after(2010, resolve));
  for (const ms of [5, 2000, 2005, 2010]) timers.after(ms, () => wrong++)();
  await right;
  expect(wrong).toBe(0);
});

test.concurrent("one function may wait many times, and each wait is its own", async () => {
  const timers = new Timers(() => performance.now());
  let rings = 0;
  const ring = (): void => void rings++;
  const takeBack = timers.after(2000, ring);
  timers.after(2000, ring);
  takeBack();
  await new Promise<void>((resolve) => timers.after(2100, resolve));
  expect(rings).toBe(1);
});

test.concurrent("whatever is set and taken back, only what was left rings", async () => {
  const sets = fc.sample(fc.array(fc.record({ ms: fc.integer({ min: 2000, max: 2100 }), kept: fc.boolean() }), { maxLength: 50 }), 100);
  // Side by side, because each takes its real time.
  await Promise.all(
    sets.map(async (set) => {
      const timers = new Timers(() => performance.now());
      const rung: number[] = [];
      set.forEach(({ ms, kept }, at) => {
        const takeBack = timers.after(ms, () => rung.push(at));
        if (!kept) takeBack();
      });
      await new Promise<void>((resolve) => timers.after(2200, resolve));
      expect(rung.toSorted((a, b) => a - b)).toEqual(set.flatMap(({ kept }, at) => (kept ? [at] : [])));
    }),
  );
});

test.each([
  ["short", 1_500, 0, 2.5],
  ["long", 3_500, 2_000, 2.5],
  ["long (just before the process goes on)", 3_500, 2_400, 1.2],
])(
  "a %s timer that comes due while the process stands still rings after what arrived meanwhile",
  async (_, ms, standsAtMs, standsSeconds) => {
    const timers = new Timers(() => performance.now());
    const heard: string[] = [];
    const rung = new Promise<void>((resolve) =>
      timers.after(ms, () => {
        heard.push("timer");
        resolve();
      }),
    );
    await Bun.sleep(standsAtMs);
    const { pid } = process;
    const stopper = Bun.spawn(["sh", "-c", `kill -STOP ${pid}; echo word; sleep ${standsSeconds}; kill -CONT ${pid}`], { stdout: "pipe" });
    for await (const { length } of stopper.stdout) if (length > 0) heard.push("word");
    await rung;
    expect(heard).toEqual(["word", "timer"]);
  },
);

test("a timer that was taken back while it waits for what arrived never rings", async () => {
  const timers = new Timers(() => performance.now());
  let rings = 0;
  const takeBack = timers.after(50, () => rings++);
  Bun.sleepSync(600);
  await Bun.sleep(100);
  takeBack();
  await Bun.sleep(700);
  expect(rings).toBe(0);
});
