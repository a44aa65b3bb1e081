import { createHash } from "node:crypto";
import { z } from "zod";
import { BoundedMap } from "../../gateway/upstream-state/bounded-map.ts";
import { SignInTrouble, type SignedInPerson } from "../../gateway/sign-in.ts";
import type { Actor } from "../../gateway/storage.ts";
import { treeAbove } from "../../manage/group-search.ts";
import { groupIdOf } from "../../manage/groups.ts";
import { isoMoment } from "../../usage/time-text.ts";
import { AdminError, invalid } from "../admin-error.ts";
import { moment, role } from "../fields/scalars.ts";
import type { SessionCookie } from "../login/cookie.ts";
import { sameText } from "../login/csrf.ts";
import { groupRole, type GrantedRole } from "../login/group-role.ts";
import { guarded } from "../login/guarded.ts";
import type { LoginGuard } from "../login/login-guard.ts";
import { IdTokenCookie, ownAddress, SignInCookie, signInMs, type BrowserSignIn } from "../login/pending-sign-in.ts";
import { areLocalAccountsOn, openSession } from "../login/sessions.ts";
import { ResultWithHeaders, route, TextResult, type AdminRoute } from "../route.ts";
import type { OidcServices, Services } from "../services.ts";

export interface SignInParts {
  readonly guard: LoginGuard;
  readonly cookie: SessionCookie;
  readonly secure: boolean;
}

/** The session of the caller, as the login routes answer. */
export const sessionAnswer = z.strictObject({
  name: z.string(),
  role,
  /** To be sent in the header `x-csrf-token` of every request that changes something. */
  csrf_token: z.string(),
  /** The latest end; a time without a request ends it too. */
  expires_at: moment,
});

/** Sign-in with a provider (OpenID Connect). */
export function signInRoutes(parts: SignInParts): readonly AdminRoute[] {
  /** A state is used once. The provider ensures the same with its codes, but is asked for that. */
  const usedStates = new BoundedMap<string, true>(usedStatesMax);
  const callback = route({
    method: "GET",
    path: callbackPath,
    access: "public",
    summary: "Where the provider sends the browser back to: opens a session, and sends the browser on.",
    answer: sessionAnswer,
    text: "text/html",
    handle: async ({ query, headers, services, actor, address }) => {
      const { oidc } = services.signIn;
      if (oidc === null) return noProvider;
      const begun = new SignInCookie(parts.secure, oidc.seal).read(headers.get("cookie"), services.wallMs());
      const parameters = new URLSearchParams(query);
      if (begun === null || !sameText(parameters.get("state") ?? "", begun.state) || usedStates.has(begun.state)) return notBegun;
      return guarded(parts.guard, address, async () => {
        usedStates.set(begun.state, true);
        return finished(parameters, begun, { oidc, services, actor, parts, html: wantsHtml(headers) });
      });
    },
  });
  return [
    route({
      method: "GET",
      path: "/admin/api/sign-in/methods",
      access: "public",
      summary: "Shows how people can sign in.",
      answer: z.strictObject({
        local_accounts: z.boolean(),
        oidc: z.strictObject({ issuer: z.string(), path: z.string() }).nullable(),
      }),
      handle: async ({ services }) => ({
        local_accounts: await areLocalAccountsOn(services),
        oidc: services.signIn.oidc === null ? null : { issuer: services.signIn.oidc.provider.issuer, path: signInPath },
      }),
    }),
    route({
      method: "GET",
      path: signInPath,
      access: "public",
      summary: "Sends the browser to the provider to sign in, and then to `return_to`, a path of this listener.",
      query: z.object({ return_to: z.string().min(1).max(500).default("/") }),
      answer: z.string(),
      text: "text/plain",
      status: 303,
      handle: async ({ query, services }) => {
        const { oidc } = services.signIn;
        if (oidc === null) return noProvider;
        const returnTo = ownAddress(query.return_to, oidc.publicUrl);
        if (returnTo === null) return invalid("return_to", "The parameter 'return_to' must be a path of this listener, such as /console.");
        const begun = await oidc.provider.begin();
        if (begun instanceof SignInTrouble) return providerDown(oidc, begun, await areLocalAccountsOn(services));
        const signIn = { ...begun.pending, returnTo, untilMs: services.wallMs() + signInMs };
        const cookie = new SignInCookie(parts.secure, oidc.seal).set(signIn);
        return new TextResult("text/plain", "", null, { location: begun.url, "set-cookie": cookie });
      },
    }),
    // Providers add parameters of their own.
    { ...callback, query: z.looseObject({}) },
  ];
}

