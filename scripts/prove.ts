import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { ScenarioName } from "../bench/options.ts";
import { root } from "./source-tree.ts";
import type { FileRun } from "./test-report.ts";
import { unavailableCode } from "./prove/commands.ts";
import {
  findingOfBench,
  findingOfProgram,
  findingOfTests,
  missedScenarios,
  withRerun,
  type BenchResults,
  type Finding,
  type ProgramEnd,
} from "./prove/findings.ts";
import { planOf, type ProofPlan } from "./prove/plan.ts";
import { endAll, run, scratch } from "./prove/processes.ts";
import { readPromises, type ProductPromise } from "./prove/promises.ts";
import { countsOf, duration, proofPage, withRows, type Proven } from "./prove/proof.ts";
import { surroundings, withoutPaths } from "./prove/surroundings.ts";

const usage = `npm run prove -- [options]

Runs the command of every promise of docs/promises.md, each file of tests and each scenario of the bench once, and writes what came of
it to docs/proof.md. It takes half an hour, and up to an hour and a quarter where bars are missed: they are measured again with longer
turns. The machine must have nothing else to do.

  --list         show the promises and their commands, and run nothing
  --only IDS     show only these, separated by commas
  --quick        without benches and downloads: a few minutes
  --long         with the soak, which takes a quarter of an hour more
  --busbar PATH  the program of another gateway, which P19 compares with
  --write        write docs/proof.md also after --only or --quick: all other promises are then not run
  --out FILE     write FILE instead of docs/proof.md
  --rows         run nothing: give each promise without a row of docs/proof.md, or of FILE, one that says so

It ends with 1 if a promise fails. A promise that takes what this machine lacks is told as not shown here, and does not fail.`;

/** Until then a machine that is busy may come to rest; what is measured on one that does not is shown, and judged by nobody. */
const quietWithinSeconds = "300";
/** All gateways have metrics and traces on. */
const benchOptions = ["--hold", "20", "--stall", "30", "--telemetry", "--quiet-within", quietWithinSeconds];
/**
 * The turns of the two runs. The first are short, because most bars leave room. What missed one is measured again with turns of four
 * times a quarter of a minute: short ones show a target that has just been compiled, and the noise of a few seconds.
 */
const turnsOfRuns = [
  ["--seconds", "3", "--rounds", "3"],
  ["--seconds", "15", "--rounds", "4"],
] as const;
/** A bar that was missed is not measured again later than this. */
const rerunUntilSeconds = 40 * 60;

const beganMs = performance.now();
/** Files of tests, scenarios and programs that are not done yet. */
let stepsLeft = 0;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => void endAll().finally(() => process.exit(130)));

const { values } = given();
/** As it is told to whoever asked for it. */
const page = values.out ?? "docs/proof.md";
/** A path of the command line is one of the folder in which it was given. */
const pageFile = values.out === undefined ? join(root, page) : resolve(page);
const { promises, problems } = readPromises(readFileSync(join(root, "docs/promises.md"), "utf8"));
if (values.help) leave(0, usage);
if (problems.length > 0) leave(78, `docs/promises.md: ${problems.join("\n")}`);
if (values.rows) leave(0, writeRows());
if (values.list) leave(0, promises.map(({ id, claim, commandText }) => `${id}: ${claim}\n    ${commandText}`).join("\n"));
const plan = planOf(promises, { only: values.only?.split(",").map((id) => id.trim()) ?? null, quick: values.quick, long: values.long });
if ("problem" in plan) leave(64, plan.problem);
process.exit(await prove(plan));

async function prove(chosen: ProofPlan): Promise<0 | 1> {
  stepsLeft = chosen.files.length + chosen.scenarios.length + chosen.programs.length;
  // The machine is quiet at first, which benches need and tests do not.
  const bench = await benched(chosen);
  const programs = await programsRun(chosen);
  const runs = await tested(chosen);
  const findingOf = ({ id, command }: ProductPromise): Finding => {
    if (command.kind === "tests") return findingOfTests(command.files, runs);
    if (command.kind === "program") return findingOfProgram(programs.get(command.words.join(" ")));
    return findingOfBench(id, command.scenarios, bench);
  };
  const notRun: Finding = { result: "not run", figure: "", seconds: 0 };
  const all = promises.map((promise): Proven => ({ promise, finding: chosen.promises.includes(promise) ? findingOf(promise) : notRun }));

  const seconds = secondsSoFar();
  const isWritten = values.write || (values.only === undefined && !values.quick);
  const found = surroundings({ seconds, remarks: bench?.remarks ?? [], versions: bench?.versions ?? {} });
  if (isWritten) writeFileSync(pageFile, proofPage(all, found));
  for (const { promise, finding } of all) {
    if (finding !== notRun) console.log(`${promise.id}: ${finding.result}: ${finding.figure}`);
  }
  console.log(`${countsOf(all)}, in ${duration(seconds)}${isWritten ? `; ${page} was written` : ""}`);
  return all.some(({ finding }) => finding.result === "fails") ? 1 : 0;
}

