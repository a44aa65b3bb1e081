import type { Path } from "./problem.ts";

/** Something that was found in the configuration: a `problem` prevents the start, a `warning` does not. */
export interface Finding {
  readonly weight: "problem" | "warning";
  readonly path: Path;
  readonly reason: string;
  readonly fix: string;
}

export function problem(path: Path, reason: string, fix: string): Finding {
  return { weight: "problem", path, reason, fix };
}

export function warning(path: Path, reason: string, fix: string): Finding {
  return { weight: "warning", path, reason, fix };
}
