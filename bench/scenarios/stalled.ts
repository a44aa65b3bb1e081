import { type Bench, restingBytes, type Scenario } from "../bench.ts";
import { residentBytes } from "../cpu.ts";
import { ask } from "../ask.ts";
import { closedLoop, holdStreams } from "../load.ts";
import { compared, judged, type Row } from "../report.ts";
import type { Target, TargetName } from "../target.ts";

const readers = 200;

/** Readers that stop reading while their upstream goes on at full speed: what piles up in between (P8). */
export const stalled: Scenario = async (bench) => {
  const passing: Partial<Record<TargetName, readonly number[]>> = {};
  const held: Partial<Record<TargetName, readonly number[]>> = {};
  for (const name of ["floor", "gateway"] as const) {
    const target = await bench.fresh(name);
    if (target === null) continue;
    // The floor's growth has stopped long before: it is only there to compare with.
    const seconds = name === "floor" ? Math.min(5, bench.options.stallSeconds) : bench.options.stallSeconds;
    const { flowing, standing } = await growthMebibytes(bench, target, seconds);
    passing[name] = [flowing];
    held[name] = [standing];
    await target.stop();
  }
  return [
    {
      bar: "P8",
      measure: `memory growth, ${readers} stalled readers, while they stand still, ${bench.options.stallSeconds} s`,
      unit: "MiB",
      raw: held,
      judgement: judged("gateway", held.gateway?.[0] ?? null, { limit: (readers * 128) / 1024, sense: "at most" }),
    },
    {
      bar: "",
      measure: "the most before, while the system's own buffers fill",
      unit: "MiB",
      raw: passing,
      judgement: compared("gateway", passing.gateway?.[0] ?? Number.NaN),
    },
  ] satisfies Row[];
};

const busySeconds = 5;

/** Beyond this nothing more is learned, and the machine has other uses for its memory. */
const hopelessMebibytes = 1024;

/** The most in the first half of the time, in which the buffers of the system fill, and in the second, in which nothing flows any more. */
async function growthMebibytes(bench: Bench, target: Target, seconds: number): Promise<{ flowing: number; standing: number }> {
  console.error(`${readers} stalled readers on the ${target.name} for ${seconds} s`);
  // A process that has never been busy grows by being so, whoever reads; one in use has that behind it.
  await closedLoop(target, ask("burst"), { connections: 32, seconds: busySeconds });
  const before = await restingBytes(target);
  const holding = await holdStreams(target, "flood", { streams: readers, stalled: true });
  if (holding.held.failed > 0) bench.remark(`stalled readers: ${target.name} refused ${holding.held.failed} of ${readers}`);
  const largest = async (): Promise<number> => {
    const untilMs = performance.now() + seconds * 500;
    let most = -Infinity;
    while (performance.now() < untilMs && most < hopelessMebibytes) {
      most = Math.max(most, (residentBytes(target.pid) - before) / 1024 / 1024);
      await Bun.sleep(250);
    }
    return most;
  };
  const grown = { flowing: await largest(), standing: await largest() };
  await holding.leave();
  return grown;
}
