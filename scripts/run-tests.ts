import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { availableParallelism, constants, tmpdir } from "node:os";
import { join } from "node:path";
import { slowness } from "../test/support/slowed.ts";
import { processorTimes, stolenShare, stolenShareMax } from "./test-machine.ts";
import { needsOf } from "./test-needs.ts";
import { readReport, summarise, type FileReport, type FileRun } from "./test-report.ts";

/**
 * Runs test files, each in a process of its own, and ends with one line that counts. Those that may share the machine come first,
 * two at a time; then those that need it quiet, with each other; then those that need it alone (scripts/test-needs.ts). What a
 * file says is kept together. A file that failed while the host of this virtual machine took more than a tenth of the processors is run
 * again at the end, alone, up to three times; any other failure is a failure.
 *
 * Given files and folders, it runs those. Without, all of test/ is run but what says that it is slow; with --slow only that, with
 * --all that as well, last.
 *
 * Properties are tried with the same inputs each time (test/support/seed.ts); SLUICE_TEST_SEED names others.
 *
 * SLUICE_TEST_MINUTES is for CI, which is killed after a fixed time: no file begins later than that, and those left out are named.
 */

/** Many times what the longest takes. */
const fileMsMax = 600_000;
const rerunsMax = 3;
const beganMs = performance.now();
const minutes = Number(process.env["SLUICE_TEST_MINUTES"] ?? "Infinity");
if (!(minutes > 0))
  throw new Error(`SLUICE_TEST_MINUTES must be a number above 0, not ${JSON.stringify(process.env["SLUICE_TEST_MINUTES"])}`);
/** Slow files begin in the first half of the time: they are not what a starved machine is for. */
const slowMinutes = minutes / 2;
const flags: readonly string[] = process.argv.slice(2).filter((argument) => argument === "--slow" || argument === "--all");
const named = process.argv.slice(2).filter((argument) => !flags.includes(argument));
const chosen = named.length > 0 ? named.flatMap(testFilesOf) : chooseFrom(testFilesOf("test"));
const slow = named.length > 0 ? [] : chosen.filter((file) => needsOf(file).has("slow"));
const files = chosen.filter((file) => !slow.includes(file));
const alone = files.filter((file) => existsSync(file) && needsOf(file).has("alone"));
const quiet = files.filter((file) => existsSync(file) && !alone.includes(file) && needsOf(file).has("quiet"));
const company = files.filter((file) => !alone.includes(file) && !quiet.includes(file));
// Where the first that needs a PostgreSQL leaves an empty cluster for the others (test/support/servers/postgres.ts).
const cluster = mkdtempSync(join(tmpdir(), "sluice-cluster-"));
// Beside others that keep the processors busy, a model of low priority would not come to an end within any test's time.
const engines = slowness() > 1 ? { SLUICE_ENGINE_NICENESS: "0" } : {};
// How each file ended, as its shell tells it.
const endings = mkdtempSync(join(tmpdir(), "sluice-suite-"));
process.on("exit", () => {
  for (const folder of [cluster, endings]) rmSync(folder, { recursive: true, force: true });
});
const running = new Set<Bun.Subprocess>();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => {
    for (const child of running) child.kill("SIGTERM");
    process.exit(130);
  });
}

let endingsMade = 0;
const first: FileRun[] = [];
const leftOut: string[] = [];
for (const group of [company, quiet]) await together(group);
for (const file of alone) await runFirst(file, true);
for (const file of slow) await runFirst(file, true, slowMinutes);
const runs: FileRun[] = [];
for (const run of first) runs.push(mayBeTheHost(run) ? await runAgain(run) : run);

console.log(summarise(runs, leftOut).join("\n"));
const failed = runs.some(({ report }) => report.failed > 0);
const passed = runs.some(({ report }) => report.passed > 0);
process.exitCode = failed || !passed ? 1 : 0;