interface SignInAnswering {
  readonly oidc: OidcServices;
  readonly services: Services;
  readonly actor: Actor;
  readonly parts: SignInParts;
  readonly html: boolean;
}

async function finished(parameters: URLSearchParams, begun: BrowserSignIn, answering: SignInAnswering) {
  const { oidc, services, actor } = answering;
  const { issuer } = oidc.provider;
  const { audit } = services.storage;
  const person = await oidc.provider.finish(parameters, begun);
  if (person instanceof SignInTrouble) {
    await audit.note("login.failed", "unknown", { issuer, reason: person.reason }, actor);
    return person.kind === "unavailable" ? providerDown(oidc, person, await areLocalAccountsOn(services)) : notConfirmed;
  }
  const granted = groupRole(person.groups, oidc);
  if (granted === null) {
    await audit.note("login.failed", accountNameOf(person), { issuer, subject: person.subject, reason: "no group with a role" }, actor);
    return noRole;
  }
  if (granted.role !== "group_admin") return opened(person, { role: granted.role, group: null, passedOver: [] }, begun.returnTo, answering);
  const managed = await managedGroup(services, granted.groups);
  if (managed === null) {
    const reason = `there is no group '${granted.groups.join("', '")}'`;
    await audit.note("login.failed", accountNameOf(person), { issuer, subject: person.subject, reason }, actor);
    return noRole;
  }
  return opened(person, { role: granted.role, ...managed }, begun.returnTo, answering);
}

interface OpenedRole extends Pick<GrantedRole, "role"> {
  /** The id of the group that a group admin manages; null for other roles. */
  readonly group: string | null;
  /** The ids of groups that they would manage as well, if a person could manage several. */
  readonly passedOver: readonly string[];
}

/** The first group that none of the others is above; null if none exists: a group may have been removed, or not been made yet. */
async function managedGroup(services: Services, names: readonly string[]): Promise<Omit<OpenedRole, "role"> | null> {
  const found = await Promise.all(names.map(async (name) => groupIdOf(services, name)));
  const ids = [...new Set(found.filter((id) => typeof id === "string"))];
  const [first = null] = ids;
  if (first === null || ids.length === 1) return first === null ? null : { group: first, passedOver: [] };
  const trees = new Map(await Promise.all(ids.map(async (id) => [id, await treeAbove(services, id)] as const)));
  const isWithin = (id: string, other: string): boolean => trees.get(id)?.isWithin(id, other) ?? false;
  const group = ids.find((id) => ids.every((other) => other === id || !isWithin(id, other))) ?? first;
  return { group, passedOver: ids.filter((id) => !isWithin(id, group)) };
}

