import { type Bench, restingBytes, type Scenario } from "../bench.ts";
import { residentBytes } from "../cpu.ts";
import { ask } from "../ask.ts";
import { closedLoop, holdStreams } from "../load.ts";
import { compared, judged, type Row } from "../report.ts";
import type { Target, TargetName } from "../target.ts";

const readers = 200;

/**
 * Readers that stop reading while their upstream goes on at full speed: what piles up in between (P8). Before, as many readers read the
 * same flood: what that takes is what passing it on costs, whoever reads.
 */
export const stalled: Scenario = async (bench) => {
  const reading: Partial<Record<TargetName, readonly number[]>> = {};
  const filling: Partial<Record<TargetName, readonly number[]>> = {};
  const standing: Partial<Record<TargetName, readonly number[]>> = {};
  for (const name of ["floor", "gateway"] as const) {
    const target = await bench.fresh(name);
    if (target === null) continue;
    // The floor's growth has stopped long before: it is only there to compare with.
    const seconds = name === "floor" ? Math.min(5, bench.options.stallSeconds) : bench.options.stallSeconds;
    const grown = await growthOf(bench, target, seconds);
    reading[name] = [grown.reading];
    filling[name] = [grown.filling];
    standing[name] = [grown.standing];
    await target.stop();
  }
  const beside = (measure: string, raw: Row["raw"]): Row => ({
    bar: "",
    measure,
    unit: "MiB",
    raw,
    judgement: compared("gateway", raw.gateway?.[0] ?? Number.NaN),
  });
  return [
    {
      bar: "P8",
      measure: `memory growth, ${readers} stalled readers, while they stand still, ${bench.options.stallSeconds} s`,
      unit: "MiB",
      raw: standing,
      judgement: judged("gateway", standing.gateway?.[0] ?? null, { limit: (readers * 128) / 1024, sense: "at most" }),
    },
    beside("the most before, while the system's own buffers fill", filling),
    beside(`the most with ${readers} readers that read, ${busySeconds} s`, reading),
  ];
};

const busySeconds = 5;

/** Beyond this nothing more is learned, and the machine has other uses for its memory. */
const hopelessMebibytes = 1024;

/** In mebibytes, each the most of its time. */
interface Growth {
  /** With as many readers that read. */
  readonly reading: number;
  /** In the first half of the time, in which the buffers of the system fill. */
  readonly filling: number;
  /** In the second half, in which nothing flows any more. */
  readonly standing: number;
}

async function growthOf(bench: Bench, target: Target, seconds: number): Promise<Growth> {
  console.error(`${readers} stalled readers on the ${target.name} for ${seconds} s`);
  // A process that has never been busy grows by being so, whoever reads; one in use has that behind it.
  await closedLoop(target, ask("burst"), { connections: 32, seconds: busySeconds });
  const [reading] = await during(bench, target, false, [busySeconds]);
  const [filling, standing] = await during(bench, target, true, [seconds / 2, seconds / 2]);
  return { reading: reading!, filling: filling!, standing: standing! };
}

/** The most that the process takes beyond what it took before, in each of some times that follow each other. */
async function during(bench: Bench, target: Target, stops: boolean, times: readonly number[]): Promise<readonly number[]> {
  const before = await restingBytes(target);
  const holding = await holdStreams(target, "flood", { streams: readers, stalled: stops });
  if (holding.held.failed > 0) bench.remark(`stalled readers: ${target.name} refused ${holding.held.failed} of ${readers}`);
  const most: number[] = [];
  for (const seconds of times) {
    const untilMs = performance.now() + seconds * 1000;
    let largest = -Infinity;
    while (performance.now() < untilMs && largest < hopelessMebibytes) {
      largest = Math.max(largest, (residentBytes(target.pid) - before) / 1024 / 1024);
      await Bun.sleep(250);
    }
    most.push(largest);
  }
  await holding.leave();
  return most;
}
