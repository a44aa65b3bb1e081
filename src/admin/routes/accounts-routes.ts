import { z } from "zod";
import {
  accountView,
  createAccount,
  createAdminToken,
  editAccount,
  removeAccount,
  revokeAdminToken,
  tokenView,
} from "../../manage/accounts.ts";
import { ManageError } from "../../manage/error.ts";
import { accountName, line, moment, password, role } from "../fields/scalars.ts";
import { invalid, AdminError, adminErrorOf } from "../admin-error.ts";
import { route, type AdminRoute } from "../route.ts";

const group = z.string().optional().describe("The id of the group of a group admin; others have none.");
const account = z.strictObject({ name: z.string(), role, group, created_at: moment, disabled_at: moment.nullable() });
const token = z.strictObject({ name: z.string(), role, group, last4: z.string(), created_at: moment, revoked_at: moment.nullable() });
const givenGroup = line(200).optional().describe("The group of a group admin, by id or name.");
const removed = z.strictObject({ removed: z.string() });

/** Accounts for people, and tokens for machines. */
export const accountsRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/accounts",
    access: "admin",
    summary: "Lists the accounts.",
    answer: z.strictObject({ accounts: z.array(account) }),
    handle: async ({ services }) => ({ accounts: (await services.storage.accounts.list()).map(accountView) }),
  }),
  route({
    method: "POST",
    path: "/admin/api/accounts",
    access: "admin",
    summary: "Creates an account.",
    body: z.strictObject({ name: accountName, role, group: givenGroup, password }),
    answer: account,
    status: 201,
    handle: async ({ body, services, actor }) => {
      const created = await createAccount(services, body, actor);
      return created instanceof ManageError ? adminErrorOf(created) : accountView(created);
    },
  }),
  route({
    method: "PATCH",
    path: "/admin/api/accounts/{name}",
    access: "admin",
    summary: "Changes an account's role, password or state, which ends its sessions.",
    body: z.strictObject({ role: role.optional(), group: givenGroup, password: password.optional(), disabled: z.boolean().optional() }),
    answer: account,
    handle: async ({ params: { name }, body, caller, services, actor }) => {
      if (Object.values(body).every((value) => value === undefined))
        return invalid(null, "Nothing to change: give role, group, password or disabled.");
      if (body.password !== undefined && caller.kind === "session" && caller.name === name) return ownPassword;
      const changed = await editAccount(services, name, body, actor);
      return changed instanceof ManageError ? adminErrorOf(changed) : accountView(changed);
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/sessions/end",
    access: "admin",
    summary: "Ends all sessions of a person: an account, or a name such as `oidc:ada@example.com`.",
    body: z.strictObject({ name: line(200) }),
    answer: z.strictObject({ name: z.string(), ended: z.int() }),
    handle: async ({ body: { name }, services, actor }) => ({ name, ended: await services.storage.accounts.endSessions(name, actor) }),
  }),
  route({
    method: "DELETE",
    path: "/admin/api/accounts/{name}",
    access: "admin",
    summary: "Removes an account and ends its sessions.",
    answer: removed,
    handle: async ({ params: { name }, services, actor }) => {
      await removeAccount(services, name, actor);
      return { removed: name };
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/tokens",
    access: "admin",
    summary: "Lists the admin tokens, without their secrets.",
    answer: z.strictObject({ tokens: z.array(token) }),
    handle: async ({ services }) => ({ tokens: (await services.storage.accounts.tokens()).map(tokenView) }),
  }),
  route({
    method: "POST",
    path: "/admin/api/tokens",
    access: "admin",
    summary: "Creates an admin token for a machine. The token itself is shown only once.",
    body: z.strictObject({ name: accountName, role, group: givenGroup }),
    answer: token.extend({ token: z.string() }),
    status: 201,
    handle: async ({ body, services, actor }) => {
      const made = await createAdminToken(services, body, actor);
      return made instanceof ManageError ? adminErrorOf(made) : { ...tokenView(made.created), token: made.secret };
    },
  }),
  route({
    method: "DELETE",
    path: "/admin/api/tokens/{name}",
    access: "admin",
    summary: "Revokes an admin token for good.",
    answer: z.strictObject({ revoked: z.string() }),
    handle: async ({ params: { name }, services, actor }) => {
      await revokeAdminToken(services, name, actor);
      return { revoked: name };
    },
  }),
];

const ownPassword = new AdminError(
  400,
  "own_password",
  "Change your own password with POST /admin/api/password, which asks for the current one.",
);
