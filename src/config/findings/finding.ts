import type { Path } from "./problem.ts";

/** What a look at one part of the configuration brought up: `problem` stops the start, `warning` does not. */
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
