import { Argument, Command, CommanderError, Option } from "commander";
import { addAccounts } from "./accounts/arguments.ts";
import { addAudit } from "./audit/arguments.ts";
import { addBackup } from "./backup/arguments.ts";
import { addConfig, type SchemaName } from "./config/arguments.ts";
import { addImport, type ImportRequest } from "./import/arguments.ts";
import { addChannels, type ChannelsRequest } from "./channels/arguments.ts";
import { commandTree } from "./completion/command-tree.ts";
import { completionScript, completionShells, type CompletionShell } from "./completion/completion-script.ts";
import type { StoreRequest } from "./command-registry.ts";
import type { RemoteOptions } from "./remote-gateway.ts";
import { addDoctor, type DoctorRequest } from "./doctor/arguments.ts";
import { addExplain } from "./explain/arguments.ts";
import { addGroups } from "./groups/groups-arguments.ts";
import { healthAddress } from "./health.ts";
import { addInit, type InitRequest } from "./init/arguments.ts";
import { addIssuers } from "./issuers/arguments.ts";
import { addKeys } from "./keys/keys-arguments.ts";
import { addLab } from "./lab/arguments.ts";
import { addOpen } from "./open/arguments.ts";
import { addPrices } from "./prices/arguments.ts";
import { addTail } from "./tail/arguments.ts";
import { addRequests } from "./requests/arguments.ts";
import { addUsage } from "./usage/arguments.ts";

/** A parsed command line. The caller carries it out. */
export type Invocation =
  | StartInvocation
  | { readonly command: "check"; readonly file: string | null; readonly json: boolean }
  | { readonly command: "health"; readonly address: string }
  | { readonly command: "models"; readonly config: string | null; readonly request: ModelsRequest }
  | { readonly command: "store"; readonly config: string | null; readonly request: StoreRequest; readonly remote?: RemoteOptions }
  | { readonly command: "import"; readonly request: ImportRequest }
  | { readonly command: "channels"; readonly config: string | null; readonly request: ChannelsRequest; readonly remote?: RemoteOptions }
  | { readonly command: "init"; readonly request: InitRequest }
  | { readonly command: "doctor"; readonly config: string | null; readonly request: DoctorRequest }
  | { readonly command: "schema"; readonly name: SchemaName }
  | { readonly command: "completion"; readonly text: string }
  | { readonly command: "help"; readonly text: string }
  | { readonly command: "version"; readonly text: string }
  | { readonly command: "usage-error"; readonly text: string; readonly exitCode: typeof usageExitCode };

export interface StartInvocation {
  readonly command: "start";
  readonly config: string | null;
  readonly listen: string | null;
  readonly admin: string | null;
  /** How many processes share the port. */
  readonly workers?: number;
  /** Set by the parent process for its workers: the number of this worker, and the port that overrides the settings. */
  readonly worker?: number;
  readonly workerPort?: number;
}

