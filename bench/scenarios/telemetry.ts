import { ask } from "../ask.ts";
import { cpuOf, type Bench, type Scenario } from "../bench.ts";
import { type GatewaySettings, oneChannel } from "../gateway.ts";
import { closedLoop } from "../load.ts";
import { judged, type Row } from "../report.ts";
import { trimmedMean } from "../statistics.ts";
import type { Target } from "../target.ts";

/**
 * What metrics and traces cost a call (P18): of two gateways, one counts for Prometheus, exports metrics and traces and samples as it does
 * by default, and one does none of it.
 *
 * The difference is smaller than what the machine and the compiler change from second to second, and from start to start. So both serve
 * the same load at the same time, where whatever disturbs the one disturbs the other, for many short times and from several starts. Two
 * gateways that do none of it show how far the figure can be trusted.
 */
export const telemetry: Scenario = async (bench) => {
  const plain = oneChannel(bench.upstream);
  const off: GatewaySettings = { ...plain, telemetry: "off" };
  const on: GatewaySettings = { ...plain, telemetry: { collector: bench.collector } };
  const starts = bench.options.quick ? 1 : startsPerRound * bench.options.rounds;
  const costs: Pair[] = [];
  const controls: Pair[] = [];
  for (let start = 1; start <= starts; start += 1) {
    console.error(`telemetry off and on, start ${start} of ${starts}`);
    costs.push(...(await together(bench, off, on)));
    controls.push(...(await together(bench, off, off)));
  }
  const difference = (pairs: readonly Pair[]): number => trimmedMean(pairs.map(({ one, other }) => other - one));
  return [
    {
      bar: "P18",
      measure: "CPU per JSON request, metrics and traces on",
      unit: "us",
      raw: { gateway: costs.map(({ other }) => other) },
      judgement: judged("on - off", difference(costs), { limit: 2, sense: "at most" }),
    },
    {
      bar: "",
      measure: "the same with both off",
      unit: "us",
      raw: { gateway: costs.map(({ one }) => one) },
      judgement: { kind: "unjudged", because: `two with both off differ by ${difference(controls).toFixed(1)} us` },
    },
  ] satisfies Row[];
};

/** CPU time per request of two gateways that were asked at the same time. */
interface Pair {
  readonly one: number;
  readonly other: number;
}

async function together(bench: Bench, one: GatewaySettings, other: GatewaySettings): Promise<readonly Pair[]> {
  const { quick } = bench.options;
  const gateways = [await bench.gatewayWith(one), await bench.gatewayWith(other)] as const;
  const [first, second] = gateways;
  const pairs: Pair[] = [];
  if (first !== null && second !== null) {
    const both = <Result>(work: (target: Target) => Promise<Result>) => Promise.all([work(first), work(second)]);
    await both((target) => closedLoop(target, ask("json"), { connections: 16, seconds: quick ? 1 : 8 }));
    for (let turn = 0; turn < (quick ? 2 : turnsPerStart); turn += 1) {
      const [left, right] = await both(async (target) => {
        const { allMicros, result } = await cpuOf(target, () => closedLoop(target, ask("json"), { connections: 16, seconds: 1 }));
        return allMicros / result.requests;
      });
      pairs.push({ one: left, other: right });
    }
  }
  await Promise.all(gateways.map((gateway) => gateway?.stop()));
  return pairs;
}

const startsPerRound = 2;
const turnsPerStart = 12;
