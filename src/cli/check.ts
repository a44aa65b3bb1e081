import { configExitCode } from "./process/start-problem.ts";

/** The result of checking a configuration. */
export interface CheckReport {
  /** `null` when the environment was checked instead of a file. */
  readonly file: string | null;
  readonly ok: boolean;
  readonly problems: readonly CheckProblem[];
  readonly warnings: readonly CheckProblem[];
  readonly channels: number;
  readonly keys: number;
}

export interface CheckProblem {
  readonly line: number | null;
  readonly path: string;
  readonly reason: string;
  readonly fix: string;
}

/** The text to print and the exit code. `render` writes one problem. */
export function renderCheck(
  report: CheckReport,
  json: boolean,
  render: (file: string | null, problem: CheckProblem) => string,
): { readonly text: string; readonly exitCode: number } {
  const exitCode = report.ok ? 0 : configExitCode;
  if (json) return { text: JSON.stringify(report, null, 2), exitCode };
  const name = report.file ?? "the environment";
  const lines = [
    ...report.problems.map((problem) => render(report.file, problem)),
    ...report.warnings.map((warning) => `warning: ${render(report.file, warning)}`),
    report.ok
      ? `${name} can be used: ${count(report.channels, "channel")}, ${count(report.keys, "key")}${
          report.warnings.length === 0 ? "" : `, ${count(report.warnings.length, "warning")}`
        }`
      : `${name} cannot be used: ${count(report.problems.length, "problem")}`,
  ];
  return { text: lines.join("\n"), exitCode };
}

export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
