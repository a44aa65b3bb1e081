import { ask } from "../ask.ts";
import { type Bench, cpuOf, type Scenario } from "../bench.ts";
import { residentBytes } from "../cpu.ts";
import { startLimitServers } from "../limit-servers.ts";
import { answeredLoop, closedLoop, holdStreams } from "../load.ts";
import { judged, type Row } from "../report.ts";
import { median, quantile, trimmedMean } from "../statistics.ts";
import type { Target } from "../target.ts";
import { gatewayOfLevels, mostOfLevels, turnsOf } from "./levels.ts";

/**
 * One table of what a call costs with everything on: a stored key with rates, concurrency and a budget, in a project, a team and an
 * organisation which have theirs, receipts, metrics and the access log, on SQLite and on PostgreSQL with Redis, beside the floor and
 * beside a proxy of bare sockets. They take turns. What docs/performance.md states a goal for is judged above the table.
 */
export const limitsOn: Scenario = async (bench) => {
  const servers = await startLimitServers(bench, "limits-on");
  const figures = new Map<string, Figures>();
  try {
    const bare = await bench.fresh("bare");
    const floor = await bench.fresh("floor");
    const onSqlite = await gatewayOfLevels(bench, {});
    const onServers = servers === null ? null : await gatewayOfLevels(bench, servers);
    const columns: readonly (readonly [string, Target | null])[] = [
      ["bare sockets", bare],
      ["floor", floor],
      [stores[0], onSqlite?.levels ?? null],
      [stores[1], onServers?.levels ?? null],
    ];
    const idle = new Map<string, number>();
    for (const [name, target] of columns) if (target !== null) idle.set(name, residentBytes(target.pid) / 1e6);
    for (let round = 0; round <= bench.options.rounds; round += 1) {
      // Where the numbers mean little, nobody waits for warm ones.
      if (round === 0 && bench.options.quick) continue;
      console.error(round === 0 ? "limits-on, warm-up" : `limits-on, round ${round} of ${bench.options.rounds}`);
      for (const [name, target] of columns) {
        if (target === null) continue;
        const taken = await turn(bench, target, round === 0);
        if (round > 0) merge(figures, name, taken);
      }
    }
    for (const [name, target] of columns) {
      if (target === null) continue;
      merge(figures, name, { [beforeFirstCall]: idle.get(name) ?? 0, ...(await weights(bench, target)) });
    }
    for (const [name, gateway] of [[stores[0], onSqlite] as const, [stores[1], onServers] as const]) {
      if (gateway === null) continue;
      console.error(`limits-on, levels on ${name}`);
      const differences = (await turnsOf(bench, gateway)).map(({ levels, none }) => levels.all - none.all);
      merge(figures, name, { [ofLevels]: trimmedMean(differences) });
    }
    const measures = [...new Set([...figures.values()].flatMap((each) => Object.keys(each)))];
    bench.show({
      title: "A stored key with rates, concurrency and a budget, three levels of groups with theirs, receipts, metrics and access log on",
      columns: ["measure", ...columns.map(([name]) => name)],
      lines: measures.map((measure) => [
        measure,
        ...columns.map(([name, target]) => (target === null ? "not measured: no server" : shownFigure(figures.get(name)?.[measure]))),
      ]),
    });
    await Promise.all(columns.map(([, target]) => target?.stop()));
  } finally {
    await servers?.stop();
  }
  return stores.flatMap((store) => goalsOf(store, figures.get(store) ?? null, figures.get("floor") ?? {}));
};

/** As the table names what the gateway keeps its limits and receipts in. */
const stores = ["SQLite", "PostgreSQL + Redis"] as const;
const beforeFirstCall = "memory before the first call, MB";
const perIdleStream = "memory per idle stream of ";
const ofLevels = "of that four levels of limits and budgets, beside a key without, us";

/** Memory is a goal and no promise; the levels are P20, of which `levels` has more pairs. None of a store that could not be had. */
function goalsOf(store: string, own: Figures | null, floor: Figures): readonly Row[] {
  if (own === null) return [];
  const goals = [
    { bar: "", begins: beforeFirstCall, what: "memory", limit: 60 },
    { bar: "", begins: perIdleStream, what: "per stream", limit: 12 },
    { bar: "P20", begins: ofLevels, what: "four levels - none", limit: mostOfLevels },
  ];
  return goals.map(({ bar, begins, what, limit }) => {
    const name = Object.keys(own).find((measure) => measure.startsWith(begins)) ?? begins;
    const comma = name.lastIndexOf(", ");
    const values = own[name] ?? [];
    return {
      bar,
      measure: `${name.slice(0, comma)}, ${store}`,
      unit: name.slice(comma + 2),
      raw: { gateway: values, ...(floor[name] === undefined ? {} : { floor: floor[name] }) },
      judgement: judged(what, values.length === 0 ? null : median(values), { limit, sense: "at most" }),
    };
  });
}

/** The floors have no limits. */
function shownFigure(values: readonly number[] | undefined): number | string {
  return values === undefined ? "" : median(values);
}

type Figures = Record<string, number[]>;

function merge(figures: Map<string, Figures>, name: string, taken: Readonly<Record<string, number>>): void {
  const own = figures.get(name) ?? {};
  figures.set(name, own);
  for (const [measure, value] of Object.entries(taken)) (own[measure] ??= []).push(value);
}

async function turn({ options }: Bench, target: Target, isWarmUp: boolean): Promise<Readonly<Record<string, number>>> {
  const seconds = isWarmUp ? 5 : Math.max(1, Math.ceil(options.seconds / 2));
  const json = await cpuOf(target, () => closedLoop(target, ask("json"), { connections: 32, seconds }));
  const burst = await cpuOf(target, () => closedLoop(target, ask("burst"), { connections: 8, seconds }));
  const { requests, seconds: took } = await closedLoop(target, ask("json"), { connections: 64, seconds });
  const plain = await answeredLoop(target, ask("json"), { perSecond: 200, seconds });
  const streams = await answeredLoop(target, ask("paced", 2), { perSecond: 200, seconds });
  return {
    "CPU per JSON request, us": json.allMicros / json.result.requests,
    "of that on the serving thread, us": json.mainMicros / json.result.requests,
    "CPU per stream of 100 chunks at once, us": burst.allMicros / burst.result.requests,
    "JSON requests per second, 64 connections": requests / took,
    "JSON answer, p50 in ms, 200 a second": quantile(plain.wholeMs, 0.5),
    "JSON answer, p99 in ms, 200 a second": quantile(plain.wholeMs, 0.99),
    "first token, p50 in ms, 200 streams a second": quantile(streams.firstMs, 0.5),
  };
}

/** Memory after the load, and for each stream on which nothing happens. */
async function weights({ options }: Bench, target: Target): Promise<Readonly<Record<string, number>>> {
  await Bun.sleep(restMs);
  const before = residentBytes(target.pid);
  const streams = Math.min(options.idleStreams, options.quick ? 200 : 2_000);
  const holding = await holdStreams(target, "idle", { streams, stalled: false });
  await Bun.sleep(restMs);
  const during = residentBytes(target.pid);
  await holding.leave();
  return { "memory after the load, MB": before / 1e6, [`${perIdleStream}${streams}, KiB`]: (during - before) / 1024 / streams };
}

const restMs = 4_000;
