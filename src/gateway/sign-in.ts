/** Signs people in by OpenID Connect, as an interface for its implementation. Its methods do not reject. */
export interface SignInProvider {
  /** Names the provider in sessions: a session of another provider is not valid. */
  readonly issuer: string;
  /** Where to send the browser, and what must be remembered until it returns. */
  begin(): Promise<BegunSignIn | SignInTrouble>;
  /** The person, after the browser has returned with these parameters. */
  finish(parameters: URLSearchParams, pending: PendingSignIn): Promise<SignedInPerson | SignInTrouble>;
  /**
   * Where the browser can end its session at the provider; null if the provider has no such place, or is not known at the moment.
   * `idToken` tells the provider which session is meant, so that it need not ask; null if it is not known any more.
   */
  endSessionUrl(idToken: string | null): Promise<string | null>;
}

export interface BegunSignIn {
  readonly url: string;
  readonly pending: PendingSignIn;
}

/** Binds an answer of the provider to the browser that asked for it, and to this one sign-in. */
export interface PendingSignIn {
  readonly state: string;
  readonly nonce: string;
  /** The secret of PKCE (RFC 7636). */
  readonly verifier: string;
}

export interface SignedInPerson {
  /** What the provider calls the person; it does not change. */
  readonly subject: string;
  /** For people to read. Others may have the same. */
  readonly name: string;
  readonly groups: readonly string[];
  /** As the provider signed it. It opens nothing, and names the session when the person signs out. */
  readonly idToken: string;
}

/** Why nobody is signed in. */
export class SignInTrouble {
  constructor(
    /** `unavailable`: the provider does not answer, or not as it should. `refused`: it did not confirm this sign-in. */
    readonly kind: "unavailable" | "refused",
    /** For the operator. */
    readonly reason: string,
  ) {}
}
