import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { availableParallelism, constants, tmpdir } from "node:os";
import { join } from "node:path";
import { slowness } from "../test/support/slowed.ts";
import { startGroup, type ProcessGroup } from "./process-group.ts";
import { idleShare, processorTimes, readingEveryMs, stolenShareMax, worstStolenShare, type ProcessorTimes } from "./test-machine.ts";
import { needsOf, type Need } from "./test-needs.ts";
import { buildProduct } from "./build/test-product.ts";
import { nameOf, readReport, summarise, type FileReport, type FileRun } from "./test-report.ts";

/**
 * Runs test files, each in a process of its own, and ends with one line that counts the tests. Unit tests, which touch nothing
 * outside their process, share a few: a process that is compiled already takes two thirds of the time for them.
 *
 * The first line of a file says what it needs (scripts/test-needs.ts), and that decides what runs beside it:
 *
 * 1. Files that share the machine run first, one more than there are processors, so that none is idle while one of them waits.
 * 2. Files that need it quiet come next, slow ones among them. They mostly wait, so four run at a time on two processors.
 * 3. Files that need it alone come last, one after the other.
 * 4. The other slow files come after all others: those that run models one after the other, the rest beside them.
 *
 * In the first two steps, one or two files more run as long as they leave a third of the processors idle.
 *
 * Given files and folders, it runs those. Otherwise it runs all of test/ except the slow files; with --slow only the slow files, and
 * with --all both.
 *
 * The output of a file is printed in one piece. Some failures are the machine's, and such a file is run again at the end, alone, and
 * named in the summary: up to three times if the host of this virtual machine took more than a tenth of the processors, in any five
 * seconds of its run; once if it ran beside others, because not every host tells what it takes. A file that fails alone has failed.
 *
 * Properties are tried with the same inputs in every run (test/support/seed.ts); SLUICE_TEST_SEED chooses others. SLUICE_TEST_RUNS
 * multiplies how many inputs the expensive ones are tried with (test/support/properties.ts): 1 by default, 2 with --all.
 *
 * `--report=FILE` also writes how each file went, as JSON.
 *
 * The gateway is bundled once, because hundreds are started (scripts/build/test-product.ts). SLUICE_TEST_PRODUCT names another program to
 * test, such as $PWD/bin/sluice: the gateway from source.
 *
 * SLUICE_TEST_MINUTES is for CI, which is killed after a fixed time: no file is started later than that, and the files left out are
 * named at the end.
 */

/** Many times what the slowest file takes. */
const fileMsMax = 600_000;
/** A batch of unit tests takes as long as a few slow files. */
const batchFilesMax = 4;
/**
 * Bun's optimising compilers begin later in a process that runs tests, which runs much code for moments: a fifth of its processor time went to
 * compiling what was about to end, and a run of everything takes a tenth less. Gateways under test (test/support/gateway.ts) do not get these variables.
 */
const testEnvironment = {
  BUN_JSC_thresholdForOptimizeAfterWarmUp: "4000",
  BUN_JSC_thresholdForFTLOptimizeAfterWarmUp: "640000",
};
const rerunsMax = 3;
const startedMs = performance.now();
const minutes = Number(process.env["SLUICE_TEST_MINUTES"] ?? "Infinity");
if (!(minutes > 0))
  throw new Error(`SLUICE_TEST_MINUTES must be a number above 0, not ${JSON.stringify(process.env["SLUICE_TEST_MINUTES"])}`);
/** Slow files are only started in the first half of the time, so that a starved machine spends it on the others. */
const slowMinutes = minutes / 2;
const runsOfAll = "2";
const reportOption = "--report=";
/** How many tests of one file run at a time, where it says that they may. */
const concurrency = String(availableParallelism() + 1);

const flags: readonly string[] = process.argv.slice(2).filter((argument) => argument === "--slow" || argument === "--all");
const reportFile = process.argv.find((argument) => argument.startsWith(reportOption))?.slice(reportOption.length);
const named = process.argv.slice(2).filter((argument) => !flags.includes(argument) && !argument.startsWith(reportOption));
const chosen = named.length > 0 ? named.flatMap(testFilesOf) : chooseFrom(testFilesOf("test"));
const slow = named.length > 0 ? [] : chosen.filter((file) => needs(file, "slow"));
const usual = chosen.filter((file) => !slow.includes(file));

