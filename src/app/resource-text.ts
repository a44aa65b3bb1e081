import { readUtf8Text } from "../config/file-text.ts";
import { renderProblem } from "../config/findings/problem.ts";
import { variableNames, withSecretFiles, type Environment } from "../config/interpolate.ts";
import { readSecretFile } from "../config/load.ts";
import { readResourceFile } from "../config/resource-file/read.ts";
import type { DesiredResources } from "../manage/resource-file/desired-resources.ts";

export interface ResourceText {
  readonly text: string;
  /** The values of the variables that it refers to, as far as they are set. */
  readonly variables: Readonly<Record<string, string>>;
}

/** What is wrong, in sentences. */
interface ResourceProblems {
  readonly problems: readonly string[];
}

export async function readResourceText(file: string, env: Environment): Promise<ResourceText | ResourceProblems> {
  const text = await readUtf8Text(file);
  if (typeof text !== "string") return { problems: [renderProblem(file, text)] };
  const known = withSecretFiles(text, env, readSecretFile);
  const variables: Record<string, string> = {};
  for (const name of variableNames(text)) {
    const value = Object.hasOwn(known, name) ? known[name] : undefined;
    if (value !== undefined) variables[name] = value;
  }
  return { text, variables };
}

/** `file` is for messages. No other variables are known than those that are given. */
export async function desiredResources(
  file: string,
  { text, variables }: { readonly text: string; readonly variables: Environment },
): Promise<{ readonly desired: DesiredResources } | ResourceProblems> {
  const reading = await readResourceFile(text, variables);
  return reading.ok ? { desired: reading.desired } : { problems: reading.problems.map((problem) => renderProblem(file, problem)) };
}
