import { healthCheck } from "../ask.ts";
import { type Scenario, stopwatch } from "../bench.ts";
import { answeredLoop, pacedStreams } from "../load.ts";
import { judged, type Row } from "../report.ts";
import { quantile } from "../statistics.ts";

/** Hundreds of streams that are spoken into at a usual pace: whether one core carries them, and whom they hold up (P6). */
export const sustained: Scenario = async (bench) => {
  const { options } = bench;
  const gateway = await bench.fresh("gateway");
  if (gateway === null) return [];
  const streams = options.quick ? 50 : 500;
  const seconds = options.holdSeconds;
  console.error(`sustained, ${streams} streams for ${seconds} s`);
  let taken = () => 0;
  let delays: Promise<readonly number[]> = Promise.resolve([]);
  const { dropped, seconds: counted } = await pacedStreams(gateway, { streams, seconds }, () => {
    taken = stopwatch(gateway);
    // It ends before the streams do: what comes after them is not held up by them.
    delays = answeredLoop(gateway, healthCheck, { perSecond: 50, seconds: Math.max(1, seconds - 2) }).then(({ wholeMs }) => wholeMs);
  });
  const cpuPercent = taken() / (counted * 10_000);
  const delayMs = quantile(await delays, 0.99);
  await gateway.stop();
  const row = (measure: string, unit: string, value: number, limit: number): Row => ({
    bar: "P6",
    measure,
    unit,
    raw: { gateway: [value] },
    judgement: judged("gateway", value, { limit, sense: "at most" }),
  });
  return [
    row(`streams dropped of ${streams} at 20 tokens a second, ${seconds} s`, "streams", dropped, 0),
    row("CPU that they take, of one core", "%", cpuPercent, 100),
    row("time to GET /healthz during those, p99", "ms", delayMs, 50),
  ];
};
