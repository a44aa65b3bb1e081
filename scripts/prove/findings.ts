import type { ScenarioName } from "../../bench/options.ts";
import type { FileRun } from "../test-report.ts";
import { unavailableCode } from "./commands.ts";

/**
 * - `shown`: the command was run, and the promise was kept.
 * - `shown in part`: what could be tried was kept; something could not be tried here.
 * - `not shown here`: this machine lacks what it takes.
 * - `not run`: nobody asked for it this time.
 * - `fails`: the promise was not kept.
 */
export type ProofResult = (typeof proofResults)[number];
export const proofResults = ["shown", "shown in part", "not shown here", "not run", "fails"] as const;

export interface Finding {
  readonly result: ProofResult;
  /** What was measured or counted, with its bar, or why there is nothing. */
  readonly figure: string;
  readonly seconds: number;
}

/** How the tests of some files went, of all files that were run. */
export function findingOfTests(files: readonly string[], runs: readonly FileRun[]): Finding {
  const own = files.map((file) => ({ file, run: runs.find((one) => one.files.includes(file)) }));
  const seconds = own.reduce((sum, { run }) => sum + (run?.seconds ?? 0), 0);
  const failed = own.filter(({ file, run }) => run === undefined || hasFailed(file, run)).map(({ file }) => file);
  if (failed.length > 0) return { result: "fails", figure: `failed: ${failed.join(", ")}`, seconds };
  // Files that share a process are unit tests, which need nothing, so that none of theirs is skipped.
  const alone = own.flatMap(({ run }) => (run?.files.length === 1 ? [run.report] : []));
  const passed = alone.reduce((sum, report) => sum + report.passed, 0);
  const skipped = alone.flatMap((report) => report.skipped);
  const counted = alone.length === files.length ? `${passed} tests passed` : `all tests of ${files.length} files passed`;
  if (skipped.length === 0) return { result: "shown", figure: counted, seconds };
  const why = `${skipped.length} skipped: ${reasonsOf(skipped)}`;
  if (passed === 0 && alone.length === files.length) return { result: "not shown here", figure: why, seconds };
  return { result: "shown in part", figure: `${counted}, ${why}`, seconds };
}

function hasFailed(file: string, { files, report }: FileRun): boolean {
  if (report.failed === 0) return false;
  const named = files.filter((one) => report.failures.some((failure) => failure.startsWith(`${one}:`)));
  // A process that died names no test: then each of its files may be the one.
  return named.length < 1 || named.includes(file);
}

/** Tests say in their names why they are skipped: `a Redis that is lost (skipped: no Redis here) > …`. */
function reasonsOf(skipped: readonly string[]): string {
  const reasons = new Set(skipped.map((name) => /\(skipped:? (.*?)\)/.exec(name)?.[1] ?? name));
  const [first = "", ...others] = reasons;
  return others.length === 0 ? first : `${first}, and ${others.length} more reasons`;
}

/** A row of bench/results/latest.json, as far as it matters here. */
export interface BenchRow {
  readonly scenario: ScenarioName;
  readonly bar: string;
  readonly measure: string;
  readonly unit: string;
  readonly verdict: string;
  readonly judgement:
    | { readonly kind: "judged"; readonly what: string; readonly value: number; readonly limit: number; readonly sense: string }
    | { readonly kind: "compared" | "unjudged" };
  /** It missed its bar in short turns. */
  readonly isRerun?: boolean;
  /** Why nothing may be judged by it. */
  readonly disturbance?: string | null;
}

export interface BenchResults {
  readonly rows: readonly BenchRow[];
  readonly remarks: readonly string[];
  readonly scenarioSeconds: Readonly<Partial<Record<ScenarioName, number>>>;
  readonly versions: Readonly<Record<string, string>>;
  /** Why it could not be run at all. */
  readonly unavailable?: string;
}

