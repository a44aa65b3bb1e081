import type { Command } from "commander";
import { line, several } from "../option-values.ts";

/** What `sluice init` was told; what is null is asked for, or gets its default. */
export interface InitRequest {
  readonly file: string;
  readonly provider: string | null;
  readonly baseUrl: string | null;
  readonly resource: string | null;
  readonly region: string | null;
  readonly apiKeyEnv: string | null;
  readonly apiKeyFile: string | null;
  readonly models: readonly string[] | null;
  readonly listen: string | null;
  readonly dataDir: string;
  readonly adminAccount: string | null;
  readonly yes: boolean;
  readonly force: boolean;
  readonly json: boolean;
}

export function addInit(program: Command, onRequest: (request: InitRequest) => void): void {
  const text = line(textCharactersMax);
  program
    .command("init")
    .description("ask a few questions, and write a commented configuration file")
    .argument("[file]", "the file to write", "sluice.yaml")
    .option("--provider <name>", "the provider of the first channel, such as those in docs/configuration.md", text)
    .option("--base-url <url>", "the address of the upstream, for a server of your own", text)
    .option("--resource <name>", "what some providers call a resource or a project", text)
    .option("--region <name>", "the region, for providers that have regions", text)
    .option("--api-key-env <variable>", "the environment variable with the API key (default: the provider's usual one)", text)
    .option("--api-key-file <file>", "the file with the API key", text)
    .option("--models <models>", "the models, separated by commas (default: all that the upstream lists)", several(text))
    .option(
      "--listen <host:port>",
      "the address for clients (default: 127.0.0.1:4400); the admin API gets the next port of this machine",
      text,
    )
    .option("--data-dir <folder>", "where keys and receipts are kept", text, "./data")
    .option("--admin-account <name>", "create this admin account; without a terminal, its password is read from standard input", text)
    .option("-y, --yes", "ask nothing: what is not given gets its default")
    .option("--force", "overwrite the file if it exists")
    .option("--json", "print the result as JSON")
    .addHelpText("after", initExamples)
    .action((file: string, options: Partial<Omit<InitRequest, "file">>) => {
      const { provider = null, baseUrl = null, resource = null, region = null, apiKeyEnv = null, apiKeyFile = null } = options;
      const { models = null, listen = null, dataDir = "./data", adminAccount = null } = options;
      const { yes = false, force = false, json = false } = options;
      const where = { provider, baseUrl, resource, region, apiKeyEnv, apiKeyFile };
      onRequest({ file, ...where, models, listen, dataDir, adminAccount, yes, force, json });
    });
}

const textCharactersMax = 1000;

const initExamples = `
Examples:
  $ sluice init
  $ sluice init --yes                                  the models of this machine
  $ sluice init /etc/sluice.yaml --yes --provider NAME --listen 0.0.0.0:4400
  $ sluice init --yes --base-url https://llm.example.com/v1 --api-key-env LLM_KEY --models small,large
  $ sluice init --yes --admin-account ada < password   the password of the account on standard input

A key that is typed is stored in a file of its own beside the configuration, which only its owner can read.
`;
