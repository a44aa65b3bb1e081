import { ask } from "../ask.ts";
import type { Scenario } from "../bench.ts";
import { oneChannel, withKey } from "../gateway.ts";
import { answeredLoop, openLoop } from "../load.ts";
import { compared, judged, type Row } from "../report.ts";
import { medianRatio, quantile } from "../statistics.ts";
import { farLimits, madeStore } from "../stored-keys.ts";
import type { Target } from "../target.ts";

/** One key is used ten times as much as it may be: what another key, within its limits, feels of it (P10). */
export const neighbour: Scenario = async (bench) => {
  const { options, upstream } = bench;
  const perMinute = options.quick ? 600 : 3_000;
  const noise = { perSecond: (perMinute * 10) / 60, seconds: options.seconds + 2 };
  const store = await madeStore({ keys: [{ ...farLimits, requests: perMinute }, farLimits] });
  const [loudToken = "", quietToken = ""] = store.tokens;
  const gateway = await bench.gatewayWith({ ...oneChannel(upstream), dataDir: store.dataDir });
  if (gateway === null) return [];
  const loud = withKey(gateway, loudToken);
  const quiet = withKey(gateway, quietToken);
  const floor = bench.targets.find((target) => target.name === "floor");

  console.error("neighbour, warm-up");
  await answeredLoop(quiet, ask("json"), { perSecond: 400, seconds: options.quick ? 1 : 5 });
  // Until its minute is spent, a key that is over its limit is only a busy one.
  await openLoop(loud, ask("json"), { ...noise, seconds: Math.ceil(perMinute / noise.perSecond) + 1 });

  const alone: number[] = [];
  const beside: number[] = [];
  const machine: number[] = [];
  const answers: Record<string, number> = {};
  const p99 = async (): Promise<number> =>
    quantile((await answeredLoop(quiet, ask("json"), { perSecond: 100, seconds: options.seconds })).wholeMs, 0.99);
  const during = async (whom: Target): Promise<number> => {
    const loudness = openLoop(whom, ask("json"), noise);
    const [{ statuses }, taken] = await Promise.all([loudness, Bun.sleep(1_000).then(p99)]);
    if (whom === loud) for (const [status, count] of Object.entries(statuses)) answers[status] = (answers[status] ?? 0) + count;
    return taken;
  };
  for (let round = 1; round <= Math.max(2, options.rounds); round += 1) {
    console.error(`neighbour, round ${round}`);
    alone.push(await p99());
    beside.push(await during(loud));
    if (floor !== undefined) machine.push(await during(floor));
  }
  await gateway.stop();
  bench.remark(
    `neighbour: the loud key, at ${noise.perSecond} requests a second with a limit of ${perMinute} a minute, got ${JSON.stringify(answers)}`,
  );
  return [
    {
      bar: "P10",
      measure: "time to a JSON answer beside a key at 10 x its limit, p99",
      unit: "ms",
      raw: { gateway: beside },
      judgement: judged("to quiet", medianRatio(beside, alone), { limit: 1.5, sense: "at most" }),
    },
    { bar: "", measure: "the same in quiet, p99", unit: "ms", raw: { gateway: alone }, judgement: compared("to quiet", 1) },
    {
      bar: "",
      measure: "the same while as much goes to the floor instead, p99",
      unit: "ms",
      raw: { gateway: machine },
      judgement: compared("to quiet", medianRatio(machine, alone)),
    },
  ] satisfies Row[];
};
