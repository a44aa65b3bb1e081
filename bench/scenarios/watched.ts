import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ask } from "../ask.ts";
import { cpuOf, type Scenario } from "../bench.ts";
import { type Gateway, oneChannel } from "../gateway.ts";
import { closedLoop, openLoop } from "../load.ts";
import { scratch } from "../processes.ts";
import { judged } from "../report.ts";
import { trimmedMean } from "../statistics.ts";

/**
 * What it costs the calls that a console is open on its live page.
 *
 * As for telemetry, the difference is smaller than what the machine changes from second to second: two gateways serve the same load at the
 * same time, one of them watched. They take turns at that, because no two processes are compiled alike. Both have been watched before,
 * under more load, so that it is not the compiler that is measured.
 */
export const watched: Scenario = async (bench) => {
  const { quick, rounds } = bench.options;
  const adminTokenFile = join(scratch, "watched-token");
  writeFileSync(adminTokenFile, adminToken, { mode: 0o600 });
  const settings = { ...oneChannel(bench.upstream), adminTokenFile };
  const one = await bench.gatewayWith(settings);
  const other = await bench.gatewayWith(settings);
  if (one === null || other === null) return [];
  await Promise.all([one, other].map((gateway) => whileWatched(gateway, () => warmUp(gateway, quick ? 1 : 8))));
  const micros = async (gateway: Gateway): Promise<number> => {
    const { allMicros, result } = await cpuOf(gateway, () =>
      openLoop(gateway, ask("json"), { perSecond, seconds: quick ? 1 : turnSeconds }),
    );
    return allMicros / result.requests;
  };
  const alone: number[] = [];
  const seen: number[] = [];
  const turns = quick ? 1 : turnsPerRound * rounds;
  for (let turn = 1; turn <= turns; turn += 1) {
    console.error(`watched and not, turn ${turn} of ${turns}`);
    const [first, second] = await Promise.all([whileWatched(one, () => micros(one)), micros(other)]);
    const [third, fourth] = await Promise.all([micros(one), whileWatched(other, () => micros(other))]);
    seen.push((first + fourth) / 2);
    alone.push((second + third) / 2);
  }
  await Promise.all([one.stop(), other.stop()]);
  const ratios = seen.map((value, turn) => value / (alone[turn] ?? Number.NaN));
  const ratio = trimmedMean(ratios);
  console.error(`watched / unwatched, turn by turn: ${ratios.map((one) => one.toFixed(3)).join(" ")}`);
  return [
    {
      bar: "",
      measure: `CPU per JSON request with the live page open, at ${perSecond} a second`,
      unit: "us",
      raw: { gateway: seen },
      judgement: judged("watched / unwatched", ratio, { limit: 1.03, sense: "at most" }),
    },
    {
      bar: "",
      measure: "the same with no page open",
      unit: "us",
      raw: { gateway: alone },
      judgement: { kind: "unjudged", because: "the other side of the ratio" },
    },
  ];
};

const perSecond = 200;
/** Many short turns: what else the machine does is the same for both then, and what is not falls out of the mean. */
const turnsPerRound = 6;
const turnSeconds = 3;
const adminToken = "5f1c07d2a94be863c1d7f02b9a6e4835d0c2";

async function warmUp(gateway: Gateway, seconds: number): Promise<void> {
  await closedLoop(gateway, ask("json"), { connections: 16, seconds });
}

async function whileWatched<Result>(gateway: Gateway, work: () => Promise<Result>): Promise<Result> {
  const leaving = new AbortController();
  const response = await fetch(`${gateway.adminUrl}/admin/api/live`, {
    headers: { authorization: `Bearer ${adminToken}` },
    signal: leaving.signal,
  });
  if (!response.ok) throw new Error(`the live calls were answered with ${response.status}`);
  const reading = readAll(response);
  const result = await work();
  leaving.abort();
  await reading;
  return result;
}

async function readAll(response: Response): Promise<void> {
  try {
    for await (const _ of response.body ?? []);
  } catch {
    // It is left in the middle.
  }
}
