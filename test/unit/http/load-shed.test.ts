import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { LiveCalls } from "../../../src/gateway/admission/live-calls.ts";
import type { Gateway } from "../../../src/gateway/gateway.ts";
import type { Exchange } from "../../../src/gateway/ports.ts";
import type { Snapshot } from "../../../src/gateway/snapshot.ts";
import {
  LoopDelay,
  shed,
  shedFailure,
  watchPressure,
  type LoopFacts,
  type Pressure,
  type PressureGauge,
} from "../../../src/http/overload/load-shed.ts";
import { memoryShareOf } from "../../../src/http/overload/memory-share.ts";
import { ProcessorTime } from "../../../src/http/overload/processor-time.ts";
import { countMessagesTokens } from "../../../src/http/token-counts.ts";
import type { Key } from "../../../src/keys/key.ts";
import { HeaderLines } from "../../../src/net/message/header-lines.ts";
import { ResponseHead, type HttpResponse } from "../../../src/net/server/http-response.ts";
import { IncomingRequest } from "../../../src/net/server/incoming-request.ts";
import { failure } from "../../../src/operations/failure.ts";
import { defaultErrors } from "../../../src/surfaces/index.ts";
import { eventually } from "../../support/eventually.ts";
import { asResponse } from "../../support/http-answer.ts";

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

  test("is refused with the true reason, not with a number of calls", () => {
    for (const why of ["loop_delay", "memory_short", "memory_out"] as const)
      expect(shedFailure(why, even()).publicMessage).not.toContain("concurrent");
    expect(shedFailure("memory_out", even()).publicMessage).toContain("memory");
    expect(shedFailure("loop_delay", even()).publicMessage).not.toContain("memory");
  });

  test("may come back after one to five seconds", () => {
    expect(shedFailure("loop_delay", () => 0).retryAfterMs).toBe(1_000);
    expect(shedFailure("loop_delay", () => 0.999).retryAfterMs).toBeLessThan(5_000);
  });
});

describe("a request to count tokens", () => {
  /** One such request, whose body has not arrived, and an upstream that counts but has not answered. */
  function counting(pressure: Pressure = calm, inFlightMax = 1) {
    const calls = new LiveCalls();
    const upstream = Promise.withResolvers<Awaited<Exchange["reply"]>>();
    const timers: (() => void)[] = [];
    const asked = { body: 0, upstream: 0 };
    const after = (_: number, then: () => void): (() => void) => {
      timers.push(then);
      return () => {};
    };
    const send = (): Exchange => {
      asked.upstream += 1;
      return { reply: upstream.promise, abort: () => {} };
    };
    const gateway = {
      ports: { nowMs: () => 0, dice: () => 0.5, after, send },
      calls,
      ledger: { precheck: () => null },
      upstreams: { admits: () => true, lessonOf: () => ({}), begin: () => ({ abandoned: () => {} }) },
      dialects: new Map([["d", { chat: { encode: () => ({ request: {} }) }, tokenCount: { request: () => ({}) } }]]),
    } as unknown as Gateway;
    const channel = { dialect: "d", forwardHeaders: [], capabilities: { operations: ["chat"], modelOperations: new Map() } };
    const route = { model: "m", tiers: [[{ deployment: { channel, model: "m" } }]], size: 1 };
    const service = { inFlightMax, bodyBytesMax: 1_000, bodyReadMs: 1_000 };
    const snapshot = { routes: new Map([["m", route]]), service } as unknown as Snapshot;
    const connection = {
      address: "127.0.0.1",
      respond: () => {},
      sendContinue: () => void (asked.body += 1),
      pause: () => {},
      resume: () => {},
      nowMs: () => 0,
    };
    const request = new IncomingRequest({ method: "POST", target: "/", isHttp11: true }, new HeaderLines("", [], []), null, connection);
    const services = {
      gateway,
      serve: () => new Promise<never>(() => {}),
      pressure: () => pressure,
      hasRoom: () => true,
      onBug: () => {},
      traces: () => null,
      wallMs: () => 0,
    };
    const head = new ResponseHead("req_1");
    const key = { id: "k", models: null, operations: null, channels: null, splits: { audio: false, input: false } } as unknown as Key;
    const count = (): Promise<HttpResponse> =>
      countMessagesTokens(
        {
          request,
          path: "/v1/messages/count_tokens",
          receiptId: "1",
          receiptName: "req_1",
          head,
          snapshot,
          services,
          errors: defaultErrors,
          pathModel: null,
        },
        key,
      );
    const sendBody = (): void => {
      request.body.push(Buffer.from('{"model":"m","messages":[{"role":"user","content":"hi"}]}'));
      request.body.end();
    };
    return { calls, upstream, timers, asked, head, count, sendBody };
  }

  test.each<[string, Pressure, boolean]>([
    ["the event loop is late", { ...calm, loopDelayMs: 60_000 }, false],
    ["memory has run out, and then its connection is closed", { ...calm, memoryShare: 0.96 }, true],
  ])("is turned away before its body is read where %s", async (_, pressure, closes) => {
    const { calls, asked, head, count } = counting(pressure);
    const response = asResponse(await count());
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "3"]);
    expect([head.closesConnection, asked.body, calls.size]).toEqual([closes, 0, 0]);
  });

  test("counts as running while its body is read and while an upstream is asked, and no longer", async () => {
    const { calls, upstream, asked, count, sendBody } = counting();
    const counted = count();
    await eventually("the body is wanted", () => asked.body === 1);
    expect(calls.size).toBe(1);
    sendBody();
    await eventually("the upstream is asked", () => asked.upstream === 1);
    expect(calls.size).toBe(1);
    upstream.resolve(failure("unreachable", "nobody"));
    const response = asResponse(await counted);
    expect([response.status, response.headers.get("x-sluice-token-count"), calls.size]).toEqual([200, "estimated", 0]);
  });

  test("is one too many where as many requests are running as there may be", async () => {
    const response = asResponse(await counting(calm, 0).count());
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "1"]);
  });

  test("whose body takes too long does not keep its connection", async () => {
    const { timers, head, count, asked, calls } = counting();
    const counted = count();
    await eventually("the body is wanted", () => asked.body === 1);
    for (const fire of timers) fire();
    expect([(await counted).status, head.closesConnection, calls.size]).toEqual([408, true, 0]);
  });
});

