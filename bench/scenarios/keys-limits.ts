import { ask } from "../ask.ts";
import { cpuOf, inTurns, type Bench, type Scenario } from "../bench.ts";
import { oneChannel, withKey, type Gateway } from "../gateway.ts";
import { closedLoop } from "../load.ts";
import { compared, judged, type Judgement, type Row } from "../report.ts";
import { median, medianRatio } from "../statistics.ts";
import { farBudget, farLimits, madeStore } from "../stored-keys.ts";
import { unlimited } from "../../src/limits/limits.ts";
import type { Target } from "../target.ts";

/**
 * What a key, its limits and its budget cost a call (P1 with everything on). The access log, the receipt, its journal and its way into the
 * store are in every figure of the gateway. Each kind of key has a process of its own, in turns with the floor and nobody else: one that
 * rests for a minute while others have their turn loses what was compiled for it, which is not the cost of a key.
 */
export const keysLimits: Scenario = async (bench) => {
  const costs: Costs[] = [];
  for (const kind of kinds) {
    const measured = await costsOf(bench, kind);
    if (measured === null) return [];
    costs.push(measured);
  }
  bench.show({
    title:
      "A JSON request by the key it is asked with, CPU us; beside the thread that serves calls are the drain, the collector and the compiler",
    columns: ["key", "floor", "in all", "serving thread", "beside it", "to the floor"],
    lines: costs.map(({ kind, floor, gateway, serving }) => [
      names[kind],
      median(floor),
      median(gateway),
      median(serving),
      median(gateway) - median(serving),
      medianRatio(gateway, floor),
    ]),
  });
  const row = (measure: string, raw: Row["raw"], judgement: Judgement): Row => ({ bar: "P1", measure, unit: "us", raw, judgement });
  const { kind, gateway, peer } = costs.at(-1)!;
  return [
    ...costs.map((cost) =>
      row(
        `CPU per JSON request, ${names[cost.kind]}`,
        { floor: cost.floor, gateway: cost.gateway, peer: cost.peer },
        judged("gateway/floor", medianRatio(cost.gateway, cost.floor), { limit: 1.3, sense: "at most" }),
      ),
    ),
    row(
      `CPU per JSON request, ${names[kind]}`,
      { gateway, peer },
      judged("gateway/peer", medianRatio(gateway, peer), { limit: 0.09, sense: "at most" }),
    ),
    ...costs.slice(1).map((cost, before): Row => ({
      bar: "",
      measure: `${names[cost.kind]}, beside ${names[costs[before]!.kind]}`,
      unit: "us",
      raw: { gateway: cost.gateway },
      judgement: compared(
        "ratio of ratios",
        medianRatio(cost.gateway, cost.floor) / medianRatio(costs[before]!.gateway, costs[before]!.floor),
      ),
    })),
  ];
};

/** The last of them is also measured beside the peer. */
const kinds = ["file", "bare", "limited", "budgeted"] as const;
type Kind = (typeof kinds)[number];

const names: Readonly<Record<Kind, string>> = {
  file: "a key of the file",
  bare: "a stored key",
  limited: "a stored key with rpm, tpm and concurrency",
  budgeted: "the same with a budget",
};

/** CPU microseconds for a request, round by round. */
interface Costs {
  readonly kind: Kind;
  readonly floor: readonly number[];
  readonly gateway: readonly number[];
  /** Of that, on the thread that serves calls. */
  readonly serving: readonly number[];
  readonly peer: readonly number[];
}

async function costsOf(bench: Bench, kind: Kind): Promise<Costs | null> {
  const { options, targets } = bench;
  const gateway = await startedFor(bench, kind);
  if (gateway === null) return null;
  const floor = targets.find(({ name }) => name === "floor");
  const peer = kind === kinds.at(-1) ? targets.find(({ name }) => name === "peer") : undefined;
  const variants: Readonly<Record<string, Target>> = { ...(floor && { floor }), gateway, ...(peer && { peer }) };
  const serving: number[] = [];
  try {
    // The first seconds of a process measure its compiler.
    await inTurns({ title: `${names[kind]}, warm-up`, rounds: 1, variants }, async (target) => {
      await closedLoop(target, ask("json"), { connections: 32, seconds: options.quick ? 2 : 10 });
      return 0;
    });
    const cost = await inTurns({ title: names[kind], rounds: options.rounds, variants }, async (target) => {
      const amount = { connections: 32, seconds: options.seconds };
      const { allMicros, mainMicros, result } = await cpuOf(target, () => closedLoop(target, ask("json"), amount));
      if (target === gateway) serving.push(mainMicros / result.requests);
      return allMicros / result.requests;
    });
    return { kind, floor: cost["floor"] ?? [], gateway: cost["gateway"] ?? [], serving, peer: cost["peer"] ?? [] };
  } finally {
    await gateway.stop();
  }
}

async function startedFor(bench: Bench, kind: Kind): Promise<Gateway | null> {
  const limits = { file: unlimited, bare: unlimited, limited: farLimits, budgeted: farBudget }[kind];
  const store = await madeStore({ keys: [limits] });
  const gateway = await bench.gatewayWith({
    ...oneChannel(bench.upstream),
    dataDir: store.dataDir,
    prices: [{ model: "*", input: 1, output: 4 }],
  });
  return gateway === null || kind === "file" ? gateway : withKey(gateway, store.tokens[0]!);
}
