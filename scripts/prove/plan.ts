import { longScenario, type ScenarioName } from "../../bench/options.ts";
import type { Command } from "./commands.ts";
import type { ProductPromise } from "./promises.ts";

/** What has to be run for some promises: each file of tests, each scenario and each program once, however many promises it is for. */
export interface ProofPlan {
  readonly promises: readonly ProductPromise[];
  readonly files: readonly string[];
  readonly scenarios: readonly ScenarioName[];
  readonly programs: readonly (readonly string[])[];
}

export interface Selection {
  /** Ids; null for all. */
  readonly only: readonly string[] | null;
  /** Without benches, and programs that download. */
  readonly quick: boolean;
  /** With the scenarios that take a quarter of an hour each. */
  readonly long: boolean;
}

export function planOf(all: readonly ProductPromise[], selection: Selection): ProofPlan | { readonly problem: string } {
  const { only } = selection;
  const unknown = only?.find((id) => all.every((promise) => promise.id !== id));
  if (unknown !== undefined) return { problem: `there is no promise "${unknown}"; --list shows all` };
  const promises = all.filter(({ id, command }) => (only === null || only.includes(id)) && isChosen(command, selection));
  if (promises.length === 0) return { problem: "no promise is left to be shown: --quick leaves out all that no test shows" };
  const commands = promises.map(({ command }) => command);
  const programs = commands.flatMap((command) => (command.kind === "program" ? [command.words] : []));
  return {
    promises,
    files: unique(commands.flatMap((command) => (command.kind === "tests" ? command.files : []))),
    scenarios: unique(commands.flatMap((command) => (command.kind === "bench" ? command.scenarios : []))),
    programs: programs.filter((words, at) => programs.findIndex((other) => other.join(" ") === words.join(" ")) === at),
  };
}

function isChosen(command: Command, { only, quick, long }: Selection): boolean {
  if (quick && command.kind !== "tests") return false;
  return long || only !== null || command.kind !== "bench" || !command.scenarios.includes(longScenario);
}

function unique<Item>(items: readonly Item[]): readonly Item[] {
  return [...new Set(items)];
}
