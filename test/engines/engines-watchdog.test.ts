import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startWorkingTime } from "../../packages/embedded/src/codecs/working-time.ts";
import type { Engine, ReadJob } from "../../packages/embedded/src/server/engine.ts";
import { serveEngine } from "../../packages/embedded/src/server/serve-engine.ts";
import { makeStarvation, queuedMs, stolenMs } from "../../src/engines/starvation.ts";
import { Watchdog } from "../../src/engines/watchdog.ts";
import { eventually } from "../support/eventually.ts";

setDefaultTimeout(60_000);

const stuckMs = 60_000;

/** A watchdog on a clock of its own. */
class World {
  nowMs = 0;
  starvedMs = 0;
  stuckAtMs: number | null = null;
  readonly watchdog: Watchdog;
  #lookMs = Infinity;
  #look: (() => void) | null = null;

  constructor() {
    this.watchdog = new Watchdog({
      stuckMs,
      onStuck: () => (this.stuckAtMs = this.nowMs),
      starvedMs: () => this.starvedMs,
      nowMs: () => this.nowMs,
      every: (ms, act) => {
        this.#lookMs = ms;
        this.#look = act;
        return () => (this.#look = null);
      },
    });
  }

  /** Time passes; the engine waits for a processor for a share of it. Beats come this often, on its own clock. */
  pass(ms: number, facts: { readonly starved?: number; readonly beatEveryMs?: number } = {}): void {
    const { starved = 0, beatEveryMs = Infinity } = facts;
    const endMs = this.nowMs + ms;
    for (let beatMs = this.nowMs + beatEveryMs; this.nowMs < endMs && this.stuckAtMs === null;) {
      const stepMs = Math.min(this.#lookMs, endMs - this.nowMs);
      this.nowMs += stepMs;
      this.starvedMs += stepMs * starved;
      for (; beatMs <= this.nowMs; beatMs += beatEveryMs) this.watchdog.beat();
      this.#look?.();
    }
  }

  /** The gateway itself stood still: no look, and no sign was read. */
  stall(ms: number): void {
    this.nowMs += ms;
    this.#look?.();
  }
}

describe("the watchdog of an engine", () => {
  test("kills one that is busy and sends no heartbeat for too long", () => {
    const world = new World();
    world.watchdog.beat();
    world.pass(stuckMs - 3_001);
    expect(world.stuckAtMs).toBeNull();
    world.pass(10_000);
    expect(world.stuckAtMs).toBeWithin(stuckMs, stuckMs + 3_001);
  });

  test("leaves alone one that sends heartbeats, however long it works, and one that is idle", () => {
    const world = new World();
    world.watchdog.beat();
    world.pass(3_600_000, { beatEveryMs: 45_000 });
    world.watchdog.rest();
    world.pass(3_600_000);
    expect(world.stuckAtMs).toBeNull();
  });

  test("does not count time without a CPU: with a tenth of a CPU, it waits ten times as long", () => {
    const world = new World();
    world.watchdog.beat();
    // A unit of work of fifty seconds, on a tenth of a processor.
    world.pass(500_000, { starved: 0.9 });
    expect(world.stuckAtMs).toBeNull();
    world.watchdog.beat();
    world.pass(500_000, { starved: 0.9, beatEveryMs: 400_000 });
    expect(world.stuckAtMs).toBeNull();
  });

  test("kills one that loops on a busy machine as well, when its time is over", () => {
    const world = new World();
    world.watchdog.beat();
    world.pass(stuckMs * 2.5, { starved: 0.5 });
    expect(world.stuckAtMs).toBeWithin(stuckMs * 2, stuckMs * 2.2);
  });

  test("finally kills one that never gets a CPU: it serves nobody", () => {
    const world = new World();
    world.watchdog.beat();
    world.pass(stuckMs * 20, { starved: 1 });
    expect(world.stuckAtMs).toBeWithin(stuckMs * 10, stuckMs * 10.2);
  });

  test("does not blame the engine for a stall of the gateway: heartbeats of that time are still unread", () => {
    const world = new World();
    world.watchdog.beat();
    world.stall(10 * stuckMs);
    expect(world.stuckAtMs).toBeNull();
    world.watchdog.beat();
    world.pass(stuckMs / 2);
    expect(world.stuckAtMs).toBeNull();
  });
});

describe("the time that an engine was without a CPU", () => {
  test("is read from /proc, and is 0 without it", () => {
    expect(queuedMs("1657865 7144000000 2\n")).toBe(7_144);
    expect(stolenMs("cpu  1 2 3 4 5 6 7 250 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n", 2)).toBe(1_250);
    expect([queuedMs(""), queuedMs("nonsense"), stolenMs("", 4), stolenMs("cpu 1 2", 4)]).toEqual([0, 0, 0, 0]);
    expect(makeStarvation(2 ** 30)()).toBeGreaterThanOrEqual(0);
  });

  const hasTools = existsSync("/proc/self/schedstat") && Bun.which("taskset") !== null;
  test.skipIf(!hasTools)("grows for one of two processes that want the same CPU", async () => {
    const spin = ["taskset", "-c", "0", "nice", "-n", "19", process.execPath, "-e", "for (;;);"];
    const children = [Bun.spawn(spin), Bun.spawn(spin)];
    try {
      const starvations = children.map(({ pid }) => makeStarvation(pid));
      const before = starvations.map((starvedMs) => starvedMs());
      await eventually("both have waited", () => starvations.every((starvedMs, at) => starvedMs() - before[at]! > 100), 30_000);
    } finally {
      for (const child of children) child.kill("SIGKILL");
    }
  });
});

test("the time limit of a decoder counts time on a CPU, and at least a tenth of all time", () => {
  let nowMs = 1_000;
  let cpuMs = 50;
  const workedMs = startWorkingTime(
    () => nowMs,
    () => cpuMs,
  );
  expect(workedMs()).toBe(0);
  // Half of the time, and then none; two threads at once count once.
  [nowMs, cpuMs] = [11_000, 5_050];
  expect(workedMs()).toBe(5_000);
  [nowMs, cpuMs] = [101_000, 5_050];
  expect(workedMs()).toBe(10_000);
  [nowMs, cpuMs] = [102_000, 200_000];
  expect(workedMs()).toBe(101_000);
});

describe("a busy engine", () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-watchdog-test-"));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test("sends heartbeats by the clock and after each unit of work, although its timers hardly ever fire", async () => {
    const signs: string[] = [];
    const beatsAtUnit: number[] = [];
    const engine: Engine = {
      models: () => [],
      requestBytesMax: 1_000,
      routes: new Map<string, ReadJob>([
        [
          "/work",
          () =>
            Promise.resolve((_, worked) => {
              // The thread is kept all the time: no timer rings in between.
              for (let unit = 0; unit < 5; unit++) {
                Bun.sleepSync(60);
                worked();
                worked();
                beatsAtUnit.push(signs.length);
              }
              return Promise.resolve({ type: "text/plain", body: "done" });
            }),
        ],
        [
          "/stream",
          () =>
            Promise.resolve(() => {
              async function* pieces(): AsyncGenerator<string, void> {
                for (let piece = 0; piece < 5; piece++) {
                  Bun.sleepSync(60);
                  yield await Promise.resolve("x");
                }
              }
              return Promise.resolve({ type: "text/plain", body: pieces() });
            }),
        ],
      ]),
    };
    const socket = join(folder, "s");
    const server = serveEngine(engine, { socket, idleMs: 60_000, onIdle: () => {}, onHeartbeat: (sign) => signs.push(sign), beatMs: 50 });
    try {
      const ask = async (path: string): Promise<string> => (await fetch(`http://local${path}`, { method: "POST", unix: socket })).text();
      expect(await ask("/work")).toBe("done");
      // One at the beginning; then one for each unit, since each took longer than a beat may be away, and none for the second word.
      expect(beatsAtUnit).toEqual([2, 3, 4, 5, 6]);
      await eventually("it rests", () => signs.at(-1) === "rest");
      signs.length = 0;
      expect(await ask("/stream")).toBe("xxxxx");
      await eventually("it rests", () => signs.at(-1) === "rest");
      expect(signs.filter((sign) => sign === "beat").length).toBeGreaterThanOrEqual(6);
    } finally {
      await server.stop();
    }
  });
});
