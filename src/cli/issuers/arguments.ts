import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";

export type IssuersRequest = { readonly on: "issuers"; readonly json: boolean } & (
  | { readonly act: "blocked" }
  | { readonly act: "block" | "unblock"; readonly issuer: string; readonly subject: string | null }
);

export function addIssuers({ program, onRequest }: CommandRegistry): void {
  const issuers = program
    .command("issuers")
    .description("manage whose tokens are accepted in place of keys")
    .addHelpText("after", examples);

  issuers
    .command("blocked", { isDefault: true })
    .description("list the blocked subjects and issuers")
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", examples)
    .action(({ config, json = false }: CommonOptions) => onRequest(config, { on: "issuers", act: "blocked", json }));

  for (const [act, description] of [
    ["block", "refuse the tokens of a subject, or all of the issuer, and end their running calls"],
    ["unblock", "accept them again"],
  ] as const) {
    issuers
      .command(act)
      .description(description)
      .argument("<issuer>", "its name under token_issuers in the configuration")
      .argument("[subject]", "the `sub` of its tokens (default: all)")
      .option(...jsonOption)
      .option(...configOption)
      .addHelpText("after", examples)
      .action((issuer: string, subject: string | undefined, { config, json = false }: CommonOptions) =>
        onRequest(config, { on: "issuers", act, json, issuer, subject: subject ?? null }),
      );
  }
}

const examples = `
Examples:
  $ sluice issuers blocked
  $ sluice issuers block ci repo:acme/app:ref:refs/heads/main
  $ sluice issuers block ci
  $ sluice issuers unblock ci
`;
