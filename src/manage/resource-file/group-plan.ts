import { fileGroupPrefix } from "../../keys/group.ts";
import type { StoredGroup } from "../../keys/stored-group.ts";
import type { ManageContext } from "../context.ts";
import { ManageError } from "../error.ts";
import { createGroup, editGroup, groupInFile, removeGroup, type GroupEdit } from "../groups.ts";
import type { DesiredGroup, DesiredResources, PlannedChange } from "./desired-resources.ts";
import { fieldChanges, groupFields, type GroupNames } from "./fields.ts";
import { possibleOrder } from "./group-order.ts";

export interface PlannedGroups {
  readonly changes: readonly PlannedChange[];
  /** What goes, and then what was not possible before. */
  readonly removals: readonly PlannedChange[];
}

/** Groups are known by their names. */
export function plannedGroups(
  context: ManageContext,
  desired: readonly DesiredGroup[] | null,
  stored: readonly StoredGroup[],
  prune: boolean,
): PlannedGroups | ManageError {
  if (desired === null) return { changes: [], removals: [] };
  const byName = new Map(stored.map((group) => [group.name, group]));
  const groupName = groupNamesOf(context, stored, desired);
  const planned = (group: DesiredGroup): readonly PlannedChange[] => {
    const before = byName.get(group.fields.name);
    return before === undefined ? [created(group, groupName)] : changed(before, group, groupName);
  };
  const wanted = new Set(desired.map(({ fields }) => fields.name));
  const extra = prune ? stored.filter(({ name }) => !wanted.has(name)) : [];
  const existing = [...context.fileGroups(), ...stored];
  const order = possibleOrder(
    parentsFirst(desired, ({ fields }) => fields),
    ({ fields }) => fields,
    existing,
    extra,
  );
  const changes = order.entries.flatMap(planned);
  const late = order.late.flatMap(planned);
  const inFile = context.fileGroups().find(({ name }) => [...changes, ...late].some(({ change }) => change.name === name));
  if (inFile !== undefined) return groupInFile(context, inFile);
  const named = extra.map((group) => ({ ...group, parent: group.parent === null ? null : groupName(group.parent) }));
  return {
    changes,
    removals: [
      ...parentsFirst(named, (group) => group)
        .toReversed()
        .map(removed),
      ...late,
    ],
  };
}

/** What keys and groups refer to must exist, or be created by the same file. */
export function groupReferenceProblem(
  context: ManageContext,
  { groups, keys }: DesiredResources,
  stored: readonly StoredGroup[],
): ManageError | null {
  const all = [...context.fileGroups(), ...stored];
  const known = new Set([...all.flatMap(({ id, name }) => [id, name]), ...(groups ?? []).map(({ fields }) => fields.name)]);
  const references = [
    ...(groups ?? []).map(({ fields, line }) => ({ owner: `group ${fields.name}`, group: fields.parent, line })),
    ...(keys ?? []).map(({ fields, line }) => ({ owner: `key ${fields.name}`, group: fields.group, line })),
  ];
  const wrong = references.find(({ group }) => group !== null && !known.has(group));
  if (wrong === undefined) return null;
  const at = wrong.line === null ? "" : ` (line ${wrong.line})`;
  return new ManageError("invalid_value", `There is no group ${wrong.group}, which ${wrong.owner}${at} shall be in: add it to groups.`);
}

/** `desired`: the groups that a file creates, whose names are theirs. */
export function groupNamesOf(
  { fileGroups }: ManageContext,
  stored: readonly StoredGroup[],
  desired: readonly DesiredGroup[] | null = null,
): GroupNames {
  const all = [...fileGroups(), ...stored];
  const names = new Map(all.map(({ id, name }) => [id, name]));
  const taken = new Set([...all.map(({ name }) => name), ...(desired ?? []).map(({ fields }) => fields.name)]);
  // A group that was removed from the configuration has no name any more. Once another one has that name, it is told apart by its id:
  // otherwise what is left below it would seem to be in the other one, and stay refused.
  const removedName = (id: string): string => {
    const name = id.slice(fileGroupPrefix.length);
    return taken.has(name) ? id : name;
  };
  return (id) => names.get(id) ?? (id.startsWith(fileGroupPrefix) ? removedName(id) : id);
}

/** In an order in which they can be created. Circles were refused before. */
function parentsFirst<Entry>(
  entries: readonly Entry[],
  fieldsOf: (entry: Entry) => { readonly name: string; readonly parent: string | null },
): readonly Entry[] {
  const parents = new Map(entries.map((entry) => [fieldsOf(entry).name, fieldsOf(entry).parent]));
  const depth = (entry: Entry): number => {
    let levels = 0;
    for (let at = fieldsOf(entry).parent; at !== null && levels < entries.length; levels += 1) at = parents.get(at) ?? null;
    return levels;
  };
  return entries
    .map((entry) => ({ entry, levels: depth(entry) }))
    .toSorted((one, other) => one.levels - other.levels)
    .map(({ entry }) => entry);
}

function created({ fields, frozen, line }: DesiredGroup, groupName: GroupNames): PlannedChange {
  const after = { ...fields, frozen: frozen ?? false };
  return {
    change: { what: "group", name: fields.name, action: "create", fields: fieldChanges({}, groupFields(after, groupName)), line },
    run: (context, actor) => createGroup(context, after, actor),
  };
}

function changed(before: StoredGroup, { fields, frozen, line }: DesiredGroup, groupName: GroupNames): readonly PlannedChange[] {
  const { parent, ...others } = fields;
  // A group of the configuration may have the name of the parent as well, and the group must not be moved there by another change.
  const isMoved = (parent === null ? null : groupName(parent)) !== (before.parent === null ? null : groupName(before.parent));
  const edit: GroupEdit = { ...others, ...(isMoved ? { parent } : {}), frozen: frozen ?? before.frozen };
  const changes = fieldChanges(groupFields(before, groupName), groupFields({ ...fields, frozen: frozen ?? before.frozen }, groupName));
  if (changes.length === 0) return [];
  return [
    {
      change: { what: "group", name: fields.name, action: "change", fields: changes, line },
      run: (context, actor) => editGroup(context, before.id, edit, actor),
    },
  ];
}

function removed({ id, name }: StoredGroup): PlannedChange {
  return {
    change: { what: "group", name, action: "remove", fields: [], line: null },
    run: (context, actor) => removeGroup(context, id, actor),
  };
}
