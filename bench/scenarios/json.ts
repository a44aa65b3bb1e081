import { ask } from "../ask.ts";
import { cpuOf, interleaved, type Scenario, segmentSeconds } from "../bench.ts";
import { closedLoop } from "../load.ts";
import { judged, type Row } from "../report.ts";
import { medianRatio } from "../statistics.ts";

/** What one plain request costs in CPU time, and how many of them fit (P1, P3). */
export const json: Scenario = async (bench) => {
  const { options } = bench;
  await interleaved(
    bench,
    { title: "json warm-up", targets: ["nginx", "floor", "gateway", "peer"], rounds: 1, measures: [] },
    async (target) => {
      // A gateway runs for weeks, and the bars are for compiled code: in its first seconds under load, half of its CPU time is the compiler.
      const seconds = options.quick ? 1 : warmUpSeconds;
      await closedLoop(target, ask("json"), { connections: 32, seconds });
      return {};
    },
  );

  const cost = await interleaved(
    bench,
    { title: "json at 32 connections", targets: ["nginx", "floor", "gateway", "peer"], rounds: options.rounds, measures: ["cpu"] },
    async (target) => {
      const amount = { connections: 32, seconds: segmentSeconds(options, target) };
      const { allMicros, result } = await cpuOf(target, () => closedLoop(target, ask("json"), amount));
      return { cpu: allMicros / result.requests };
    },
  );
  const rate = await interleaved(
    bench,
    {
      title: "json at 64 connections",
      targets: ["nginx", "floor", "gateway"],
      rounds: options.rounds,
      referenceRounds: 1,
      measures: ["rate"],
    },
    async (target) => {
      const { requests, seconds } = await closedLoop(target, ask("json"), { connections: 64, seconds: Math.ceil(options.seconds / 2) });
      return { rate: requests / seconds };
    },
  );

  const { gateway = [], floor = [], peer = [] } = cost.cpu;
  return [
    {
      bar: "P1",
      measure: "CPU per JSON request",
      unit: "us",
      raw: cost.cpu,
      judgement: judged("gateway/floor", medianRatio(gateway, floor), { limit: 1.3, sense: "at most" }),
    },
    {
      bar: "P1",
      measure: "CPU per JSON request",
      unit: "us",
      raw: { gateway, peer },
      judgement: judged("gateway/peer", medianRatio(gateway, peer), { limit: 0.09, sense: "at most" }),
    },
    {
      bar: "P3",
      measure: "requests per second, 64 connections",
      unit: "1/s",
      raw: rate.rate,
      judgement: judged("gateway/floor", medianRatio(rate.rate.gateway ?? [], rate.rate.floor ?? []), { limit: 0.75, sense: "at least" }),
    },
  ] satisfies Row[];
};

const warmUpSeconds = 15;
