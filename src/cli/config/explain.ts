import type { StoredSetting } from "../../manage/resource-file/stored-settings.ts";
import type { CommandSurroundings, ExplainedConfiguration } from "../command-context.ts";
import { CommandError } from "../command-error.ts";
import { json } from "../shown-text.ts";
import { table } from "../table.ts";
import type { ConfigManagement } from "../management/config-management.ts";
import type { ConfigRequest } from "./arguments.ts";

/** A setting with its origin, of the configuration or the store. */
interface OriginRow {
  readonly path: string;
  readonly numbered: string | null;
  readonly value: unknown;
  readonly origin: "file" | "environment" | "default" | "store";
  readonly line: number | null;
  readonly variables: readonly string[];
  readonly otherwise: string | null;
  /** Where the configuration says otherwise, so that this value of the store is not used. */
  readonly overridden: string | null;
}

export async function explain(
  { paths, all, json: asJson }: Extract<ConfigRequest, { readonly act: "explain" }>,
  management: Pick<ConfigManagement, "configuration" | "storedSettings">,
  context: CommandSurroundings,
): Promise<void> {
  const settings = await management.configuration();
  const stored = await management.storedSettings(paths);
  for (const note of stored.notes) context.terminal.say(note);
  const rows = [...settings.rows.map(configRow), ...stored.rows.map(storedRow)];
  const unknown = paths.find((path) => !rows.some((row) => isUnder(row, path)));
  if (unknown !== undefined) {
    const fix = "docs/configuration.md lists all settings; without a path, all of them are shown";
    throw new CommandError(`There is no setting ${unknown} here: ${fix}.`);
  }
  const shown = rows.filter((row) => (all || row.origin !== "default") && (paths.length === 0 || paths.some((path) => isUnder(row, path))));
  if (asJson) return context.terminal.print(json(shown.map((row) => rowJson(row, settings))));
  if (shown.length === 0) return context.terminal.say("Everything here has its default.");
  context.terminal.print(
    table<OriginRow>(
      [
        { title: "SETTING", cell: ({ path }) => path },
        { title: "VALUE", cell: valueText },
        { title: "FROM", cell: (row) => originText(row, settings) },
      ],
      shown,
    ),
  );
}

/** A path names a setting and everything inside it, with the names of entries or their numbers. */
function isUnder({ path, numbered }: OriginRow, asked: string): boolean {
  return [path, numbered].some((one) => one !== null && (one === asked || one.startsWith(`${asked}.`) || one.startsWith(`${asked}[`)));
}

function configRow(row: ExplainedConfiguration["rows"][number]): OriginRow {
  const { path, numbered, value, origin, line, variables, otherwise } = row;
  return { path, numbered, value, origin, line, variables, otherwise, overridden: null };
}

function storedRow({ path, value, overridden }: StoredSetting): OriginRow {
  return { path, numbered: null, value, origin: "store", line: null, variables: [], otherwise: null, overridden };
}

function valueText({ value, otherwise }: OriginRow): string {
  if (value === null) return otherwise === null ? "not set" : otherwise;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length <= valueCharactersMax ? text : `${text.slice(0, valueCharactersMax)}…`;
}

const valueCharactersMax = 80;

function originText({ origin, line, variables, overridden }: OriginRow, { file }: ExplainedConfiguration): string {
  const place = file === null || line === null ? null : `${file}:${line}`;
  switch (origin) {
    case "file":
      return place ?? "file";
    case "environment":
      return [place, variables.join(", ")].filter((part) => part !== null).join(" ");
    case "store":
      return overridden === null ? "store" : `store, not used: ${overridden} defines it`;
    case "default":
      return "default";
  }
}

function rowJson({ overridden, numbered, ...row }: OriginRow, { file }: ExplainedConfiguration): Readonly<Record<string, unknown>> {
  const { path, value, origin, line, variables, otherwise } = row;
  return { path, numbered, value, origin, file: line === null ? null : file, line, variables, otherwise, overridden_by: overridden };
}
