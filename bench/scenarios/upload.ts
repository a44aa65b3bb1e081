import { healthCheck, upload as uploadOf } from "../ask.ts";
import { type Bench, interleaved, restingBytes, type Scenario, segmentSeconds, stopwatch } from "../bench.ts";
import { forgetPeak, peakBytes } from "../cpu.ts";
import { answeredLoop, closedLoop } from "../load.ts";
import { compared, judged, type Row } from "../report.ts";
import { medianRatio, quantile } from "../statistics.ts";
import type { Target } from "../target.ts";

const fileMegabytes = 25;
const uploading = uploadOf(fileMegabytes * 1_000_000);
const atATime = 8;

/** Recordings on their way to be transcribed: what they cost, what they weigh, and whom they hold up (P9). */
export const upload: Scenario = async (bench) => {
  const { cpu, rate } = await passedOn(bench);
  const weighed = await weighedUploads(bench);
  const { gateway = [], nginx = [] } = cpu;
  return [
    {
      bar: "",
      measure: "CPU per megabyte uploaded",
      unit: "us",
      raw: cpu,
      judgement: compared("gateway/nginx", medianRatio(gateway, nginx)),
    },
    {
      bar: "",
      measure: "megabytes uploaded per second, 2 at a time",
      unit: "MB/s",
      raw: rate,
      judgement: compared("gateway/nginx", medianRatio(rate.gateway ?? [], rate.nginx ?? [])),
    },
    {
      bar: "P9",
      measure: `memory growth, ${atATime} uploads of ${fileMegabytes} MB at once`,
      unit: "MB",
      raw: weighed === null ? {} : { gateway: [weighed.growthMegabytes] },
      judgement: judged("gateway", weighed?.growthMegabytes ?? null, { limit: 40, sense: "at most" }),
    },
    {
      bar: "",
      measure: `memory growth, ${atATime} at a time for ${bench.options.seconds} s`,
      unit: "MB",
      raw: weighed === null ? {} : { gateway: [weighed.laterGrowthMegabytes] },
      judgement: compared("gateway", weighed?.laterGrowthMegabytes ?? Number.NaN),
    },
    {
      bar: "P9",
      measure: "time to GET /healthz during those, p99",
      unit: "ms",
      raw: weighed === null ? {} : { gateway: [weighed.delayMs], ...(weighed.besideMs === null ? {} : { floor: [weighed.besideMs] }) },
      judgement: judged("gateway", weighed?.delayMs ?? null, { limit: 50, sense: "at most" }),
    },
    {
      bar: "",
      measure: "time to GET /healthz at rest, p99",
      unit: "ms",
      raw: weighed === null ? {} : { gateway: [weighed.restMs] },
      judgement: compared("gateway", weighed?.restMs ?? Number.NaN),
    },
  ] satisfies Row[];
};

/** The direct column is the upstream's own cost of taking the bytes in: the part of every other one that cannot be saved. */
async function passedOn(bench: Bench) {
  const { options, upstream } = bench;
  return interleaved(
    bench,
    { title: "uploads", targets: ["direct", "nginx", "gateway"], rounds: options.rounds, measures: ["cpu", "rate"] },
    async (target) => {
      const before = (await upstream.counters()).uploadedBytes;
      const taken = stopwatch(target);
      const { requests, seconds } = await closedLoop(target, uploading, { connections: 2, seconds: segmentSeconds(options, target) });
      const cpu = taken();
      const megabytes = requests * fileMegabytes;
      const arrivedMegabytes = ((await upstream.counters()).uploadedBytes - before) / 1_000_000;
      if (arrivedMegabytes < megabytes) throw new Error(`of ${megabytes} MB uploaded came ${arrivedMegabytes} MB`);
      return { cpu: cpu / megabytes, rate: megabytes / seconds };
    },
  );
}

interface Weighed {
  /** At the most, while each of the eight is uploaded once. */
  readonly growthMegabytes: number;
  /** At the most, when the next follows as soon as one is done. */
  readonly laterGrowthMegabytes: number;
  readonly delayMs: number;
  /** What an idle process on the same machine takes to answer during the same uploads, if there is one to ask. */
  readonly besideMs: number | null;
  readonly restMs: number;
}

async function weighedUploads(bench: Bench): Promise<Weighed | null> {
  const gateway = await bench.fresh("gateway");
  if (gateway === null) return null;
  const { seconds } = bench.options;
  console.error(`${atATime} uploads at a time for ${seconds} s`);
  // Enough to go through the disk once, and little to be remembered.
  await closedLoop(gateway, uploadOf(2_000_000), { connections: 1, seconds: 1 });
  const restMs = await answersWithinMs(gateway, seconds);
  const before = await restingBytes(gateway);
  const growth = () => (peakBytes(gateway.pid) - before) / 1_000_000;
  forgetPeak(gateway.pid);
  await closedLoop(gateway, uploading, { connections: atATime, seconds: 0 });
  const growthMegabytes = growth();
  const delayMs = await duringUploads(gateway, gateway, seconds);
  const laterGrowthMegabytes = growth();
  const idle = bench.targets.find((target) => target.name === "floor");
  const besideMs = idle === undefined ? null : await duringUploads(gateway, idle, seconds);
  await gateway.stop();
  return { growthMegabytes, laterGrowthMegabytes, delayMs, besideMs, restMs };
}

/** How long `asked` takes to answer, at the 99th percentile, while the gateway is uploaded to. */
async function duringUploads(gateway: Target, asked: Target, seconds: number): Promise<number> {
  const uploads = closedLoop(gateway, uploading, { connections: atATime, seconds: seconds + 1 });
  // The uploads are under way before the first question and until after the last.
  const [, delayMs] = await Promise.all([uploads, Bun.sleep(500).then(() => answersWithinMs(asked, seconds))]);
  return delayMs;
}

async function answersWithinMs(asked: Target, seconds: number): Promise<number> {
  return quantile((await answeredLoop(asked, healthCheck, { perSecond: 200, seconds })).wholeMs, 0.99);
}
