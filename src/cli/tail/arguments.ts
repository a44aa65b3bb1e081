import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";

/** Follows the calls of a running gateway. */
export interface TailRequest {
  readonly on: "tail";
  readonly json: boolean;
  /** Only calls that did not succeed. */
  readonly failed: boolean;
  /** Words that a line must contain; empty for all. */
  readonly words: readonly string[];
}

export function addTail({ program, onRequest }: CommandRegistry): void {
  program
    .command("tail")
    .description("follow the calls of a running gateway, one line when each ends")
    .argument("[words...]", "only lines with all of these words: a model, a key, a channel, a status")
    .option("--failed", "only calls that did not succeed")
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", tailExamples)
    .action((words: string[], { config, json = false, failed = false }: CommonOptions & { failed?: boolean }) =>
      onRequest(config, { on: "tail", json, failed, words }),
    );
}

const tailExamples = `
Examples:
  $ sluice tail
  $ sluice tail --failed
  $ sluice tail fast laptop                calls of one model and key
  $ sluice tail --json | jq .model         one JSON object on each line

It asks the admin API of the gateway that runs with this configuration, and ends with it or with Ctrl-C.
`;
