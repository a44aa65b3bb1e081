import { ask } from "../ask.ts";
import { cpuOf, inTurns, type Scenario } from "../bench.ts";
import { oneChannel, withKey } from "../gateway.ts";
import { closedLoop } from "../load.ts";
import { compared, judged, type Judgement, type Row } from "../report.ts";
import { median, medianRatio } from "../statistics.ts";
import { farBudget, farLimits, madeStore } from "../stored-keys.ts";
import { unlimited } from "../../src/limits/limits.ts";
import type { Target } from "../target.ts";

/**
 * What a key, its limits and its budget cost a call (P1 with everything on). It is one process throughout, asked with one key after the
 * other; the access log, the receipt, its journal and its way into the store are in every figure of the gateway.
 */
export const keysLimits: Scenario = async (bench) => {
  const { options, upstream } = bench;
  const store = await madeStore({ keys: [unlimited, farLimits, farBudget] });
  const [bare = "", limited = "", budgeted = ""] = store.tokens;
  const gateway = await bench.gatewayWith({
    ...oneChannel(upstream),
    dataDir: store.dataDir,
    prices: [{ model: "*", input: 1, output: 4 }],
  });
  if (gateway === null) return [];
  const floor = bench.targets.find((target) => target.name === "floor");
  const peer = bench.targets.find((target) => target.name === "peer");
  const variants: Readonly<Record<string, Target>> = {
    ...(floor === undefined ? {} : { floor }),
    file: gateway,
    bare: withKey(gateway, bare),
    limited: withKey(gateway, limited),
    budgeted: withKey(gateway, budgeted),
    ...(peer === undefined ? {} : { peer }),
  };
  const warmSeconds = options.quick ? 2 : 4;
  await inTurns({ title: "keys and limits, warm-up", rounds: 1, variants }, async (target) => {
    await closedLoop(target, ask("json"), { connections: 32, seconds: warmSeconds });
    return 0;
  });
  const mainThread: Record<string, number[]> = {};
  const cost = await inTurns({ title: "keys and limits", rounds: options.rounds, variants }, async (target, name) => {
    const amount = { connections: 32, seconds: options.seconds };
    const { allMicros, mainMicros, result } = await cpuOf(target, () => closedLoop(target, ask("json"), amount));
    (mainThread[name] ??= []).push(mainMicros / result.requests);
    return allMicros / result.requests;
  });
  await gateway.stop();

  const of = (name: string): readonly number[] => cost[name] ?? [];
  bench.show({
    title:
      "A JSON request by the key it is asked with, CPU us; beside the thread that serves calls are the drain, the collector and the compiler",
    columns: ["key", "in all", "serving thread", "beside it", "to the floor", "to the file's key"],
    lines: Object.keys(cost).map((name) => {
      const all = median(of(name));
      const main = median(mainThread[name] ?? []);
      return [names[name] ?? name, all, main, all - main, medianRatio(of(name), of("floor")), medianRatio(of(name), of("file"))];
    }),
  });
  const row = (bar: string, measure: string, raw: Row["raw"], judgement: Judgement): Row => ({ bar, measure, unit: "us", raw, judgement });
  const added = (measure: string, name: string, before: string): Row =>
    row("", measure, { gateway: of(name) }, compared("ratio", medianRatio(of(name), of(before))));
  return [
    ...["file", "bare", "limited", "budgeted"].map((name) =>
      row(
        "P1",
        `CPU per JSON request, ${names[name]}`,
        { floor: of("floor"), gateway: of(name), peer: of("peer") },
        judged("gateway/floor", medianRatio(of(name), of("floor")), { limit: 1.3, sense: "at most" }),
      ),
    ),
    row(
      "P1",
      `CPU per JSON request, ${names["budgeted"]}`,
      { gateway: of("budgeted"), peer: of("peer") },
      judged("gateway/peer", medianRatio(of("budgeted"), of("peer")), { limit: 0.09, sense: "at most" }),
    ),
    added("a stored key to one of the file", "bare", "file"),
    added("limits to none", "limited", "bare"),
    added("a budget to limits alone", "budgeted", "limited"),
  ];
};

const names: Readonly<Record<string, string>> = {
  file: "a key of the file",
  bare: "a stored key",
  limited: "a stored key with rpm, tpm and concurrency",
  budgeted: "the same with a budget",
};
