import { type Bench, restingBytes, type Scenario } from "../bench.ts";
import { residentBytes } from "../cpu.ts";
import { ask } from "../ask.ts";
import { closedLoop, holdStreams } from "../load.ts";
import { compared, judged, type Row } from "../report.ts";
import type { Target, TargetName } from "../target.ts";

const readers = 200;

/** Readers that stop reading while their upstream goes on at full speed: what piles up in between (P8). */
export const stalled: Scenario = async (bench) => {
  const growth: Partial<Record<TargetName, readonly number[]>> = {};
  const held: Partial<Record<TargetName, readonly number[]>> = {};
  for (const name of ["floor", "gateway"] as const) {
    const target = await bench.fresh(name);
    if (target === null) continue;
    // The floor's growth has stopped long before: it is only there to compare with.
    const seconds = name === "floor" ? Math.min(5, bench.options.stallSeconds) : bench.options.stallSeconds;
    const { largest, last } = await growthMebibytes(bench, target, seconds);
    growth[name] = [largest];
    held[name] = [last];
    await target.stop();
  }
  return [
    {
      bar: "P8",
      measure: `memory growth, ${readers} stalled readers, ${bench.options.stallSeconds} s`,
      unit: "MiB",
      raw: growth,
      judgement: judged("gateway", growth.gateway?.[0] ?? null, { limit: (readers * 128) / 1024, sense: "at most" }),
    },
    {
      bar: "",
      measure: "of that, held at the end, when nothing flows any more",
      unit: "MiB",
      raw: held,
      judgement: compared("gateway", held.gateway?.[0] ?? Number.NaN),
    },
  ] satisfies Row[];
};

const busySeconds = 5;

/** Beyond this nothing more is learned, and the machine has other uses for its memory. */
const hopelessMebibytes = 1024;

async function growthMebibytes(bench: Bench, target: Target, seconds: number): Promise<{ largest: number; last: number }> {
  console.error(`${readers} stalled readers on the ${target.name} for ${seconds} s`);
  // A process that has never been busy grows by being so, whoever reads; one in use has that behind it.
  await closedLoop(target, ask("burst"), { connections: 32, seconds: busySeconds });
  const before = await restingBytes(target);
  const holding = await holdStreams(target, "flood", { streams: readers, stalled: true });
  if (holding.held.failed > 0) bench.remark(`stalled readers: ${target.name} refused ${holding.held.failed} of ${readers}`);
  const deadline = performance.now() + seconds * 1000;
  let largest = 0;
  let last = 0;
  while (performance.now() < deadline && largest < hopelessMebibytes) {
    last = (residentBytes(target.pid) - before) / 1024 / 1024;
    largest = Math.max(largest, last);
    await Bun.sleep(250);
  }
  await holding.leave();
  return { largest, last };
}
