import { writeFile } from "node:fs/promises";
import { parseDocument, stringify } from "yaml";
import { unwritten, type CommandError } from "../command-error.ts";
import { configExitCode } from "../process/start-problem.ts";
import { writeSchemaBeside, type SchemaText } from "../schema-file.ts";
import { importMeanings, type ImportRequest, type ImportSource } from "./arguments.ts";
import type { ImportedConfiguration } from "./imported.ts";
import { importLitellm } from "./litellm.ts";
import { importOneApi } from "./one-api.ts";
import { importPortkey } from "./portkey.ts";

const importers: Readonly<Record<ImportSource, (document: unknown) => ImportedConfiguration>> = {
  litellm: importLitellm,
  portkey: importPortkey,
  "one-api": importOneApi,
};

/** What the command needs of the configuration. */
export interface ImportContext {
  readonly schemaText: SchemaText;
  /** The text of a file, or what is wrong with it. */
  readonly readText: (file: string) => Promise<{ readonly text: string } | { readonly problem: string }>;
  /** What is wrong with a configuration, if its variables have these values. */
  readonly problemsOf: (text: string, env: Readonly<Record<string, string>>) => Promise<readonly string[]>;
}

/** Carries out `sluice import …` and returns the exit code. The result goes to standard output or a file, notes to standard error. */
export async function runImport({ from, file, output }: ImportRequest, context: ImportContext): Promise<number> {
  const read = await context.readText(file);
  if ("problem" in read) {
    console.error(read.problem);
    return configExitCode;
  }
  const document = parsed(read.text);
  if (document instanceof Error) {
    console.error(`${file}: it is neither YAML nor JSON: ${document.message.split("\n")[0] ?? ""}`);
    return configExitCode;
  }
  const imported = importers[from](document);
  if (channelsIn(imported) === 0) {
    const words = `${file}: there is no channel in it, so that nothing was written. It has to be ${importMeanings[from]}.`;
    console.error([words, ...section("Not carried over:", imported.notes)].join("\n"));
    return configExitCode;
  }
  const result = `${heading(from)}${stringify(imported.settings, { lineWidth: 0 })}`;
  const problem = output === null ? null : await writeProblem(output, result);
  if (problem !== null) {
    console.error(problem.message);
    return problem.exitCode;
  }
  if (output === null) process.stdout.write(result);
  // What is still wrong once the variables are set, such as a channel without an address.
  const env = Object.fromEntries(imported.variables.map(({ name, sample }) => [name, sample]));
  const schema = output === null ? null : await writeSchemaBeside(output, "configuration", context.schemaText);
  report(imported, await context.problemsOf(result, env), { output, schemaNote: schema?.note ?? null });
  return 0;
}

/** A file may have thousands of anchors that unfold into millions of values; the library refuses that. */
function parsed(text: string): unknown {
  try {
    const document = parseDocument(text, { merge: true });
    return document.errors[0] ?? (document.toJS({ maxAliasCount: 100 }) as unknown);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function heading(from: ImportSource): string {
  return `# yaml-language-server: $schema=./sluice.schema.json
# Made by: sluice import ${from}. docs/configuration.md lists every setting.
# For completion in an editor: sluice config schema > sluice.schema.json
`;
}

/** What kept the file from being written; null if it was. */
async function writeProblem(output: string, text: string): Promise<CommandError | null> {
  try {
    await writeFile(output, text, { flag: "wx" });
    return null;
  } catch (error) {
    return unwritten(output, error);
  }
}

function channelsIn({ settings: { channels } }: ImportedConfiguration): number {
  return Array.isArray(channels) ? channels.length : 0;
}

interface WrittenFiles {
  readonly output: string | null;
  readonly schemaNote: string | null;
}

function report(imported: ImportedConfiguration, problems: readonly string[], { output, schemaNote }: WrittenFiles): void {
  const { variables, notes } = imported;
  const count = channelsIn(imported);
  const lines = [
    `${count} ${count === 1 ? "channel was" : "channels were"} carried over${output === null ? "" : ` to ${output}`}.`,
    ...(schemaNote === null ? [] : [schemaNote]),
    ...section(
      "Set these variables:",
      variables.map(({ name, meaning }) => `${name}: ${meaning}`),
    ),
    ...section("Not carried over, or different:", notes),
    ...section("Fix these before the file can be used:", problems),
  ];
  console.error(lines.join("\n"));
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : ["", title, ...lines.map((line) => `  ${line.replaceAll("\n", "\n  ")}`)];
}
