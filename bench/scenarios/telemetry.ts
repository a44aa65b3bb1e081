import { ask } from "../ask.ts";
import { cpuOf, inTurns, type Scenario } from "../bench.ts";
import { oneChannel } from "../gateway.ts";
import { closedLoop } from "../load.ts";
import { compared, judged, type Row } from "../report.ts";
import { median, medianDifference, medianRatio } from "../statistics.ts";

/**
 * What metrics and traces cost a call (P18): two gateways take turns, one that counts for Prometheus, exports metrics and traces and
 * samples as it does by default, and one that does none of it. The difference is small beside a call, so the turns are short and many.
 */
export const telemetry: Scenario = async (bench) => {
  const { options, upstream, collector } = bench;
  const off = await bench.gatewayWith({ ...oneChannel(upstream), telemetry: "off" });
  const on = await bench.gatewayWith({ ...oneChannel(upstream), telemetry: { collector } });
  if (off === null || on === null) return [];
  const variants = { off, on };
  const load = (seconds: number) => ({ connections: 32, seconds });
  await inTurns({ title: "telemetry, warm-up", rounds: 1, variants }, async (target) => {
    await closedLoop(target, ask("json"), load(options.quick ? 1 : 6));
    return 0;
  });
  const turns = { title: "telemetry off and on", rounds: turnsPerRound * options.rounds, variants };
  const cost = await inTurns(turns, async (target) => {
    const { allMicros, result } = await cpuOf(target, () => closedLoop(target, ask("json"), load(Math.ceil(options.seconds / 2))));
    return allMicros / result.requests;
  });
  await Promise.all([off.stop(), on.stop()]);
  return [
    {
      bar: "P18",
      measure: "CPU per JSON request, metrics and traces on",
      unit: "us",
      raw: { gateway: cost.on },
      judgement: judged("on - off", medianDifference(cost.on, cost.off), { limit: 2, sense: "at most" }),
    },
    {
      bar: "",
      measure: "the same with both off",
      unit: "us",
      raw: { gateway: cost.off },
      judgement: median(cost.off) > 0 ? compared("on/off", medianRatio(cost.on, cost.off)) : { kind: "unjudged", because: "not measured" },
    },
  ] satisfies Row[];
};

const turnsPerRound = 4;
