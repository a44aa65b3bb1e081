import type { Account, Actor, Session } from "../gateway/storage.ts";
import type { ManageContext } from "./context.ts";

/**
 * A link signs somebody in without a password, once. It is a session that no cookie can name: its secret has another form than that of a
 * cookie, and its mark tells it from one that was opened. Using it ends it and opens a real one.
 */
export const loginLinkMark = "login link";
export const loginLinkLifeMs = 2 * 60_000;

/** Returns the secret of the link. */
export async function createLoginLink(context: ManageContext, { name, role }: Account, actor: Actor): Promise<string> {
  const secret = context.makeAdminToken().token;
  const now = context.wallMs();
  await context.storage.accounts.openSession({
    digest: context.adminDigest(secret),
    account: name,
    issuer: null,
    subject: null,
    role,
    csrf: loginLinkMark,
    createdMs: now,
    seenMs: now,
  });
  await context.storage.audit.note("login.link", name, {}, actor);
  return secret;
}

/** Whose link this is; null if there is none, if it has expired, or if somebody else has just used it. Only one caller gets an answer. */
export async function useLoginLink({ storage, adminDigest, wallMs }: ManageContext, secret: string): Promise<Session | null> {
  const digest = adminDigest(secret);
  const session = await storage.accounts.session(digest);
  if (session === null || session.csrf !== loginLinkMark) return null;
  const wasThere = await storage.accounts.endSession(digest);
  return wasThere && wallMs() - session.createdMs < loginLinkLifeMs ? session : null;
}
