/** How one file of tests went, by what Bun said at its end. */
export interface FileReport {
  readonly passed: number;
  readonly failed: number;
  /** One for each, with the reason where the name holds one. */
  readonly skipped: readonly string[];
  /** What was said of each that failed, its file first and its name last; of a file that died, the last it said. */
  readonly failures: readonly string[];
}

/** One file, as it was run last. */
export interface FileRun {
  readonly file: string;
  readonly report: FileReport;
  readonly seconds: number;
  /** The share of the processors that the host took meanwhile. */
  readonly stolen: number;
  /** How often it was run again because the host had taken too much. */
  readonly reruns: number;
}

/** Enough for a message, the lines of code around it and who called. */
const failureLinesMax = 40;

/** Bun counts at the very end, after everything that tests may have written. A file that dies does not get there: it has failed. */
export function readReport(output: string, exitCode: number): FileReport {
  const lines = output.split("\n");
  const end = lines.findLastIndex((line) => /^Ran \d+ tests? across/.test(line));
  const counts = new Map<string, number>();
  for (const line of lines.slice(0, Math.max(end, 0)).toReversed()) {
    const [, count, what] = /^ *(\d+) ([a-z]+)/.exec(line) ?? [];
    if (what === undefined) break;
    counts.set(what, Number(count));
  }
  const of = (...names: readonly string[]): number => names.reduce((sum, name) => sum + (counts.get(name) ?? 0), 0);
  const failed = of("fail", "error", "errors");
  const died = end < 0 || (exitCode !== 0 && failed === 0);
  // Where there are many tests, the names of those that were skipped stand there once more, at the end.
  const named = lines.flatMap((line) => /^\((?:skip|todo)\) (.*)/.exec(line)?.[1] ?? []);
  const skipped = Array.from({ length: of("skip", "todo") }, (_, at) => named[at] ?? "(unnamed)");
  const told = failuresIn(lines);
  // A file that died, and an error that no test is the place of.
  const untold = failed + (died ? 1 : 0) > told.length ? [lines.slice(-failureLinesMax).join("\n").trim()] : [];
  const file = lines.find((line) => /^\S+\.test\.ts:$/.test(line)) ?? "";
  const failures = [...told, ...untold].map((failure) => `${file}\n${failure}`.trim());
  return { passed: of("pass"), failed: failed + (died ? 1 : 0), skipped, failures };
}

/** Bun says what went wrong above the name. Where there are many tests it says all of it once more at the end, under a heading. */
function failuresIn(lines: readonly string[]): readonly string[] {
  const heading = lines.findIndex((line) => /^\d+ tests failed:$/.test(line));
  const once = heading < 0 ? lines : lines.slice(0, heading);
  return once.flatMap((line, at) => {
    if (!line.startsWith("(fail) ")) return [];
    const before = once.slice(Math.max(0, at - failureLinesMax), at);
    const begins = before.findLastIndex((other) => /^\((?:pass|fail|skip|todo)\) /.test(other)) + 1;
    return [[...before.slice(begins), line].join("\n").trim()];
  });
}

const slowestShown = 15;

/**
 * Which files took longest, what was run again and what was left out; what was skipped and why, a group that was skipped as a
 * whole in one line; what failed, once more, for it stands far above and often only the end of a log is kept; and, last, the line
 * that counts.
 */
export function summarise(runs: readonly FileRun[], leftOut: readonly string[] = []): readonly string[] {
  const reports = runs.map(({ report }) => report);
  const sum = (count: (report: FileReport) => number): number => reports.reduce((so, report) => so + count(report), 0);
  const counted = `${sum(({ passed }) => passed)} passed, ${sum(({ failed }) => failed)} failed`;
  const skipped = reports.flatMap((report) => report.skipped);
  return [
    ...(runs.length <= slowestShown ? [] : slowest(runs)),
    ...runs.filter(({ reruns }) => reruns > 0).map(rerunLine),
    ...(leftOut.length === 0 ? [] : [`Not run, because the time that SLUICE_TEST_MINUTES gives them was over: ${leftOut.join(" ")}`]),
    ...(skipped.length === 0 ? [] : skips(skipped)),
    ...reports.flatMap(({ failures }) => failures).map((failure) => `Failed:\n${failure}\n`),
    // Others read this line, so it is the last one and always the same.
    counted,
  ];
}

function slowest(runs: readonly FileRun[]): readonly string[] {
  const sorted = runs.toSorted((one, other) => other.seconds - one.seconds).slice(0, slowestShown);
  return ["The slowest files, and what the host took of the processors meanwhile:", ...sorted.map(timeLine)];
}

function timeLine({ file, seconds, stolen }: FileRun): string {
  return `${seconds.toFixed(1).padStart(7)} s ${String(Math.round(stolen * 100)).padStart(3)} % ${file}`;
}

function rerunLine({ file, report, reruns }: FileRun): string {
  const ended = report.failed === 0 ? "passed" : "failed";
  return `Run again alone, because the host had taken processors: ${file} ${ended} at repetition ${reruns}`;
}

function skips(skipped: readonly string[]): readonly string[] {
  const groups = Map.groupBy(skipped, (name) => name.replace(/^(.*?\(skipped.*?\)) > .*/, "$1"));
  const lines = [...groups].map(([name, all]) => `${String(all.length).padStart(7)} ${name}`);
  const sorted = lines.toSorted((one, other) => (one.slice(8) < other.slice(8) ? -1 : 1));
  return ["Skipped, and why:", ...sorted, `${skipped.length} skipped`];
}