/** A command on the local models. */
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
    .option("--url <address>", "use the admin API of a gateway elsewhere, such as https://gateway:8081 (default: SLUICE_ADMIN_URL)")
    .option("--token <token>", "its admin token (default: SLUICE_ADMIN_TOKEN, or the file that SLUICE_ADMIN_TOKEN_FILE names)")
    .addHelpText("after", programExamples)
    .exitOverride()
    .configureOutput({ writeOut: collect, writeErr: collect, outputError: (text, write) => write(text) })
    .showSuggestionAfterError(true);

  program
    .command("start")
    .description("run the gateway")
    .option("-c, --config <file>", "the configuration file (default: SLUICE_CONFIG, else the environment)")
    .option("-l, --listen <host:port>", "the address for clients, or unix:PATH; overrides the file")
    .option("-a, --admin <host:port>", "the address of the admin API, or off (default: the file's, or the port after that of --listen)")
    .option("-w, --workers <number>", "how many processes share the port (default: 1)", Number)
    .addOption(new Option("--worker <number>").argParser(Number).hideHelp())
    .addOption(new Option("--worker-port <port>").argParser(Number).hideHelp())
    .addHelpText("after", startExamples)
    .action((options: { config?: string; listen?: string; admin?: string; workers?: number; worker?: number; workerPort?: number }) => {
      const { config = null, listen = null, admin = null, ...workers } = options;
      invocation = { command: "start", config, listen, admin, ...workers };
    });

  addInit(program, (request) => {
    invocation = { command: "init", request };
  });
  addDoctor(program, (config, request) => {
    invocation = { command: "doctor", config, request };
  });

  program
    .command("check")
    .description("check a configuration without starting anything")
    .argument("[file]", "the configuration file (default: SLUICE_CONFIG, else the environment)")
    .option("-c, --config <file>", "the same as [file]")
    .option("--json", "print the result as JSON")
    .addHelpText("after", checkExamples)
    .action((file: string | undefined, options: { config?: string; json?: boolean }) => {
      invocation =
        file !== undefined && options.config !== undefined && file !== options.config
          ? usageError("error: two different files are given", "Name the file once, as in: sluice check sluice.yaml")
          : { command: "check", file: file ?? options.config ?? null, json: options.json ?? false };
    });

  program
    .command("health")
    .description("ask a running gateway whether it serves calls")
    .argument("[address]", "where it listens for clients", healthAddress)
    .addHelpText("after", healthExamples)
    .action((address: string) => {
      invocation = { command: "health", address };
    });

  const models = program
    .command("models")
    .description("list, add and remove models that run on this machine")
    .addHelpText("after", modelsExamples);
  const configOption = [
    "-c, --config <file>",
    "the configuration file, whose data_dir is used (default: SLUICE_CONFIG, else the environment)",
  ] as const;

  models
    .command("list", { isDefault: true })
    .description("list the installed models, and those that can be added")
    .option("--json", "print them as JSON")
    .option(...configOption)
    .addHelpText("after", modelsExamples)
    .action((options: { config?: string; json?: boolean }) => {
      invocation = { command: "models", config: options.config ?? null, request: { act: "list", json: options.json ?? false } };
    });

  for (const [act, description] of [
    ["add", "download a model with npm and verify it; continues an interrupted download"],
    ["remove", "delete an added model, or a partial download"],
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

  const onRequest = (config: string | undefined, request: StoreRequest): void => {
    invocation = { command: "store", config: config ?? null, request };
  };
  const groups = [
    addKeys,
    addGroups,
    addIssuers,
    addUsage,
    addRequests,
    addAudit,
    addPrices,
    addAccounts,
    addBackup,
    addExplain,
    addOpen,
    addTail,
    addLab,
  ];
  for (const add of groups) {
    add({ program, onRequest });
  }

  addConfig({ program, onRequest }, (name) => {
    invocation = { command: "schema", name };
  });
  addChannels({ program, onRequest }, (config, request) => {
    invocation = { command: "channels", config, request };
  });
  addImport(program, (request) => {
    invocation = { command: "import", request };
  });

  program
    .command("completion")
    .description("print a script that completes these commands in a shell")
    .addArgument(new Argument("<shell>", "the shell").choices(completionShells))
    .addHelpText("after", completionExamples)
    .action((shell: CompletionShell) => {
      invocation = { command: "completion", text: completionScript(shell, commandTree(program)) };
    });

  if (args.length === 0) return { command: "help", text: program.helpInformation() + programExamples };
  try {
    program.parse([...args], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.version") return { command: "version", text: printed.trim() };
    if (error.exitCode === 0) return { command: "help", text: printed };
    const path = commandIn(program, args);
    const unknown = error.code === "commander.excessArguments" ? unknownCommand(program, path, args) : null;
    return usageError(unknown ?? printed.trim(), `See ${["sluice", ...path].join(" ")} --help`);
  }
  const done: Invocation = invocation ?? { command: "help", text: program.helpInformation() + programExamples };
  const remote = program.opts<RemoteOptions>();
  return Object.keys(remote).length === 0 ? done : withRemote(done, remote);
}

/** A gateway elsewhere is for the commands that manage one. */
function withRemote(invocation: Invocation, remote: RemoteOptions): Invocation {
  if (invocation.command === "usage-error") return invocation;
  if (invocation.command !== "store" && invocation.command !== "channels") {
    return usageError(
      `error: --url and --token are not for sluice ${invocation.command}`,
      "It works on the machine of the gateway, or on this one, and not through the admin API: leave them out, and run it there.",
    );
  }
  if (invocation.config !== null && remote.url !== undefined) {
    return usageError(
      "error: --url and --config are both given",
      "A command uses a gateway elsewhere, or the store of a configuration: choose one.",
    );
  }
  return { ...invocation, remote };
}

/** The command that was meant, as far as it can be told: its own help is more useful than that of the program. */
function commandIn(program: Command, [word, ...rest]: readonly string[]): readonly string[] {
  const inner = program.commands.find((command) => command.name() === word);
  return inner === undefined ? [] : [inner.name(), ...commandIn(inner, rest)];
}

/** A group of commands passes an unknown word to its default command, which would complain of too many arguments. */
function unknownCommand(program: Command, path: readonly string[], args: readonly string[]): string | null {
  const group = path.reduce<Command | undefined>((command, name) => command?.commands.find((inner) => inner.name() === name), program);
  const word = args[path.length];
  return group === undefined || group.commands.length === 0 || word === undefined ? null : `error: unknown command '${word}'`;
}

function usageError(text: string, hint: string): Invocation {
  return { command: "usage-error", text: `${text}\n${hint}`, exitCode: usageExitCode };
}

const programExamples = `
Examples:
  $ sluice start                           every provider key in the environment becomes a channel
  $ sluice start --config sluice.yaml      run with a configuration file
  $ sluice init                            write a configuration file
  $ sluice check sluice.yaml               check the file before using it
  $ sluice doctor                          what is wrong with this machine, and how to fix it
  $ sluice config explain                  every setting, and where its value comes from
  $ sluice models list                     the models of this machine
  $ sluice keys create laptop              a key for a client
  $ sluice usage --since 24h --by key      what was used, and what it cost
  $ sluice --url https://gateway:8081 --token sk-gwa_… keys list
                                           through the admin API of a gateway elsewhere
`;

const startExamples = `
Examples:
  $ sluice start
  $ sluice start --config /etc/sluice.yaml
  $ sluice start --listen 0.0.0.0:4400
  $ sluice start --workers 4               four processes on one port

The file is reloaded when it changes and on SIGHUP. If it has mistakes, the running configuration stays in use.
`;

const completionExamples = `
Examples:
  $ sluice completion bash > ~/.local/share/bash-completion/completions/sluice
  $ sluice completion zsh > ~/.zfunc/_sluice          with fpath+=~/.zfunc before compinit
  $ sluice completion fish > ~/.config/fish/completions/sluice.fish
`;

const checkExamples = `
Examples:
  $ sluice check sluice.yaml
  $ sluice check --config sluice.yaml --json

The exit code is 0 if the configuration can be used, and 78 if it cannot.
`;

const healthExamples = `
Examples:
  $ sluice health
  $ sluice health https://127.0.0.1:8443
  $ sluice health unix:/run/sluice/sluice.sock

The exit code is 0 if it does, and 1 if it does not or is about to end.
`;

const modelsExamples = `
Examples:
  $ sluice models list
  $ sluice models list --json
  $ sluice models add whisper-tiny
  $ sluice models remove whisper-tiny

Models are downloaded with npm, from the registry that npm is configured for, and stored in data_dir/models.
`;
