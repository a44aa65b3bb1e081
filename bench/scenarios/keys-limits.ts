import { ask } from "../ask.ts";
import { cpuOf, inTurns, reason, type Bench, type Scenario } from "../bench.ts";
import { oneChannel, withKey, type Gateway } from "../gateway.ts";
import { closedLoop } from "../load.ts";
import { compared, judged, type Judgement, type Row } from "../report.ts";
import { median, medianRatio } from "../statistics.ts";
import { farBudget, farLimits, madeStore } from "../stored-keys.ts";
import { unlimited } from "../../src/limits/limits.ts";
import type { Target } from "../target.ts";

/**
 * What a key, its limits and its budget cost a call (P1 with everything on). The access log, the receipt, its journal and its way into the
 * store are in every figure of the gateway. Measured twice: with a process for each kind of key, in turns with the floor, as the bar asks
 * for; and with one process that serves all kinds, whose code fits none of them as well, which no bar asks for.
 */
export const keysLimits: Scenario = async (bench) => {
  const apart = await inOwnProcesses(bench);
  if (apart === null) return [];
  showKinds(bench, "each kind in a process of its own", apart);
  const mixed = await inOneProcess(bench);
  if (mixed !== null) showKinds(bench, "all kinds in one process", mixed);

  const of = (name: string): readonly number[] => apart.cost[name] ?? [];
  const row = (bar: string, measure: string, raw: Row["raw"], judgement: Judgement): Row => ({ bar, measure, unit: "us", raw, judgement });
  const added = (measure: string, name: string, before: string): Row =>
    row("", measure, { gateway: of(name) }, compared("ratio", medianRatio(of(name), of(before))));
  return [
    ...kinds.map((name) =>
      row(
        "P1",
        `CPU per JSON request, ${names[name]}`,
        { floor: of("floor"), gateway: of(name), peer: of("peer") },
        judged("gateway/floor", medianRatio(of(name), of("floor")), { limit: 1.3, sense: "at most" }),
      ),
    ),
    row(
      "P1",
      `CPU per JSON request, ${names.budgeted}`,
      { gateway: of("budgeted"), peer: of("peer") },
      judged("gateway/peer", medianRatio(of("budgeted"), of("peer")), { limit: 0.09, sense: "at most" }),
    ),
    added("a stored key to one of the file", "bare", "file"),
    added("limits to none", "limited", "bare"),
    added("a budget to limits alone", "budgeted", "limited"),
    ...kinds.map((name) =>
      row(
        "",
        `one process for all kinds, ${names[name]}`,
        { floor: mixed?.cost["floor"] ?? [], gateway: mixed?.cost[name] ?? [] },
        compared("gateway/floor", medianRatio(mixed?.cost[name] ?? [], mixed?.cost["floor"] ?? [])),
      ),
    ),
  ];
};

const kinds = ["file", "bare", "limited", "budgeted"] as const;
type Kind = (typeof kinds)[number];

const names: Readonly<Record<Kind, string>> = {
  file: "a key of the file",
  bare: "a stored key",
  limited: "a stored key with rpm, tpm and concurrency",
  budgeted: "the same with a budget",
};

interface Costs {
  /** CPU microseconds for a request, round by round. */
  readonly cost: Readonly<Record<string, readonly number[]>>;
  /** Of that, on the thread that serves calls. */
  readonly mainThread: Readonly<Record<string, readonly number[]>>;
}

async function inOwnProcesses(bench: Bench): Promise<Costs | null> {
  const started: Gateway[] = [];
  try {
    const variants: Record<string, Target> = {};
    for (const kind of kinds) {
      const made = await startedFor(bench);
      if (made === null) return null;
      started.push(made.gateway);
      variants[kind] = made.asked[kind];
    }
    return await costsOf(bench, "keys and limits, apart", variants);
  } finally {
    for (const gateway of started) await gateway.stop();
  }
}

async function inOneProcess(bench: Bench): Promise<Costs | null> {
  const made = await startedFor(bench);
  if (made === null) return null;
  try {
    return await costsOf(bench, "keys and limits, together", made.asked);
  } catch (error) {
    bench.remark(`keys and limits together: ${reason(error)}`);
    return null;
  } finally {
    await made.gateway.stop();
  }
}

/** A gateway with a store of its own, and how to ask it with each kind of key. */
async function startedFor(bench: Bench): Promise<{ readonly gateway: Gateway; readonly asked: Readonly<Record<Kind, Gateway>> } | null> {
  const store = await madeStore({ keys: [unlimited, farLimits, farBudget] });
  const [bare = "", limited = "", budgeted = ""] = store.tokens;
  const gateway = await bench.gatewayWith({
    ...oneChannel(bench.upstream),
    dataDir: store.dataDir,
    prices: [{ model: "*", input: 1, output: 4 }],
  });
  if (gateway === null) return null;
  return {
    gateway,
    asked: { file: gateway, bare: withKey(gateway, bare), limited: withKey(gateway, limited), budgeted: withKey(gateway, budgeted) },
  };
}

async function costsOf({ options, targets }: Bench, title: string, kindsAsked: Readonly<Record<string, Target>>): Promise<Costs> {
  const of = (name: string): Readonly<Record<string, Target>> => {
    const target = targets.find((known) => known.name === name);
    return target === undefined ? {} : { [name]: target };
  };
  const variants = { ...of("floor"), ...kindsAsked, ...of("peer") };
  const warmSeconds = options.quick ? 2 : 4;
  await inTurns({ title: `${title}, warm-up`, rounds: 1, variants }, async (target) => {
    await closedLoop(target, ask("json"), { connections: 32, seconds: warmSeconds });
    return 0;
  });
  const mainThread: Record<string, number[]> = {};
  const cost = await inTurns({ title, rounds: options.rounds, variants }, async (target, name) => {
    const amount = { connections: 32, seconds: options.seconds };
    const { allMicros, mainMicros, result } = await cpuOf(target, () => closedLoop(target, ask("json"), amount));
    (mainThread[name] ??= []).push(mainMicros / result.requests);
    return allMicros / result.requests;
  });
  return { cost, mainThread };
}

function showKinds(bench: Bench, how: string, { cost, mainThread }: Costs): void {
  const of = (name: string): readonly number[] => cost[name] ?? [];
  bench.show({
    title:
      `A JSON request by the key it is asked with, ${how}, CPU us; ` +
      "beside the thread that serves calls are the drain, the collector and the compiler",
    columns: ["key", "in all", "serving thread", "beside it", "to the floor", "to the file's key"],
    lines: Object.keys(cost).map((name) => {
      const all = median(of(name));
      const main = median(mainThread[name] ?? []);
      return [
        (names as Readonly<Record<string, string>>)[name] ?? name,
        all,
        main,
        all - main,
        medianRatio(of(name), of("floor")),
        medianRatio(of(name), of("file")),
      ];
    }),
  });
}
