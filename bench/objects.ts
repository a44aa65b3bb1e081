/**
 * How many objects the runtime makes for a call, by the limits of its key: with its collector off, the difference over some thousand
 * calls. Unlike times, these figures are the same on any machine at any hour, and what a call costs follows them.
 * `sh bin/bun bench/objects.ts [--servers]`: on SQLite, or on a PostgreSQL and a Redis that it starts.
 */
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { unlimited, type Limits } from "../src/limits/limits.ts";
import { ask } from "./ask.ts";
import { familyOf } from "./cpu.ts";
import { oneChannel, startGateway, withKey, type Gateway } from "./gateway.ts";
import { startLimitServers } from "./limit-servers.ts";
import { answeredLoop } from "./load.ts";
import { scratch, stopEverything } from "./processes.ts";
import { farBudget, madeStore } from "./stored-keys.ts";
import { startUpstream } from "./target.ts";

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
const masterKey = randomBytes(32).toString("hex");
const names = Object.keys(keys);
const { dataDir, tokens } = await madeStore({ ...pick(servers?.store, "store"), masterKey, keys: Object.values(keys), above: farBudget });
const gateway = await startGateway({
  ...oneChannel(upstream),
  masterKey,
  dataDir,
  ...pick(servers?.store, "store"),
  ...pick(servers?.state, "state"),
  prices: [{ model: "*", input: 1, output: 4 }],
});
try {
  const targets = new Map(names.map((name, at) => [name, withKey(gateway, tokens[at] ?? "")]));
  for (const target of targets.values()) await answeredLoop(target, ask("json"), load);
  await Bun.sleep(settlesMs);
  let least: Counts | null = null;
  for (const name of ["no limits", ...names.filter((other) => other !== "no limits")]) {
    const counts = await countsOf(targets.get(name)!);
    least ??= counts;
    console.log(`${name.padEnd(20)} ${sumOf(counts).toFixed(1).padStart(6)}  ${shown(counts, least)}`);
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
  process.kill(familyOf(pid).at(-1) ?? pid, "SIGUSR2");
  while (!existsSync(report)) await Bun.sleep(5);
  return JSON.parse(readFileSync(report, "utf8")) as Counts;
}

/** All kinds for the first line, and what differs from it in the others. */
function shown(counts: Counts, least: Counts): string {
  return Object.entries(counts)
    .map(([kind, count]) => [kind, counts === least ? count : count - (least[kind] ?? 0)] as const)
    .filter(([, count]) => Math.abs(count) >= 0.1)
    .map(([kind, count]) => `${counts !== least && count > 0 ? "+" : ""}${count.toFixed(1)} ${kind}`)
    .join(", ");
}

function sumOf(counts: Counts): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

function pick<Name extends string>(value: string | undefined, name: Name): Partial<Record<Name, string>> {
  return value === undefined ? {} : ({ [name]: value } as Record<Name, string>);
}