async function opened(
  person: SignedInPerson,
  { role: granted, group, passedOver }: OpenedRole,
  returnTo: string,
  { oidc, services, actor, parts, html }: SignInAnswering,
) {
  const { subject } = person;
  const { issuer } = oidc.provider;
  const name = await sessionNameOf(person, issuer, services);
  const { secret, session } = await openSession({ name, role: granted, provided: { issuer, subject, group } }, services);
  const scope = { ...(group === null ? {} : { group }), ...(passedOver.length === 0 ? {} : { passed_over: passedOver }) };
  await services.storage.audit.note(
    "login",
    name,
    { issuer, subject, role: granted, ...scope },
    { ...actor, name, person: { issuer, subject } },
  );
  const { sessionLifeMs } = services.signIn;
  const kept = new IdTokenCookie(parts.secure, oidc.seal).set(person.idToken, session.digest, sessionLifeMs);
  const cookies = [
    parts.cookie.set(secret, sessionLifeMs),
    new SignInCookie(parts.secure, oidc.seal).clear(),
    ...(kept === null ? [] : [kept]),
  ];
  if (html) return new TextResult("text/html; charset=utf-8", pageTo(returnTo), null, { "set-cookie": cookies });
  const value = { name, role: granted, csrf_token: session.csrf, expires_at: isoMoment(session.createdMs + sessionLifeMs) };
  return new ResultWithHeaders(value, { "set-cookie": cookies });
}

/** Local names have no colon, so that a person of a provider cannot be mistaken for one. */
function accountNameOf({ name }: SignedInPerson): string {
  return `oidc:${name.slice(0, nameCharactersMax).toWellFormed().replace(/\p{C}/gu, "?")}`;
}

/**
 * The name that the person has in the audit log, and that sessions are ended by. At many providers people choose what they are called, so
 * that only the first has the plain name. Others have a mark behind it, which is too long to be met by trying.
 */
async function sessionNameOf(person: SignedInPerson, issuer: string, { storage }: Services): Promise<string> {
  const name = accountNameOf(person);
  const { subject } = person;
  if (!markedName.test(name) && (await storage.accounts.ownsName(name, { issuer, subject }))) return name;
  return `${name}#${createHash("sha256")
    .update(JSON.stringify([issuer, subject]))
    .digest("hex")
    .slice(0, markCharacters)}`;
}

/** Marks of earlier versions had 8 characters, and are not to be chosen either. */
const markCharacters = 16;
const markedName = /#(?:[0-9a-f]{8}|[0-9a-f]{16})$/;

/**
 * Browsers do not send a `SameSite=Strict` cookie along a redirect that another site began. From a page of this origin the next
 * request is its own. The page has an empty icon: without one, a browser that is slow to leave it asks for /favicon.ico in vain.
 */
function pageTo(address: string): string {
  const shown = address.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0;url=${shown}">
<title>Signed in</title>
<link rel="icon" href="data:,">
<p>You are signed in. <a href="${shown}">Continue</a></p>
</html>
`;
}

function wantsHtml(headers: Headers): boolean {
  return (headers.get("accept") ?? "").toLowerCase().includes("text/html");
}

function providerDown({ provider }: OidcServices, { reason }: SignInTrouble, hasLocal: boolean): AdminError {
  const otherwise = hasLocal ? "or log in with a local account: POST /admin/api/login" : "or use an admin token";
  return new AdminError(
    503,
    "sign_in_unavailable",
    `The sign-in provider ${provider.issuer} cannot be used at the moment (${reason}). Try again soon, ${otherwise}.`,
    null,
    { "retry-after": "5" },
  );
}

const signInPath = "/admin/api/sign-in";
export const callbackPath = `${signInPath}/callback`;
const usedStatesMax = 10_000;
const nameCharactersMax = 120;

const noProvider = new AdminError(404, "sign_in_off", "There is no sign-in provider (sign_in.oidc): log in with POST /admin/api/login.");
const again = `Begin again at ${signInPath}.`;
const notBegun = new AdminError(
  400,
  "sign_in_expired",
  `This sign-in was not begun in this browser, was already used, or took longer than ten minutes. ${again}`,
);
/** The reason is in the audit log. */
const notConfirmed = new AdminError(401, "sign_in_failed", `The provider did not confirm this sign-in. ${again}`);
const noRole = new AdminError(
  403,
  "no_role",
  "The provider knows you, but none of your groups has a role here. Ask an operator to add one to sign_in.oidc.",
);
