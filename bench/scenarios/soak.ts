import { readdirSync } from "node:fs";
import { ask } from "../ask.ts";
import type { Scenario } from "../bench.ts";
import { familyOf, residentBytes } from "../cpu.ts";
import { type Gateway, type GatewaySettings, oneChannel } from "../gateway.ts";
import { holdStreams, openLoop } from "../load.ts";
import { compared, judged, type Row } from "../report.ts";
import { slope } from "../statistics.ts";

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
  const megabytes: number[] = [];
  let unexplained = await mixedLoad(gateway);
  const filesBefore = await openFilesAtRest(gateway.pid);
  for (let slice = 1; slice <= slices; slice += 1) {
    console.error(`soak, round ${slice} of ${slices}`);
    unexplained += await mixedLoad(gateway);
    if (slice % slicesPerReload === 0) await gateway.reload({ ...settings, keys: 1 + ((slice / slicesPerReload) % 2) });
    // What was closed a moment ago is still being cleared away.
    await Bun.sleep(2_000);
    megabytes.push(residentBytes(gateway.pid) / 1_000_000);
  }
  const filesLeft = (await openFilesAtRest(gateway.pid)) - filesBefore;
  await gateway.stop();
  const warm = Math.floor(slices * warmUpShare);
  const perTenMinutes = (slope(megabytes.slice(warm)) * 600) / (sliceSeconds + 2);
  const row = (measure: string, unit: string, raw: readonly number[], value: number, limit: number): Row => ({
    bar: "P11",
    measure,
    unit,
    raw: { gateway: raw },
    judgement: judged("gateway", value, { limit, sense: "at most" }),
  });
  return [
    row(`memory growth after warm-up, ${slices * sliceSeconds} s of mixed load`, "MB in 10 minutes", megabytes, perTenMinutes, 1),
    row("open files more than after the first 20 s", "files", [filesLeft], filesLeft, 2),
    row("healthy calls that were not answered", "calls", [unexplained], unexplained, 0),
    {
      bar: "",
      measure: "memory at the end",
      unit: "MB",
      raw: { gateway: megabytes.slice(-1) },
      judgement: compared("gateway", megabytes.at(-1) ?? 0),
    },
  ];
};

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
