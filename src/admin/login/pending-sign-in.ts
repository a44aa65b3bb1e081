import { z } from "zod";
import type { PendingSignIn } from "../../gateway/sign-in.ts";
import type { TextSeal } from "../../operations/conversation/sealed-parts.ts";
import { cookieValue } from "./cookie.ts";

/** A sign-in that a browser has begun, and where it goes afterwards. */
export interface BrowserSignIn extends PendingSignIn {
  readonly returnTo: string;
  readonly untilMs: number;
}

/**
 * The cookie that binds a sign-in to its browser until the provider sends the browser back. It is encrypted, so that any replica can
 * finish what another began, and nobody can fill a table with sign-ins that never end. The provider is another site, so that the
 * cookie has to be `SameSite=Lax`; the session's own is stricter.
 */
export class SignInCookie {
  private readonly name: string;
  private readonly attributes: string;

  constructor(
    secure: boolean,
    private readonly seal: TextSeal,
  ) {
    this.name = secure ? "__Host-sluice_sign_in" : "sluice_sign_in";
    this.attributes = `Path=/; HttpOnly; SameSite=Lax${secure ? "; Secure" : ""}`;
  }

  set(signIn: BrowserSignIn): string {
    const sealed = this.seal.seal(JSON.stringify(signIn), context);
    if (sealed === null) throw new Error("a sign-in is too long to be sealed");
    return `${this.name}=${encodeURIComponent(sealed)}; Max-Age=${signInMs / 1000}; ${this.attributes}`;
  }

  clear(): string {
    return `${this.name}=; Max-Age=0; ${this.attributes}`;
  }

  /** Null for everything that this gateway did not seal, and for a sign-in that took too long. */
  read(header: string | null, wallMs: number): BrowserSignIn | null {
    const value = cookieValue(header, this.name);
    if (value === null || value.length > cookieCharactersMax) return null;
    const text = this.seal.open(decoded(value), context);
    const read = text === null ? null : signInShape.safeParse(JSON.parse(text));
    return read?.success === true && read.data.untilMs > wallMs ? read.data : null;
  }
}

/**
 * The cookie that keeps the ID token of a session, for the sign-out at the provider. It is encrypted for that session, and sent with
 * the log-out alone. A token that is too long for a cookie is not kept: then the provider asks the person.
 */
export class IdTokenCookie {
  private readonly name: string;
  private readonly attributes: string;

  constructor(
    secure: boolean,
    private readonly seal: TextSeal,
  ) {
    this.name = secure ? "__Secure-sluice_id_token" : "sluice_id_token";
    this.attributes = `Path=${logoutPath}; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`;
  }

  /** Null if it cannot be kept. */
  set(idToken: string, sessionDigest: string, lifeMs: number): string | null {
    const sealed = this.seal.seal(idToken, idTokenContext(sessionDigest));
    const cookie = `${this.name}=${encodeURIComponent(sealed ?? "")}; Max-Age=${Math.floor(lifeMs / 1000)}; ${this.attributes}`;
    return sealed === null || cookie.length > cookieCharactersMax ? null : cookie;
  }

  clear(): string {
    return `${this.name}=; Max-Age=0; ${this.attributes}`;
  }

  /** Null for everything that was not sealed for this session. */
  read(header: string | null, sessionDigest: string): string | null {
    const value = cookieValue(header, this.name);
    if (value === null || value.length > cookieCharactersMax) return null;
    return this.seal.open(decoded(value), idTokenContext(sessionDigest));
  }
}

export const logoutPath = "/admin/api/logout";

function idTokenContext(sessionDigest: string): readonly string[] {
  return ["id-token", sessionDigest];
}

/** How long a person may take at the provider. */
export const signInMs = 10 * 60_000;

const context = ["sign-in"];
const cookieCharactersMax = 4096;
const signInShape = z.strictObject({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  returnTo: z.string(),
  untilMs: z.number(),
});

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

/**
 * The address to go to after a sign-in, if it is one of this listener; else null. It is absolute: a path such as `/.//evil.example`
 * becomes `//evil.example` when it is resolved, which would be another site.
 */
export function ownAddress(path: string, publicUrl: string): string | null {
  if (!path.startsWith("/") || path.length > returnCharactersMax || /[\\\p{Cc}]/u.test(path)) return null;
  const base = new URL(publicUrl);
  const url = URL.canParse(path, base) ? new URL(path, base) : null;
  return url !== null && url.origin === base.origin ? url.href : null;
}

const returnCharactersMax = 500;
