import { readCarefully } from "./careful-yaml.ts";
import type { Environment } from "./interpolate.ts";
import { isGroup } from "./kinds.ts";
import type { Path, Problem } from "./problem.ts";

/** What is to be found out of a text, by the careful reader. All of it can travel between threads. */
export interface CarefulOrder {
  readonly text: string;
  readonly environment: Environment;
  /** Whose lines are asked for; null where the values are. */
  readonly paths: readonly Path[] | null;
}

export type CarefulReply =
  | { readonly value: unknown; readonly lines: readonly (readonly [Path, number | null])[] }
  | { readonly problems: readonly Problem[] };

export function carryOut({ text, environment, paths }: CarefulOrder): CarefulReply {
  const careful = readCarefully(text, environment);
  if ("problems" in careful) return careful;
  const { value, lineOf } = careful;
  // With the values come the lines of what stands at the top: nearly always they are the only ones that matter.
  const asked =
    paths ??
    (isGroup(value)
      ? Object.keys(value)
          .slice(0, toldMax)
          .map((name) => [name])
      : []);
  return { value: paths === null ? value : null, lines: asked.map((path) => [path, lineOf(path)]) };
}

/** More than there are settings at the top. To look for each line takes as long as the file has names. */
const toldMax = 100;
