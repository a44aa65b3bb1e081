import type { GroupView } from "../../manage/group-view.ts";
import type { GroupEdit } from "../../manage/groups.ts";
import { limitsOfView, type LimitsView } from "../../manage/key-view.ts";
import { unlimited, type Limits } from "../../limits/limits.ts";
import { nanosOf } from "../../usage/dollars.ts";
import { budgetText, limitsFacts, limitsSummary } from "../keys/key-view.ts";
import { changedLimits, type LimitChange } from "../keys/limit-change.ts";
import type { CommandSurroundings } from "../command-context.ts";
import { CommandError, exitCodes } from "../command-error.ts";
import type { Management } from "../management/management.ts";
import { dollars, isoMinute, json, shown } from "../shown-text.ts";
import { facts, table } from "../table.ts";
import type { GroupFields, GroupsRequest } from "./groups-arguments.ts";

type GroupsRequestOf<Act extends GroupsRequest["act"]> = Extract<GroupsRequest, { readonly act: Act }>;

export async function runGroups(request: GroupsRequest, management: Management, context: CommandSurroundings): Promise<void> {
  switch (request.act) {
    case "create":
      return create(request, management, context);
    case "list":
      return list(request, management, context);
    case "show":
      return show(request.group, request.json, management, context);
    case "edit":
      if (Object.keys(request.fields).length === 0) {
        throw new CommandError("Nothing to change: give an option, such as --name. See sluice groups edit --help", exitCodes.usage);
      }
      return print(await management.editGroup(request.group, editOf(request.fields)), "Changed", request.json, context);
    case "limits":
      return limits(request, management, context);
    case "freeze":
    case "unfreeze": {
      const frozen = request.act === "freeze";
      const group = await management.editGroup(request.group, { frozen });
      return print(group, frozen ? "Froze" : "Unfroze", request.json, context);
    }
    case "move":
      return print(await management.editGroup(request.group, { parent: request.parent }), "Moved", request.json, context);
    case "delete":
      return remove(request, management, context);
  }
}

async function create(request: GroupsRequestOf<"create">, management: Management, context: CommandSurroundings): Promise<void> {
  const { name, parent, fields, limits: change } = request;
  const edit = { ...editOf(fields), name, parent, limits: limitsAfter(unlimited, change) };
  print(await management.createGroup(edit), "Created", request.json, context);
}

async function list({ json: asJson }: GroupsRequestOf<"list">, management: Management, { terminal }: CommandSurroundings): Promise<void> {
  const groups = await management.groups();
  if (asJson) return terminal.print(json(groups));
  if (groups.length === 0) return terminal.say("There are no groups. Create one with: sluice groups create NAME");
  terminal.print(
    table<TreeRow>(
      [
        { title: "NAME", cell: ({ group, depth }) => `${"  ".repeat(depth)}${group.name}` },
        { title: "KIND", cell: ({ group }) => group.kind },
        { title: "STATE", cell: ({ group }) => (group.frozen ? "frozen" : "active") },
        { title: "LIMITS", cell: ({ group }) => limitsSummary(limitsOfView(group.limits)) },
        { title: "ID", cell: ({ group }) => group.id },
        { title: "SOURCE", cell: ({ group }) => group.source },
      ],
      treeRows(groups),
    ),
  );
}

interface TreeRow {
  readonly group: GroupView;
  readonly depth: number;
}

/** Each group before those below it. One whose parent is missing is shown at the top. */
function treeRows(groups: readonly GroupView[]): readonly TreeRow[] {
  const ids = new Set(groups.map(({ id }) => id));
  const parentOf = ({ parent }: GroupView): string => (parent !== null && ids.has(parent) ? parent : "");
  const children = Map.groupBy(groups, parentOf);
  const rowsBelow = (id: string, depth: number): readonly TreeRow[] =>
    depth > depthMax
      ? []
      : (children.get(id) ?? []).toSorted(byName).flatMap((group) => [{ group, depth }, ...rowsBelow(group.id, depth + 1)]);
  return rowsBelow("", 0);
}

/** More than there can be. */
const depthMax = 10;

function byName(one: GroupView, other: GroupView): number {
  return one.name < other.name ? -1 : 1;
}

async function show(idOrName: string, asJson: boolean, management: Management, { terminal }: CommandSurroundings): Promise<void> {
  const group = await knownGroup(idOrName, management);
  const budgets = await management.groupBudgets(group.id);
  if (asJson) return terminal.print(json({ ...group, budgets }));
  const above = groupsAbove(group, await management.groups());
  const frozen = above.find((one) => one.frozen);
  terminal.print(
    facts([
      ["id", group.id],
      ["name", group.name],
      ["kind", group.kind],
      ["state", group.frozen ? "frozen" : frozen === undefined ? "active" : `frozen, because ${frozen.name} is`],
      ["source", group.source],
      // The parent of one's own group is not shown to its administrators, except for its id.
      ["below", above.map(({ name }) => name).join(", below ") || group.parent],
      ["note", group.note],
      ["limits", limitsSummary(limitsOfView(group.limits))],
      ...budgets.map(
        ({ name, models, period, limit_usd, spent_usd }) =>
          [
            "spent",
            `${dollars(spent_usd)} of ${budgetText({ nanos: nanosOf(limit_usd) ?? 0, period })}${forWhat(name ?? models)}`,
          ] as const,
      ),
      ["default for keys", defaultsLine(group.defaults.keys)],
      ["default for groups", defaultsLine(group.defaults.groups)],
      ["created", group.created_at === null ? null : isoMinute(group.created_at)],
      ["frozen", group.frozen_at === null ? null : isoMinute(group.frozen_at)],
    ]),
  );
}

/** The nearest first, as far as they are known. */
function groupsAbove({ parent }: GroupView, all: readonly GroupView[]): readonly GroupView[] {
  const byId = new Map(all.map((group) => [group.id, group]));
  const above: GroupView[] = [];
  for (let next = byId.get(parent ?? ""); next !== undefined && above.length < depthMax; next = byId.get(next.parent ?? ""))
    above.push(next);
  return above;
}

function forWhat(what: string | null): string {
  return what === null ? "" : ` for ${what}`;
}

function defaultsLine(limits: LimitsView): string | null {
  const text = limitsSummary(limitsOfView(limits));
  return text === "none" ? null : text;
}

async function limits(request: GroupsRequestOf<"limits">, management: Management, { terminal }: CommandSurroundings): Promise<void> {
  const { change } = request;
  const known = await knownGroup(request.group, management);
  const after = change === null ? known : await management.changeGroupLimits(known.id, (before) => limitsAfter(before, change));
  terminal.print(request.json ? json(after.limits) : limitsFacts(limitsOfView(after.limits)));
}

async function remove(
  { group, yes, json: asJson }: GroupsRequestOf<"delete">,
  management: Management,
  context: CommandSurroundings,
): Promise<void> {
  const { name, id } = await knownGroup(group, management);
  if (!yes && context.terminal.isInteractive && !(await context.terminal.confirm(`Delete group ${shown(name)} (${shown(id)})?`))) {
    throw new CommandError("Nothing was changed.");
  }
  print(await management.removeGroup(id), "Deleted", asJson, context);
}

async function knownGroup(idOrName: string, management: Management): Promise<GroupView> {
  const known = await management.group(idOrName);
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

function print(group: GroupView, done: string, asJson: boolean, { terminal }: CommandSurroundings): void {
  terminal.print(asJson ? json(group) : shown(`${done} ${group.kind} ${group.name} (${group.id}).`));
}
