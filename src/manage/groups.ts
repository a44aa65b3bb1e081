import type { Actor } from "../gateway/storage.ts";
import { fileGroupPrefix, groupIdPrefix, type Group } from "../keys/group.ts";
import { defaultGroup, type GroupChange, type StoredGroup } from "../keys/stored-group.ts";
import { revisionOf, type ManageContext } from "./context.ts";
import { changedMeanwhile, ManageError } from "./error.ts";
import { groupByIdOrName } from "./group-search.ts";

/** What to change of a group: null clears a field, and an absent one stays as it is. The parent is given by its id or its name. */
export type GroupEdit = GroupChange;

export async function createGroup(
  context: ManageContext,
  edit: GroupEdit & { readonly name: string },
  actor: Actor,
): Promise<StoredGroup | ManageError> {
  const change = await changeOf(context, edit);
  if (change instanceof ManageError) return change;
  const id = `${groupIdPrefix}${context.makeKeyToken().publicId}`;
  const defaults = { ...defaultGroup.defaults, ...change.defaults };
  return context.storage.groups.create(id, { ...defaultGroup, ...change, name: edit.name, defaults }, context.fileGroups(), actor);
}

/** Freezing and moving are edits as well. `isExpected` gets the current revision, and returns whether the change is meant for it. */
export async function editGroup(
  context: ManageContext,
  idOrName: string,
  edit: GroupEdit,
  actor: Actor,
  isExpected?: (revision: string) => boolean,
): Promise<StoredGroup | ManageError> {
  const before = await storedGroup(context, idOrName);
  if (before instanceof ManageError) return before;
  const change = await changeOf(context, edit);
  if (change instanceof ManageError) return change;
  const { storage, fileGroups } = context;
  if (isExpected === undefined) return storage.groups.change(before.id, change, fileGroups(), actor);
  return storage.together(async ({ groups }) => {
    const now = await groups.get(before.id);
    if (now !== null && !isExpected(groupRevision(context, now))) return changedMeanwhile("group");
    return groups.change(before.id, change, fileGroups(), actor);
  });
}

/** A hash that changes with the group. */
export function groupRevision(context: ManageContext, group: StoredGroup): string {
  return revisionOf(context, `group ${JSON.stringify(group)}`);
}

export async function removeGroup(context: ManageContext, idOrName: string, actor: Actor): Promise<StoredGroup | ManageError> {
  const group = await storedGroup(context, idOrName);
  if (group instanceof ManageError) return group;
  await context.storage.groups.remove(group.id, actor);
  return group;
}

/** Finds a group that can be changed: one of the store. */
async function storedGroup(context: ManageContext, idOrName: string): Promise<StoredGroup | ManageError> {
  const known = await groupByIdOrName(context, idOrName);
  if (known === null) return new ManageError("not_found", "There is no such group.");
  return known.source === "store" ? known.group : groupInFile(context, known.group);
}

/** A group of the configuration can only be changed there. */
export function groupInFile({ definedAt }: ManageContext, { name }: Group): ManageError {
  return new ManageError(
    "in_file",
    `Group ${name} is defined in ${definedAt("groups", name)}: change it there. A running gateway reloads its file by itself.`,
  );
}

/** The id of the group that a key is put into; null for none. */
export async function groupIdOf(context: ManageContext, idOrName: string | null): Promise<string | null | ManageError> {
  if (idOrName === null) return null;
  const known = await groupByIdOrName(context, idOrName);
  return known === null ? new ManageError("invalid_value", "There is no such group.", "group") : known.group.id;
}

async function changeOf(context: ManageContext, edit: GroupEdit): Promise<GroupChange | ManageError> {
  const { parent, ...rest } = edit;
  const problem = rest.name === undefined ? null : nameProblem(context, rest.name);
  if (problem !== null) return problem;
  const given = parent == null ? null : await groupByIdOrName(context, parent);
  if (parent != null && given === null)
    return new ManageError("invalid_value", `There is no such parent group: ${JSON.stringify(parent.slice(0, 200))}.`, "parent");
  return { ...rest, ...(parent === undefined ? {} : { parent: given?.group.id ?? null }) };
}

function nameProblem({ fileGroups, definedAt }: ManageContext, name: string): ManageError | null {
  if (name.startsWith(fileGroupPrefix) || name.startsWith(groupIdPrefix)) {
    return new ManageError("conflict", `A name must not begin with ${fileGroupPrefix} or ${groupIdPrefix}, as ids do.`, "name");
  }
  if (!fileGroups().some((group) => group.name === name)) return null;
  const place = definedAt("groups", name);
  return new ManageError("conflict", `A group in the configuration already has this name (${place}): choose another.`, "name");
}
