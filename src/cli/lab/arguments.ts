import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";
import { choice, line, wholeNumber } from "../option-values.ts";

/** Lets calls meet a fault on purpose, in a running gateway. */
export type LabRequest = { readonly on: "lab"; readonly json: boolean } & (
  | { readonly act: "list" }
  | {
      readonly act: "run";
      readonly scenario: string;
      readonly calls: number;
      readonly rate: number;
      /** Null: the usual one of the scenario. */
      readonly mode: "streamed" | "whole" | null;
    }
);

export function addLab({ program, onRequest }: CommandRegistry): void {
  const lab = program.command("lab").description("break a channel on purpose, and watch the failover").addHelpText("after", labExamples);

  lab
    .command("list", { isDefault: true })
    .description("list the faults, and what should happen then")
    .option(...jsonOption)
    .option(...configOption)
    .action(({ config, json = false }: CommonOptions) => onRequest(config, { on: "lab", act: "list", json }));

  lab
    .command("run")
    .description("make calls that meet a fault, and tell whether the outcome is as promised")
    .argument("<scenario>", "its name, see sluice lab", line(64))
    .option("--calls <n>", "how many calls to make", wholeNumber(1, 200), 6)
    .option("--rate <n>", "how many of them begin in a second", wholeNumber(1, 50), 2)
    .option("--mode <mode>", "streamed or whole answers, if the scenario has both", choice(["streamed", "whole"]))
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", labExamples)
    .action((scenario: string, options: CommonOptions & { calls: number; rate: number; mode?: "streamed" | "whole" }) => {
      const { config, json = false, calls, rate, mode = null } = options;
      onRequest(config, { on: "lab", act: "run", json, scenario, calls, rate, mode });
    });
}

const labExamples = `
Examples:
  $ sluice lab                                  the scenarios
  $ sluice lab run cut-stream
  $ sluice lab run rate-limit --calls 20 --rate 5
  $ sluice lab run server-error --mode whole --json

The exit code is 0 if the outcome is as promised, else 1. The calls are made by the gateway that runs with this
configuration, on channels of their own: no client, no key, no receipt and no provider has part in it.
`;
