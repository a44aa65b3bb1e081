import { z } from "zod";
import { isoMoment } from "../../usage/time-text.ts";
import { accountName, password, role } from "../fields/scalars.ts";
import type { Caller } from "../authorise.ts";
import type { SessionCookie } from "../login/cookie.ts";
import { guarded } from "../login/guarded.ts";
import type { LoginGuard } from "../login/login-guard.ts";
import { hashPassword, verifyPassword } from "../login/password.ts";
import { IdTokenCookie, logoutPath } from "../login/pending-sign-in.ts";
import { editAccount, passwordProblem } from "../../manage/accounts.ts";
import { ManageError } from "../../manage/error.ts";
import { invalid, AdminError, adminErrorOf } from "../admin-error.ts";
import { ResultWithHeaders, route, type AdminRoute } from "../route.ts";
import type { Services } from "../services.ts";
import { areLocalAccountsOn, openSession, type OpenedSession } from "../login/sessions.ts";
import { useLoginLink } from "../../manage/login-link.ts";
import { sessionAnswer } from "./sign-in-routes.ts";

/** What the login routes share besides the services. */
export interface LoginParts {
  readonly guard: LoginGuard;
  readonly cookie: SessionCookie;
  readonly secure: boolean;
  /** Called when the first account was created: the file with the token is no longer needed. */
  readonly onBootstrapped: () => Promise<void>;
}

const done = z.strictObject({ done: z.literal(true) });

/** Login, logout, passwords, and the first account. */
export function loginRoutes(login: LoginParts): readonly AdminRoute[] {
  return [
    route({
      method: "GET",
      path: "/admin/api/start",
      access: "public",
      summary: "Tells whether the first account still has to be created, and how the gateway's command line is named.",
      answer: z.strictObject({
        first_account: z.boolean(),
        command: z.string().describe("What comes before a command on the machine of the gateway, such as `sluice`."),
      }),
      handle: async ({ services }) => ({
        first_account: services.signIn.localAccounts && (await services.storage.accounts.count()) === 0,
        command: services.told.name,
      }),
    }),
    route({
      method: "POST",
      path: "/admin/api/bootstrap",
      access: "public",
      summary: "Creates the first admin account with the token that the first start left in a file. It works once.",
      body: z.strictObject({ token: z.string().min(1).max(512), name: accountName, password }),
      answer: z.strictObject({ name: z.string(), role }),
      status: 201,
      handle: async ({ body, actor, services, address }) => {
        const problem = passwordProblem(body.password, body.name);
        if (problem !== null) return adminErrorOf(problem);
        return guarded(login.guard, address, async () => {
          const passwordHash = await hashPassword(body.password);
          const account = { name: body.name, role: "admin", passwordHash } as const;
          const by = { ...actor, name: body.name };
          const { accounts } = services.storage;
          if (!(await accounts.useBootstrap(services.adminDigest(body.token), services.wallMs(), account, by))) return invalidBootstrap;
          await login.onBootstrapped();
          return { name: account.name, role: account.role };
        });
      },
    }),
    route({
      method: "POST",
      path: "/admin/api/login",
      access: "public",
      summary: "Opens a session and sets its cookie.",
      body: z.strictObject({ name: z.string().min(1).max(200), password }),
      answer: sessionAnswer,
      handle: ({ body, actor, services, address }) =>
        guarded(login.guard, address, async () => {
          const name = body.name.trim().toLowerCase();
          const { accounts, audit } = services.storage;
          if (!(await areLocalAccountsOn(services))) return localAccountsOff;
          const found = await accounts.passwordHash(name);
          const matches = await verifyPassword(body.password, found?.hash ?? null);
          if (!matches || found === null || found.account.disabledMs !== null) {
            // People sometimes type a password into the field of the name, so only existing names are logged.
            await audit.note("login.failed", found?.account.name ?? "unknown", {}, actor);
            return wrongPassword;
          }
          const { account } = found;
          const opened = await openSession({ ...account, provided: null }, services);
          await audit.note("login", account.name, {}, { ...actor, name: account.name });
          return entered(opened, login.cookie, services);
        }),
    }),
    route({
      method: "POST",
      path: "/admin/api/login/link",
      access: "public",
      summary: "Opens a session with the secret of a link that `sluice open` made. It works once, within two minutes.",
      body: z.strictObject({ secret: z.string().min(1).max(512) }),
      answer: sessionAnswer,
      handle: ({ body, actor, services, address }) =>
        guarded(login.guard, address, async () => {
          if (!(await areLocalAccountsOn(services))) return localAccountsOff;
          const link = await useLoginLink(services, body.secret);
          if (link === null) return invalidLink;
          const opened = await openSession({ name: link.account, role: link.role, provided: null }, services);
          await services.storage.audit.note("login", link.account, { link: true }, { ...actor, name: link.account });
          return entered(opened, login.cookie, services);
        }),
    }),
    route({
      method: "POST",
      path: logoutPath,
      access: "viewer",
      own: true,
      summary: "Ends the caller's session. `end_session_url`, if there is one, is where the browser can end that at the provider too.",
      answer: done.extend({ end_session_url: z.string().nullable() }),
      handle: async ({ caller, services, actor, headers }) => {
        if (caller.kind !== "session") return onlySessions;
        await services.storage.accounts.endSession(caller.digest);
        await services.storage.audit.note("logout", caller.name, {}, actor);
        const { oidc } = services.signIn;
        if (caller.person === null || oidc === null) {
          return new ResultWithHeaders({ done: true, end_session_url: null } as const, { "set-cookie": login.cookie.clear() });
        }
        const kept = new IdTokenCookie(login.secure, oidc.seal);
        const endSessionUrl = await oidc.provider.endSessionUrl(kept.read(headers.get("cookie"), caller.digest));
        const cookies = [login.cookie.clear(), kept.clear()];
        return new ResultWithHeaders({ done: true, end_session_url: endSessionUrl } as const, { "set-cookie": cookies });
      },
    }),
    route({
      method: "POST",
      path: "/admin/api/password",
      access: "viewer",
      own: true,
      summary: "Changes the caller's own password, which ends all of the account's sessions.",
      body: z.strictObject({ current: password, password }),
      answer: done,
      handle: async ({ body, caller, services, actor, address }) => {
        if (caller.kind !== "session" || caller.person !== null) return onlySessions;
        const problem = passwordProblem(body.password, caller.name);
        if (problem !== null) return adminErrorOf(problem);
        return guarded(login.guard, address, async () => {
          const { accounts } = services.storage;
          const found = await accounts.passwordHash(caller.name);
          if (!(await verifyPassword(body.current, found?.hash ?? null))) return wrongCurrent;
          const changed = await editAccount(services, caller.name, { password: body.password }, actor);
          if (changed instanceof ManageError) return adminErrorOf(changed);
          return new ResultWithHeaders({ done: true } as const, { "set-cookie": login.cookie.clear() });
        });
      },
    }),
    route({
      method: "GET",
      path: "/admin/api/me",
      access: "viewer",
      scoped: true,
      summary: "Shows who the caller is, and the CSRF token of the session.",
      answer: z.strictObject({
        kind: z.enum(["account", "oidc", "token"]),
        name: z.string(),
        role,
        group: z.string().optional().describe("The id of the group of a group admin; others have none."),
        csrf_token: z.string().nullable(),
        idle_seconds: z.int().nullable(),
      }),
      handle: ({ caller, services }) => describe(caller, services.signIn.sessionIdleMs),
    }),
  ];
}

