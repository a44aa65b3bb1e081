import { Command, CommanderError } from "commander";

/** What the command line asks for. Nothing is done here: whoever holds the parts carries it out. */
export type Invocation =
  | { readonly command: "start"; readonly config: string | null; readonly listen: string | null }
  | { readonly command: "check"; readonly file: string | null; readonly json: boolean }
  | { readonly command: "help"; readonly text: string }
  | { readonly command: "version"; readonly text: string }
  | { readonly command: "mistake"; readonly text: string; readonly exitCode: typeof usageExitCode };

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
    .addHelpText("after", startExamples)
    .action((options: { config?: string; listen?: string }) => {
      invocation = { command: "start", config: options.config ?? null, listen: options.listen ?? null };
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

  if (args.length === 0) return { command: "help", text: program.helpInformation() + programExamples };
  try {
    program.parse([...args], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.version") return { command: "version", text: printed.trim() };
    if (error.exitCode === 0) return { command: "help", text: printed };
    return mistake(printed.trim(), "See sluice --help");
  }
  return invocation ?? { command: "help", text: program.helpInformation() + programExamples };
}

function mistake(text: string, mend: string): Invocation {
  return { command: "mistake", text: `${text}\n${mend}`, exitCode: usageExitCode };
}

const programExamples = `
Examples:
  $ sluice start                           every provider key in the environment becomes a channel
  $ sluice start --config sluice.yaml      run with a configuration file
  $ sluice check sluice.yaml               look for mistakes first
`;

const startExamples = `
Examples:
  $ sluice start
  $ sluice start --config /etc/sluice.yaml
  $ sluice start --listen 0.0.0.0:4400

The file is read again when it changes and on SIGHUP; a file with mistakes changes nothing.
`;

const checkExamples = `
Examples:
  $ sluice check sluice.yaml
  $ sluice check --config sluice.yaml --json

Exits with 0 when the file can be used, and with 78 when it cannot.
`;