/** A thread that works all the time, or as much as it is told, while so many calls are under way. */
function facts(
  clock: () => number,
  { works = 1, stolen = 0, underWay = 100 } = {},
): LoopFacts & { works: number; stolen: number; calls: number } {
  let usedMs = 0;
  let seenMs = clock();
  const all = {
    works,
    stolen,
    calls: underWay,
    usedMs: () => {
      usedMs += (clock() - seenMs) * all.works;
      seenMs = clock();
      return usedMs;
    },
    stolenShare: () => all.stolen,
    underWay: () => all.calls,
  };
  return all;
}

describe("the delay of the event loop", () => {
  test("is what one long block was, for a second, and then nothing", () => {
    let nowMs = 0;
    const loop = new LoopDelay(
      0,
      facts(() => nowMs),
      20,
    );
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
    let nowMs = 0;
    const loop = new LoopDelay(
      0,
      facts(() => nowMs),
      20,
    );
    for (let tick = 0; tick < 50; tick++) loop.tick((nowMs += 20));
    loop.tick((nowMs += 420));
    expect(loop.delayMs(nowMs)).toBe(0);
    for (let tick = 0; tick < 4; tick++) loop.tick((nowMs += 320));
    expect(loop.delayMs(nowMs)).toBe(300);
  });

  test("is seen by a request that is handled before the late timer", () => {
    let nowMs = 0;
    const loop = new LoopDelay(
      0,
      facts(() => nowMs),
      20,
    );
    nowMs = 2_020;
    expect(loop.delayMs(nowMs)).toBe(2_000);
  });

  /** A loop that is late again and again, by 300 ms, while its thread has so much of the processor. */
  function late(given: { readonly works?: number; readonly stolen?: number }): number {
    let nowMs = 0;
    const loop = new LoopDelay(
      0,
      facts(() => nowMs, given),
      20,
    );
    for (let tick = 0; tick < 10; tick++) loop.tick((nowMs += 320));
    nowMs += 320;
    return loop.delayMs(nowMs);
  }

  test("is nobody's overload where the process itself hardly ran: a host that takes the processor away, a stop, a sleep", () => {
    expect(late({ works: 1 })).toBe(300);
    expect(late({ works: 0.6 })).toBe(300);
    expect(late({ works: 0.4 })).toBe(0);
    expect(late({ works: 0 })).toBe(0);
    // The system charged us for all of it, and says that the host had half of that.
    expect(late({ works: 1, stolen: 0.55 })).toBe(0);
    expect(late({ works: 1, stolen: 0.1 })).toBe(300);
  });

  test("is nobody's overload where a single block was not our own, also for who comes before the late timer", () => {
    let nowMs = 0;
    const loop = new LoopDelay(
      0,
      facts(() => nowMs, { works: 0.01 }),
      20,
    );
    nowMs = 2_300;
    expect(loop.delayMs(nowMs)).toBe(0);
    loop.tick(nowMs);
    expect(loop.delayMs(nowMs)).toBe(0);
  });

  test("piles work up where there are many calls, and no fewer than a second ago", () => {
    const world = facts(() => 0);
    const loop = new LoopDelay(0, world, 20);
    const piles = (calls: number): boolean => {
      world.calls = calls;
      return loop.isPiling();
    };
    expect([piles(63), piles(64), piles(1_000)]).toEqual([false, true, true]);
    world.calls = 500;
    loop.tick(20);
    expect([piles(499), piles(500)]).toEqual([false, true]);
  });

  test("reports the longest standstill, whatever its cause", () => {
    let nowMs = 0;
    const loop = new LoopDelay(
      0,
      facts(() => nowMs, { works: 0 }),
      20,
    );
    loop.tick((nowMs = 320));
    loop.tick((nowMs = 340));
    expect(loop.standstillMs(0, nowMs)).toBe(300);
    expect(loop.standstillMs(330, nowMs)).toBe(0);
    expect(loop.standstillMs(330, 460)).toBe(100);
  });

  /** This thread's own time, as if the machine had nothing else to do, and the time that the test lets pass besides. */
  function ownClock(): { readonly nowMs: () => number; readonly pass: (ms: number) => void; readonly work: (ms: number) => void } {
    let passedMs = 0;
    const nowMs = (): number => {
      const { user, system } = process.threadCpuUsage();
      return (user + system) / 1_000 + passedMs;
    };
    const work = (ms: number): void => {
      const endMs = nowMs() + ms;
      while (nowMs() < endMs);
    };
    return { nowMs, work, pass: (ms) => void (passedMs += ms) };
  }

  const gauges: PressureGauge[] = [];
  afterAll(() => {
    for (const gauge of gauges) gauge.stop();
  });
  function gaugeWith(underWay: number, nowMs: () => number): PressureGauge {
    const gauge = watchPressure(
      nowMs,
      () => underWay,
      () => 0,
      new ProcessorTime(nowMs, () => "no host takes anything"),
    );
    gauges.push(gauge);
    return gauge;
  }

  test("of this very process is measured: a block of 2.1 s by its own work, and the calm after it", async () => {
    const { nowMs, work, pass } = ownClock();
    const [crowded, quiet] = [gaugeWith(100, nowMs), gaugeWith(20, nowMs)];
    const isLate = (gauge: PressureGauge): boolean => gauge.pressure(nowMs()).loopDelayMs > 250;
    work(2_100);
    expect([isLate(crowded), isLate(quiet)]).toEqual([true, false]);
    await eventually(
      "it is calm",
      () => {
        pass(50);
        return !isLate(crowded);
      },
      30_000,
    );
  });

  test("of this very process is no overload where it waited, and is told to whoever waited with it", () => {
    const { nowMs, work, pass } = ownClock();
    const crowded = gaugeWith(100, nowMs);
    const beganMs = nowMs();
    work(500);
    pass(2_100);
    expect(crowded.pressure(nowMs()).loopDelayMs).toBe(0);
    expect(crowded.standstillMs(beganMs)).toBeGreaterThan(2_500);
  });

  test("costs a request next to nothing to ask for", () => {
    const gauge = gaugeWith(100, () => performance.now());
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

describe("the time of the processor", () => {
  /** Ticks of all processors: user, nice, system, idle, iowait, irq, softirq, steal. */
  function machine(): { stat: string; nowMs: number; readonly time: ProcessorTime; reads: number } {
    const world = {
      stat: "cpu  100 0 50 1000 0 0 0 10 0 0\ncpu0 1 2 3\n",
      nowMs: 0,
      reads: 0,
      time: null as unknown as ProcessorTime,
    };
    const read = (): string => {
      world.reads += 1;
      return world.stat;
    };
    world.time = new ProcessorTime(
      () => world.nowMs,
      read,
      () => ({ user: 1_500_000, system: 500_000 }),
    );
    return world;
  }

  test("is that of the thread, in milliseconds", () => {
    expect(machine().time.usedMs()).toBe(2_000);
    const { time } = { time: new ProcessorTime(() => 0) };
    expect(time.usedMs()).toBeGreaterThan(0);
    expect(time.stolenShare()).toBeWithin(0, 1.000_1);
  });

  test("was stolen by the share that the system counts, of what was wanted since the look before the last", () => {
    const world = machine();
    world.nowMs = 100;
    world.stat = "cpu  130 0 60 1000 0 5 5 60 0 0\n";
    expect(world.time.stolenShare()).toBe(0.5);
    world.time.look();
    world.stat = "cpu  230 0 60 1000 0 5 5 60 0 0\n";
    world.nowMs = 600;
    expect(world.time.stolenShare()).toBe(50 / 200);
    world.time.look();
    world.nowMs = 1_100;
    world.stat = "cpu  330 0 60 1000 0 5 5 60 0 0\n";
    expect(world.time.stolenShare()).toBe(0);
  });

  test("is read from the system no more often than every 50 ms, and is not stolen where the system does not say", () => {
    const world = machine();
    for (world.nowMs = 0; world.nowMs < 1_000; world.nowMs += 1) world.time.stolenShare();
    expect(world.reads).toBeWithin(2, 22);
    const silent = new ProcessorTime(
      () => 1_000,
      () => "",
    );
    expect(silent.stolenShare()).toBe(0);
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
