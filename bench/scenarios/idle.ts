import { type Bench, restingBytes, type Scenario } from "../bench.ts";
import { residentBytes } from "../cpu.ts";
import { holdStreams } from "../load.ts";
import { judged, type Row } from "../report.ts";
import type { Target, TargetName } from "../target.ts";

/** Thousands of open streams on which nothing happens: what each weighs, whether any is lost, and what is left when all go at once (P5). */
export const idle: Scenario = async (bench) => {
  const { options } = bench;
  const measured: Partial<Record<TargetName, Held>> = {};
  for (const name of ["floor", "gateway"] as const) {
    const target = await bench.fresh(name);
    if (target === null) continue;
    // The floor is only there to compare weights with, which takes no long hold.
    const holdSeconds = name === "floor" ? Math.min(5, options.holdSeconds) : options.holdSeconds;
    measured[name] = await hold(bench, target, holdSeconds);
    await target.stop();
  }
  const { floor, gateway } = measured;
  const raw = (pick: (held: Held) => number) => ({
    ...(floor === undefined ? {} : { floor: [pick(floor)] }),
    ...(gateway === undefined ? {} : { gateway: [pick(gateway)] }),
  });
  const row = (measure: string, unit: string, pick: (held: Held) => number, limit: number): Row => ({
    bar: "P5",
    measure,
    unit,
    raw: raw(pick),
    judgement: judged("gateway", gateway === undefined ? null : pick(gateway), { limit, sense: "at most" }),
  });
  return [
    row(`memory per idle stream, ${options.idleStreams} streams`, "KiB", (held) => held.kibibytesEach, 32),
    row(`streams refused or dropped in ${options.holdSeconds} s`, "streams", (held) => held.lost, 0),
    row("mass disconnect until the upstream is free", "s", (held) => held.disconnectSeconds, 5),
    row("memory kept afterwards", "MB", (held) => held.keptMegabytes, 20),
  ];
};

interface Held {
  readonly kibibytesEach: number;
  readonly lost: number;
  readonly disconnectSeconds: number;
  readonly keptMegabytes: number;
}

async function hold(bench: Bench, target: Target, seconds: number): Promise<Held> {
  const { options, upstream } = bench;
  console.error(`${options.idleStreams} idle streams through the ${target.name} for ${seconds} s`);
  const before = await restingBytes(target);
  const holding = await holdStreams(target, "idle", { streams: options.idleStreams, stalled: false });
  await Bun.sleep(seconds * 1000);
  const during = residentBytes(target.pid);

  const left = performance.now();
  const { dropped } = await holding.leave();
  const disconnectSeconds = await until(
    async () => (await upstream.counters()).streamsOpen === 0,
    (now) => now - left < 30_000,
  ).then((now) => (now - left) / 1000);

  const allowance = 20_000_000;
  await until(
    () => Promise.resolve(residentBytes(target.pid) - before <= allowance),
    (now) => now - left < 60_000,
  );
  return {
    kibibytesEach: (during - before) / 1024 / Math.max(1, holding.held.open),
    lost: holding.held.failed + dropped,
    disconnectSeconds,
    keptMegabytes: Math.max(0, residentBytes(target.pid) - before) / 1_000_000,
  };
}

/** The time at which the claim came true, or at which there was no more patience. */
async function until(claim: () => Promise<boolean>, patient: (now: number) => boolean): Promise<number> {
  while (!(await claim()) && patient(performance.now())) await Bun.sleep(50);
  return performance.now();
}
