import { ask } from "../ask.ts";
import { type Bench, type RequestCost, requestCost, type Scenario } from "../bench.ts";
import { type GatewaySettings, oneChannel } from "../gateway.ts";
import { closedLoop } from "../load.ts";
import { judged, type Row } from "../report.ts";
import { standardError, trimmedMean } from "../statistics.ts";

/**
 * What metrics and traces cost a call (P18): counting for Prometheus, and exporting metrics and traces, sampled as by default.
 *
 * One gateway is asked with all of it on and with all of it off, in turns, and is told by its file to switch. Two processes, of which one
 * has it on, cannot show it: processes that do the same differ by 3 to 5 us a call, which is more than the figure looked for.
 */
export const telemetry: Scenario = async (bench) => {
  const plain = oneChannel(bench.upstream);
  const off: GatewaySettings = { ...plain, telemetry: "off" };
  const on: GatewaySettings = { ...plain, telemetry: { collector: bench.collector } };
  const starts = bench.options.quick ? 1 : startsMeasured;
  const turns: Turn[] = [];
  for (let start = 1; start <= starts; start += 1) {
    console.error(`telemetry on and off, start ${start} of ${starts}`);
    turns.push(...(await inOneProcess(bench, on, off)));
  }
  const differences = (of: keyof RequestCost): readonly number[] => turns.map((turn) => turn.on[of] - turn.off[of]);
  const all = differences("all");
  const main = differences("main");
  const error = (values: readonly number[]): string => `standard error ${standardError(values).toFixed(2)} us, of ${values.length} pairs`;
  return [
    {
      bar: "P18",
      measure: "CPU per JSON request, metrics and traces on",
      unit: "us",
      raw: { gateway: turns.map((turn) => turn.on.all) },
      judgement: judged("on - off", trimmedMean(all), { limit: 2, sense: "at most" }),
    },
    {
      bar: "",
      measure: "the same with both off",
      unit: "us",
      raw: { gateway: turns.map((turn) => turn.off.all) },
      judgement: { kind: "unjudged", because: error(all) },
    },
    {
      bar: "",
      measure: "of that on the serving thread, metrics and traces on",
      unit: "us",
      raw: { gateway: turns.map((turn) => turn.on.main) },
      judgement: { kind: "unjudged", because: `on - off ${trimmedMean(main).toFixed(2)} us, ${error(main)}` },
    },
  ] satisfies Row[];
};

interface Turn {
  readonly on: RequestCost;
  readonly off: RequestCost;
}

async function inOneProcess(bench: Bench, on: GatewaySettings, off: GatewaySettings): Promise<readonly Turn[]> {
  const { quick, rounds } = bench.options;
  const gateway = await bench.gatewayWith(on);
  if (gateway === null) return [];
  const warm = (): Promise<unknown> => closedLoop(gateway, ask("json"), { connections, seconds: quick ? 1 : 12 });
  await warm();
  await gateway.follow(off);
  await warm();
  const turns: Turn[] = [];
  let isOn = false;
  for (let turn = 0; turn < (quick ? 2 : turnsPerRound * rounds); turn += 1) {
    // Each turn begins as the one before it ended, so that it takes one change of the file, and neither side is always the first.
    const first = await requestCost(gateway, connections);
    await gateway.follow(isOn ? off : on);
    const second = await requestCost(gateway, connections);
    turns.push(isOn ? { on: first, off: second } : { on: second, off: first });
    isOn = !isOn;
  }
  await gateway.stop();
  return turns;
}

const startsMeasured = 2;
const turnsPerRound = 12;
const connections = 32;
