import { writeFile } from "node:fs/promises";
import { stringify } from "yaml";
import type { ResourceChange } from "../../manage/resource-file/desired-resources.ts";
import { resourceSections } from "../../manage/resource-file/exported-resources.ts";
import type { CommandSurroundings } from "../command-context.ts";
import type { ConfigManagement } from "../management/config-management.ts";
import { unwritten } from "../command-error.ts";
import { writeSchemaBeside } from "../schema-file.ts";
import { json, plural, shown } from "../shown-text.ts";
import type { ConfigRequest } from "./arguments.ts";
import { explain } from "./explain.ts";

type ConfigRequestOf<Act extends ConfigRequest["act"]> = Extract<ConfigRequest, { readonly act: Act }>;

/** The exit code of a comparison that found something. */
const differsExitCode = 2;

/** Carries out a command and returns the exit code. */
export async function runConfig(request: ConfigRequest, management: ConfigManagement, context: CommandSurroundings): Promise<number> {
  switch (request.act) {
    case "explain":
      await explain(request, management, context);
      return 0;
    case "export":
      return exportAll(request, management, context);
    case "diff":
      return diff(request, management, context);
    case "apply":
      return apply(request, management, context);
  }
}

async function exportAll(
  { only, keyVariables, output, json: asJson }: ConfigRequestOf<"export">,
  management: ConfigManagement,
  { terminal, schemaText }: CommandSurroundings,
): Promise<number> {
  const { document, variables } = await management.exportedResources({ sections: only ?? resourceSections, keyVariables });
  const text = (asJson ? json(document) : `${exportHeading}${stringify(document, { lineWidth: 0 })}`).trimEnd();
  if (output === null) terminal.print(text);
  else {
    await writeNew(output, `${text}\n`);
    terminal.say(`Wrote ${output}.`);
    // JSON has no comment that names a schema.
    if (!asJson) terminal.say((await writeSchemaBeside(output, "resources", schemaText)).note);
  }
  if (variables.size > 0) {
    terminal.say("Secrets are not exported. Before this file is applied elsewhere, set:");
    for (const [name, meaning] of variables) terminal.say(`  ${name}: ${shown(meaning)}`);
  }
  return 0;
}

async function writeNew(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text, { flag: "wx" });
  } catch (error) {
    throw unwritten(file, error);
  }
}

const exportHeading = `# yaml-language-server: $schema=./sluice-resources.schema.json
# Made by: sluice config export. The schema comes from: sluice config schema --resources > sluice-resources.schema.json
`;

async function diff(
  { file, prune, json: asJson }: ConfigRequestOf<"diff">,
  management: ConfigManagement,
  context: CommandSurroundings,
): Promise<number> {
  const changes = await management.compareResources(file, prune);
  report(changes, { file, asJson, done: false }, context);
  return changes.length === 0 ? 0 : differsExitCode;
}

async function apply(
  { file, prune, dryRun, json: asJson }: ConfigRequestOf<"apply">,
  management: ConfigManagement,
  context: CommandSurroundings,
): Promise<number> {
  const changes = await management.applyResources(file, { prune, dryRun });
  report(changes, { file, asJson, done: !dryRun }, context);
  return dryRun && changes.length > 0 ? differsExitCode : 0;
}

interface ReportOptions {
  readonly file: string;
  readonly asJson: boolean;
  readonly done: boolean;
}

function report(changes: readonly ResourceChange[], { file, asJson, done }: ReportOptions, { terminal }: CommandSurroundings): void {
  if (asJson) return terminal.print(json({ file, applied: done, changes }));
  for (const change of changes) terminal.print(changeText(change));
  if (changes.length === 0) terminal.say(`Nothing differs: the store has what ${file} says.`);
  else terminal.say(`${plural(changes.length, "change")} ${done ? "made" : "to make"}.`);
}

const signs = { create: "+", change: "~", remove: "-", revoke: "-" } as const;

/** Such as `~ channel main (line 3): tier 1 → 2`. */
function changeText({ what, name, action, fields, line }: ResourceChange): string {
  const place = line === null ? "" : ` (line ${line})`;
  const words = fields.map(({ field, from, to }) =>
    action === "create" ? `${field} ${textOf(to)}` : `${field} ${textOf(from)} → ${textOf(to)}`,
  );
  const detail = action === "remove" || action === "revoke" ? action : [action, words.join(", ")].filter((part) => part !== "").join(": ");
  return shown(`${signs[action]} ${what} ${name}${place}: ${detail}`);
}

function textOf(value: unknown): string {
  if (value === null) return "none";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length <= textCharactersMax ? text : `${text.slice(0, textCharactersMax)}…`;
}

const textCharactersMax = 120;