// Everything that this run makes.
const scratch = open(mkdtempSync(join(tmpdir(), "sluice-suite-")));
process.on("exit", () => remove(scratch));
// The first file that needs a PostgreSQL leaves an empty cluster here for the others (test/support/servers/postgres.ts).
const cluster = scratchFolder("cluster");
// The exit code of each file, written by the shell that runs it.
const exitCodes = scratchFolder("exit-codes");
// The gateway that the tests start.
const build = scratchFolder("build");
const environment: Record<string, string | undefined> = {
  ...process.env,
  SLUICE_TEST_CLUSTER: cluster,
  ...(chosen.every(isUnit) ? {} : { SLUICE_TEST_PRODUCT: process.env["SLUICE_TEST_PRODUCT"] ?? (await buildProduct(build)) }),
  ...(flags.includes("--all") ? { SLUICE_TEST_RUNS: process.env["SLUICE_TEST_RUNS"] ?? runsOfAll } : {}),
  // On a busy machine, a model of low priority would not finish within the time of any test.
  ...(slowness() > 1 ? { SLUICE_ENGINE_NICENESS: "0" } : {}),
};
const running = new Set<ProcessGroup>();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => {
    for (const group of running) group.kill("SIGTERM");
    process.exit(130);
  });
}

/** How many files more may run at a time, while the others leave so much of the processors idle for so many seconds. */
const spareLanes = 2;
const idleShareMin = 1 / 3;
const idleReadings = 3;
/** How many readings there were when a spare lane last took a file. */
let spareBeganAt = 0;

/** One a second while files run, for all of them. */
const readings: (ProcessorTimes | null)[] = [];
// It also keeps this process alive while all that is awaited is a moment in which the machine is idle.
const reading = setInterval(() => readings.push(processorTimes()), readingEveryMs);

let batchesRun = 0;
const firstRuns: FileRun[] = [];
const leftOut: string[] = [];
await runUsual(
  usual,
  slow.filter((file) => needs(file, "quiet")),
);
await runSlow(slow.filter((file) => !needs(file, "quiet")));
const runs: FileRun[] = [];
for (const run of firstRuns) runs.push(mayBeTheMachine(run) ? await runAgain(run) : run);
clearInterval(reading);

if (reportFile !== undefined) writeFileSync(reportFile, JSON.stringify(runs));
console.log(summarise(runs, { leftOut, seconds: (performance.now() - startedMs) / 1_000 }).join("\n"));
const failed = runs.some(({ report }) => report.failed > 0);
const passed = runs.some(({ report }) => report.passed > 0);
process.exitCode = failed || !passed ? 1 : 0;

/** The files in a folder, or the file itself, even if it does not exist: that counts as a failure. */
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
  return all.filter((file) => needs(file, "slow") === flags.includes("--slow"));
}

function needs(file: string, need: Need): boolean {
  return existsSync(file) && needsOf(file).has(need);
}

function isUnit(file: string): boolean {
  return file.startsWith("test/unit/");
}

/** Runs each file beside those it may run beside. Slow files that wait are no burden beside others that wait. */
async function runUsual(files: readonly string[], slowQuiet: readonly string[]): Promise<void> {
  const alone = files.filter((file) => needs(file, "alone"));
  const quiet = files.filter((file) => !alone.includes(file) && needs(file, "quiet"));
  const shared = files.filter((file) => !alone.includes(file) && !quiet.includes(file));
  const unit = shared.filter(isUnit);
  const models = shared.filter((file) => needs(file, "models"));
  const others = shared.filter((file) => !models.includes(file) && !unit.includes(file));
  const processors = availableParallelism();
  // One more than there are processors: some tests wait.
  const lanes = processors + 1;
  // Only one lane takes the models, so it begins with them.
  await runInLanes([...each(longestFirst(models)), ...inBatches(unit, lanes), ...each(longestFirst(others))], lanes);
  await runInLanes(each(longestFirst([...quiet, ...slowQuiet])), 2 * processors);
  await runInLanes(each(alone), 1);
}

