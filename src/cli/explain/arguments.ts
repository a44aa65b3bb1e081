import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";
import { line } from "../option-values.ts";

/** Tells what happened to a call. */
export interface ExplainCallRequest {
  readonly on: "explain";
  readonly json: boolean;
  readonly id: string;
}

export function addExplain({ program, onRequest }: CommandRegistry): void {
  program
    .command("explain")
    .description("tell what happened to a call: its attempts, its cost, and why it went where it went")
    .argument("<id>", "its request id (`x-request-id`), or the id of its receipt", line(200))
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", explainExamples)
    .action((id: string, { config, json = false }: CommonOptions) => onRequest(config, { on: "explain", json, id }));
}

const explainExamples = `
Examples:
  $ sluice explain req_019a2f6e4c7b7d3c9f0a5b6c7d8e9f00
  $ sluice explain req_019a2f6e4c7b7d3c9f0a5b6c7d8e9f00 --json | jq .attempts

Prompts and answers are not stored, so that they are not shown.
`;
