import { z } from "zod";
import { ManageError } from "../../manage/error.ts";
import { groupByIdOrName, idsWithin, keyWithDefaults } from "../../manage/group-search.ts";
import { keyById, keyByIdOrName, keyPage } from "../../manage/key-search.ts";
import { budgetSpending } from "../../manage/key-spending.ts";
import { keyView, type KeyView } from "../../manage/key-view.ts";
import { createKey, editKey, keyRevision, revokeKey, rotateKey, type KeyEdit, type KeyWithToken } from "../../manage/keys.ts";
import { fileKeyPrefix } from "../../keys/key.ts";
import type { StoredKey } from "../../keys/stored-key.ts";
import { keyBudgetsAnswer, shownBudgets } from "../views/key-budgets.ts";
import { keyAnswer, offOrSplit, operation } from "../views/key-view.ts";
import { limitsField } from "../fields/limits-field.ts";
import { momentField } from "../fields/moment-field.ts";
import { line, pageCursor, pageLimit, prose } from "../fields/scalars.ts";
import { invalid, notFound, adminErrorOf, type AdminError } from "../admin-error.ts";
import { expectedRevision, route, withRevision, type AdminRoute } from "../route.ts";
import type { Services } from "../services.ts";

const hour = 3600;

const patterns = z.array(line(256)).min(1).max(1000).nullable();
const fields = {
  name: line(200).refine((name) => !name.startsWith(fileKeyPrefix), `must not begin with ${fileKeyPrefix}`),
  owner: line(200).nullable().optional(),
  note: prose(10_000).nullable().optional(),
  models: patterns.optional().describe("The models it may use, patterns with `*`; null means every model."),
  operations: z.array(operation).min(1).max(operation.options.length).nullable().optional(),
  channels: patterns.optional().describe("The channels it may use, by name or tag, patterns with `*`; null means every one."),
  group: line(200).nullable().optional().describe("The group it belongs to, by id or name; null means none."),
  limits: limitsField.optional().describe("Its limits, replaced as a whole; `{}` means no limits."),
  long_audio: offOrSplit.optional(),
  long_input: offOrSplit.optional(),
  expires_at: momentField.nullable().optional().describe("When the key stops working; null means never."),
};
const withToken = keyAnswer.extend({
  token: z.string().nullable().describe("What clients send. It is shown only once, and not at all if it was imported."),
});

