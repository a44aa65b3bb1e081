import { ask, models } from "../ask.ts";
import type { Bench, Scenario } from "../bench.ts";
import { closedLoop, openLoop } from "../load.ts";
import { freePort } from "../processes.ts";
import { judged, type Row } from "../report.ts";
import { median, medianDifference } from "../statistics.ts";

/** One of two channels refuses connections: what its failure costs while the gateway still tries it, and once it has learned (P13). */
export const failover: Scenario = async (bench) => {
  const healthy = bench.targets.find((target) => target.name === "gateway");
  if (healthy === undefined) return [];
  const amount = { perSecond: 50, seconds: bench.options.quick ? 1 : 2 };
  const usual: number[] = [];
  const trying: number[] = [];
  const learned: number[] = [];
  for (let round = 1; round <= 3; round += 1) {
    console.error(`failover, round ${round} of 3`);
    const wounded = await withDeadChannel(bench);
    if (wounded === null) return [];
    // Its first requests would measure a cold process instead of a failover.
    await closedLoop(wounded, ask("burst"), { connections: 4, seconds: 1 });
    const { wholeMs, attempts, statuses } = await openLoop(wounded, ask("json"), amount);
    await wounded.stop();
    if (Object.keys(statuses).join() !== "200") bench.remark(`failover: with one of two channels dead came ${JSON.stringify(statuses)}`);
    trying.push(median(wholeMs.filter((_, index) => (attempts[index] ?? 0) > 1)));
    learned.push(median(wholeMs.filter((_, index) => attempts[index] === 1)));
    usual.push(median((await openLoop(healthy, ask("json"), amount)).wholeMs));
  }
  return [
    {
      bar: "P13",
      measure: "time to a JSON answer, one of two channels dead and tried first, p50",
      unit: "ms",
      raw: { gateway: trying },
      judgement: judged("added", medianDifference(trying, usual), { limit: 100, sense: "at most" }),
    },
    {
      bar: "P13",
      measure: "time to a JSON answer, the dead channel known, p50",
      unit: "ms",
      raw: { gateway: learned },
      judgement: judged("added", medianDifference(learned, usual), { limit: 2, sense: "at most" }),
    },
  ] satisfies Row[];
};

function withDeadChannel(bench: Bench) {
  const live = bench.upstream.ports[0] ?? 0;
  return bench.gatewayWith({
    channels: [
      { name: "dead", port: freePort(), models: [models.json] },
      { name: "live", port: live, models: [models.json, models.burst] },
    ],
  });
}
