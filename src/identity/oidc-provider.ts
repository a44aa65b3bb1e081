import * as oidc from "openid-client";
import { SignInTrouble, type BegunSignIn, type PendingSignIn, type SignedInPerson, type SignInProvider } from "../gateway/sign-in.ts";
import { claimAt, claimTexts } from "./claims.ts";
import { IssuerProblem, type IssuerClient } from "./issuer-client.ts";
import { KeySet } from "./key-set.ts";
import { clockSkewMs, verifyJwt } from "./verify-jwt.ts";

export interface OidcOptions {
  readonly client: IssuerClient;
  readonly clientId: string;
  /** Null for a public client, which PKCE alone protects. */
  readonly clientSecret: string | null;
  /** Where the provider sends the browser back to. */
  readonly redirectUrl: string;
  /** Where it sends the browser after a sign-out; null: it shows a page of its own. */
  readonly logoutRedirect: string | null;
  readonly scopes: readonly string[];
  readonly groupsClaim: string;
  /** Monotonic. */
  readonly nowMs: () => number;
  readonly wallMs: () => number;
}

/** Signs in with the authorization code flow of OpenID Connect, with PKCE, state and nonce. */
export class OidcProvider implements SignInProvider {
  readonly issuer: string;
  private config: oidc.Configuration | null = null;
  private discoveredMs = Number.NEGATIVE_INFINITY;
  private triedMs = Number.NEGATIVE_INFINITY;
  private problem = "";
  private pending: Promise<void> | null = null;
  private keys: { readonly place: string; readonly set: KeySet } | null = null;

  constructor(private readonly options: OidcOptions) {
    this.issuer = options.client.issuer;
  }

  async begin(): Promise<BegunSignIn | SignInTrouble> {
    const config = await this.discovered();
    if (config === null) return this.unavailable();
    const pending = { state: oidc.randomState(), nonce: oidc.randomNonce(), verifier: oidc.randomPKCECodeVerifier() };
    const url = oidc.buildAuthorizationUrl(config, {
      redirect_uri: this.options.redirectUrl,
      scope: this.options.scopes.join(" "),
      state: pending.state,
      nonce: pending.nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(pending.verifier),
      code_challenge_method: "S256",
    });
    return { url: url.href, pending };
  }

  async finish(parameters: URLSearchParams, { state, nonce, verifier }: PendingSignIn): Promise<SignedInPerson | SignInTrouble> {
    const discovered = await this.discovered();
    if (discovered === null) return this.unavailable();
    try {
      const config = this.withClock(discovered);
      // Also checks who answers (`iss`, RFC 9207) where the provider says that it tells, and the claims of the ID token.
      const tokens = await oidc.authorizationCodeGrant(config, new URL(`${this.options.redirectUrl}?${parameters.toString()}`), {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      });
      const verdict = await this.verify(tokens.id_token ?? "", config);
      if (verdict.kind !== "valid") return new SignInTrouble(verdict.kind, `the ID token: ${verdict.reason}`);
      const { claims, subject } = verdict;
      const { groupsClaim } = this.options;
      const named = claimAt(claims, groupsClaim);
      const more = named === undefined ? await this.userInfo(config, tokens.access_token, subject) : {};
      // Not from both together: a claim of the token may be an object that lacks the groups in it.
      const groups = claimTexts(named ?? claimAt(more, groupsClaim));
      return { subject, name: nameOf({ ...more, ...claims }, subject), groups, idToken: tokens.id_token ?? "" };
    } catch (error) {
      return troubleOf(error);
    }
  }

  /** RP-initiated logout: https://openid.net/specs/openid-connect-rpinitiated-1_0.html */
  async endSessionUrl(idToken: string | null): Promise<string | null> {
    const { logoutRedirect } = this.options;
    // Somebody who leaves does not wait for news of a provider that is known.
    const config = this.config ?? (await this.discovered());
    const place = config?.serverMetadata().end_session_endpoint;
    if (config === null || place === undefined || !this.isWeb(place)) return null;
    return oidc.buildEndSessionUrl(config, {
      ...(idToken === null ? {} : { id_token_hint: idToken }),
      ...(logoutRedirect === null ? {} : { post_logout_redirect_uri: logoutRedirect }),
    }).href;
  }

  /** The token came from the provider itself, but over a connection that may end at a proxy: its signature is verified all the same. */
  private async verify(token: string, config: oidc.Configuration) {
    const { clientId, client, nowMs, wallMs } = this.options;
    const place = config.serverMetadata().jwks_uri ?? "";
    if (this.keys?.place !== place) this.keys = { place, set: new KeySet(client, place, nowMs) };
    const rules = { issuer: this.issuer, audience: clientId, keys: this.keys.set, lifetimeMaxMs: Number.POSITIVE_INFINITY };
    return verifyJwt(token, rules, wallMs());
  }

