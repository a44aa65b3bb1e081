import type { Command } from "commander";

/** What another gateway's configuration is to be made into. */
export interface ImportRequest {
  readonly from: ImportSource;
  readonly file: string;
  /** Null: standard output. */
  readonly output: string | null;
}

export const importSources = ["litellm", "portkey", "one-api"] as const;
export type ImportSource = (typeof importSources)[number];

export const importMeanings: Readonly<Record<ImportSource, string>> = {
  litellm: "the config.yaml of a LiteLLM proxy",
  portkey: "a gateway config of Portkey, as JSON",
  "one-api": "the list of channels of One API, as its GET /api/channel/ returns it",
};

export function addImport(program: Command, onRequest: (request: ImportRequest) => void): void {
  const group = program
    .command("import")
    .description("make a configuration of another gateway's, and say what could not be carried over")
    .addHelpText("after", importExamples);
  for (const from of importSources) {
    group
      .command(from)
      .description(importMeanings[from])
      .argument("<file>", "the file to read")
      .option("-o, --output <file>", "write the configuration to this new file (default: standard output)")
      .addHelpText("after", importExamples)
      .action((file: string, options: { output?: string }) => onRequest({ from, file, output: options.output ?? null }));
  }
}

const importExamples = `
Examples:
  $ sluice import litellm config.yaml                  print the configuration, and notes on standard error
  $ sluice import litellm config.yaml -o sluice.yaml   write it to a new file
  $ sluice check sluice.yaml                           check the result

Secrets stay out of the result: it refers to variables, and the notes say what belongs into each.
`;
