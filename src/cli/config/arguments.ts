import { Option } from "commander";
import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";

/** A command on the configuration, or on the contents of the store as a file. */
export type ConfigRequest =
  | { readonly on: "config"; readonly act: "explain"; readonly paths: readonly string[]; readonly all: boolean; readonly json: boolean }
  | {
      readonly on: "config";
      readonly act: "export";
      readonly only: readonly ExportedList[] | null;
      readonly keyVariables: boolean;
      /** Null: standard output. */
      readonly output: string | null;
      readonly json: boolean;
    }
  | { readonly on: "config"; readonly act: "diff"; readonly file: string; readonly prune: boolean; readonly json: boolean }
  | {
      readonly on: "config";
      readonly act: "apply";
      readonly file: string;
      readonly prune: boolean;
      readonly dryRun: boolean;
      readonly json: boolean;
    };

const exportedLists = ["channels", "groups", "keys", "prices"] as const;
type ExportedList = (typeof exportedLists)[number];

/** Which of the two JSON Schemas. */
export type SchemaName = "configuration" | "resources";

export function addConfig({ program, onRequest }: CommandRegistry, onSchema: (name: SchemaName) => void): void {
  const config = program
    .command("config")
    .description("explain the configuration; export, compare and apply the contents of the store")
    .addHelpText("after", configExamples);

  config
    .command("explain")
    .description("show every setting, its value and where it comes from: the file, the environment, the store or the default")
    .argument("[path...]", "only these settings and what is in them, such as routing or channels.main.timeouts")
    .option("--no-defaults", "leave out settings that have their default")
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", configExamples)
    .action((paths: string[], { config: file, json = false, defaults }: CommonOptions & { defaults: boolean }) =>
      onRequest(file, { on: "config", act: "explain", paths, all: defaults, json }),
    );

  config
    .command("export")
    .description("print the channels, groups, keys and prices of the store as a resource file, with variables in place of secrets")
    .addOption(new Option("--only <lists...>", "only these lists").choices(exportedLists))
    .option("--key-variables", "variables in place of the hashes of keys, which fit this store and its backups only")
    .option("-o, --output <file>", "write it to this new file, with its JSON Schema beside it (default: standard output)")
    .option("--json", "print JSON, which is YAML as well")
    .option(...configOption)
    .addHelpText("after", configExamples)
    .action(({ config: file, json = false, only, keyVariables = false, output }: ExportArguments) =>
      onRequest(file, { on: "config", act: "export", only: only ?? null, keyVariables, output: output ?? null, json }),
    );

  config
    .command("diff")
    .description("compare a resource file with the store, and say what apply would change")
    .argument("<file>", "the resource file")
    .option(...pruneOption)
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", exitCodesHelp)
    .action((file: string, { config: own, json = false, prune = false }: CommonOptions & { prune?: boolean }) =>
      onRequest(own, { on: "config", act: "diff", file, prune, json }),
    );

  config
    .command("apply")
    .description("make the store say what a resource file says: all of it, or nothing if something is wrong")
    .argument("<file>", "the resource file")
    .option("--dry-run", "make the changes and take them back, which finds what diff does not try; exit codes are those of diff")
    .option(...pruneOption)
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", exitCodesHelp)
    .action(
      (file: string, { config: own, json = false, prune = false, dryRun = false }: CommonOptions & { prune?: boolean; dryRun?: boolean }) =>
        onRequest(own, { on: "config", act: "apply", file, prune, dryRun, json }),
    );

  config
    .command("schema")
    .description("print the JSON Schema of the configuration file, with which editors complete and check it")
    .option("--resources", "that of resource files instead")
    .addHelpText("after", configExamples)
    .action(({ resources = false }: { resources?: boolean }) => onSchema(resources ? "resources" : "configuration"));
}

interface ExportArguments extends CommonOptions {
  readonly only?: readonly ExportedList[];
  readonly keyVariables?: boolean;
  readonly output?: string;
}

const pruneOption = ["--prune", "also remove channels, groups and prices, and revoke keys, that the file does not list"] as const;

const configExamples = `
Examples:
  $ sluice config explain --config sluice.yaml
  $ sluice config explain channels.main.timeouts --no-defaults
  $ sluice config export -o resources.yaml
  $ sluice config diff resources.yaml
  $ sluice config apply resources.yaml --dry-run
  $ sluice config schema > sluice.schema.json
`;

const exitCodesHelp = `
The exit code of diff and of apply --dry-run is 0 if nothing differs, 2 if something does, and another number after an error.
Channels, groups and keys that the configuration file defines are changed there: a resource file cannot override them.
`;
