import { loadavg, platform } from "node:os";
import { processorTimes } from "../scripts/test-machine.ts";
import { type Bench, reason, type Scenario } from "./bench.ts";
import { startCollector } from "./collector.ts";
import { type Gateway, type GatewaySettings, oneChannel, startGateway } from "./gateway.ts";
import { wrkVersion } from "./load.ts";
import { nginxVersion, startNginx } from "./nginx.ts";
import { type Options, readOptions, type ScenarioName } from "./options.ts";
import { startPeer } from "./peer.ts";
import { stopEverything } from "./processes.ts";
import { stolenDuring, untilQuiet } from "./quiet.ts";
import { report, type ScenarioRow, type Table } from "./report.ts";
import { chunk } from "./scenarios/chunk.ts";
import { codecs } from "./scenarios/codecs.ts";
import { consoleScenario } from "./scenarios/console.ts";
import { engines } from "./scenarios/engines.ts";
import { failover } from "./scenarios/failover.ts";
import { idle } from "./scenarios/idle.ts";
import { json } from "./scenarios/json.ts";
import { keysLimits } from "./scenarios/keys-limits.ts";
import { latency } from "./scenarios/latency.ts";
import { levels } from "./scenarios/levels.ts";
import { limitsOn } from "./scenarios/limits-on.ts";
import { many } from "./scenarios/many.ts";
import { neighbour } from "./scenarios/neighbour.ts";
import { overload } from "./scenarios/overload.ts";
import { peers } from "./scenarios/peers.ts";
import { receipts } from "./scenarios/receipts.ts";
import { replicas } from "./scenarios/replicas.ts";
import { soak } from "./scenarios/soak.ts";
import { speech } from "./scenarios/speech.ts";
import { stalled } from "./scenarios/stalled.ts";
import { start } from "./scenarios/start.ts";
import { storm } from "./scenarios/storm.ts";
import { sustained } from "./scenarios/sustained.ts";
import { telemetry } from "./scenarios/telemetry.ts";
import { translate } from "./scenarios/translate.ts";
import { upload } from "./scenarios/upload.ts";
import { usage } from "./scenarios/usage.ts";
import { watched } from "./scenarios/watched.ts";
import { workers } from "./scenarios/workers.ts";
import { direct, startBare, startFloor, startUpstream, type Target, type TargetName } from "./target.ts";

const scenarios: Readonly<Record<ScenarioName, Scenario>> = {
  json,
  chunk,
  translate,
  latency,
  idle,
  stalled,
  storm,
  failover,
  start,
  telemetry,
  sustained,
  overload,
  speech,
  upload,
  codecs,
  engines,
  "keys-limits": keysLimits,
  receipts,
  usage,
  console: consoleScenario,
  watched,
  many,
  neighbour,
  replicas,
  workers,
  peers,
  levels,
  "limits-on": limitsOn,
  soak,
};

const given = process.argv.slice(2);
const options = readOptions(given);
if ("refused" in options) leave(64, options.refused);
if (platform() !== "linux") leave(69, "The bench reads CPU time and memory from /proc, which only Linux has.");
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void stopEverything().finally(() => process.exit(130)));

try {
  console.log(await bench(options));
  await stopEverything();
} catch (error) {
  await stopEverything();
  leave(1, reason(error));
}
process.exit(0);

async function bench(asked: Options): Promise<string> {
  const busy = await untilQuiet(asked.quietWithinSeconds, (what) => console.error(what));
  const began = performance.now();
  const loadBefore = loadavg();
  const remarks: string[] = [];
  const remark = (text: string) => {
    const line = text.replaceAll(/\s*\n\s*/g, " | ");
    if (remarks.includes(line)) return;
    remarks.push(line);
    console.error(`note: ${line}`);
  };
  const attempt = async <Started extends Target>(name: TargetName, begin: () => Promise<Started>): Promise<Started | null> => {
    try {
      return await begin();
    } catch (error) {
      remark(`${name} did not start: ${reason(error)}`);
      return null;
    }
  };

  if (busy !== null) remark(`${busy}: judge nothing by these numbers`);
  if (wrkVersion() === null) remark("wrk is not on the PATH: the closed loops are run by the bench's own client, which costs more");
  if (nginxVersion() === null) remark("nginx is not on the PATH: left out");
  const upstream = await startUpstream();
  const { origin: collector } = startCollector();
  const launch = (settings: GatewaySettings): Promise<Gateway> =>
    startGateway(asked.telemetry ? { telemetry: { collector }, ...settings } : settings);
  const targets = [
    direct(upstream),
    nginxVersion() === null ? null : await attempt("nginx", () => startNginx(upstream)),
    await attempt("floor", () => startFloor(upstream)),
    await attempt("gateway", () => launch(oneChannel(upstream))),
    asked.peer ? await attempt("peer", () => startPeer(upstream)) : null,
  ].filter((target) => target !== null);
  const gatewayRuns = targets.some((target) => target.name === "gateway");

  const tables: Table[] = [];
  const equipment: Bench = {
    options: { ...asked, idleStreams: possibleStreams(asked.idleStreams, remark) },
    upstream,
    collector,
    targets,
    fresh: (name) => {
      if (name === "bare") return attempt(name, () => startBare(upstream));
      if (name === "floor") return attempt(name, () => startFloor(upstream));
      return gatewayRuns ? attempt(name, () => launch(oneChannel(upstream))) : Promise.resolve(null);
    },
    gatewayWith: (settings) => (gatewayRuns ? attempt("gateway", () => launch(settings)) : Promise.resolve(null)),
    show: (table) => tables.push(table),
    remark,
  };
  const rows: ScenarioRow[] = [];
  const scenarioSeconds: Partial<Record<ScenarioName, number>> = {};
  for (const [at, name] of asked.only.entries()) {
    console.error(`scenario ${name}, ${at + 1} of ${asked.only.length}`);
    const fromMs = performance.now();
    const before = processorTimes();
    try {
      const measured = await scenarios[name](equipment);
      const stolen = stolenDuring(before, processorTimes());
      if (stolen !== null) remark(`${name}: ${stolen}: judge nothing by its numbers`);
      rows.push(...measured.map((row) => ({ ...row, scenario: name, disturbance: busy ?? stolen })));
    } catch (error) {
      remark(`${name} was not completed: ${reason(error)}`);
    }
    scenarioSeconds[name] = (performance.now() - fromMs) / 1000;
  }
  const seconds = (performance.now() - began) / 1000;
  return report({ rows, tables }, { loadBefore, remarks, arguments: given, seconds, scenarioSeconds, results: asked.results });
}

/** A proxied stream takes two descriptors in the proxy. */
function possibleStreams(asked: number, remark: (text: string) => void): number {
  const limit = Number(Bun.spawnSync(["sh", "-c", "ulimit -Hn"]).stdout.toString()) || Number.POSITIVE_INFINITY;
  const possible = Math.min(asked, Math.floor((limit - 500) / 2));
  if (possible < asked) remark(`the hard limit of ${limit} descriptors allows ${possible} idle streams instead of ${asked}`);
  return possible;
}

function leave(code: number, message: string): never {
  console.error(message);
  process.exit(code);
}