  /** The library reads the clock of this machine, which may be wrong: it is told how far that is from the clock of the store. */
  private withClock(discovered: oidc.Configuration): oidc.Configuration {
    const { clientId, wallMs } = this.options;
    const metadata = { [oidc.clockSkew]: (wallMs() - Date.now()) / 1000, [oidc.clockTolerance]: clockSkewMs / 1000 };
    const config = new oidc.Configuration(discovered.serverMetadata(), clientId, metadata, this.auth());
    config[oidc.customFetch] = this.customFetch;
    config.timeout = timeoutSeconds;
    if (this.isPlain()) oidc.allowInsecureRequests(config);
    return config;
  }

  private readonly customFetch: oidc.CustomFetch = (url, options) => this.options.client.fetch(url, options);

  private auth(): oidc.ClientAuth {
    const { clientSecret } = this.options;
    return clientSecret === null ? oidc.None() : secretAuth(clientSecret);
  }

  private isPlain(): boolean {
    return this.issuer.startsWith("http:");
  }

  /** Many providers tell groups here only. */
  private async userInfo(config: oidc.Configuration, accessToken: string, subject: string): Promise<Readonly<Record<string, unknown>>> {
    if (config.serverMetadata().userinfo_endpoint === undefined) return {};
    return oidc.fetchUserInfo(config, accessToken, subject);
  }

  /** The provider as its metadata describes it; null if it does not answer. What is known is used while it is down. */
  private async discovered(): Promise<oidc.Configuration | null> {
    const nowMs = this.options.nowMs();
    if (nowMs - this.discoveredMs > freshMs && (this.pending !== null || nowMs - this.triedMs > pauseMs)) {
      this.triedMs = nowMs;
      this.pending ??= this.discover().finally(() => {
        this.pending = null;
      });
      await this.pending;
    }
    return this.config;
  }

  private async discover(): Promise<void> {
    try {
      const config = await oidc.discovery(new URL(this.issuer), this.options.clientId, {}, this.auth(), {
        [oidc.customFetch]: this.customFetch,
        timeout: timeoutSeconds,
        execute: this.isPlain() ? [oidc.allowInsecureRequests] : [],
      });
      const flaw = this.flawOf(config.serverMetadata());
      if (flaw !== null) throw new IssuerProblem(flaw);
      this.config = config;
      this.discoveredMs = this.options.nowMs();
    } catch (error) {
      this.problem = troubleOf(error).reason;
    }
  }

  /** The library compares addresses, where a claim is compared as a text; and it leaves out what it does not use. */
  private flawOf(metadata: oidc.ServerMetadata): string | null {
    if (metadata.issuer !== this.issuer) return "its metadata names another issuer";
    if (!this.isWeb(metadata.authorization_endpoint) || !this.isWeb(metadata.token_endpoint) || !this.isWeb(metadata.jwks_uri)) {
      return "its metadata lacks an address for browsers, for tokens or for keys";
    }
    return null;
  }

  /** Plain HTTP is for a provider on this machine. */
  private isWeb(url: string | undefined): boolean {
    if (url === undefined || !URL.canParse(url)) return false;
    const { protocol, origin } = new URL(url);
    return protocol === "https:" || origin === new URL(this.issuer).origin;
  }

  private unavailable(): SignInTrouble {
    return new SignInTrouble("unavailable", this.problem);
  }
}

/** Where the provider does not say what it takes, it takes the secret in a header (OpenID Connect Core 1.0, 9). */
function secretAuth(secret: string): oidc.ClientAuth {
  return (server, client, body, headers) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    const auth = methods.includes("client_secret_basic") ? oidc.ClientSecretBasic(secret) : oidc.ClientSecretPost(secret);
    auth(server, client, body, headers);
  };
}

function nameOf(claims: Readonly<Record<string, unknown>>, subject: string): string {
  const [name = subject] = ["preferred_username", "email", "name"]
    .flatMap((claim) => claimTexts(claims[claim]))
    .filter((text) => text !== "");
  return name;
}

/** The library's errors, in words. Some quote what the provider sent, which must not get far. */
function troubleOf(error: unknown): SignInTrouble {
  const own = ownProblem(error);
  if (own !== null) return new SignInTrouble("unavailable", own.message);
  if (error instanceof oidc.AuthorizationResponseError || error instanceof oidc.ResponseBodyError) {
    return new SignInTrouble("refused", `the provider answered '${safe(error.error)}'`);
  }
  if (!(error instanceof oidc.ClientError)) return new SignInTrouble("refused", "the provider's answer cannot be used");
  const { code = "" } = error;
  const kind = code === "OAUTH_RESPONSE_IS_NOT_CONFORM" || code === "OAUTH_TIMEOUT" ? "unavailable" : "refused";
  return new SignInTrouble(kind, safe(error.message));
}

function ownProblem(error: unknown): IssuerProblem | null {
  let cause = error;
  for (let depth = 0; depth < 5 && cause instanceof Error; depth += 1) {
    if (cause instanceof IssuerProblem) return cause;
    ({ cause } = cause);
  }
  return null;
}

function safe(text: string): string {
  return text.slice(0, 200).replace(/[^\x20-\x7e]/g, "?");
}

const timeoutSeconds = 10;
const freshMs = 60 * 60_000;
const pauseMs = 5_000;
