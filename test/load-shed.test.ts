import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { LoopDelay, shed, shedRetryMs, watchPressure, type Pressure } from "../src/http/load-shed.ts";
import { memoryShareOf } from "../src/http/memory-share.ts";
import { eventually } from "./support/eventually.ts";

const calm: Pressure = { loopDelayMs: 0, memoryShare: 0 };

/** Dice that fall evenly. */
function even(): () => number {
  let count = 0;
  return () => (count++ % 1_000) / 1_000;
}

function shareShed(pressure: Pressure): number {
  const dice = even();
  return Array.from({ length: 1_000 }, () => shed(pressure, "call", dice)).filter((reason) => reason !== null).length / 1_000;
}

describe("new work", () => {
  test("is taken while the process is well, up to the very bounds", () => {
    for (const work of ["call", "upload"] as const) {
      expect(shed({ loopDelayMs: 250, memoryShare: 0.849 }, work, () => 0)).toBeNull();
    }
  });

  test("is turned away in part when the event loop is late, the more the later, and never all of it", () => {
    const shares = [251, 400, 700, 1_000, 60_000].map((loopDelayMs) => shareShed({ ...calm, loopDelayMs }));
    expect(shares[0]).toBeGreaterThanOrEqual(0.1);
    expect(shares[0]).toBeLessThan(0.15);
    expect(shares).toEqual(shares.toSorted((one, other) => one - other));
    expect(shares[3]).toBe(0.9);
    expect(shares[4]).toBe(0.9);
  });

  test("is refused when memory is short: uploads first, then everything", () => {
    const never = (): number => 1;
    expect(shed({ ...calm, memoryShare: 0.85 }, "upload", never)).toBe("memory_short");
    expect(shed({ ...calm, memoryShare: 0.85 }, "call", never)).toBeNull();
    expect(shed({ ...calm, memoryShare: 0.95 }, "upload", never)).toBe("memory_out");
    expect(shed({ ...calm, memoryShare: 0.95 }, "call", never)).toBe("memory_out");
  });

  test("may come back after one to five seconds", () => {
    expect(shedRetryMs(() => 0)).toBe(1_000);
    expect(shedRetryMs(() => 0.999)).toBeLessThan(5_000);
  });
});

describe("the delay of the event loop", () => {
  test("is what one long block was, for a second, and then nothing", () => {
    const loop = new LoopDelay(0, 20);
    let nowMs = 0;
    const run = (untilMs: number): void => {
      while (nowMs + 20 <= untilMs) loop.tick((nowMs += 20));
    };
    run(1_000);
    expect(loop.delayMs(nowMs)).toBe(0);
    nowMs += 2_100;
    loop.tick(nowMs);
    expect(loop.delayMs(nowMs)).toBe(2_080);
    run(nowMs + 980);
    expect(loop.delayMs(nowMs)).toBe(2_080);
    run(nowMs + 40);
    expect(loop.delayMs(nowMs)).toBe(0);
  });

  test("is not told by one short block, such as a reload, but by a loop that is late again and again", () => {
    const loop = new LoopDelay(0, 20);
    let nowMs = 0;
    for (let tick = 0; tick < 50; tick++) loop.tick((nowMs += 20));
    loop.tick((nowMs += 420));
    expect(loop.delayMs(nowMs)).toBe(0);
    for (let tick = 0; tick < 4; tick++) loop.tick((nowMs += 320));
    expect(loop.delayMs(nowMs)).toBe(300);
  });

  test("is seen by who comes before the late timer", () => {
    const loop = new LoopDelay(0, 20);
    expect(loop.delayMs(2_020)).toBe(2_000);
  });

  test("of this very process is measured: a block of 2.1 s, and the calm after it", async () => {
    const gauge = watchPressure(
      () => performance.now(),
      () => 0,
    );
    try {
      const endMs = performance.now() + 2_100;
      while (performance.now() < endMs);
      expect(gauge.pressure(performance.now()).loopDelayMs).toBeGreaterThan(250);
      await eventually("it is calm", () => gauge.pressure(performance.now()).loopDelayMs < 250, 10_000);
    } finally {
      gauge.stop();
    }
  });

  test("costs a request next to nothing to ask for", () => {
    const gauge = watchPressure(
      () => performance.now(),
      () => 0,
    );
    const rounds = Array.from({ length: 5 }, () => {
      const startMs = performance.now();
      for (let count = 0; count < 10_000; count += 1) shed(gauge.pressure(performance.now()), "call", () => 1);
      return performance.now() - startMs;
    });
    gauge.stop();
    // 10 us each would already be far too much; on any machine it is well under one.
    expect(Math.min(...rounds)).toBeLessThan(100);
  });
});

describe("the share of memory", () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-memory-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  let worlds = 0;

  /** A system that shows these files. */
  function system(files: Readonly<Record<string, string>>, rssBytes = 100): () => number {
    worlds += 1;
    const root = join(folder, String(worlds));
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(root, name)), { recursive: true });
      writeFileSync(join(root, name), content);
    }
    return memoryShareOf({ groups: join(root, "groups"), ours: join(root, "ours"), totalBytes: 1_000, rssBytes: () => rssBytes });
  }

  test("is that of the container, without the files that the system only keeps because it can", () => {
    const share = system({
      ours: "0::/\n",
      "groups/memory.max": "500\n",
      "groups/memory.current": "480\n",
      "groups/memory.stat": "anon 100\nfile 300\ninactive_file 100\nactive_file 200\n",
    });
    expect(share()).toBe(180 / 500);
  });

  test("is that of the tightest container around us", () => {
    const share = system({
      ours: "0::/outer/inner\n",
      "groups/outer/memory.max": "200\n",
      "groups/outer/memory.current": "50\n",
      "groups/outer/inner/memory.max": "max\n",
      "groups/outer/inner/memory.current": "20\n",
    });
    expect(share()).toBe(50 / 200);
  });

  test("is found where the system is older", () => {
    const share = system({
      ours: "5:cpu:/\n4:memory:/box\n0::/\n",
      "groups/memory/memory.limit_in_bytes": "9223372036854771712\n",
      "groups/memory/memory.usage_in_bytes": "900\n",
      "groups/memory/box/memory.limit_in_bytes": "400\n",
      "groups/memory/box/memory.usage_in_bytes": "390\n",
      "groups/memory/box/memory.stat": "total_inactive_file 10\ntotal_active_file 20\n",
    });
    expect(share()).toBe(360 / 400);
  });

  test.each([
    ["there is none", {}],
    ["it sets no limit", { ours: "0::/\n", "groups/memory.max": "max\n", "groups/memory.current": "999\n" }],
    ["it allows more than there is", { ours: "0::/\n", "groups/memory.max": "5000\n", "groups/memory.current": "999\n" }],
    ["it makes no sense", { ours: "\0:\n::::\n0::../../..\n", "groups/memory.max": "-5 apples\n" }],
  ])("is that of this process in the machine where, of containers, %s", (_, files) => {
    expect(system(files, 250)()).toBe(0.25);
  });

  test("is that of this process in the container when its files cannot be read any more", () => {
    const share = system({ ours: "0::/\n", "groups/memory.max": "500\n" }, 250);
    expect(share()).toBe(0.5);
  });

  test("of this very process is a share", () => {
    const share = memoryShareOf()();
    expect(share).toBeGreaterThan(0);
    expect(share).toBeLessThanOrEqual(1);
  });
});
