import { Command, CommanderError, Option } from "commander";
import { usageExitCode, type Invocation } from "./invocation.ts";
import type { RemoteOptions } from "./remote-gateway.ts";

/** Adds commands to the program. Each reports what it was asked for. */
export type AddCommands = (program: Command, give: (invocation: Invocation) => void) => void;

/** Reads a command line that begins with `start`. The other commands are forty modules that a gateway does not need. */
export function parseStart(args: readonly string[], version: string): Invocation {
  return parseWith(addStart, args, version);
}

/** Reads the arguments after the program's own name. */
export function parseWith(addCommands: AddCommands, args: readonly string[], version: string): Invocation {
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
    .option("--url <address>", "use the admin API of a gateway elsewhere, such as https://gateway:4401 (default: SLUICE_ADMIN_URL)")
    .option("--token <token>", "its admin token (default: SLUICE_ADMIN_TOKEN, or the file that SLUICE_ADMIN_TOKEN_FILE names)")
    .addHelpText("after", programExamples)
    .exitOverride()
    .configureOutput({ writeOut: collect, writeErr: collect, outputError: (text, write) => write(text) })
    .showSuggestionAfterError(true);

  addCommands(program, (given) => {
    invocation = given;
  });

  if (args.length === 0) return { command: "help", text: program.helpInformation() + programExamples };
  try {
    program.parse([...args], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.version") return { command: "version", text: printed.trim() };
    if (error.exitCode === 0) return { command: "help", text: printed };
    // A group without a command prints its help, which needs no hint.
    if (error.code === "commander.help") return usageError(printed.trim(), "");
    const path = commandIn(program, args);
    const unknown = error.code === "commander.excessArguments" ? unknownCommand(program, path, args) : null;
    return usageError(unknown ?? printed.trim(), `See ${["sluice", ...path].join(" ")} --help`);
  }
  const done: Invocation = invocation ?? { command: "help", text: program.helpInformation() + programExamples };
  const remote = program.opts<RemoteOptions>();
  return Object.keys(remote).length === 0 ? done : withRemote(done, remote);
}

/** Runs the gateway. */
export const addStart: AddCommands = (program, give) => {
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
      give({ command: "start", config, listen, admin, ...workers });
    });
};

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

export function usageError(text: string, hint: string): Invocation {
  return { command: "usage-error", text: `${text}\n${hint}`.trim(), exitCode: usageExitCode };
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
  $ sluice --url https://gateway:4401 --token sk-gwa_… keys list
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