/**
 * A model leaves a quarter of the processors idle, which is enough for a compiler or a packer beside it, but not for a second model. An
 * engine of low priority would wait for these, and the tests that time it would not know.
 */
async function runSlow(files: readonly string[]): Promise<void> {
  const alone = files.filter((file) => needs(file, "alone"));
  const beside = files.filter((file) => !alone.includes(file));
  const models = beside.filter((file) => needs(file, "models"));
  const others = beside.filter((file) => !models.includes(file));
  environment["SLUICE_ENGINE_NICENESS"] ??= "0";
  await Promise.all([models, others].map((lane) => runInLanes(each(longestFirst(lane)), 1, { shown: false })));
  await runInLanes(each(alone), 1);
}

/** Files that are run in one process. */
type Batch = readonly string[];

function each(files: readonly string[]): readonly Batch[] {
  return files.map((file) => [file]);
}

/**
 * A long one at the end would leave the other lanes with nothing to do. Which ones those are goes with their length as texts, except
 * for those that say so.
 */
function longestFirst(files: readonly string[]): readonly string[] {
  const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const bySize = files.toSorted((one, other) => sizeOf(other) - sizeOf(one));
  return [...bySize.filter((file) => needs(file, "long")), ...bySize.filter((file) => !needs(file, "long"))];
}

/** Neighbours, which often take equally long, come into different batches. */
function inBatches(files: readonly string[], count: number): readonly Batch[] {
  const batches = Array.from({ length: count }, (_, at) => files.filter((_file, index) => index % count === at));
  return batches.filter(({ length }) => length > 0);
}

interface LaneOptions {
  /** Whether no other file runs meanwhile. */
  readonly shown?: boolean;
}

/**
 * Each lane takes the next batch. A model keeps every processor busy, so only the first lane takes those, as long as there are others.
 * The spare lanes only take one while the machine has little to do.
 */
async function runInLanes(batches: readonly Batch[], lanes: number, options: LaneOptions = {}): Promise<void> {
  const queue = [...batches];
  const { shown = lanes === 1 || batches.length === 1 } = options;
  const next = (at: number): Batch | undefined => {
    const first = at === 0 ? 0 : queue.findIndex((batch) => !batch.some((file) => needs(file, "models")));
    return queue.splice(Math.max(first, 0), 1)[0];
  };
  const lane = async (at: number): Promise<void> => {
    for (;;) {
      if (at >= lanes && !(await machineIsIdle(() => queue.length > 0))) return;
      const batch = next(at);
      if (batch === undefined) return;
      if (timeIsUp(batch.some((file) => slow.includes(file)) ? slowMinutes : minutes)) leftOut.push(...batch);
      else firstRuns.push(await run(batch, shown));
    }
  };
  const spare = lanes === 1 ? 0 : spareLanes;
  await Promise.all(Array.from({ length: lanes + spare }, (_, at) => lane(at)));
}

/** Waits until a third of the processors had nothing to do for some seconds, and no other file was begun for that reason. */
async function machineIsIdle(isWanted: () => boolean): Promise<boolean> {
  while (isWanted()) {
    const [before, after] = [readings.at(-1 - idleReadings), readings.at(-1)];
    const isSettled = readings.length - spareBeganAt > idleReadings;
    if (isSettled && idleShare(before ?? null, after ?? null) > idleShareMin) {
      spareBeganAt = readings.length;
      return true;
    }
    await Bun.sleep(readingEveryMs);
  }
  return false;
}

function timeIsUp(withinMinutes = minutes): boolean {
  return performance.now() - startedMs > withinMinutes * 60_000;
}

/**
 * Besides what the host took and what ran beside it: in a run of everything, a file that failed alone is run once more, because a host may
 * run its processors at half their speed without a share of them being counted as stolen. A promise that is broken is broken again.
 */
