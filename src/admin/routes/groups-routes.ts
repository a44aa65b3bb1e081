import { z } from "zod";
import { groupKinds } from "../../keys/group.ts";
import { ManageError } from "../../manage/error.ts";
import { groupByIdOrName, groupPage, groupWithDefaults, type KnownGroup } from "../../manage/group-search.ts";
import { groupSpending } from "../../manage/key-spending.ts";
import { groupView, type GroupView } from "../../manage/group-view.ts";
import { createGroup, editGroup, groupRevision, removeGroup, type GroupEdit } from "../../manage/groups.ts";
import { invalid, notFound, adminErrorOf, type AdminError } from "../admin-error.ts";
import { limitsAnswer, limitsField } from "../fields/limits-field.ts";
import { line, moment, pageCursor, pageLimit, prose } from "../fields/scalars.ts";
import { expectedRevision, route, withRevision, type AdminRoute } from "../route.ts";
import { keyBudgetsAnswer, shownBudgets } from "../views/key-budgets.ts";
import type { StoredGroup } from "../../keys/stored-group.ts";

const fields = {
  name: line(200),
  kind: z.enum(groupKinds).optional(),
  parent: line(200).nullable().optional().describe("The group above it, by id or name; null means none."),
  note: prose(10_000).nullable().optional(),
  limits: limitsField.optional().describe("What its keys may use together, replaced as a whole; `{}` means no limits."),
  default_key_limits: limitsField.optional().describe("For each key below it that does not set a limit itself."),
  default_group_limits: limitsField.optional().describe("For each group directly below it that does not set a limit itself."),
  frozen: z.boolean().optional().describe("While it is true, its keys cannot be used, and running calls end."),
};

/** The schema of `groupView`. */
export const groupAnswer = z.strictObject({
  id: z.string(),
  name: z.string(),
  source: z.enum(["store", "file"]).describe("Where it is defined. Groups of the configuration file can only be changed there."),
  kind: z.enum(groupKinds),
  parent: z.string().nullable().describe("The id of the group above it."),
  frozen: z.boolean(),
  note: z.string().nullable(),
  limits: limitsAnswer,
  defaults: z.strictObject({ keys: limitsAnswer, groups: limitsAnswer }),
  created_at: moment.nullable(),
  frozen_at: moment.nullable(),
});

export const listedGroupAnswer = groupAnswer.extend({ children: z.int().describe("How many groups are directly below it.") });

/** Groups of keys. */
export const groupsRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/groups",
    access: "viewer",
    scoped: true,
    summary: "Lists groups by name.",
    query: z.strictObject({
      search: line(200).optional().describe("Part of a name or an id, in any case, taken literally."),
      parent: line(200).optional().describe("Only groups directly below this one, by id or name."),
      top: z.enum(["true", "false"]).default("false").describe("Whether only groups are listed that have none above them."),
      after: pageCursor.optional(),
      limit: pageLimit,
    }),
    answer: z.strictObject({ groups: z.array(listedGroupAnswer), next: z.string().nullable() }),
    handle: async ({ query: { search, parent, top, after, limit }, services }) => {
      const above = parent === undefined ? null : await groupByIdOrName(services, parent);
      if (parent !== undefined && above === null) return notFound("group");
      const below = above?.group.id ?? (top === "true" ? "top" : null);
      const { groups, next } = await groupPage(services, { search: search ?? null, below, after: after ?? null, limit });
      return { groups: groups.map((known) => ({ ...groupView(known), children: known.children })), next };
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/groups/{id}",
    access: "viewer",
    scoped: true,
    summary: "Shows one group, by id or name. The header `etag` changes with the group.",
    answer: groupAnswer,
    handle: async ({ params: { id }, services }) => {
      const known = await groupByIdOrName(services, id);
      if (known === null) return notFound("group");
      return withRevision(groupView(known), known.source === "store" ? groupRevision(services, known.group) : null);
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/groups/{id}/standing",
    access: "viewer",
    scoped: true,
    summary: "Shows what was spent of the budgets of a group, defaults included, as far as its receipts are in the store.",
    answer: keyBudgetsAnswer,
    handle: async ({ params: { id }, services }) => {
      const known = await groupByIdOrName(services, id);
      if (known === null) return notFound("group");
      return shownBudgets(known.group.id, await groupSpending(services, await groupWithDefaults(services, known.group)));
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/groups",
    access: "admin",
    scoped: true,
    summary: "Creates a group.",
    body: z.strictObject(fields),
    answer: groupAnswer,
    status: 201,
    handle: async ({ body, services, actor }) => shown(await createGroup(services, { ...editOf(body), name: body.name }, actor)),
  }),
  route({
    method: "PATCH",
    path: "/admin/api/groups/{id}",
    access: "admin",
    scoped: true,
    summary:
      "Changes, moves, freezes or unfreezes a group. Fields that are not given stay as they are. " +
      "With `if-match`, only if the group has not changed since.",
    conditional: true,
    body: z.strictObject({ ...fields, name: fields.name.optional() }),
    answer: groupAnswer,
    handle: async ({ params: { id }, body, services, actor, ifMatch }) => {
      const edit = editOf(body);
      if (Object.keys(edit).length === 0) return invalid(null, `Nothing to change: give one of ${Object.keys(fields).join(", ")}.`);
      const changed = await editGroup(services, id, edit, actor, expectedRevision(ifMatch));
      if (changed instanceof ManageError) return adminErrorOf(changed);
      return withRevision(groupView({ source: "store", group: changed }), groupRevision(services, changed));
    },
  }),
  route({
    method: "DELETE",
    path: "/admin/api/groups/{id}",
    access: "admin",
    scoped: true,
    summary: "Deletes a group that has no keys and no groups below it. What it used stays in the usage.",
    answer: groupAnswer,
    handle: async ({ params: { id }, services, actor }) => shown(await removeGroup(services, id, actor)),
  }),
];

type GivenGroup = z.output<z.ZodObject<Omit<typeof fields, "name">>> & { readonly name?: string | undefined };

/** The given fields only: null clears a field, and an absent one stays as it is. */
function editOf({
  name,
  kind,
  parent,
  note,
  limits,
  frozen,
  default_key_limits: keys,
  default_group_limits: groups,
}: GivenGroup): GroupEdit {
  return {
    ...(name === undefined ? {} : { name }),
    ...(kind === undefined ? {} : { kind }),
    ...(parent === undefined ? {} : { parent }),
    ...(note === undefined ? {} : { note }),
    ...(limits === undefined ? {} : { limits }),
    ...(frozen === undefined ? {} : { frozen }),
    ...(keys === undefined && groups === undefined
      ? {}
      : { defaults: { ...(keys === undefined ? {} : { keys }), ...(groups === undefined ? {} : { groups }) } }),
  };
}

function shown(result: StoredGroup | ManageError): GroupView | AdminError {
  if (result instanceof ManageError) return adminErrorOf(result);
  const known: KnownGroup = { source: "store", group: result };
  return groupView(known);
}
