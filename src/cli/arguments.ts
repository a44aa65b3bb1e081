import { Argument } from "commander";
import { addAccounts } from "./accounts/arguments.ts";
import { addAudit } from "./audit/arguments.ts";
import { addBackup } from "./backup/arguments.ts";
import { addConfig } from "./config/arguments.ts";
import { addImport } from "./import/arguments.ts";
import { addChannels } from "./channels/arguments.ts";
import { commandTree } from "./completion/command-tree.ts";
import { completionScript, completionShells, type CompletionShell } from "./completion/completion-script.ts";
import type { StoreRequest } from "./command-registry.ts";
import { addDoctor } from "./doctor/arguments.ts";
import { addExplain } from "./explain/arguments.ts";
import { addGroups } from "./groups/groups-arguments.ts";
import { addInit } from "./init/arguments.ts";
import type { Invocation } from "./invocation.ts";
import { addIssuers } from "./issuers/arguments.ts";
import { addKeys } from "./keys/keys-arguments.ts";
import { addLab } from "./lab/arguments.ts";
import { addOpen } from "./open/arguments.ts";
import { addPrices } from "./prices/arguments.ts";
import { addStart, parseWith, usageError, type AddCommands } from "./program.ts";
import { addTail } from "./tail/arguments.ts";
import { addRequests } from "./requests/arguments.ts";
import { addUsage } from "./usage/arguments.ts";

/** Reads the arguments after the program's own name. */
export function parseArguments(args: readonly string[], version: string): Invocation {
  return parseWith(addCommands, args, version);
}

const addCommands: AddCommands = (program, give) => {
  addStart(program, give);
  addInit(program, (request) => {
    give({ command: "init", request });
  });
  addDoctor(program, (config, request) => {
    give({ command: "doctor", config, request });
  });

  program
    .command("check")
    .description("check a configuration without starting anything")
    .argument("[file]", "the configuration file (default: SLUICE_CONFIG, else the environment)")
    .option("-c, --config <file>", "the same as [file]")
    .option("--json", "print the result as JSON")
    .addHelpText("after", checkExamples)
    .action((file: string | undefined, options: { config?: string; json?: boolean }) => {
      give(
        file !== undefined && options.config !== undefined && file !== options.config
          ? usageError("error: two different files are given", "Name the file once, as in: sluice check sluice.yaml")
          : { command: "check", file: file ?? options.config ?? null, json: options.json ?? false },
      );
    });

  program
    .command("health")
    .description("ask a running gateway whether it serves calls")
    .argument("[address]", "where it listens for clients (default: SLUICE_HEALTH_URL, else http://127.0.0.1:4400)")
    .addHelpText("after", healthExamples)
    .action((address: string | undefined) => {
      give({ command: "health", address: address ?? null });
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
      give({ command: "models", config: options.config ?? null, request: { act: "list", json: options.json ?? false } });
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
        give({ command: "models", config: options.config ?? null, request: { act, name } });
      });
  }

  const onRequest = (config: string | undefined, request: StoreRequest): void => {
    give({ command: "store", config: config ?? null, request });
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
    give({ command: "schema", name });
  });
  addChannels({ program, onRequest }, (config, request) => {
    give({ command: "channels", config, request });
  });
  addImport(program, (request) => {
    give({ command: "import", request });
  });

  program
    .command("completion")
    .description("print a script that completes these commands in a shell")
    .addArgument(new Argument("<shell>", "the shell").choices(completionShells))
    .addHelpText("after", completionExamples)
    .action((shell: CompletionShell) => {
      give({ command: "completion", text: completionScript(shell, commandTree(program)) });
    });
};

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
