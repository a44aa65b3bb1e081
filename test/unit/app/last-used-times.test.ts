import { describe, expect, test } from "bun:test";
import { LastUsedTimes } from "../../../src/app/last-used-times.ts";

/** With a clock that stands at what `at` says, and timers that fire when they are told to. */
function collecting() {
  const written: (readonly [string, number])[][] = [];
  const timers: { readonly ms: number; readonly fire: () => void }[] = [];
  const clock = { wallMs: () => now.ms };
  const now = { ms: 0 };
  const used = async (times: ReadonlyMap<string, number>) => void written.push([...times]);
  const times = new LastUsedTimes(
    { storage: { keys: { used } }, clock },
    {
      after: (ms, fire) => {
        const timer = { ms, fire };
        timers.push(timer);
        return () => void timers.splice(timers.indexOf(timer), 1);
      },
    },
  );
  const fire = () => {
    const timer = timers.shift();
    timer?.fire();
    return timer?.ms;
  };
  return { times, written, timers, now, fire };
}

describe("when a key was last used", () => {
  test("is written a second after its first use, and then once a minute however often it is used", () => {
    const { times, written, timers, now, fire } = collecting();
    times.used("a");
    now.ms = 500;
    times.used("a");
    expect(timers).toHaveLength(1);
    expect(fire()).toBe(1_000);
    expect(written).toEqual([[["a", 500]]]);
    for (now.ms = 1_000; now.ms < 60_000; now.ms += 100) times.used("b");
    expect(written).toHaveLength(1);
    expect(timers).toHaveLength(1);
    expect(fire()).toBe(60_000);
    expect(written[1]).toEqual([["b", 59_900]]);
  });

  test("is written soon again after a minute without use", () => {
    const { times, written, timers, fire } = collecting();
    times.used("a");
    fire();
    expect(fire()).toBe(60_000);
    expect(timers).toHaveLength(0);
    times.used("a");
    expect(fire()).toBe(1_000);
    expect(written).toHaveLength(2);
  });

  test("is written at the end, and no timer is left", async () => {
    const { times, written, timers } = collecting();
    times.used("a");
    times.stop();
    await times.flush();
    expect(written).toEqual([[["a", 0]]]);
    expect(timers).toHaveLength(0);
  });
});
