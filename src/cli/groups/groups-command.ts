import { allGroups, groupByIdOrName, groupTree, type KnownGroup } from "../../manage/group-search.ts";
import { groupView } from "../../manage/group-view.ts";
import { createGroup, editGroup, groupInFile, removeGroup, type GroupEdit } from "../../manage/groups.ts";
import { groupSpending } from "../../manage/key-spending.ts";
import { limitsView } from "../../manage/key-view.ts";
import { unlimited, type Limits } from "../../limits/limits.ts";
import type { StoredGroup } from "../../keys/stored-group.ts";
import { dollarsNumber } from "../../usage/dollars.ts";
import { budgetText, limitsFacts, limitsLine } from "../keys/key-view.ts";
import { changedLimits, type LimitChange } from "../keys/limit-change.ts";
import type { CommandContext, OpenStore } from "../command-context.ts";
import { CommandError, exitCodes, orThrow } from "../command-error.ts";
import { json, localMinute, money, shown } from "../shown-text.ts";
import { facts, table } from "../table.ts";
import type { GroupFields, GroupsRequest } from "./groups-arguments.ts";

type GroupsRequestOf<Act extends GroupsRequest["act"]> = Extract<GroupsRequest, { readonly act: Act }>;

export async function runGroups(request: GroupsRequest, store: OpenStore, context: CommandContext): Promise<void> {
  const { actor } = context;
  switch (request.act) {
    case "create":
      return create(request, store, context);
    case "list":
      return list(request, store, context);
    case "show":
      return show(request.group, request.json, store, context);
    case "edit":
      if (Object.keys(request.fields).length === 0) {
        throw new CommandError("Nothing to change: give an option, such as --name. See sluice groups edit --help", exitCodes.usage);
      }
      return print(orThrow(await editGroup(store, request.group, editOf(request.fields), actor)), "Changed", request.json, context);
    case "limits":
      return limits(request, store, context);
    case "freeze":
    case "unfreeze": {
      const frozen = request.act === "freeze";
      const group = orThrow(await editGroup(store, request.group, { frozen }, actor));
      return print(group, frozen ? "Froze" : "Unfroze", request.json, context);
    }
    case "move":
      return print(orThrow(await editGroup(store, request.group, { parent: request.parent }, actor)), "Moved", request.json, context);
    case "delete":
      return remove(request, store, context);
  }
}

async function create(request: GroupsRequestOf<"create">, store: OpenStore, context: CommandContext): Promise<void> {
  const { name, parent, fields, limits: change } = request;
  const edit = { ...editOf(fields), name, parent, limits: limitsAfter(unlimited, change) };
  print(orThrow(await createGroup(store, edit, context.actor)), "Created", request.json, context);
}

async function list({ json: asJson }: GroupsRequestOf<"list">, store: OpenStore, { terminal }: CommandContext): Promise<void> {
  const groups = await allGroups(store);
  if (asJson) return terminal.print(json(groups.map(groupView)));
  if (groups.length === 0) return terminal.say("There are no groups. Create one with: sluice groups create NAME");
  terminal.print(
    table<TreeRow>(
      [
        { title: "NAME", cell: ({ known, depth }) => `${"  ".repeat(depth)}${known.group.name}` },
        { title: "KIND", cell: ({ known }) => known.group.kind },
        { title: "STATE", cell: ({ known }) => (known.group.frozen ? "frozen" : "active") },
        { title: "LIMITS", cell: ({ known }) => limitsLine(known.group.limits) },
        { title: "ID", cell: ({ known }) => known.group.id },
        { title: "SOURCE", cell: ({ known }) => known.source },
      ],
      treeRows(groups),
    ),
  );
}

interface TreeRow {
  readonly known: KnownGroup;
  readonly depth: number;
}

/** Each group before those below it. One whose parent is missing is shown at the top. */
function treeRows(groups: readonly KnownGroup[]): readonly TreeRow[] {
  const ids = new Set(groups.map(({ group }) => group.id));
  const parentOf = ({ group }: KnownGroup): string => (group.parent !== null && ids.has(group.parent) ? group.parent : "");
  const children = Map.groupBy(groups, parentOf);
  const rowsBelow = (id: string, depth: number): readonly TreeRow[] =>
    depth > depthMax
      ? []
      : (children.get(id) ?? []).toSorted(byName).flatMap((known) => [{ known, depth }, ...rowsBelow(known.group.id, depth + 1)]);
  return rowsBelow("", 0);
}

