/**
 * An error in a configuration, or a warning: where it is, why it is wrong and how to fix it. A value is quoted only if it cannot be a
 * secret that ended up in the wrong place (`shown-value.ts`).
 */
export interface Problem {
  /** `null` if there is no file, or if the error is not in a single line. */
  readonly line: number | null;
  /** Such as `channels[0].api_key`; empty for the file as a whole. */
  readonly path: string;
  readonly reason: string;
  readonly fix: string;
}

export type Path = readonly (string | number)[];

/** One or two lines for a human. */
export function renderProblem(file: string | null, problem: Problem): string {
  const location = [file, problem.line].filter((part) => part !== null).join(":");
  const head = [location, problem.path, problem.reason].filter((part) => part !== "").join(": ");
  return problem.fix === "" ? head : `${head}\n  ${problem.fix}`;
}

/** Keys that are not plain words are quoted, so that a path is unambiguous. */
export function pathText(path: Path): string {
  return path
    .map((step, at) => {
      if (typeof step === "number") return `[${step}]`;
      if (!/^[\w-]+$/.test(step)) return `[${JSON.stringify(step)}]`;
      return at === 0 ? step : `.${step}`;
    })
    .join("");
}

/** Something that was found in the configuration: a `problem` prevents the start, a `warning` does not. */
export interface Finding {
  readonly severity: "problem" | "warning";
  readonly path: Path;
  readonly reason: string;
  readonly fix: string;
}

export function problem(path: Path, reason: string, fix: string): Finding {
  return { severity: "problem", path, reason, fix };
}

export function warning(path: Path, reason: string, fix: string): Finding {
  return { severity: "warning", path, reason, fix };
}
