import { fileGroupPrefix, groupIdPrefix, groupLevelsMax, type Group } from "../../keys/group.ts";
import { GroupTree } from "../../keys/group-tree.ts";
import { problem, type Finding, type Path } from "../findings/problem.ts";
import { hasEmptyBudget } from "../../limits/limits.ts";
import { limitsFindings, limitsIn } from "./limits.ts";
import type { GroupEntry } from "../schema.ts";

export interface GroupsReading {
  readonly groups: readonly Group[];
  readonly findings: readonly Finding[];
}

/** The groups of the configuration. They may be below one another, and not below those of the store, which can change at any time. */
export function readGroups(entries: readonly GroupEntry[]): GroupsReading {
  const groups = entries.map(groupOf);
  const names = new Set(entries.map(({ name }) => name));
  const tree = new GroupTree(groups);
  const findings = entries.flatMap((entry, at): readonly Finding[] => {
    const path: Path = ["groups", at];
    return [...nameFindings(entry, path), ...groupLimitsFindings(entry, path), ...parentFindings(entry, [...path, "parent"], names, tree)];
  });
  return { groups, findings: [...circleFindings(entries), ...findings] };
}

/** Commands take a name or an id, and look into the configuration first. */
function nameFindings({ name }: GroupEntry, path: Path): readonly Finding[] {
  if (!name.startsWith(groupIdPrefix)) return [];
  return [problem([...path, "name"], `ids of groups in the store begin with ${groupIdPrefix}`, "choose another name")];
}

function parentFindings({ name, parent }: GroupEntry, path: Path, names: ReadonlySet<string>, tree: GroupTree): readonly Finding[] {
  if (parent === undefined) return [];
  if (!names.has(parent))
    return [problem(path, `there is no group ${JSON.stringify(parent)} in this file`, "add it to groups, or remove the line")];
  const id = fileGroupId(name);
  if (tree.chainOf(id) !== null || tree.isWithin(fileGroupId(parent), id)) return [];
  return [problem(path, `groups have at most ${groupLevelsMax} levels`, "choose a parent that is higher up")];
}

export function groupLimitsFindings({ limits, defaults }: Pick<GroupEntry, "limits" | "defaults">, path: Path): readonly Finding[] {
  const all = [
    [[...path, "limits"], limits],
    [[...path, "defaults", "keys"], defaults?.keys],
    [[...path, "defaults", "groups"], defaults?.groups],
  ] as const;
  return all.flatMap(([at, entry]) => [
    ...limitsFindings(entry, at),
    ...(hasEmptyBudget(limitsIn(entry))
      ? [problem(at, "a budget of 0 would reject every call with a price", "give it an amount, or set frozen: true for the group")]
      : []),
  ]);
}

/** Groups that would be below themselves. */
export function circleFindings(entries: readonly { readonly name: string; readonly parent?: string | undefined }[]): readonly Finding[] {
  const parents = new Map(entries.map(({ name, parent }) => [name, parent]));
  return entries.flatMap(({ name, parent }, at) => {
    let above = parent;
    for (let steps = 0; above !== undefined && above !== name && steps < entries.length; steps += 1) above = parents.get(above);
    if (above !== name) return [];
    return [problem(["groups", at, "parent"], "the group would be below itself", "choose a parent that is not below this group, or none")];
  });
}

function groupOf({ name, kind, parent, limits, frozen, defaults }: GroupEntry): Group {
  return {
    id: fileGroupId(name),
    name,
    kind,
    parent: parent === undefined ? null : fileGroupId(parent),
    limits: limitsIn(limits),
    frozen,
    defaults: { keys: limitsIn(defaults?.keys), groups: limitsIn(defaults?.groups) },
  };
}

export function fileGroupId(name: string): string {
  return `${fileGroupPrefix}${name}`;
}
