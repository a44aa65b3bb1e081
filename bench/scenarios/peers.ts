import { ask } from "../ask.ts";
import { type Bench, cpuOf, inTurns, reason, type Scenario } from "../bench.ts";
import { residentBytes } from "../cpu.ts";
import { type GivenPeer, givenPeers, provePeer, type StartedPeer, startGivenPeer } from "../given-peers.ts";
import { type Gateway, oneChannel, withKey } from "../gateway.ts";
import { closedLoop } from "../load.ts";
import { compared, judged, type Row, type Table } from "../report.ts";
import { median, medianRatio } from "../statistics.ts";
import { farBudget, madeStore } from "../stored-keys.ts";
import type { Target } from "../target.ts";

/**
 * The gateway with keys, limits, a budget and receipts beside other gateways, with their keys and without (P19), beside the floor, which
 * is the smallest honest proxy on our runtime, and beside bare sockets, which show what the runtime itself takes.
 */
export const peers: Scenario = async (bench) => {
  const { options, upstream } = bench;
  const gateway = await keyedGateway(bench);
  const floor = await bench.fresh("floor");
  const bare = await bench.fresh("bare");
  if (gateway === null || floor === null || bare === null) return [];
  const given: Named[] = [];
  const missing: (readonly [string, string])[] = [];
  for (const name of givenPeers) {
    const program = options.peers[name];
    for (const keyed of [false, true]) {
      const shown = `${name}, ${keyed ? "with a key" : "without keys"}`;
      if (program === undefined) missing.push([shown, `not measured: no program given (--${name} PATH)`]);
      else {
        try {
          given.push({ shown, name, keyed, target: await startGivenPeer(name, program, upstream, keyed) });
        } catch (error) {
          missing.push([shown, `not measured: ${reason(error).split("\n")[0] ?? ""}`]);
        }
      }
    }
  }
  const variants: Record<string, Target> = {
    bare,
    floor,
    gateway,
    ...Object.fromEntries(given.map(({ shown, target }) => [shown, target])),
  };
  const askedOf = (target: Target) => ("asked" in target ? (target as StartedPeer).asked : ask("json"));
  const idle: Record<string, number> = {};
  for (const [name, target] of Object.entries(variants)) idle[name] = residentBytes(target.pid) / 1e6;
  for (const { shown, target } of given) {
    try {
      await provePeer(target, upstream);
    } catch (error) {
      missing.push([shown, `not measured: ${reason(error).split("\n")[0] ?? ""}`]);
      delete variants[shown];
      await target.stop();
    }
  }
  const connections = 32;
  await inTurns({ title: "peers, warm-up", rounds: 1, variants }, async (target) => {
    await closedLoop(target, askedOf(target), { connections, seconds: options.quick ? 2 : 10 });
    return 0;
  });
  const rates: Record<string, number[]> = {};
  const cost = await inTurns({ title: "peers", rounds: options.rounds, variants }, async (target, name) => {
    const { allMicros, result } = await cpuOf(target, () => closedLoop(target, askedOf(target), { connections, seconds: options.seconds }));
    (rates[name] ??= []).push(result.requests / result.seconds);
    return allMicros / result.requests;
  });
  const floorCost = cost["floor"] ?? [];
  const gatewayCost = cost["gateway"] ?? [];
  bench.show(
    tableOf(Object.keys(variants), missing, (name) => [
      median(cost[name] ?? []),
      medianRatio(cost[name] ?? [], floorCost),
      medianRatio(cost[name] ?? [], gatewayCost),
      median(rates[name] ?? []),
      idle[name] ?? Number.NaN,
    ]),
  );
  await Promise.all([...Object.values(variants)].map((target) => target.stop()));
  const busbar = cost["busbar, without keys"];
  if (busbar === undefined) bench.remark(`peers: ${missing.find(([name]) => name.startsWith("busbar"))?.[1] ?? "busbar was not measured"}`);
  const row = (bar: string, measure: string, unit: string, raw: Row["raw"], judgement: Row["judgement"]): Row => ({
    bar,
    measure,
    unit,
    raw,
    judgement,
  });
  return [
    row(
      "P19",
      "CPU per JSON request with keys, limits, a budget and receipts, to busbar without keys",
      "us",
      { floor: floorCost, gateway: gatewayCost, peer: busbar ?? [] },
      judged("gateway/busbar", busbar === undefined ? null : medianRatio(gatewayCost, busbar), { limit: 1, sense: "at most" }),
    ),
    row(
      "",
      "memory at rest, before the first call",
      "MB",
      { floor: [idle["floor"] ?? 0], gateway: [idle["gateway"] ?? 0] },
      compared("gateway", idle["gateway"] ?? 0),
    ),
  ];
};

interface Named {
  readonly shown: string;
  readonly name: GivenPeer;
  readonly keyed: boolean;
  readonly target: StartedPeer;
}

const columns = ["who", "CPU us", "to the floor", "to the gateway", "requests/s", "idle MB"] as const;

/** Whoever is missing has a line all the same, which says why. */
function tableOf(
  names: readonly string[],
  missing: readonly (readonly [string, string])[],
  figures: (name: string) => readonly number[],
): Table {
  const shown: Readonly<Record<string, string>> = {
    gateway: "gateway, with keys, limits, a budget and receipts",
    bare: "bare sockets (bytes passed on, and nothing else)",
    floor: "floor (a bare proxy on our runtime)",
  };
  return {
    title: "A JSON request through each gateway, 32 connections",
    columns,
    lines: [
      ...names.map((name) => [shown[name] ?? name, ...figures(name)]),
      ...missing.map(([name, why]) => [name, why, ...columns.slice(2).map(() => "")]),
    ],
  };
}

async function keyedGateway(bench: Bench): Promise<Gateway | null> {
  const store = await madeStore({ keys: [farBudget] });
  const settings = { ...oneChannel(bench.upstream), dataDir: store.dataDir, prices: [{ model: "*", input: 1, output: 4 }] };
  const gateway = await bench.gatewayWith(settings);
  return gateway === null ? null : withKey(gateway, store.tokens[0] ?? "");
}
