import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";

/** Opens the console. */
export interface OpenRequest {
  readonly on: "open";
  readonly json: boolean;
  /** Null: the only admin. */
  readonly account: string | null;
  /** Print the link, and start no browser. */
  readonly print: boolean;
}

export function addOpen({ program, onRequest }: CommandRegistry): void {
  program
    .command("open")
    .description("open the console of a running gateway, signed in by a link that works once")
    .option("--account <name>", "sign in as this account (default: the only admin)")
    .option("--print", "print the link, and start no browser")
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", openExamples)
    .action(({ config, json = false, account, print = false }: CommonOptions & { account?: string; print?: boolean }) =>
      onRequest(config, { on: "open", json, account: account ?? null, print: print || json }),
    );
}

const openExamples = `
Examples:
  $ sluice open
  $ sluice open --account ada --print      to open it in a browser of your own

The link works once, within two minutes.
`;