/** More than there can be. */
const depthMax = 10;

function byName(one: KnownGroup, other: KnownGroup): number {
  return one.group.name < other.group.name ? -1 : 1;
}

async function show(idOrName: string, asJson: boolean, store: OpenStore, { terminal }: CommandContext): Promise<void> {
  const known = await knownGroup(idOrName, store);
  const spending = await groupSpending(store, known.group);
  if (asJson) {
    const budgets = spending.map(({ name, models, budget, spentNanos }) => ({
      name,
      models,
      period: budget.period,
      limit_usd: dollarsNumber(budget.nanos),
      spent_usd: dollarsNumber(spentNanos),
    }));
    return terminal.print(json({ ...groupView(known), budgets }));
  }
  const { group } = known;
  const stored = known.source === "store" ? known.group : null;
  const chain = (await groupTree(store)).chainOf(group.id);
  terminal.print(
    facts([
      ["id", group.id],
      ["name", group.name],
      ["kind", group.kind],
      ["state", group.frozen ? "frozen" : chain?.frozen == null ? "active" : `frozen, because ${chain.frozen.name} is`],
      ["source", known.source],
      [
        "below",
        chain === null
          ? "a group that does not exist"
          : chain.groups
              .slice(1)
              .map(({ name }) => name)
              .join(", below ") || null,
      ],
      ["note", stored?.note ?? null],
      ["limits", limitsLine(group.limits)],
      ...spending.map(
        ({ name, models, budget, spentNanos }) =>
          ["spent", `${money(spentNanos)} of ${budgetText(budget)}${forWhat(name ?? models)}`] as const,
      ),
      ["default for keys", defaultsLine(group.defaults.keys)],
      ["default for groups", defaultsLine(group.defaults.groups)],
      ["created", stored === null ? null : localMinute(stored.createdMs)],
      ["frozen", stored === null || stored.frozenMs === null ? null : localMinute(stored.frozenMs)],
    ]),
  );
}

function forWhat(what: string | null): string {
  return what === null ? "" : ` for ${what}`;
}

function defaultsLine(limits: Limits): string | null {
  const text = limitsLine(limits);
  return text === "none" ? null : text;
}

async function limits(request: GroupsRequestOf<"limits">, store: OpenStore, { terminal, actor }: CommandContext): Promise<void> {
  const known = await knownGroup(request.group, store);
  let shownLimits = known.group.limits;
  if (request.change !== null) {
    if (known.source === "file") throw new CommandError(groupInFile(store, known.group).message);
    shownLimits = orThrow(await editGroup(store, known.group.id, { limits: limitsAfter(shownLimits, request.change) }, actor)).limits;
  }
  terminal.print(request.json ? json(limitsView(shownLimits)) : limitsFacts(shownLimits));
}

async function remove({ group, yes, json: asJson }: GroupsRequestOf<"delete">, store: OpenStore, context: CommandContext): Promise<void> {
  const { name, id } = (await knownGroup(group, store)).group;
  if (!yes && context.terminal.isInteractive && !(await context.terminal.confirm(`Delete group ${shown(name)} (${shown(id)})?`))) {
    throw new CommandError("Nothing was changed.");
  }
  print(orThrow(await removeGroup(store, id, context.actor)), "Deleted", asJson, context);
}

async function knownGroup(idOrName: string, store: OpenStore): Promise<KnownGroup> {
  const known = await groupByIdOrName(store, idOrName);
  if (known !== null) return known;
  throw new CommandError(`There is no group ${JSON.stringify(shown(idOrName))}. See sluice groups list.`);
}

function editOf({ keyDefaults, groupDefaults, ...fields }: GroupFields): GroupEdit {
  if (keyDefaults === undefined && groupDefaults === undefined) return fields;
  const defaults = {
    ...(keyDefaults === undefined ? {} : { keys: keyDefaults }),
    ...(groupDefaults === undefined ? {} : { groups: groupDefaults }),
  };
  return { ...fields, defaults };
}

function limitsAfter(before: Limits, change: LimitChange | null): Limits {
  const after = change === null ? before : changedLimits(before, change);
  if (typeof after === "string") throw new CommandError(after, exitCodes.usage);
  return after;
}

function print(group: StoredGroup, done: string, asJson: boolean, { terminal }: CommandContext): void {
  terminal.print(asJson ? json(groupView({ source: "store", group })) : shown(`${done} ${group.kind} ${group.name} (${group.id}).`));
}
