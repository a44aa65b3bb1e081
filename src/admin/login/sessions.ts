import { StorageTrouble, type Account, type Session } from "../../gateway/storage.ts";
import type { Services } from "../services.ts";

export const sessionIdleMs = 30 * 60_000;
export const sessionLifeMs = 12 * 60 * 60_000;
/** How stale the store's idea of the last request may be: not every one is worth a write. */
const seenGrainMs = 60_000;

export interface OpenedSession {
  /** What the cookie holds, and nobody else: the store knows its keyed hash. */
  readonly secret: string;
  readonly session: Session;
}

/** A new session with a new name, whatever the browser had before. The occasion serves to forget the dead ones. */
export async function openSession(account: Account, services: Services): Promise<OpenedSession> {
  const now = services.wallMs();
  await services.storage.accounts.sweepSessions(now - sessionIdleMs, now - sessionLifeMs);
  const secret = randomName(services);
  const session = {
    digest: services.adminDigest(secret),
    account: account.name,
    role: account.role,
    csrf: randomName(services),
    createdMs: now,
    seenMs: now,
  };
  await services.storage.accounts.openSession(session);
  return { secret, session };
}

/** The session a cookie names, if it lives. Finding it keeps it alive. */
export async function findSession(secret: string, services: Services): Promise<Session | null> {
  const { accounts } = services.storage;
  const digest = services.adminDigest(secret);
  const session = await accounts.session(digest);
  if (session === null) return null;
  const now = services.wallMs();
  if (now - session.seenMs >= sessionIdleMs || now - session.createdMs >= sessionLifeMs) {
    await unlessTroubled(accounts.endSession(digest));
    return null;
  }
  if (now - session.seenMs >= seenGrainMs) await unlessTroubled(accounts.seen(digest, now));
  return session;
}

/** A store that can be read but not written to must not lock its owner out. */
async function unlessTroubled(writing: Promise<void>): Promise<void> {
  try {
    await writing;
  } catch (error) {
    if (!(error instanceof StorageTrouble)) throw error;
  }
}

function randomName({ randomBytes }: Services): string {
  return Buffer.from(randomBytes(32)).toString("base64url");
}
