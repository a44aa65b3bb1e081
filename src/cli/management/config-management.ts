import { applyResources } from "../../manage/resource-file/apply.ts";
import type { ResourceChange } from "../../manage/resource-file/desired-resources.ts";
import { exportedResources, type ExportedResources, type ExportOptions } from "../../manage/resource-file/exported-resources.ts";
import { plannedChanges } from "../../manage/resource-file/planned-changes.ts";
import { storedSettings, type StoredSetting, type StoredSettings } from "../../manage/resource-file/stored-settings.ts";
import type { RunningAdminApi } from "../admin-api.ts";
import type { CommandContext, CommandSurroundings, ExplainedConfiguration, OpenStore } from "../command-context.ts";
import { CommandError, exitCodes, orThrow } from "../command-error.ts";
import { queryText } from "./api-paths.ts";

/** The configuration, and the contents of the store as a resource file. */
export interface ConfigManagement {
  configuration(): Promise<ExplainedConfiguration>;
  storedSettings(paths: readonly string[]): Promise<StoredSettings>;
  exportedResources(options: ExportOptions): Promise<ExportedResources>;
  /** What differs between a file and the store. */
  compareResources(file: string, prune: boolean): Promise<readonly ResourceChange[]>;
  /** Makes the store say what a file says. Returns what changed. */
  applyResources(file: string, options: { readonly prune: boolean; readonly dryRun: boolean }): Promise<readonly ResourceChange[]>;
}

/** For a store that does not exist yet, and must not be made by a question. */
export function storelessConfiguration({ explained }: CommandContext): Pick<ConfigManagement, "configuration" | "storedSettings"> {
  return { configuration: explained, storedSettings: () => Promise.resolve({ rows: [], notes: [] }) };
}

export function storeConfigManagement(store: OpenStore, context: CommandContext): ConfigManagement {
  const desired = async (file: string) => {
    const reading = await context.readResources(file);
    if ("problems" in reading) throw unusable(reading.problems);
    return reading.desired;
  };
  return {
    configuration: context.explained,
    storedSettings: (paths) => storedSettings(store, paths),
    exportedResources: (options) => exportedResources(store, options),
    compareResources: async (file, prune) => orThrow(await plannedChanges(store, await desired(file), prune)).map(({ change }) => change),
    applyResources: async (file, options) => orThrow(await applyResources(store, await desired(file), { ...options, file }, context.actor)),
  };
}

/** The file is read here, with the variables of this machine, and understood by the gateway. */
export function apiConfigManagement(api: RunningAdminApi, { readResourceText }: CommandSurroundings): ConfigManagement {
  const sent = async (file: string) => {
    const reading = await readResourceText(file);
    if ("problems" in reading) throw unusable(reading.problems);
    return { file, text: reading.text, variables: reading.variables };
  };
  type Changes = { readonly changes: readonly ResourceChange[] };
  return {
    configuration: async () => {
      const { file, settings } = await api.json<ConfigurationView>("GET", "/configuration");
      return { file, rows: settings };
    },
    storedSettings: async (paths) => {
      const rows = new Map<string, StoredSetting>();
      const notes = new Set<string>();
      for (const path of paths.length === 0 ? [null] : paths) {
        const found = await api.json<StoredSettings>("GET", `/configuration/store${queryText({ path })}`);
        for (const row of found.rows) rows.set(row.path, row);
        for (const note of found.notes) notes.add(note);
      }
      return { rows: [...rows.values()], notes: [...notes] };
    },
    exportedResources: async ({ sections, keyVariables }) => {
      const query = queryText({ only: sections.join(","), key_variables: String(keyVariables) });
      const { document, variables } = await api.json<ResourcesView>("GET", `/resources${query}`);
      return { document, variables: new Map(Object.entries(variables)) };
    },
    compareResources: async (file, prune) => (await api.json<Changes>("POST", "/resources/diff", { ...(await sent(file)), prune })).changes,
    applyResources: async (file, { prune, dryRun }) =>
      (await api.json<Changes>("POST", "/resources/apply", { ...(await sent(file)), prune, dry_run: dryRun })).changes,
  };
}

/** The same exit code as where a gateway has read the file: a script must not take it for a change that was refused. */
function unusable(problems: readonly string[]): CommandError {
  return new CommandError(problems.join("\n"), exitCodes.usage);
}

interface ConfigurationView {
  readonly file: string | null;
  readonly settings: ExplainedConfiguration["rows"];
}

interface ResourcesView {
  readonly document: Readonly<Record<string, unknown>>;
  readonly variables: Readonly<Record<string, string>>;
}
