import { ask } from "../ask.ts";
import { type Bench, type RequestCost, requestCost, type Scenario } from "../bench.ts";
import { startCollector } from "../collector.ts";
import { type GatewaySettings, oneChannel } from "../gateway.ts";
import { closedLoop } from "../load.ts";
import { judged, type Row } from "../report.ts";
import { trimmedError, trimmedMean } from "../statistics.ts";

/**
 * What metrics and traces cost a call (P18): counting, and exporting metrics and traces, sampled as by default.
 *
 * One gateway is asked with all of it on and with all of it off, in turns, and is told by its file to switch. Two processes, of which one
 * has it on, cannot show it: processes that do the same differ by 3 to 5 us a call, which is more than the figure looked for.
 */
export const telemetry: Scenario = async (bench) => {
  const starts = bench.options.quick ? 1 : startsMeasured;
  const turns: Turn[] = [];
  let dropped = 0;
  for (let start = 1; start <= starts; start += 1) {
    console.error(`telemetry on and off, start ${start} of ${starts}`);
    const measured = await inOneProcess(bench);
    turns.push(...measured.flatMap((turn) => turn ?? []));
    dropped += measured.filter((turn) => turn === null).length;
  }
  if (dropped > 0) bench.remark(`telemetry: ${dropped} pairs of turns are left out, because a thread ended in them`);
  const differences = (of: keyof RequestCost): readonly number[] => turns.map((turn) => turn.on[of] - turn.off[of]);
  const all = differences("all");
  const main = differences("main");
  const error = (values: readonly number[]): string => `standard error ${trimmedError(values).toFixed(2)} us, of ${values.length} pairs`;
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

/** Null: a pair of turns in which a thread ended. */
async function inOneProcess(bench: Bench): Promise<readonly (Turn | null)[]> {
  const { quick, rounds } = bench.options;
  const plain = oneChannel(bench.upstream);
  const collector = startCollector();
  // The export alone switches counting: whether metrics may be scraped changes with a restart only.
  const on: GatewaySettings = { ...plain, telemetry: { collector: collector.origin, scraped: false } };
  const off: GatewaySettings = { ...plain, telemetry: "off" };
  const gateway = await bench.gatewayWith(on);
  if (gateway === null) return [];
  const asked = { on: 0, off: 0, turnsOn: 0 };
  const load = async (state: "on" | "off", seconds: number): Promise<number> => {
    const { requests } = await closedLoop(gateway, ask("json"), { connections, seconds });
    asked[state] += requests;
    if (state === "on") asked.turnsOn += 1;
    return requests;
  };
  const costOf = (state: "on" | "off"): Promise<RequestCost | null> => requestCost(gateway, () => load(state, 1));
  await load("on", quick ? 1 : 12);
  await gateway.follow(off);
  await load("off", quick ? 1 : 12);
  const turns: (Turn | null)[] = [];
  let state: "on" | "off" = "off";
  for (let turn = 0; turn < (quick ? 2 : turnsPerRound * rounds); turn += 1) {
    // Each turn begins as the one before it ended, so that it takes one change of the file, and neither side is always the first.
    const first = await costOf(state);
    state = state === "on" ? "off" : "on";
    await gateway.follow(state === "on" ? on : off);
    const second = await costOf(state);
    const [cost, without] = state === "on" ? [second, first] : [first, second];
    turns.push(cost === null || without === null ? null : { on: cost, off: without });
  }
  await gateway.stop();
  // A client leaves at the end of its turn, and does not count what it then waits for.
  const most = asked.on + asked.turnsOn * connections;
  const { callsCounted } = collector;
  if (callsCounted < asked.on || callsCounted > most)
    throw new Error(`of ${asked.on} calls with metrics on and ${asked.off} with them off, the gateway counted ${callsCounted}`);
  return turns;
}

const startsMeasured = 2;
const turnsPerRound = 12;
const connections = 32;
