import { ask, tokensPerSecond } from "../ask.ts";
import { interleaved, type Scenario, segmentSeconds, stopwatch } from "../bench.ts";
import { closedLoop, pacedStreams } from "../load.ts";
import { compared, judged, type Row } from "../report.ts";
import { medianRatio } from "../statistics.ts";
import type { Upstream } from "../target.ts";

/** What a stream costs in CPU time: a hundred chunks at once, and chunks that come one by one (P2). */
export const chunk: Scenario = async (bench) => {
  const { options, upstream } = bench;
  const burst = await interleaved(
    bench,
    { title: "bursts", targets: ["nginx", "floor", "gateway", "peer"], rounds: options.rounds, referenceRounds: 2, measures: ["cpu"] },
    async (target) => {
      const taken = stopwatch(target);
      const { requests } = await closedLoop(target, ask("burst"), {
        connections: 32,
        seconds: Math.ceil(segmentSeconds(options, target) / 2),
      });
      return { cpu: taken() / requests };
    },
  );
  const paced = await interleaved(
    bench,
    {
      title: "paced streams",
      targets: ["nginx", "floor", "gateway", "peer"],
      rounds: Math.ceil(options.rounds / 2),
      referenceRounds: 1,
      measures: ["cpu", "gap"],
    },
    async (target) => {
      let taken = () => 0;
      const streams = options.quick ? 50 : 300;
      const { chunks, dropped, gapP99Ms } = await pacedStreams(target, { streams, seconds: segmentSeconds(options, target) }, () => {
        taken = stopwatch(target);
      });
      const cpu = taken() / chunks;
      if (dropped > 0) bench.remark(`paced streams: ${target.name} dropped ${dropped} of ${streams}`);
      if (gapP99Ms > bunchedMs)
        bench.remark(`paced streams: chunks came in bunches through the ${target.name}, which makes them cheaper: the machine is busy`);
      if (!(await allClosed(upstream))) bench.remark(`paced streams: ${target.name} left upstream streams open after its clients had gone`);
      return { cpu, gap: gapP99Ms };
    },
  );
  return [
    {
      bar: "",
      measure: "CPU per burst of 100 chunks",
      unit: "us",
      raw: burst.cpu,
      judgement: compared("gateway/floor", medianRatio(burst.cpu.gateway ?? [], burst.cpu.floor ?? [])),
    },
    {
      bar: "P2",
      measure: "CPU per paced chunk",
      unit: "us",
      raw: paced.cpu,
      judgement: judged("gateway/floor", medianRatio(paced.cpu.gateway ?? [], paced.cpu.floor ?? []), { limit: 1.3, sense: "at most" }),
    },
    {
      bar: "",
      measure: "time between paced chunks, p99",
      unit: "ms",
      raw: paced.gap,
      judgement: compared("gateway/floor", medianRatio(paced.gap.gateway ?? [], paced.gap.floor ?? [])),
    },
  ] satisfies Row[];
};

/** A chunk that comes later than the next one was due arrives together with it. */
const bunchedMs = 2 * (1000 / tokensPerSecond);

/** A target that does not let go of its upstream would be paying for these streams while the next one is measured: wait them out. */
async function allClosed(upstream: Upstream): Promise<boolean> {
  const promptlyUntil = performance.now() + 2000;
  const deadline = performance.now() + 15_000;
  for (;;) {
    if ((await upstream.counters()).streamsOpen === 0) return performance.now() < promptlyUntil;
    if (performance.now() > deadline) return false;
    await Bun.sleep(100);
  }
}