/** Two at a time, from both ends, so that those of one kind, which often need the same of the machine, seldom meet. */
async function together(group: readonly string[]): Promise<void> {
  const queue = [...group];
  const lane = async (next: () => string | undefined): Promise<void> => {
    for (let file = next(); file !== undefined; file = next()) await runFirst(file, group.length === 1);
  };
  const ends = [() => queue.shift(), () => queue.pop()];
  await Promise.all(ends.slice(0, availableParallelism()).map(lane));
}

/** The test files of a folder, or the file itself, also where there is none: that is a failure to be counted. */
function testFilesOf(path: string): readonly string[] {
  if (!existsSync(path) || !statSync(path).isDirectory()) return [path];
  const names = readdirSync(path, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".test.ts"));
  return names
    .filter((name) => !name.includes("node_modules"))
    .toSorted()
    .map((name) => join(path, name));
}

function chooseFrom(all: readonly string[]): readonly string[] {
  if (flags.includes("--all")) return all;
  return all.filter((file) => needsOf(file).has("slow") === flags.includes("--slow"));
}

async function runFirst(file: string, live: boolean, withinMinutes = minutes): Promise<void> {
  if (timeIsUp(withinMinutes)) leftOut.push(file);
  else first.push(await run(file, live));
}

function timeIsUp(withinMinutes = minutes): boolean {
  return performance.now() - beganMs > withinMinutes * 60_000;
}

function mayBeTheHost({ report, stolen }: FileRun): boolean {
  return report.failed > 0 && stolen > stolenShareMax;
}

async function runAgain(failedRun: FileRun): Promise<FileRun> {
  let last = failedRun;
  for (let rerun = 1; rerun <= rerunsMax && mayBeTheHost(last) && !timeIsUp(); rerun += 1) {
    console.log(
      `${last.file} failed while the host took ${percent(last.stolen)} of the processors: run again, alone (${rerun} of ${rerunsMax})`,
    );
    last = { ...(await run(last.file, true)), reruns: rerun };
  }
  return last;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** What ended a process, as a shell tells it. */
function signalOf(exitCode: number): string | undefined {
  return Object.entries(constants.signals).find(([, number]) => number === exitCode - 128)?.[0];
}

/** Where nobody else speaks meanwhile, what the file says is shown as it comes. */
async function run(file: string, live: boolean): Promise<FileRun> {
  // Both of its outputs are one, in the order they were written; and a pipe, for a pipe of the runtime's is a socket, and some count sockets.
  const status = join(endings, String(endingsMade++));
  const script = 'status=$1; shift; { "$0" "$@" 2>&1; echo $? >"$status"; } | cat';
  const preload = existsSync(file) && readFileSync(file, "utf8").includes('"fast-check"') ? ["--preload", "./test/support/seed.ts"] : [];
  const command = ["sh", "-c", script, process.execPath, status, "test", "--timeout", "60000", ...preload, file];
  const startedMs = performance.now();
  const before = processorTimes();
  const child = Bun.spawn(command, {
    env: { ...process.env, ...engines, SLUICE_TEST_CLUSTER: cluster },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
    // A test that never gives its turn back is out of reach of its own timeout.
    timeout: fileMsMax,
    killSignal: "SIGKILL",
  });
  running.add(child);
  const pieces: Uint8Array[] = [];
  for await (const bytes of child.stdout) {
    pieces.push(bytes);
    if (live) process.stdout.write(bytes);
  }
  await child.exited;
  running.delete(child);
  const exitCode = existsSync(status) ? Number(readFileSync(status, "utf8")) : 1;
  const output = Buffer.concat(pieces);
  if (!live) process.stdout.write(output);
  const report: FileReport = readReport(output.toString(), exitCode);
  const stolen = stolenShare(before, processorTimes());
  // A file that died, also after it had counted, is to be found in the log.
  if (exitCode !== 0) console.log(`${file} ended with ${signalOf(exitCode) ?? exitCode}`);
  return { file, report, seconds: (performance.now() - startedMs) / 1_000, stolen, reruns: 0 };
}
