import { scenarioNames, type ScenarioName } from "../../bench/options.ts";

/** What shows that a promise is kept. The kinds differ in what can be run together, and in how the result is read. */
export type Command =
  | { readonly kind: "tests"; readonly files: readonly string[] }
  /** Judged by the rows of these scenarios whose bar has the id of the promise. */
  | { readonly kind: "bench"; readonly scenarios: readonly ScenarioName[] }
  /** Ends with 0 if the promise is kept, and with 69 if this machine lacks what it takes. The last line it prints is the figure. */
  | { readonly kind: "program"; readonly words: readonly string[] };

/** The exit code for "a service is unavailable" (sysexits.h). */
export const unavailableCode = 69;

export function commandOf(text: string): Command | { readonly problem: string } {
  const words = text.split(" ");
  const [program, first = "", ...rest] = words;
  if (text === "" || words.includes("")) return { problem: "there is no command" };
  if (program === "sh" && first === "bin/test") return testsOf(rest);
  if (program === "npm" && first === "run" && rest[0] === "bench") return benchOf(rest.slice(1));
  const isScript = (program === "npm" && first === "run" && rest.length > 0) || (program === "sh" && first.startsWith("bin/"));
  return isScript ? { kind: "program", words } : { problem: "a command begins with `sh bin/` or `npm run`" };
}

function testsOf(files: readonly string[]): ReturnType<typeof commandOf> {
  const wrong = files.find((file) => !/^test\/\S+\.test\.ts$/.test(file));
  if (files.length === 0 || wrong !== undefined)
    return { problem: `\`sh bin/test\` takes files of tests${wrong === undefined ? "" : `, not ${wrong}`}` };
  return { kind: "tests", files };
}

function benchOf(words: readonly string[]): ReturnType<typeof commandOf> {
  const [dashes, option, list = "", ...more] = words;
  const names = list.split(",");
  const scenarios = scenarioNames.filter((name) => names.includes(name));
  const isKnown = dashes === "--" && option === "--only" && more.length === 0 && scenarios.length === names.length;
  return isKnown ? { kind: "bench", scenarios } : { problem: "`npm run bench` takes `-- --only NAMES`, with names of scenarios" };
}

/** The files of the repository, and the script of package.json, that a command cannot do without. */
export function requirementsOf(command: Command): { readonly files: readonly string[]; readonly script: string | null } {
  switch (command.kind) {
    case "tests":
      return { files: command.files, script: null };
    case "bench":
      return { files: command.scenarios.map((name) => `bench/scenarios/${name}.ts`), script: "bench" };
    case "program": {
      const [program, ...rest] = command.words;
      const files = rest.filter((word) => /^(bin|scripts|bench|test|src)\//.test(word));
      return { files, script: program === "npm" ? (rest[1] ?? "") : null };
    }
  }
}
