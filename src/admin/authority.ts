import { parseBearer } from "../keys/bearer.ts";
import { adminTokenPrefix, parseToken } from "../keys/token.ts";
import type { Caller, KnownCaller } from "./caller.ts";
import type { SessionCookie } from "./login/cookie.ts";
import { csrfProblem, foreignOrigin } from "./login/csrf.ts";
import { Refusal } from "./refusal.ts";
import type { Route } from "./route.ts";
import { sameText } from "./login/same-text.ts";
import type { Services } from "./services.ts";
import { findSession } from "./login/sessions.ts";

export interface Authority {
  readonly services: Services;
  readonly cookie: SessionCookie;
  readonly secure: boolean;
  /** The digest of a token that came with the start, which is nobody's account and is in no store. */
  readonly givenDigest: string | null;
}

/** Whether somebody may use a route, judged from the headers alone: no body is read for a stranger. Whatever is not granted is refused. */
export async function authorise(headers: Headers, route: Route, authority: Authority): Promise<Caller | Refusal> {
  // Even without a session: nobody's browser may be made to log in as somebody else.
  if (route.access === "public") return (route.method === "GET" ? null : foreignOrigin(headers, authority.secure)) ?? { kind: "stranger" };
  const caller = await identify(headers, authority);
  if (caller instanceof Refusal) return caller;
  if (caller.kind === "session" && route.method !== "GET") {
    const forged = csrfProblem(headers, caller.csrf, authority.secure);
    if (forged !== null) return forged;
  }
  const allowed = caller.role === "admin" || (caller.role === "viewer" && route.access === "viewer");
  return allowed ? caller : forbidden;
}

/** A token is asked first: who sends one means it, while a cookie comes along by itself. */
async function identify(headers: Headers, authority: Authority): Promise<KnownCaller | Refusal> {
  const header = headers.get("authorization");
  if (header !== null) return fromToken(header, authority);
  const secret = authority.cookie.read(headers.get("cookie"));
  if (secret === null) return unauthorized;
  const session = await findSession(secret, authority.services);
  if (session === null) return sessionEnded;
  return { kind: "session", name: session.account, role: session.role, csrf: session.csrf, digest: session.digest };
}

async function fromToken(header: string, { services, givenDigest }: Authority): Promise<KnownCaller | Refusal> {
  const given = parseBearer(header);
  if (typeof given !== "string") return unauthorized;
  const digest = services.adminDigest(given);
  if (givenDigest !== null && sameText(digest, givenDigest)) return { kind: "token", name: "given at start", role: "admin" };
  // A client's key, a mistyped token and noise do not reach the store.
  if (typeof parseToken(given, adminTokenPrefix) === "string") return unauthorized;
  const token = await services.storage.accounts.token(digest);
  return token === null || token.revokedMs !== null ? unauthorized : { kind: "token", name: token.name, role: token.role };
}

const challenge = { "www-authenticate": 'Bearer realm="sluice-admin"' };

/** One answer for a missing, malformed, unknown and revoked token: whoever guesses learns nothing. */
const unauthorized = new Refusal(
  401,
  "invalid_api_key",
  "Incorrect or missing admin token. Send one as 'Authorization: Bearer sk-gwa_…', or log in with POST /admin/api/login.",
  null,
  challenge,
);

const sessionEnded = new Refusal(401, "session_ended", "The session has ended. Log in again with POST /admin/api/login.", null, challenge);

const forbidden = new Refusal(403, "forbidden", "This needs the role 'admin'.");
