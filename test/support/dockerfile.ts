import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../scripts/source-tree.ts";

export interface Instruction {
  readonly name: string;
  /** Without the instruction's name and its flags, with continued lines joined. */
  readonly text: string;
  /** Such as `--from=app`. */
  readonly flags: Readonly<Record<string, string>>;
}

export interface ImageStage {
  readonly name: string;
  readonly base: string;
  readonly instructions: readonly Instruction[];
}

/** The stages of a Dockerfile. It throws where a line is no instruction. */
export function parseDockerfile(text: string): readonly ImageStage[] {
  const lines = text
    .split("\n")
    .filter((line) => !/^\s*#/.test(line))
    .join("\n")
    .replaceAll(/\\\n/g, " ")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const stages: { name: string; base: string; instructions: Instruction[] }[] = [];
  for (const line of lines) {
    const [, name = "", flagText = "", rest = ""] = /^([A-Z]+)((?:\s+--[a-z-]+=\S+)*)\s+(.+)$/.exec(line) ?? [];
    if (!instructions.has(name)) throw new Error(`not an instruction: ${line}`);
    const flags = Object.fromEntries([...flagText.matchAll(/--([a-z-]+)=(\S+)/g)].map(([, flag = "", value = ""]) => [flag, value]));
    if (name === "FROM") {
      const [, base = "", as = ""] = /^(\S+)(?:\s+AS\s+(\S+))?$/.exec(rest) ?? [];
      stages.push({ name: as, base, instructions: [] });
      continue;
    }
    const stage = stages.at(-1);
    if (stage === undefined) throw new Error(`before the first stage: ${line}`);
    stage.instructions.push({ name, text: rest.replaceAll(/\s+/g, " "), flags });
  }
  return stages;
}

const instructions = new Set(
  "ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL RUN SHELL STOPSIGNAL USER VOLUME WORKDIR".split(" "),
);

export const dockerfile = readFileSync(join(root, "deploy/Dockerfile"), "utf8");
export const stages = parseDockerfile(dockerfile);

export function stageNamed(name: string): ImageStage {
  const stage = stages.find((one) => one.name === name);
  if (stage === undefined) throw new Error(`the Dockerfile has no stage ${name}`);
  return stage;
}

export function allOf(stage: ImageStage, name: string): readonly Instruction[] {
  return stage.instructions.filter((one) => one.name === name);
}

/** The last instruction of that name, which is the one that counts; an empty text if there is none. */
export function lastOf(stage: ImageStage, name: string): string {
  return allOf(stage, name).at(-1)?.text ?? "";
}

/** The words of an exec form. It throws for a shell form. */
export function execForm(text: string): readonly string[] {
  const words: unknown = JSON.parse(text);
  if (Array.isArray(words) && words.length > 0 && words.every((word) => typeof word === "string")) return words;
  throw new Error(`not an exec form: ${text}`);
}

/** The command of the health check. */
export function healthCommand(stage: ImageStage): readonly string[] {
  const check = allOf(stage, "HEALTHCHECK").at(-1);
  return execForm(check?.text.replace(/^CMD /, "") ?? "");
}

/** The variables of an image. Quotes are not needed by ours. */
export function environmentOf(stage: ImageStage): Readonly<Record<string, string>> {
  const pairs = allOf(stage, "ENV").flatMap(({ text }) => text.split(" ").map((pair) => pair.split("=") as [string, string]));
  return Object.fromEntries(pairs);
}

/** What a COPY takes, and where it puts it. */
export function copied({ text }: Instruction): { readonly sources: readonly string[]; readonly to: string } {
  const words = text.split(" ");
  return { sources: words.slice(0, -1), to: words.at(-1) ?? "" };
}

/** Whether the build context has a path: it exists, and .dockerignore lets it in. Ours first excludes everything. */
export function inContext(path: string): boolean {
  const rules = readFileSync(join(root, ".dockerignore"), "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  const [first = ""] = path.split("/");
  return rules[0] === "*" && rules.includes(`!${first}`) && existsSync(join(root, path));
}
