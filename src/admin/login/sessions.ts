import { StorageError, type Role, type Session } from "../../gateway/storage.ts";
import type { Services } from "../services.ts";

/** The time of the last request is written at most this often. */
const seenGrainMs = 60_000;

export interface OpenedSession {
  /** The value of the cookie. The store has only its keyed hash. */
  readonly secret: string;
  readonly session: Session;
}

/** Who gets a session: a local account, or a person whom a provider vouches for. */
export interface SessionOwner {
  readonly name: string;
  readonly role: Role;
  /** `group`: the id of the group that a group admin manages. The group of an account is looked up each time. */
  readonly provided: { readonly issuer: string; readonly subject: string; readonly group: string | null } | null;
}

/** Opens a session with a new secret, whatever cookie the browser had before (session fixation). Also removes expired sessions. */
export async function openSession({ name, role, provided }: SessionOwner, services: Services): Promise<OpenedSession> {
  const now = services.wallMs();
  const { sessionIdleMs, sessionLifeMs } = services.signIn;
  await services.storage.accounts.sweepSessions(now - sessionIdleMs, now - sessionLifeMs);
  const secret = randomName(services);
  const session = {
    digest: services.adminDigest(secret),
    account: name,
    role,
    issuer: provided?.issuer ?? null,
    subject: provided?.subject ?? null,
    ...(provided?.group == null ? {} : { group: provided.group }),
    csrf: randomName(services),
    createdMs: now,
    seenMs: now,
  };
  await services.storage.accounts.openSession(session);
  return { secret, session };
}

/** Whether local accounts may be used: always, or for the while that an operator has allowed on the command line. */
export async function areLocalAccountsOn({ signIn, storage, wallMs }: Services): Promise<boolean> {
  return signIn.localAccounts || (await storage.accounts.localUntilMs()) > wallMs();
}

/** The session of a cookie, unless it has expired, or its way to sign in was turned off. Every use extends it. */
export async function findSession(secret: string, services: Services): Promise<Session | null> {
  const { accounts } = services.storage;
  const digest = services.adminDigest(secret);
  const session = await accounts.session(digest);
  if (session === null) return null;
  const isOn = session.issuer === null ? await areLocalAccountsOn(services) : session.issuer === services.signIn.oidc?.provider.issuer;
  if (!isOn) return null;
  const now = services.wallMs();
  const { sessionIdleMs, sessionLifeMs } = services.signIn;
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
