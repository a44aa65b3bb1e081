import type { Command } from "commander";
import { roles, type Role } from "../../gateway/storage.ts";
import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";
import { choice, duration, line } from "../option-values.ts";

export type AccountsRequest = { readonly on: "accounts"; readonly json: boolean } & (
  | { readonly act: "list" }
  | { readonly act: "create"; readonly name: string; readonly role: Role; readonly group: string | undefined }
  | { readonly act: "password" | "disable" | "enable" | "end-sessions"; readonly name: string }
  | { readonly act: "remove"; readonly name: string; readonly yes: boolean }
  | { readonly act: "allow-local"; readonly forMs: number }
  | { readonly act: "tokens" }
  | { readonly act: "create-token"; readonly name: string; readonly role: Role; readonly group: string | undefined }
  | { readonly act: "revoke-token"; readonly name: string }
);

const roleOption = [
  "--role <role>",
  "admin (may change things), viewer (may only read) or group_admin (sees and manages one group)",
  choice<Role>(roles),
] as const;
const groupOption = ["--group <group>", "the group of a group_admin, by id or name", line(200)] as const;

export function addAccounts({ program, onRequest }: CommandRegistry): void {
  const accounts = program.command("accounts").description("manage who may use the admin API").addHelpText("after", accountsExamples);
  const command = (parent: Command, name: string, description: string, isDefault = false): Command =>
    parent
      .command(name, { isDefault })
      .description(description)
      .option(...jsonOption)
      .option(...configOption)
      .addHelpText("after", parent === accounts ? accountsExamples : tokensExamples);

  command(accounts, "list", "list the accounts", true).action(({ config, json = false }: CommonOptions) =>
    onRequest(config, { on: "accounts", act: "list", json }),
  );

  command(accounts, "create", "create an account; its password is prompted for, or read from standard input")
    .argument("<name>", "letters, digits and . _ @ + -")
    .requiredOption(...roleOption)
    .option(...groupOption)
    .action((name: string, { config, json = false, role, group }: CommonOptions & { role: Role; group?: string }) =>
      onRequest(config, { on: "accounts", act: "create", json, name, role, group }),
    );

  for (const [act, description] of [
    ["password", "set a new password, prompted for or read from standard input; ends the account's sessions"],
    ["disable", "stop an account from logging in, and end its sessions"],
    ["enable", "let an account log in again"],
  ] as const) {
    command(accounts, act, description)
      .argument("<name>")
      .action((name: string, { config, json = false }: CommonOptions) => onRequest(config, { on: "accounts", act, json, name }));
  }

  command(accounts, "remove", "remove an account, and end its sessions")
    .argument("<name>")
    .option("-y, --yes", "do not ask for confirmation")
    .action((name: string, { config, json = false, yes = false }: CommonOptions & { yes?: boolean }) =>
      onRequest(config, { on: "accounts", act: "remove", json, name, yes }),
    );

  command(accounts, "end-sessions", "end all sessions of a person, such as one who signed in with a provider and has left")
    .argument("<name>", "the account, or the name in the audit log, such as oidc:ada@example.com")
    .action((name: string, { config, json = false }: CommonOptions) =>
      onRequest(config, { on: "accounts", act: "end-sessions", json, name }),
    );

  command(accounts, "allow-local", "let local accounts log in for a while, although sign_in.local_accounts is off")
    .option("--for <time>", "for how long, up to 24h; 0 ends it", duration(24 * 3_600_000, "24h"), 3_600_000)
    .action(({ config, json = false, for: forMs }: CommonOptions & { for: number }) =>
      onRequest(config, { on: "accounts", act: "allow-local", json, forMs }),
    );

  const tokens = accounts.command("tokens").description("manage the admin tokens of machines").addHelpText("after", tokensExamples);

  command(tokens, "list", "list the tokens, without their secrets", true).action(({ config, json = false }: CommonOptions) =>
    onRequest(config, { on: "accounts", act: "tokens", json }),
  );

  command(tokens, "create", "create a token; it is printed only once")
    .argument("<name>", "letters, digits and . _ @ + -")
    .requiredOption(...roleOption)
    .option(...groupOption)
    .action((name: string, { config, json = false, role, group }: CommonOptions & { role: Role; group?: string }) =>
      onRequest(config, { on: "accounts", act: "create-token", json, name, role, group }),
    );

  command(tokens, "revoke", "revoke a token for good")
    .argument("<name>")
    .action((name: string, { config, json = false }: CommonOptions) =>
      onRequest(config, { on: "accounts", act: "revoke-token", json, name }),
    );
}

const accountsExamples = `
Examples:
  $ sluice accounts list
  $ sluice accounts create ada --role admin
  $ sluice accounts create bob --role viewer < password.txt
  $ sluice accounts create eve --role group_admin --group web
  $ sluice accounts password ada
  $ sluice accounts disable bob
  $ sluice accounts end-sessions oidc:ada@example.com
  $ sluice accounts allow-local --for 30m
  $ sluice accounts tokens create monitoring --role viewer
`;

const tokensExamples = `
Examples:
  $ sluice accounts tokens list
  $ sluice accounts tokens create monitoring --role viewer
  $ sluice accounts tokens revoke monitoring
`;