function entered(
  { secret, session: { account, role, csrf, createdMs } }: OpenedSession,
  cookie: SessionCookie,
  { signIn: { sessionLifeMs } }: Services,
) {
  const value = { name: account, role, csrf_token: csrf, expires_at: isoMoment(createdMs + sessionLifeMs) };
  return new ResultWithHeaders(value, { "set-cookie": cookie.set(secret, sessionLifeMs) });
}

function describe(caller: Caller, sessionIdleMs: number) {
  if (caller.kind === "anonymous") throw new Error("a route for viewers was called anonymously");
  const { name, role } = caller;
  const group = caller.group === null ? {} : { group: caller.group };
  return caller.kind === "session"
    ? {
        kind: caller.person === null ? ("account" as const) : ("oidc" as const),
        name,
        role,
        ...group,
        csrf_token: caller.csrf,
        idle_seconds: sessionIdleMs / 1000,
      }
    : { kind: "token" as const, name, role, ...group, csrf_token: null, idle_seconds: null };
}

/** The same for an unknown name, a wrong password and a disabled account. */
const wrongPassword = new AdminError(401, "invalid_login", "The name or the password is wrong.");
const invalidLink = new AdminError(401, "invalid_login", "The link was used, or is older than two minutes. Run `sluice open` again.");
const localAccountsOff = new AdminError(
  403,
  "local_accounts_off",
  "Local accounts are turned off (sign_in.local_accounts): sign in at /admin/api/sign-in. Whoever can run commands beside the gateway can allow them for a while: sluice accounts allow-local.",
);
const wrongCurrent = invalid("current", "The current password is wrong.");
const invalidBootstrap = new AdminError(
  401,
  "invalid_bootstrap_token",
  "The bootstrap token is wrong, was used, or is older than an hour. While there is no account, each start writes a new one.",
);
const onlySessions = new AdminError(
  400,
  "not_a_session",
  "This route needs a login session: an admin token has neither a session nor a password, and who signed in with a provider has no password here.",
);