function writeRows(): string {
  writeFileSync(pageFile, withRows(readFileSync(pageFile, "utf8"), promises));
  return `${page} has a row for each promise`;
}

/** What of the bench counts, after those scenarios were run once more in which a bar was missed. Null if it died. */
async function benched({ scenarios, promises: chosen }: ProofPlan): Promise<BenchResults | null> {
  if (scenarios.length === 0) return null;
  const [short, long] = turnsOfRuns;
  const results = await benchOf(scenarios, short);
  if (results === null) return null;
  const missed = missedScenarios(
    chosen.map(({ id }) => id),
    results,
  );
  if (missed.length === 0 || secondsSoFar() > rerunUntilSeconds) return results;
  stepsLeft += missed.length;
  tell(`bench: ${missed.join(", ")} missed a bar, and run again with longer turns`);
  const again = await benchOf(missed, long);
  return again === null ? results : withRerun(results, again);
}

async function benchOf(scenarios: readonly ScenarioName[], turns: (typeof turnsOfRuns)[number]): Promise<BenchResults | null> {
  const leftAfter = stepsLeft - scenarios.length;
  const peer = values.busbar === undefined ? [] : ["--busbar", values.busbar];
  const command = ["sh", "bin/bun", "bench/run.ts", "--only", scenarios.join(","), ...turns, ...benchOptions, ...peer];
  const { code, lines } = await run(command, (line) => {
    const [, at] = /^scenario \S+, (\d+) of \d+/.exec(line) ?? [];
    if (at !== undefined) stepsLeft = leftAfter + scenarios.length - Number(at) + 1;
    if (at !== undefined || /, round \d+|waiting for up to/.test(line)) tell(`bench: ${line}`);
  });
  stepsLeft = leftAfter;
  const unavailable = withoutPaths(lines.at(-1) ?? "");
  if (code === unavailableCode) return { rows: [], remarks: [], scenarioSeconds: {}, versions: {}, unavailable };
  if (code !== 0) {
    console.error(withoutPaths(lines.slice(-20).join("\n")));
    return null;
  }
  const results = JSON.parse(readFileSync(join(root, "bench/results/latest.json"), "utf8")) as BenchResults;
  return { ...results, remarks: results.remarks.map(withoutPaths) };
}

async function programsRun({ programs: all }: ProofPlan): Promise<ReadonlyMap<string, ProgramEnd>> {
  const ends = new Map<string, ProgramEnd>();
  for (const words of all) {
    tell(words.join(" "));
    const { code, lines, seconds: took } = await run(words, () => {});
    ends.set(words.join(" "), { code, lastLine: withoutPaths(lines.at(-1) ?? "it printed nothing"), seconds: took });
    stepsLeft -= 1;
  }
  return ends;
}

/** Runs all files in one run of the suite, which knows which of them can run side by side. */
async function tested({ files }: ProofPlan): Promise<readonly FileRun[]> {
  if (files.length === 0) return [];
  const report = join(scratch, "tests.json");
  const leftAfter = stepsLeft - files.length;
  let ended = 0;
  tell(`tests: ${files.length} files`);
  const { lines } = await run(["sh", "bin/test", `--report=${report}`, ...files], (line) => {
    const [, count] = /^Ran \d+ tests? across (\d+) files?/.exec(line) ?? [];
    if (count === undefined) return;
    ended += Number(count);
    stepsLeft = leftAfter + Math.max(0, files.length - ended);
    tell(`tests: ${Math.min(ended, files.length)} of ${files.length} files`);
  });
  stepsLeft = leftAfter;
  const failedAt = lines.indexOf("Failed:");
  if (failedAt >= 0) console.error(withoutPaths(lines.slice(failedAt).join("\n")));
  try {
    return JSON.parse(readFileSync(report, "utf8")) as readonly FileRun[];
  } catch {
    console.error(withoutPaths(lines.slice(-40).join("\n")));
    return []; // The suite died: then every file of it counts as failed.
  }
}

function tell(what: string): void {
  console.error(`[${duration(secondsSoFar())}, ${stepsLeft} left] ${what}`);
}

function secondsSoFar(): number {
  return (performance.now() - beganMs) / 1_000;
}

function given() {
  try {
    return parseArgs({
      options: {
        list: { type: "boolean", default: false },
        only: { type: "string" },
        quick: { type: "boolean", default: false },
        long: { type: "boolean", default: false },
        busbar: { type: "string" },
        rows: { type: "boolean", default: false },
        write: { type: "boolean", default: false },
        out: { type: "string" },
        help: { type: "boolean", default: false },
      },
    });
  } catch (error) {
    return leave(64, `${error instanceof Error ? error.message : String(error)}\n\n${usage}`);
  }
}

function leave(code: number, message: string): never {
  (code === 0 ? console.log : console.error)(message);
  process.exit(code);
}
