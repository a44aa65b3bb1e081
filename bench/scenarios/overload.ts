import { ask } from "../ask.ts";
import type { Scenario } from "../bench.ts";
import { type Gateway, oneChannel } from "../gateway.ts";
import { closedLoop, openLoop } from "../load.ts";
import { compared, judged, type Row } from "../report.ts";
import { median } from "../statistics.ts";

/** As many calls as the gateway serves at a time here: few, so that the load of three times as many does not take its processors. */
const atATime = 40;
const timesTooMany = 3;

/**
 * Three times as many calls as can be served (P7): how many are served all the same, how quickly the others are turned away, and how
 * soon afterwards everybody is served again.
 */
export const overload: Scenario = async (bench) => {
  const { options } = bench;
  const seconds = Math.max(options.quick ? 2 : 10, options.seconds);
  const gateway = await bench.gatewayWith({ ...oneChannel(bench.upstream), inFlight: atATime });
  if (gateway === null) return [];
  const asked = ask("paced", 2);
  console.error(`overload, ${atATime} calls at a time`);
  // A client is quicker with its next call than the gateway is with putting the last one away.
  const usual = await closedLoop(gateway, asked, { connections: Math.floor(atATime * 0.9), seconds });
  const perSecondMax = usual.requests / usual.seconds;
  const perSecond = Math.round(perSecondMax * timesTooMany);
  console.error(`overload, ${perSecond} calls a second for ${seconds} s`);
  const { statuses, wholeMs, attempts } = await openLoop(gateway, asked, { perSecond, seconds });
  const recoverySeconds = await recovered(gateway);
  await gateway.stop();
  const refusedMs = wholeMs.filter((_, at) => attempts[at] === 0);
  const strange = Object.keys(statuses).filter((status) => status !== "200" && status !== "503");
  if (strange.length > 0) bench.remark(`overload: of ${perSecond * seconds} calls came ${JSON.stringify(statuses)}`);
  const row = (measure: string, unit: string, value: number, judgement: Row["judgement"]): Row => ({
    bar: "P7",
    measure,
    unit,
    raw: { gateway: [value] },
    judgement,
  });
  const share = (statuses["200"] ?? 0) / seconds / perSecondMax;
  return [
    row(
      `calls served of ${timesTooMany} times as many as can be`,
      "share of the most",
      share,
      judged("gateway", share, { limit: 0.8, sense: "at least" }),
    ),
    row("time to a refusal, p50", "ms", median(refusedMs), judged("gateway", median(refusedMs), { limit: 20, sense: "at most" })),
    row("until all are served again", "s", recoverySeconds, judged("gateway", recoverySeconds, { limit: 5, sense: "at most" })),
    {
      bar: "",
      measure: "calls a second, as many as can be served",
      unit: "1/s",
      raw: { gateway: [perSecondMax] },
      judgement: compared("gateway", perSecondMax),
    },
  ];
};

/** Until half of what can be served is served without a refusal, for a second. */
async function recovered(gateway: Gateway): Promise<number> {
  const fromMs = performance.now();
  while (performance.now() - fromMs < hopelessMs) {
    const beganMs = performance.now();
    const { requests, statuses } = await openLoop(gateway, ask("json"), { perSecond: atATime, seconds: 1 });
    if (statuses["200"] === requests) return (beganMs - fromMs) / 1000;
  }
  return hopelessMs / 1000;
}

const hopelessMs = 20_000;