/** Client keys. */
export const keysRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/keys",
    access: "viewer",
    scoped: true,
    summary: "Lists the keys, those of the configuration file first.",
    query: z.strictObject({
      search: line(200).optional().describe("Part of a name, an owner, a note or an id, in any case, taken literally."),
      revoked: z.enum(["true", "false"]).default("false").describe("Whether revoked keys are listed too."),
      group: line(200).optional().describe("Only keys of this group and the groups below it, by id or name."),
      after: pageCursor.optional(),
      limit: pageLimit,
    }),
    answer: z.strictObject({ keys: z.array(keyAnswer), next: z.string().nullable() }),
    handle: async ({ query: { search, revoked, group, after, limit }, services }) => {
      const groups = group === undefined ? null : await idsBelow(services, group);
      if (group !== undefined && groups === null) return notFound("group");
      const page = await keyPage(services, { search: search ?? null, revoked: revoked === "true", groups, after: after ?? null, limit });
      const nowMs = services.wallMs();
      return { keys: page.keys.map((known) => keyView(known, nowMs)), next: page.next };
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/keys/{id}",
    access: "viewer",
    scoped: true,
    summary: "Shows one key, by id or name. The header `etag` changes with the key, and not with its use.",
    answer: keyAnswer,
    handle: async ({ params: { id }, services }) => {
      const known = await keyByIdOrName(services, id);
      if (known === null) return notFound("key");
      return withRevision(keyView(known, services.wallMs()), known.source === "store" ? keyRevision(services, known.key) : null);
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/keys/{id}/standing",
    access: "viewer",
    scoped: true,
    summary: "Shows what was spent of the budgets of a key, defaults of its groups included, as far as its receipts are in the store.",
    answer: keyBudgetsAnswer,
    handle: async ({ params: { id }, services }) => {
      const known = await keyById(services, id);
      if (known === null) return notFound("key");
      return shownBudgets(known.key.id, await budgetSpending(services, await keyWithDefaults(services, known.key)));
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/keys",
    access: "admin",
    scoped: true,
    summary: "Creates a key, or imports one that clients already use. A new token is shown only once.",
    body: z.strictObject({
      ...fields,
      import: z.string().max(4096).optional().describe("An existing key of at least 32 characters, which clients can go on using."),
    }),
    answer: withToken,
    status: 201,
    handle: async ({ body: { import: imported, ...body }, services, actor }) => {
      const readImport = imported === undefined ? null : () => imported;
      const created = await createKey(services, { ...editOf(body), name: body.name }, readImport, actor);
      return created instanceof ManageError || imported === undefined
        ? withTokenOf(services, created)
        : { ...stored(services, created.key), token: null };
    },
  }),
  route({
    method: "PATCH",
    path: "/admin/api/keys/{id}",
    access: "admin",
    scoped: true,
    summary:
      "Changes what a key may do. Fields that are not given stay as they are. With `if-match`, only if the key has not changed since.",
    conditional: true,
    body: z.strictObject({ ...fields, name: fields.name.optional() }),
    answer: keyAnswer,
    handle: async ({ params: { id }, body, services, actor, ifMatch }) => {
      const edit = editOf(body);
      if (Object.keys(edit).length === 0) return invalid(null, `Nothing to change: give one of ${Object.keys(fields).join(", ")}.`);
      const changed = await editKey(services, id, edit, actor, expectedRevision(ifMatch));
      if (changed instanceof ManageError) return adminErrorOf(changed);
      return withRevision(stored(services, changed), keyRevision(services, changed));
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/keys/{id}/rotate",
    access: "admin",
    scoped: true,
    summary: "Gives a key a new token, which is shown only once. The old token keeps working for a while.",
    body: z.strictObject({
      overlap_seconds: z
        .int()
        .min(0)
        .max(7 * 24 * hour)
        .default(24 * hour)
        .describe("How long the old token keeps working."),
    }),
    answer: withToken,
    handle: async ({ params: { id }, body, services, actor }) =>
      withTokenOf(services, await rotateKey(services, id, body.overlap_seconds * 1000, actor)),
  }),
  route({
    method: "POST",
    path: "/admin/api/keys/{id}/revoke",
    access: "admin",
    scoped: true,
    summary: "Revokes a key for good, and ends its running calls.",
    body: z.strictObject({}),
    answer: keyAnswer,
    handle: async ({ params: { id }, services, actor }) => {
      const revoked = await revokeKey(services, id, actor);
      return revoked instanceof ManageError ? adminErrorOf(revoked) : stored(services, revoked);
    },
  }),
];

/** The ids of a group and of all groups below it; null if there is no such group. */
async function idsBelow(services: Services, idOrName: string): Promise<readonly string[] | null> {
  const known = await groupByIdOrName(services, idOrName);
  return known === null ? null : idsWithin(services, known.group.id);
}

type Fields = z.output<z.ZodObject<Omit<typeof fields, "name">>> & { readonly name?: string | undefined };

/** The given fields only: null clears a field, and an absent one stays as it is. */
function editOf(given: Fields): KeyEdit {
  const { name, owner, note, models, operations, channels, group, limits, long_audio, long_input, expires_at } = given;
  return {
    ...(name === undefined ? {} : { name }),
    ...(owner === undefined ? {} : { owner }),
    ...(note === undefined ? {} : { note }),
    ...(models === undefined ? {} : { models }),
    ...(operations === undefined ? {} : { operations }),
    ...(channels === undefined ? {} : { channels }),
    ...(group === undefined ? {} : { group }),
    ...(limits === undefined ? {} : { limits }),
    ...(expires_at === undefined ? {} : { expiresMs: expires_at }),
    ...(long_audio === undefined && long_input === undefined
      ? {}
      : {
          splits: {
            ...(long_audio === undefined ? {} : { audio: long_audio === "split" }),
            ...(long_input === undefined ? {} : { input: long_input === "split" }),
          },
        }),
  };
}

function stored({ wallMs }: Services, key: StoredKey): KeyView {
  return keyView({ source: "store", key }, wallMs());
}

function withTokenOf(services: Services, result: KeyWithToken | ManageError): (KeyView & { readonly token: string }) | AdminError {
  return result instanceof ManageError ? adminErrorOf(result) : { ...stored(services, result.key), token: result.token };
}
