/**
 * How many objects the runtime makes for a call, by the limits of its key: with its collector off, the difference over some thousand
 * calls. Times differ by a factor of two from hour to hour on a shared machine, and these figures
 * by one or two, with what has been compiled; what a call costs follows them.
 * `sh bin/bun bench/objects.ts [--servers]`: on SQLite, or on a PostgreSQL and a Redis that it starts.
 */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { unlimited, type Limits } from "../src/limits/limits.ts";
import { ask } from "./ask.ts";
import { startGateway, type Gateway } from "./gateway.ts";
import { startLimitServers } from "./limit-servers.ts";
import { answeredLoop } from "./load.ts";
import { scratch, stopEverything } from "./processes.ts";
import { gatewayWithKeys } from "./scenarios/levels.ts";
import { farBudget } from "./stored-keys.ts";
import { startUpstream } from "./target.ts";

/** The first is in a project, a team and an organisation, which have limits and budgets as well. */
const keys: Readonly<Record<string, Limits>> = {
  "four levels of all": farBudget,
  "no limits": unlimited,
  "requests a minute": { ...unlimited, requests: 1e9 },
  "tokens a minute": { ...unlimited, tokens: 1e12 },
  concurrency: { ...unlimited, concurrency: 1e6 },
  "a budget": { ...unlimited, budget: farBudget.budget },
  "all of these": farBudget,
};

const load = { perSecond: 2_000, seconds: 2 };
/** What the first calls left to be done is done by then. */
const settlesMs = 1_500;

type Counts = Readonly<Record<string, number>>;

const report = join(scratch, "heap.json");
// The gateway inherits them.
Object.assign(process.env, {
  BUN_OPTIONS: `--preload ${join(import.meta.dir, "heap-report.ts")}`,
  BUN_JSC_useGC: "0",
  HEAP_REPORT: report,
});

const upstream = await startUpstream();
const servers = process.argv.includes("--servers")
  ? await startLimitServers({ options: { servers: true }, remark: console.error }, "objects")
  : null;
try {
  const gateways = (await gatewayWithKeys({ upstream, gatewayWith: startGateway }, servers ?? {}, Object.values(keys)))!;
  for (const gateway of [...gateways, ...gateways]) await answeredLoop(gateway, ask("json"), load);
  await Bun.sleep(settlesMs);
  const names = Object.keys(keys);
  let base: Counts | null = null;
  for (const name of ["no limits", ...names.filter((other) => other !== "no limits")]) {
    const counts = await countsOf(gateways[names.indexOf(name)]!);
    base ??= counts;
    console.log(`${name.padEnd(20)} ${sumOf(counts).toFixed(1).padStart(6)}  ${shown(counts, base)}`);
  }
} finally {
  await stopEverything();
  await servers?.stop();
}
process.exit(0);

/** The objects of one call, by kind. */
async function countsOf(target: Gateway): Promise<Counts> {
  const before = await heapOf(target);
  const { requests } = await answeredLoop(target, ask("json"), load);
  const after = await heapOf(target);
  return Object.fromEntries(Object.entries(after).map(([kind, count]) => [kind, (count - (before[kind] ?? 0)) / requests]));
}

async function heapOf({ pid }: Gateway): Promise<Counts> {
  rmSync(report, { force: true });
  process.kill(pid, "SIGUSR2");
  while (!existsSync(report)) await Bun.sleep(5);
  return JSON.parse(readFileSync(report, "utf8")) as Counts;
}

/** All kinds for the first line, and what differs from it in the others. */
function shown(counts: Counts, base: Counts): string {
  return Object.entries(counts)
    .map(([kind, count]) => [kind, counts === base ? count : count - (base[kind] ?? 0)] as const)
    .filter(([, count]) => Math.abs(count) >= 0.1)
    .map(([kind, count]) => `${counts !== base && count > 0 ? "+" : ""}${count.toFixed(1)} ${kind}`)
    .join(", ");
}

function sumOf(counts: Counts): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}
