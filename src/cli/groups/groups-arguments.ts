import { InvalidArgumentError, type Command } from "commander";
import { groupKinds, type GroupKind } from "../../keys/group.ts";
import type { Limits } from "../../limits/limits.ts";
import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";
import { addLimitOptions, limitsGiven, type LimitOptions } from "../keys/key-options.ts";
import { limitsOfText, type LimitChange } from "../keys/limit-change.ts";
import { choice, line, prose } from "../option-values.ts";

export type GroupsRequest = { readonly on: "groups"; readonly json: boolean } & (
  | {
      readonly act: "create";
      readonly name: string;
      readonly parent: string | null;
      readonly fields: GroupFields;
      readonly limits: LimitChange | null;
    }
  | { readonly act: "list" }
  | { readonly act: "show" | "freeze" | "unfreeze"; readonly group: string }
  | { readonly act: "edit"; readonly group: string; readonly fields: GroupFields }
  | { readonly act: "limits"; readonly group: string; readonly change: LimitChange | null }
  | { readonly act: "move"; readonly group: string; readonly parent: string | null }
  | { readonly act: "delete"; readonly group: string; readonly yes: boolean }
);

/** The fields of a group besides its limits and its place. An absent one stays as it is. */
export interface GroupFields {
  readonly name?: string;
  readonly kind?: GroupKind;
  readonly note?: string | null;
  readonly keyDefaults?: Limits;
  readonly groupDefaults?: Limits;
}

export function addGroups({ program, onRequest }: CommandRegistry): void {
  const groups = program
    .command("groups")
    .description("limit what organisations, teams and projects use together")
    .addHelpText("after", groupsExamples);
  const command = (name: string, description: string): Command =>
    groups
      .command(name)
      .description(description)
      .option(...jsonOption)
      .option(...configOption)
      .addHelpText("after", groupsExamples);
  const which = ["<group>", "its id or name"] as const;

  addLimitOptions(
    addFieldOptions(command("create", "create a group").argument("<name>", "the name of the group", line(200))).option(
      "--parent <group>",
      "the group above it, by id or name",
      line(200),
    ),
    false,
  ).action((name: string, options: CommonOptions & GroupOptions & LimitOptions & { parent?: string }) => {
    const { config, json = false, parent = null } = options;
    onRequest(config, { on: "groups", act: "create", json, name, parent, fields: fieldsOf(options), limits: limitsGiven(options) });
  });

  command("list", "list all groups as a tree").action(({ config, json = false }: CommonOptions) =>
    onRequest(config, { on: "groups", act: "list", json }),
  );

  for (const [act, description] of [
    ["show", "show a group, and what it has spent of its budgets"],
    ["freeze", "stop all keys of a group, and of the groups below it, and end their calls"],
    ["unfreeze", "let the keys of a group be used again"],
  ] as const) {
    command(act, description)
      .argument(...which)
      .action((group: string, { config, json = false }: CommonOptions) => onRequest(config, { on: "groups", act, json, group }));
  }

  addFieldOptions(
    command("edit", "change the name of a group, and the defaults for its children")
      .argument(...which)
      .option("--name <text>", "the name of the group", line(200)),
  )
    .option("--no-note", "remove the note")
    .action((group: string, options: CommonOptions & GroupOptions) =>
      onRequest(options.config, { on: "groups", act: "edit", json: options.json ?? false, group, fields: fieldsOf(options) }),
    );

  addLimitOptions(command("limits", "show the limits of a group, or change some of them").argument(...which), true).action(
    (group: string, options: CommonOptions & LimitOptions) =>
      onRequest(options.config, { on: "groups", act: "limits", json: options.json ?? false, group, change: limitsGiven(options) }),
  );

  command("move", "put a group below another one; without one, at the top")
    .argument(...which)
    .argument("[parent]", "the group above it, by id or name")
    .action((group: string, parent: string | undefined, { config, json = false }: CommonOptions) =>
      onRequest(config, { on: "groups", act: "move", json, group, parent: parent ?? null }),
    );

  command("delete", "delete a group without keys and without groups below it")
    .argument(...which)
    .option("-y, --yes", "do not ask for confirmation")
    .action((group: string, { config, json = false, yes = false }: CommonOptions & { yes?: boolean }) =>
      onRequest(config, { on: "groups", act: "delete", json, group, yes }),
    );
}

interface GroupOptions {
  readonly name?: string;
  readonly kind?: GroupKind;
  readonly note?: string | false;
  readonly keyDefaults?: Limits;
  readonly groupDefaults?: Limits;
}

function addFieldOptions(command: Command): Command {
  return command
    .option("--kind <word>", `what it is called in messages: ${groupKinds.join(", ")}`, choice(groupKinds))
    .option("--note <text>", "a note for operators", prose(10_000))
    .option(
      "--key-defaults <limits>",
      "for each key that sets no such limit, such as 'rpm=60,budget_usd=5,budget_period=month'; off: none",
      limits,
    )
    .option("--group-defaults <limits>", "the same for each group directly below it", limits);
}

function limits(text: string): Limits {
  const read = limitsOfText(text);
  if (typeof read === "string") throw new InvalidArgumentError(read);
  return read;
}

function fieldsOf({ name, kind, note, keyDefaults, groupDefaults }: GroupOptions): GroupFields {
  return {
    ...(name === undefined ? {} : { name }),
    ...(kind === undefined ? {} : { kind }),
    ...(note === undefined ? {} : { note: note === false ? null : note }),
    ...(keyDefaults === undefined ? {} : { keyDefaults }),
    ...(groupDefaults === undefined ? {} : { groupDefaults }),
  };
}

const groupsExamples = `
Examples:
  $ sluice groups create acme --kind organisation --budget 500 --budget-period month
  $ sluice groups create web --kind team --parent acme --rpm 600 --key-defaults 'rpm=60'
  $ sluice keys create laptop --group web
  $ sluice groups list
  $ sluice groups limits web --budget 50 --budget-period month
  $ sluice groups limits web --selected-budget 'images:operations=image,budget_usd=20,budget_period=month'
  $ sluice groups freeze web
  $ sluice groups move web

A call counts on its key and on all groups above it. A running gateway notices changes within a second.
`;