/** The rows of a promise are those of its scenarios whose bar has its id. */
export function findingOfBench(id: string, scenarios: readonly ScenarioName[], results: BenchResults | null): Finding {
  if (results === null) return { result: "fails", figure: "the bench did not end", seconds: 0 };
  const { rows, remarks, scenarioSeconds } = results;
  const own = rows.filter(({ bar, scenario }) => bar === id && scenarios.includes(scenario));
  const seconds = scenarios.reduce((sum, name) => sum + (scenarioSeconds[name] ?? 0), 0);
  const judged = own.filter(({ judgement }) => judgement.kind === "judged");
  if (judged.length === 0) {
    const why = remarks.find((remark) => isOurFault(remark, scenarios) || scenarios.some((name) => remark.startsWith(name)));
    const figure = results.unavailable ?? why ?? "the bench did not measure it";
    return { result: why !== undefined && isOurFault(why, scenarios) ? "fails" : "not shown here", figure, seconds };
  }
  const figure = own.map(lineOf).join("; ");
  const disturbed = judged.find(({ disturbance }) => disturbance != null);
  if (disturbed !== undefined) return { result: "not shown here", figure: `${disturbed.disturbance}; ${figure}`, seconds };
  if (own.some(isMiss)) return { result: "fails", figure, seconds };
  return { result: judged.length === own.length ? "shown" : "shown in part", figure, seconds };
}

/** A scenario that broke, or a gateway that could not be measured, is not something that this machine lacks. */
function isOurFault(remark: string, scenarios: readonly ScenarioName[]): boolean {
  return scenarios.some((name) => remark.startsWith(`${name} was not completed`)) || /\bgateway (left out|did not start)\b/.test(remark);
}

function lineOf({ measure, unit, judgement, verdict, isRerun = false }: BenchRow): string {
  if (judgement.kind !== "judged") return `${measure}: ${verdict}`;
  const { what, value, sense, limit } = judgement;
  return `${measure}, ${unit}: ${what} ${rounded(value)}, ${sense} ${rounded(limit)}${isRerun ? " (in longer turns)" : ""}`;
}

function rounded(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2);
}

function isMiss({ verdict }: BenchRow): boolean {
  return verdict === "MISS";
}

/** The scenarios in which a bar of one of these promises was missed. */
export function missedScenarios(ids: readonly string[], { rows }: BenchResults): readonly ScenarioName[] {
  return [...new Set(rows.filter((row) => isMiss(row) && ids.includes(row.bar)).map(({ scenario }) => scenario))];
}

/** One miss is not a miss (bench/README.md): a row that missed its bar is replaced by that of another run, with longer turns. */
export function withRerun(before: BenchResults, again: BenchResults): BenchResults {
  const rows = before.rows.map((row) => {
    const other = isMiss(row) ? again.rows.find((one) => isSame(one, row)) : undefined;
    return other === undefined ? row : { ...other, isRerun: true };
  });
  const scenarioSeconds = { ...before.scenarioSeconds };
  for (const name of Object.keys(again.scenarioSeconds) as ScenarioName[]) {
    scenarioSeconds[name] = (scenarioSeconds[name] ?? 0) + (again.scenarioSeconds[name] ?? 0);
  }
  return { ...before, rows, scenarioSeconds, remarks: [...new Set([...before.remarks, ...again.remarks])] };
}

function isSame(one: BenchRow, other: BenchRow): boolean {
  const whatOf = ({ judgement }: BenchRow): string => (judgement.kind === "judged" ? judgement.what : "");
  return one.scenario === other.scenario && one.bar === other.bar && one.measure === other.measure && whatOf(one) === whatOf(other);
}

export interface ProgramEnd {
  readonly code: number;
  readonly lastLine: string;
  readonly seconds: number;
}

export function findingOfProgram(end: ProgramEnd | undefined): Finding {
  if (end === undefined) return { result: "fails", figure: "it was not run", seconds: 0 };
  const { code, lastLine, seconds } = end;
  if (code === 0) return { result: "shown", figure: lastLine, seconds };
  if (code === unavailableCode) return { result: "not shown here", figure: lastLine, seconds };
  return { result: "fails", figure: `ended with ${code}: ${lastLine}`, seconds };
}