function mayBeTheMachine({ report, stolen, alone, reruns }: FileRun): boolean {
  const isFirstOfAll = named.length === 0 && reruns === 0;
  return report.failed > 0 && (stolen > stolenShareMax || !alone || isFirstOfAll);
}

async function runAgain(failedRun: FileRun): Promise<FileRun> {
  let last = failedRun;
  for (let rerun = 1; rerun <= rerunsMax && mayBeTheMachine(last) && !timeIsUp(); rerun += 1) {
    const beside = last.alone ? "alone" : "beside other files";
    const cause = last.stolen > stolenShareMax ? `while the host took ${percent(last.stolen)} of the processors` : beside;
    console.log(`${nameOf(last.files)} failed ${cause}: run again, alone (${rerun} of ${rerunsMax})`);
    last = { ...(await run(last.files, true)), reruns: rerun };
  }
  return last;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function statesProperties(file: string): boolean {
  return existsSync(file) && readFileSync(file, "utf8").includes('"fast-check"');
}

function scratchFolder(name: string): string {
  const folder = join(scratch, name);
  mkdirSync(folder);
  return open(folder);
}

/** PostgreSQL, which may run as somebody else, has to get in. */
function open(folder: string): string {
  chmodSync(folder, 0o755);
  return folder;
}

function remove(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch {
    // A server that is about to end still writes to it, and it is tried again when the run ends.
  }
}

/** The signal that ended a process, if the exit code that a shell reports stands for one. */
function signalOf(exitCode: number): string | undefined {
  return Object.entries(constants.signals).find(([, number]) => number === exitCode - 128)?.[0];
}

/** Runs files in one process. `shown`: no other file runs meanwhile, so the output is printed as it comes. */
async function run(files: Batch, shown: boolean): Promise<FileRun> {
  // Both outputs go into one pipe, in the order they were written. It is a shell's pipe: Bun's own is a socket, and some tests count those.
  const batch = String(batchesRun++);
  const status = join(exitCodes, batch);
  // Whatever the files make in the temporary directory goes with them, also where they fail, are killed, or skip what would remove it.
  const temporary = scratchFolder(batch);
  const script = 'status=$1; shift; { "$0" "$@" 2>&1; echo $? >"$status"; } | cat';
  const preload = files.some(statesProperties) ? ["--preload", "./test/support/seed.ts"] : [];
  const bounds = ["--timeout", "60000", "--max-concurrency", concurrency];
  const command = ["sh", "-c", script, process.execPath, status, "test", ...bounds, ...preload, ...files];
  const fromMs = performance.now();
  const before = processorTimes();
  const firstReading = readings.length;
  const pieces: Uint8Array[] = [];
  const group = startGroup(command, {
    env: { ...testEnvironment, ...environment, TMPDIR: temporary },
    // A test that blocks its process is out of reach of its own timeout.
    timeoutMs: fileMsMax * Math.min(files.length, batchFilesMax),
    // What a test has left running would hold the output open.
    isOver: () => existsSync(status),
    onOutput: (bytes) => {
      pieces.push(bytes);
      if (shown) process.stdout.write(bytes);
    },
  });
  running.add(group);
  const { killed, cpuSeconds } = await group.ended;
  running.delete(group);
  remove(temporary);
  if (killed === "left over") console.log(`${nameOf(files)} left processes running, which were killed`);
  if (killed === "too long") console.log(`${nameOf(files)} took too long, and was killed with everything it had started`);
  const exitCode = existsSync(status) ? Number(readFileSync(status, "utf8")) : 1;
  const output = Buffer.concat(pieces);
  if (!shown) process.stdout.write(output);
  const report: FileReport = readReport(output.toString(), exitCode);
  const stolen = worstStolenShare([before, ...readings.slice(firstReading), processorTimes()]);
  // Without this line, a file that died after it had counted its tests could not be found in the log.
  if (exitCode !== 0) console.log(`${nameOf(files)} ended with ${signalOf(exitCode) ?? exitCode}`);
  return { files, report, seconds: (performance.now() - fromMs) / 1_000, cpuSeconds, stolen, alone: shown, reruns: 0 };
}
