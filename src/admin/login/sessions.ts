import { StorageError, type Account, type Session } from "../../gateway/storage.ts";
import type { Services } from "../services.ts";

export const sessionIdleMs = 30 * 60_000;
export const sessionLifeMs = 12 * 60 * 60_000;
/** The time of the last request is written at most this often. */
const seenGrainMs = 60_000;

export interface OpenedSession {
  /** The value of the cookie. The store has only its keyed hash. */
  readonly secret: string;
  readonly session: Session;
}

/** Opens a session with a new secret, whatever cookie the browser had before (session fixation). Also removes expired sessions. */
export async function openSession(account: Pick<Account, "name" | "role">, services: Services): Promise<OpenedSession> {
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

/** The session of a cookie, unless it has expired. Every use extends it. */
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

/** A store that is read-only or full must not lock operators out. */
async function unlessTroubled(writing: Promise<unknown>): Promise<void> {
  try {
    await writing;
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
  }
}

function randomName({ randomBytes }: Services): string {
  return Buffer.from(randomBytes(32)).toString("base64url");
}
