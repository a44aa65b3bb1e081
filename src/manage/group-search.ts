import type { Group } from "../keys/group.ts";
import { GroupTree } from "../keys/group-tree.ts";
import type { StoredGroup } from "../keys/stored-group.ts";
import type { ManageContext } from "./context.ts";

/** A group, and whether it is defined in the configuration or kept in the store. */
export type KnownGroup = { readonly source: "store"; readonly group: StoredGroup } | { readonly source: "file"; readonly group: Group };

/** All groups, those of the configuration first. */
export async function allGroups({ fileGroups, reports }: ManageContext): Promise<readonly KnownGroup[]> {
  return [
    ...fileGroups().map((group): KnownGroup => ({ source: "file", group })),
    ...(await reports.groups.list()).map((group): KnownGroup => ({ source: "store", group })),
  ];
}

export async function groupByIdOrName({ fileGroups, storage }: ManageContext, idOrName: string): Promise<KnownGroup | null> {
  const inFile = fileGroups().find(({ id, name }) => id === idOrName || name === idOrName);
  if (inFile !== undefined) return { source: "file", group: inFile };
  const group = await storage.groups.find(idOrName);
  return group === null ? null : { source: "store", group };
}

export async function groupTree(context: ManageContext): Promise<GroupTree> {
  return new GroupTree((await allGroups(context)).map(({ group }) => group));
}

/** The ids of a group and of all groups below it. */
export function idsWithin(tree: GroupTree, id: string): readonly string[] {
  return Array.from(tree.all(), (group) => group.id).filter((one) => tree.isWithin(one, id));
}

/** The names of groups by id, also of deleted ones. */
export async function groupNames({ fileGroups, reports }: ManageContext, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const inFile = new Map(fileGroups().map(({ id, name }) => [id, name]));
  const unknown = [...new Set(ids)].filter((id) => !inFile.has(id));
  return new Map([...inFile, ...(await reports.groups.names(unknown))]);
}
