import type { Group } from "../keys/group.ts";
import { GroupTree } from "../keys/group-tree.ts";
import type { Key } from "../keys/key.ts";
import type { StoredGroup } from "../keys/stored-group.ts";
import type { UsageQuery } from "../usage/usage-row.ts";
import type { ManageContext } from "./context.ts";

/** A group, and whether it is defined in the configuration or kept in the store. */
export type KnownGroup = { readonly source: "store"; readonly group: StoredGroup } | { readonly source: "file"; readonly group: Group };

/** All groups, those of the configuration first. */
export async function allGroups({ fileGroups, reports }: Pick<ManageContext, "fileGroups" | "reports">): Promise<readonly KnownGroup[]> {
  return [
    ...fileGroups().map((group): KnownGroup => ({ source: "file", group })),
    ...(await reports.groups.list()).map((group): KnownGroup => ({ source: "store", group })),
  ];
}

export interface GroupPageQuery {
  /** Part of a name or an id; case is ignored. */
  readonly search: string | null;
  /** Only groups directly below this one, by id; `top`: only those that have none above them, as far as the caller may see. */
  readonly below: string | "top" | null;
  /** The `next` of the previous page. */
  readonly after: string | null;
  readonly limit: number;
}

export interface GroupPage {
  readonly groups: readonly (KnownGroup & { readonly children: number })[];
  readonly next: string | null;
}

/** Groups by name. All of them fit into memory, but not into one answer; the cursor is the place of the last one. */
export async function groupPage(context: ManageContext, { search, below, after, limit }: GroupPageQuery): Promise<GroupPage> {
  const all = await allGroups(context);
  const ids = new Set(all.map(({ group }) => group.id));
  const parentOf = ({ parent }: Group): string => (parent !== null && ids.has(parent) ? parent : "top");
  const children = Map.groupBy(all, ({ group }) => parentOf(group));
  const found = all
    .filter(({ group }) => below === null || parentOf(group) === below)
    .filter(({ group: { id, name } }) => search === null || `${id}\n${name}`.toLowerCase().includes(search.toLowerCase()))
    .filter(({ group }) => after === null || placeOf(group) > after)
    .toSorted((one, other) => (placeOf(one.group) < placeOf(other.group) ? -1 : 1));
  const groups = found.slice(0, limit).map((known) => ({ ...known, children: children.get(known.group.id)?.length ?? 0 }));
  const last = groups.at(-1);
  return { groups, next: found.length > limit && last !== undefined ? placeOf(last.group) : null };
}

/** In the list by names. One of the file and one of the store may have the same. No name has a line break. */
function placeOf({ id, name }: Group): string {
  return `${name}\n${id}`;
}

export async function groupByIdOrName({ fileGroups, storage }: ManageContext, idOrName: string): Promise<KnownGroup | null> {
  const inFile = fileGroups().find(({ id, name }) => id === idOrName || name === idOrName);
  if (inFile !== undefined) return { source: "file", group: inFile };
  const group = await storage.groups.find(idOrName);
  return group === null ? null : { source: "store", group };
}

type GroupSources = Pick<ManageContext, "fileGroups" | "reports">;

/** A group with those above it: there may be very many others. */
export async function treeAbove({ fileGroups, reports }: GroupSources, id: string): Promise<GroupTree> {
  return new GroupTree([...fileGroups(), ...(await reports.groups.above(id))]);
}

/** A key with the defaults of its groups, as its calls have it. */
export async function keyWithDefaults(context: ManageContext, key: Key): Promise<Key> {
  if (key.group === null) return key;
  return (await withDefaultsOf(context, key.group)).attached(key) ?? key;
}

/** A group with the defaults of the one above it. */
export async function groupWithDefaults(context: ManageContext, group: Group): Promise<Group> {
  return (await withDefaultsOf(context, group.id)).chainOf(group.id)?.groups[0] ?? group;
}

function withDefaultsOf(context: ManageContext, id: string): Promise<GroupTree> {
  return context.scope === undefined ? treeAbove(context, id) : context.scope.treeAbove(id);
}

/** The ids of a group and of all groups below it. */
export async function idsWithin({ fileGroups, reports }: GroupSources, id: string): Promise<readonly string[]> {
  const file = new GroupTree(fileGroups());
  const inFile = Array.from(file.all(), (group) => group.id).filter((one) => file.isWithin(one, id));
  return [...inFile, ...(await reports.groups.within([id, ...inFile]))];
}

/** The names of groups by id, also of deleted ones. */
export async function groupNames({ fileGroups, reports }: ManageContext, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const inFile = new Map(fileGroups().map(({ id, name }) => [id, name]));
  const unknown = [...new Set(ids)].filter((id) => !inFile.has(id));
  return new Map([...inFile, ...(await reports.groups.names(unknown))]);
}

/** The keys that a group and those below it have now: what a group used is summed without its keys. */
export async function keysWithin(context: ManageContext, groupId: string): Promise<NonNullable<UsageQuery["keysOf"]>> {
  const groups = await idsWithin(context, groupId);
  const known = new Set(groups);
  const inFile = context.fileKeys().filter(({ group }) => group !== null && known.has(group));
  return { groups, keys: inFile.map(({ id }) => id) };
}
