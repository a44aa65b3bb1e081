/** How the tests of one file went, according to what Bun printed at the end. */
export interface FileReport {
  readonly passed: number;
  readonly failed: number;
  /** The name of each skipped test, which often says why. */
  readonly skipped: readonly string[];
  /** The output about each failed test, from the name of its file to its own; for a file that died, the end of its output. */
  readonly failures: readonly string[];
}

/** The last run of one file, or of several that share a process. */
export interface FileRun {
  readonly files: readonly string[];
  readonly report: FileReport;
  readonly seconds: number;
  /** Processor time of the file and of the processes it started. Much less than `seconds` means that it mostly waits. */
  readonly cpuSeconds: number;
  /** The share of the processors that the host took meanwhile, in the worst five seconds. */
  readonly stolen: number;
  /** Whether no other file ran beside it. */
  readonly alone: boolean;
  /** How often it was run again because the host had taken too much, or because it had run beside others. */
  readonly reruns: number;
}

/** Enough for a message, the lines of code around it and the stack. */
const failureLinesMax = 40;

/** Bun prints its counts at the very end, after anything the tests may have written. A file that dies before that has failed. */
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
  // Where there are many tests, Bun repeats the names of the skipped ones at the end.
  const named = lines.flatMap((line) => /^\((?:skip|todo)\) (.*)/.exec(line)?.[1] ?? []);
  const skipped = Array.from({ length: of("skip", "todo") }, (_, at) => named[at] ?? "(unnamed)");
  const reported = failuresIn(lines);
  // A file that died, and an error outside of any test.
  const unreported = failed + (died ? 1 : 0) > reported.length ? [lines.slice(-failureLinesMax).join("\n").trim()] : [];
  const failures = [...reported, ...unreported.map((failure) => `${fileAt(lines, lines.length)}\n${failure}`.trim())];
  return { passed: of("pass"), failed: failed + (died ? 1 : 0), skipped, failures };
}

/** Bun prints the error above the name of the test. Where there are many tests, it repeats all failures at the end, under a heading. */
function failuresIn(lines: readonly string[]): readonly string[] {
  const heading = lines.findIndex((line) => /^\d+ tests failed:$/.test(line));
  const once = heading < 0 ? lines : lines.slice(0, heading);
  return once.flatMap((line, at) => {
    if (!line.startsWith("(fail) ")) return [];
    const before = once.slice(Math.max(0, at - failureLinesMax), at);
    const begins = before.findLastIndex((other) => /^\((?:pass|fail|skip|todo)\) |^\S+\.test\.ts:$/.test(other)) + 1;
    return [`${fileAt(once, at)}\n${[...before.slice(begins), line].join("\n").trim()}`.trim()];
  });
}

/** The file whose tests a line of the output is about. */
function fileAt(lines: readonly string[], at: number): string {
  return lines.findLast((line, index) => index < at && /^\S+\.test\.ts:$/.test(line)) ?? "";
}

export function nameOf(files: readonly string[]): string {
  const [first = ""] = files;
  return files.length === 1 ? first : `${first} and ${files.length - 1} more files`;
}

const slowestShown = 10;

/** What concerns the suite as a whole. */
export interface Suite {
  /** Files that were not started because SLUICE_TEST_MINUTES were over. */
  readonly leftOut: readonly string[];
  readonly seconds: number;
}

/**
 * The end of the output: the slowest files and the total time; the files that were run again or left out; the skipped tests, with one
 * line for a group that was skipped as a whole; the failures, repeated because often only the end of a log is kept; and the counts.
 */
export function summarise(runs: readonly FileRun[], { leftOut, seconds }: Suite): readonly string[] {
  const reports = runs.map(({ report }) => report);
  const sum = (count: (report: FileReport) => number): number => reports.reduce((so, report) => so + count(report), 0);
  const counted = `${sum(({ passed }) => passed)} passed, ${sum(({ failed }) => failed)} failed`;
  const skipped = reports.flatMap((report) => report.skipped);
  return [
    ...(runs.length <= slowestShown ? [] : [...slowest(runs), totalLine(runs, seconds)]),
    ...runs.filter(({ reruns }) => reruns > 0).map(rerunLine),
    ...(leftOut.length === 0 ? [] : [`Not run, because the time that SLUICE_TEST_MINUTES gives them was over: ${leftOut.join(" ")}`]),
    ...(skipped.length === 0 ? [] : skips(skipped)),
    ...reports.flatMap(({ failures }) => failures).map((failure) => `Failed:\n${failure}\n`),
    // Other programs read this line, so it stays the last one and keeps its form.
    counted,
  ];
}

function slowest(runs: readonly FileRun[]): readonly string[] {
  const sorted = runs.toSorted((one, other) => other.seconds - one.seconds).slice(0, slowestShown);
  return [
    "The slowest files, with their processor time, and the share of the processors that the host took in the worst five seconds:",
    ...sorted.map(timeLine),
  ];
}

function timeLine({ files, seconds, cpuSeconds, stolen }: FileRun): string {
  const figures = [`${seconds.toFixed(1)} s`, `${cpuSeconds.toFixed(1)} s`, `${Math.round(stolen * 100)} %`];
  return `${figures.map((figure, at) => figure.padStart(at === 2 ? 6 : 9)).join("")} ${nameOf(files)}`;
}

function totalLine(runs: readonly FileRun[], seconds: number): string {
  const cpuSeconds = runs.reduce((sum, run) => sum + run.cpuSeconds, 0);
  const count = runs.reduce((sum, { files }) => sum + files.length, 0);
  return `${count} files took ${seconds.toFixed(0)} s, and ${cpuSeconds.toFixed(0)} s of processor time`;
}

function rerunLine({ files, report, reruns }: FileRun): string {
  const ended = report.failed === 0 ? "passed" : "failed";
  return `Failed at first, and run again alone: ${nameOf(files)} ${ended} at repetition ${reruns}`;
}

function skips(skipped: readonly string[]): readonly string[] {
  const groups = Map.groupBy(skipped, (name) => name.replace(/^(.*?\(skipped.*?\)) > .*/, "$1"));
  const lines = [...groups].map(([name, all]) => `${String(all.length).padStart(7)} ${name}`);
  const sorted = lines.toSorted((one, other) => (one.slice(8) < other.slice(8) ? -1 : 1));
  return ["Skipped, and why:", ...sorted, `${skipped.length} skipped`];
}
