/** How one file of tests went, by what Bun said at its end. */
export interface FileReport {
  readonly passed: number;
  readonly failed: number;
  /** One for each, with the reason where the name holds one. */
  readonly skipped: readonly string[];
}

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
  return {
    passed: of("pass"),
    failed: failed + (died ? 1 : 0),
    skipped,
  };
}

/** What was skipped and why, a group that was skipped as a whole in one line; and, last, the line that counts. */
export function summarise(reports: readonly FileReport[]): readonly string[] {
  const sum = (count: (report: FileReport) => number): number => reports.reduce((so, report) => so + count(report), 0);
  const counted = `${sum(({ passed }) => passed)} passed, ${sum(({ failed }) => failed)} failed`;
  const skipped = reports.flatMap((report) => report.skipped);
  if (skipped.length === 0) return [counted];
  const groups = Map.groupBy(skipped, (name) => name.replace(/^(.*?\(skipped.*?\)) > .*/, "$1"));
  const lines = [...groups].map(([name, all]) => `${String(all.length).padStart(7)} ${name}`);
  return [
    "Skipped, and why:",
    ...lines.toSorted((one, other) => (one.slice(8) < other.slice(8) ? -1 : 1)),
    `${skipped.length} skipped`,
    // Others read this line, so it is the last one and always the same.
    counted,
  ];
}
