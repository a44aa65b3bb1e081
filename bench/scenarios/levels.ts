import { randomBytes } from "node:crypto";
import { unlimited, type Limits } from "../../src/limits/limits.ts";
import { ask } from "../ask.ts";
import { type Bench, type RequestCost, type Scenario, threadCost } from "../bench.ts";
import { type Gateway, oneChannel, withKey } from "../gateway.ts";
import { judged, type Row } from "../report.ts";
import { trimmedError, trimmedMean } from "../statistics.ts";
import { SteadyLoad } from "../steady-load.ts";
import { farBudget, madeStore } from "../stored-keys.ts";
import { type LimitServers, startLimitServers } from "../limit-servers.ts";

/**
 * What limits cost a call (P20): one gateway is asked in turns with a key that has limits and a budget and is in a project, a team and an
 * organisation which have theirs, and with a key that has none of it.
 */
export const levels: Scenario = async (bench) => {
  const rows: Row[] = [];
  const servers = await startLimitServers(bench, "levels");
  try {
    for (const [name, places] of [["SQLite", {}] as const, ...(servers === null ? [] : [["PostgreSQL + Redis", servers] as const])]) {
      console.error(`levels, ${name}`);
      const gateway = await gatewayOfLevels(bench, places);
      if (gateway === null) continue;
      const turns = await turnsOf(bench, gateway);
      await gateway.levels.stop();
      rows.push(...rowsOf(name, turns));
    }
  } finally {
    await servers?.stop();
  }
  return rows;
};

/** P20, in microseconds a call. */
export const mostOfLevels = 10;

function rowsOf(name: string, turns: readonly Turn[]): readonly Row[] {
  const differences = (of: keyof RequestCost): readonly number[] => turns.map((turn) => turn.levels[of] - turn.none[of]);
  const [all, main] = [differences("all"), differences("main")];
  const error = (values: readonly number[]): string => `standard error ${trimmedError(values).toFixed(2)} us, of ${values.length} pairs`;
  return [
    {
      bar: "P20",
      measure: `CPU per JSON request through four levels of limits and budgets, ${name}`,
      unit: "us",
      raw: { gateway: turns.map((turn) => turn.levels.all) },
      judgement: judged("four levels - none", trimmedMean(all), { limit: mostOfLevels, sense: "at most" }),
    },
    {
      bar: "",
      measure: `the same with a key that has none, ${name}`,
      unit: "us",
      raw: { gateway: turns.map((turn) => turn.none.all) },
      judgement: { kind: "unjudged", because: error(all) },
    },
    {
      bar: "",
      measure: `of that on the serving thread, through four levels, ${name}`,
      unit: "us",
      raw: { gateway: turns.map((turn) => turn.levels.main) },
      judgement: { kind: "unjudged", because: `four levels - none ${trimmedMean(main).toFixed(2)} us, ${error(main)}` },
    },
  ];
}

/** One gateway with both keys. */
export interface GatewayOfLevels {
  readonly levels: Gateway;
  readonly none: Gateway;
}

export async function gatewayOfLevels(bench: Bench, places: Places): Promise<GatewayOfLevels | null> {
  const keyed = await gatewayWithKeys(bench, places, [farBudget, unlimited]);
  return keyed === null ? null : { levels: keyed[0]!, none: keyed[1]! };
}

/** Where a gateway keeps limits and receipts; SQLite and its own memory without them. */
type Places = Partial<Pick<LimitServers, "store" | "state">>;

/** One gateway, once for each of these keys. The first key is in a project, a team and an organisation with limits and budgets. */
export async function gatewayWithKeys(
  { upstream, gatewayWith }: Pick<Bench, "upstream" | "gatewayWith">,
  places: Places,
  keys: readonly Limits[],
): Promise<readonly Gateway[] | null> {
  const masterKey = randomBytes(32).toString("hex");
  const { store, state } = places;
  const made = await madeStore({ ...(store === undefined ? {} : { store }), masterKey, keys, above: farBudget });
  const gateway = await gatewayWith({
    ...oneChannel(upstream),
    masterKey,
    dataDir: made.dataDir,
    ...(store === undefined ? {} : { store }),
    ...(state === undefined ? {} : { state }),
    prices: [{ model: "*", input: 1, output: 4 }],
  });
  return gateway === null ? null : made.tokens.map((token) => withKey(gateway, token));
}

export interface Turn {
  readonly levels: RequestCost;
  readonly none: RequestCost;
}

/**
 * The gateway never rests between two turns. If it did, each turn would also measure what it costs to wake up. The key that has been asked
 * with last begins the next pair, so that neither is always the first.
 */
export async function turnsOf(bench: Bench, { levels: limited, none: plain }: GatewayOfLevels): Promise<readonly Turn[]> {
  const { options } = bench;
  const load = await SteadyLoad.start(limited, ask("json"), connections);
  try {
    for (const target of [limited, plain]) {
      load.askAs(target);
      await load.during(options.quick ? 1_000 : warmUpMs);
    }
    const turns: Turn[] = [];
    // A turn in which a thread ended gives no pair. Where the numbers mean little, one pair is enough.
    const last = options.quick ? quickTurnsMax : turnsPerRound * options.rounds;
    for (let turn = 0; turn < last && !(options.quick && turns.length > 0); turn += 1) {
      const isFirst = turn % 2 === 0;
      const first = await costOf(load, isFirst ? limited : plain);
      const second = await costOf(load, isFirst ? plain : limited);
      if (first !== null && second !== null) turns.push(isFirst ? { levels: first, none: second } : { levels: second, none: first });
    }
    const missing = options.quick ? 0 : last - turns.length;
    if (missing > 0) bench.remark(`levels: ${missing} pairs of turns are left out, because a thread ended in them`);
    return turns;
  } finally {
    load.stop();
  }
}

async function costOf(load: SteadyLoad, target: Gateway): Promise<RequestCost | null> {
  load.askAs(target);
  // Until the calls of the other key and their receipts are done with.
  await load.during(settlesMs);
  return threadCost(target, () => load.during(turnMs));
}

const warmUpMs = 12_000;
const settlesMs = 300;
const turnMs = 1_500;
const turnsPerRound = 12;
const quickTurnsMax = 8;
const connections = 32;
