import { parseBearer } from "../keys/bearer.ts";
import { adminTokenPrefix, parseToken } from "../keys/token.ts";
import type { SessionCookie } from "./login/cookie.ts";
import { csrfProblem, foreignOrigin, sameText } from "./login/csrf.ts";
import { AdminError } from "./admin-error.ts";
import type { AdminRoute } from "./route.ts";
import { metricsPath } from "./routes/metrics-routes.ts";
import type { Services } from "./services.ts";
import { findSession } from "./login/sessions.ts";
import type { ProvidedPerson, Role } from "../gateway/storage.ts";

export interface AuthContext {
  readonly services: Services;
  readonly cookie: SessionCookie;
  readonly secure: boolean;
  /** The digest of the token in ADMIN_TOKEN_FILE, which is not in the store and belongs to no account. */
  readonly operatorTokenDigest: string | null;
  /** The digest of the token that opens the metrics and nothing else. */
  readonly metricsTokenDigest: string | null;
}

/** Decides from the headers alone who may use a route: no body is read for an unknown caller. What is not allowed is refused. */
export async function authorise(headers: Headers, route: AdminRoute, auth: AuthContext): Promise<Caller | AdminError> {
  // Even without a session: another site must not be able to log a browser in with an account of its own (login CSRF).
  if (route.access === "public") return (route.method === "GET" ? null : foreignOrigin(headers, auth.secure)) ?? { kind: "anonymous" };
  if (route.path === metricsPath && isMetricsToken(headers, auth)) return { kind: "token", name: "metrics", role: "viewer", group: null };
  const caller = await identify(headers, auth);
  if (caller === unauthorized && route.path === metricsPath) return noMetricsToken;
  if (caller instanceof AdminError) return caller;
  if (caller.kind === "session" && route.method !== "GET") {
    const forged = csrfProblem(headers, caller.csrf, auth.secure);
    if (forged !== null) return forged;
  }
  switch (caller.role) {
    case "admin":
      return caller;
    case "viewer":
      return route.access === "viewer" ? caller : forbidden;
    case "group_admin":
      return caller.group !== null && (route.scoped || route.own) ? caller : forbidden;
  }
}

function isMetricsToken(headers: Headers, { services, metricsTokenDigest }: AuthContext): boolean {
  if (metricsTokenDigest === null) return false;
  const given = parseBearer(headers.get("authorization"));
  return typeof given === "string" && sameText(services.adminDigest(given), metricsTokenDigest);
}

/** A token goes before a cookie: clients send a token on purpose, while browsers attach cookies to every request. */
async function identify(headers: Headers, auth: AuthContext): Promise<KnownCaller | AdminError> {
  const header = headers.get("authorization");
  if (header !== null) return fromToken(header, auth);
  const secret = auth.cookie.read(headers.get("cookie"));
  if (secret === null) return unauthorized;
  const session = await findSession(secret, auth.services);
  if (session === null) return sessionEnded;
  const { account: name, issuer, subject, role, group = null, csrf, digest } = session;
  const person = issuer === null || subject === null ? null : { issuer, subject };
  return { kind: "session", name, person, role, group, csrf, digest };
}

async function fromToken(header: string, { services, operatorTokenDigest }: AuthContext): Promise<KnownCaller | AdminError> {
  const given = parseBearer(header);
  if (typeof given !== "string") return unauthorized;
  const digest = services.adminDigest(given);
  if (operatorTokenDigest !== null && sameText(digest, operatorTokenDigest))
    return { kind: "token", name: "given at start", role: "admin", group: null };
  // What does not have the form of an admin token is not looked up in the store.
  if (typeof parseToken(given, adminTokenPrefix) === "string") return unauthorized;
  const token = await services.storage.accounts.token(digest);
  return token === null || token.revokedMs !== null
    ? unauthorized
    : { kind: "token", name: token.name, role: token.role, group: token.group ?? null };
}

const challenge = { "www-authenticate": 'Bearer realm="sluice-admin"' };

/** The same answer for a missing, malformed, unknown and revoked token, so that guessing reveals nothing. */
const unauthorized = new AdminError(
  401,
  "invalid_api_key",
  "Incorrect or missing admin token. Send one as 'Authorization: Bearer sk-gwa_…', or log in with POST /admin/api/login.",
  null,
  challenge,
);

/** A scraper has no account: what it needs is a setting. */
const noMetricsToken = new AdminError(
  401,
  "invalid_api_key",
  "The metrics need the token of the setting `metrics.token`, or an admin token, as 'Authorization: Bearer …'.",
  null,
  challenge,
);

const sessionEnded = new AdminError(
  401,
  "session_ended",
  "The session has ended. Log in again with POST /admin/api/login, or sign in at /admin/api/sign-in.",
  null,
  challenge,
);

const forbidden = new AdminError(403, "forbidden", "This needs the role 'admin': use an account or a token with that role.");

/** Who sent a request. Only public routes have anonymous callers. */
export type Caller = { readonly kind: "anonymous" } | KnownCaller;

export type KnownCaller =
  /** Somebody with a browser. `digest` names the session in the store; `person` is null for who has a local account. */
  | {
      readonly kind: "session";
      readonly name: string;
      readonly person: ProvidedPerson | null;
      readonly role: Role;
      readonly group: string | null;
      readonly csrf: string;
      readonly digest: string;
    }
  /** A machine with a token. */
  | { readonly kind: "token"; readonly name: string; readonly role: Role; readonly group: string | null };
