import type { Command } from "commander";
import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";
import {
  addFieldOptions,
  addLimitOptions,
  fieldsOf,
  limitsGiven,
  type FieldOptions,
  type KeyFields,
  type LimitOptions,
} from "./key-options.ts";
import type { LimitChange } from "./limit-change.ts";
import { duration, line, wholeNumber } from "../option-values.ts";

export type KeysRequest = { readonly on: "keys"; readonly json: boolean } & (
  | {
      readonly act: "create";
      readonly name: string;
      readonly fields: KeyFields;
      readonly limits: LimitChange | null;
      readonly imports: boolean;
    }
  | { readonly act: "list"; readonly search: string | null; readonly revoked: boolean; readonly limit: number }
  | { readonly act: "show"; readonly key: string }
  | { readonly act: "rotate"; readonly key: string; readonly overlapMs: number }
  | { readonly act: "revoke"; readonly key: string; readonly yes: boolean }
  | { readonly act: "limits"; readonly key: string; readonly change: LimitChange | null }
  | { readonly act: "edit"; readonly key: string; readonly fields: KeyFields }
);

const dayMs = 86_400_000;

export function addKeys({ program, onRequest }: CommandRegistry): void {
  const keys = program.command("keys").description("create, list, rotate and revoke client keys").addHelpText("after", keysExamples);
  const command = (name: string, description: string): Command =>
    keys
      .command(name)
      .description(description)
      .option(...configOption);
  const whose = ["<key>", "its id or name"] as const;

  const create = command("create", "create a key; it is printed only once")
    .argument("<name>", "the name of the key", line(200))
    .option("--import", "import an existing key of at least 32 characters from standard input")
    .option(...jsonOption);
  addLimitOptions(addFieldOptions(create, false), false)
    .addHelpText("after", createExamples)
    .action((name: string, options: CommonOptions & FieldOptions & LimitOptions & { import?: boolean }) => {
      const { config, json = false, import: imports = false } = options;
      onRequest(config, { on: "keys", act: "create", json, name, fields: fieldsOf(options), limits: limitsGiven(options), imports });
    });

  command("list", "list keys")
    .option("--search <text>", "only keys with this text in their name, owner, note or id", line(200))
    .option("--revoked", "include revoked keys")
    .option("--limit <n>", "how many to list at most", wholeNumber(1, 1_000_000), 1000)
    .option(...jsonOption)
    .addHelpText("after", listExamples)
    .action(({ config, json = false, search, revoked = false, limit }: CommonOptions & ListOptions) =>
      onRequest(config, { on: "keys", act: "list", json, search: search ?? null, revoked, limit }),
    );

  command("show", "show everything about a key except its token")
    .argument(...whose)
    .option(...jsonOption)
    .addHelpText("after", showExamples)
    .action((key: string, { config, json = false }: CommonOptions) => onRequest(config, { on: "keys", act: "show", json, key }));

  command("rotate", "give a key a new token, printed only once; the old one keeps working for a while")
    .argument(...whose)
    .option("--overlap <time>", "how long the old token keeps working, at most 7d (default: 24h)", duration(7 * dayMs, "7d"))
    .option(...jsonOption)
    .addHelpText("after", rotateExamples)
    .action((key: string, { config, json = false, overlap = dayMs }: CommonOptions & { overlap?: number }) =>
      onRequest(config, { on: "keys", act: "rotate", json, key, overlapMs: overlap }),
    );

  command("revoke", "revoke a key for good, and end its calls")
    .argument(...whose)
    .option("-y, --yes", "do not ask for confirmation")
    .option(...jsonOption)
    .addHelpText("after", revokeExamples)
    .action((key: string, { config, json = false, yes = false }: CommonOptions & { yes?: boolean }) =>
      onRequest(config, { on: "keys", act: "revoke", json, key, yes }),
    );

  addLimitOptions(command("limits", "show the limits of a key, or change some of them").argument(...whose), true)
    .option(...jsonOption)
    .addHelpText("after", limitsExamples)
    .action((key: string, options: CommonOptions & LimitOptions) =>
      onRequest(options.config, { on: "keys", act: "limits", json: options.json ?? false, key, change: limitsGiven(options) }),
    );

  addFieldOptions(
    command("edit", "change the name of a key, and what it may use")
      .argument(...whose)
      .option("--name <text>", "the name of the key", line(200)),
    true,
  )
    .option(...jsonOption)
    .addHelpText("after", editExamples)
    .action((key: string, options: CommonOptions & FieldOptions) =>
      onRequest(options.config, { on: "keys", act: "edit", json: options.json ?? false, key, fields: fieldsOf(options) }),
    );
}

interface ListOptions {
  readonly search?: string;
  readonly revoked?: boolean;
  readonly limit: number;
}

const keysExamples = `
Examples:
  $ sluice keys create laptop --owner ada --budget 20 --budget-period month
  $ sluice keys list
  $ sluice keys rotate laptop --overlap 24h
  $ sluice keys limits laptop --rpm 60
  $ sluice keys revoke laptop

A running gateway notices within a second.
`;

const createExamples = `
Examples:
  $ sluice keys create laptop
  $ sluice keys create ci --model 'small-*' --operation chat --rpm 60 --expires 30d
  $ sluice keys create team --budget 50 --budget-period month --per-model 'large-*:budget_usd=10,budget_period=month'
  $ sluice keys create old --import < old-key.txt
  $ KEY=$(sluice keys create script)

Only the key is written to standard output. It is not stored, and cannot be shown again.
`;

const listExamples = `
Examples:
  $ sluice keys list
  $ sluice keys list --search ada --revoked
  $ sluice keys list --json

Keys of the configuration file come first, then those of the store, each sorted by id.
`;

const showExamples = `
Examples:
  $ sluice keys show laptop
  $ sluice keys show laptop --json
`;

const rotateExamples = `
Examples:
  $ sluice keys rotate laptop
  $ sluice keys rotate laptop --overlap 7d
  $ sluice keys rotate laptop --overlap 0        the old token ends now
`;

const revokeExamples = `
Examples:
  $ sluice keys revoke laptop
  $ sluice keys revoke laptop --yes

This cannot be undone. Without a terminal, as in a script, there is no confirmation.
`;

const limitsExamples = `
Examples:
  $ sluice keys limits laptop                                   shows them
  $ sluice keys limits laptop --rpm 60 --tpm 100000
  $ sluice keys limits laptop --budget 5 --budget-period day
  $ sluice keys limits laptop --no-budget --no-rpm
  $ sluice keys limits laptop --per-model 'large-*:rpm=10,tpm=1000,budget_usd=5,budget_period=day'
  $ sluice keys limits laptop --per-model 'large-*:off'
`;

const editExamples = `
Examples:
  $ sluice keys edit laptop --name notebook --owner ada
  $ sluice keys edit laptop --model 'small-*,tiny' --no-channel
  $ sluice keys edit laptop --expires 2027-12-31
  $ sluice keys edit laptop --no-expires
`;
