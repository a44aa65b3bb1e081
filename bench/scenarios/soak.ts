import { readdirSync } from "node:fs";
import { ask } from "../ask.ts";
import type { Bench, Scenario } from "../bench.ts";
import { familyOf, residentBytes } from "../cpu.ts";
import { type Gateway, type GatewaySettings, oneChannel } from "../gateway.ts";
import { holdStreams, openLoop } from "../load.ts";
import { compared, judged, type Judgement, type Row } from "../report.ts";
import { type Point, trendOf } from "../soak/trend.ts";

const sliceSeconds = 20;
/** A reload about every five minutes. */
const slicesPerReload = 15;
/** Of the time: what the runtime compiles and keeps at first is not a leak. */
const warmUpShare = 1 / 3;
/** Longer than a connection to an upstream is kept for the next call. */
const unusedMs = 30_000;

/** A mixed load for a long time, with clients that leave, an upstream that refuses, and reloads: what is left behind (P11). */
export const soak: Scenario = async (bench) => {
  const slices = Math.max(3, Math.round(bench.options.soakSeconds / sliceSeconds));
  const settings: GatewaySettings = { ...oneChannel(bench.upstream), heard: true };
  const gateway = await bench.gatewayWith(settings);
  if (gateway === null) return [];
  const memory: Point[] = [];
  let unexplained = await mixedLoad(gateway);
  const filesBefore = await openFilesAtRest(gateway.pid);
  const fromMs = performance.now();
  // Often, because one look finds as much garbage as there is at that moment.
  const looking = setInterval(() => {
    memory.push({ minute: (performance.now() - fromMs) / 60_000, value: residentBytes(gateway.pid) / 1_000_000 });
  }, 1_000);
  try {
    for (let slice = 1; slice <= slices; slice += 1) {
      console.error(`soak, round ${slice} of ${slices}`);
      unexplained += await mixedLoad(gateway);
      if (slice % slicesPerReload === 0) await gateway.reload({ ...settings, keys: 1 + ((slice / slicesPerReload) % 2) });
    }
  } finally {
    clearInterval(looking);
  }
  const filesLeft = (await openFilesAtRest(gateway.pid)) - filesBefore;
  await gateway.stop();
  const megabytes = memory.map(({ value }) => value);
  const row = (measure: string, unit: string, raw: readonly number[], judgement: Judgement): Row => ({
    bar: "P11",
    measure,
    unit,
    raw: { gateway: raw },
    judgement,
  });
  const count = (measure: string, unit: string, value: number, limit: number): Row =>
    row(measure, unit, [value], judged("gateway", value, { limit, sense: "at most" }));
  return [
    row(`memory growth after warm-up, ${slices * sliceSeconds} s of mixed load`, "MB in 10 minutes", megabytes, growthOf(bench, memory)),
    count("open files more than after the first 20 s", "files", filesLeft, 2),
    count("healthy calls that were not answered", "calls", unexplained, 0),
    {
      bar: "",
      measure: "memory at the end",
      unit: "MB",
      raw: { gateway: megabytes.slice(-1) },
      judgement: compared("gateway", megabytes.at(-1) ?? 0),
    },
  ];
};

/** The growth itself is held to the bar; its noise says how much the figure means. */
function growthOf(bench: Bench, memory: readonly Point[]): Judgement {
  const warmFrom = (memory.at(-1)?.minute ?? 0) * warmUpShare;
  const trend = trendOf(memory.filter(({ minute }) => minute >= warmFrom));
  if (trend === null) return { kind: "unjudged", because: "too short to say anything" };
  const [grown, noise] = [trend.perMinute * 10, trend.noise * 10];
  bench.remark(`soak: memory grew by ${grown.toFixed(1)} ± ${noise.toFixed(1)} MB in 10 minutes`);
  return judged("gateway", grown, { limit: 1, sense: "at most" });
}

/** Seven calls in ten are streams, one in twenty leaves, one in fifty is refused. Returns how many went wrong that had no reason to. */
async function mixedLoad(gateway: Gateway): Promise<number> {
  const seconds = sliceSeconds;
  const leaving = holdStreams(gateway, "paced", { streams: seconds * 5, stalled: false }).then(async (holding) => {
    await Bun.sleep((seconds * 1000) / 2);
    await holding.leave();
  });
  const healthy = [
    openLoop(gateway, ask("json"), { perSecond: 28, seconds }),
    openLoop(gateway, ask("burst"), { perSecond: 50, seconds }),
    openLoop(gateway, ask("paced", 20), { perSecond: 15, seconds }),
  ];
  const [results] = await Promise.all([Promise.all(healthy), openLoop(gateway, ask("refused"), { perSecond: 2, seconds }), leaving]);
  return results.reduce((sum, { requests, statuses }) => sum + requests - (statuses["200"] ?? 0), 0);
}

async function openFilesAtRest(pid: number): Promise<number> {
  await Bun.sleep(unusedMs);
  return familyOf(pid).reduce((sum, member) => sum + readdirSync(`/proc/${member}/fd`).length, 0);
}
