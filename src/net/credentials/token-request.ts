import { createPrivateKey, sign } from "node:crypto";
import { clientSecretOf, serviceAccountOf, type ChannelAuth, type ServiceAccount } from "../../channels/channel-auth.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { refusedBy, unusable } from "./identity-ports.ts";

/** The kinds of authentication that use access tokens. */
export type TokenAuth = Exclude<ChannelAuth, { readonly kind: "aws" }>;

/** A request for an access token. */
export interface TokenRequest {
  readonly method: "GET" | "POST" | "PUT";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** It goes to the metadata service of this machine, which nothing else may reach. */
  readonly metadata: boolean;
  /** It goes to a service of this machine or of its network, at an address that the operator's environment names. */
  readonly machine?: true;
}

export interface AccessToken {
  readonly value: string;
  readonly lifetimeMs: number;
}

/** The request with the secret of a channel. `wallMs` is the time that a service account states in it. */
export function tokenRequest(auth: TokenAuth, secret: string, wallMs: number): TokenRequest | Failure {
  return auth.kind === "google" ? googleRequest(auth, secret, wallMs) : entraRequest(auth, secret);
}

function googleRequest(auth: TokenAuth & { readonly kind: "google" }, secret: string, wallMs: number): TokenRequest | Failure {
  const { scope, tokenUrl } = auth;
  const account = serviceAccountOf(secret);
  if (account === null) return unusable("the credential is not the JSON of a service account");
  const assertion = signedAssertion(account, { scope, audience: tokenUrl }, Math.floor(wallMs / 1000));
  if (assertion === null) return unusable("the private key of the service account cannot be used");
  return formRequest(tokenUrl, { grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", assertion });
}

/** A JWT that the token service exchanges for an access token (RFC 7523). Null if the key is no RSA key. */
function signedAssertion(
  { clientEmail, privateKey, privateKeyId }: ServiceAccount,
  { scope, audience }: { readonly scope: string; readonly audience: string },
  nowSeconds: number,
): string | null {
  const header = { alg: "RS256", typ: "JWT", ...(privateKeyId === null ? undefined : { kid: privateKeyId }) };
  const claims = { iss: clientEmail, scope, aud: audience, iat: nowSeconds, exp: nowSeconds + assertionSeconds };
  const text = `${base64url(JSON.stringify(header))}.${base64url(JSON.stringify(claims))}`;
  try {
    const key = createPrivateKey(privateKey);
    if (key.asymmetricKeyType !== "rsa") return null;
    return `${text}.${base64url(sign("sha256", Buffer.from(text), key))}`;
  } catch {
    return null;
  }
}

const assertionSeconds = 3600;

function entraRequest({ scope, tokenUrl }: TokenAuth & { readonly kind: "entra" }, secret: string): TokenRequest | Failure {
  const client = clientSecretOf(secret);
  if (client === null) return unusable("the credential is not TENANT:CLIENT_ID:CLIENT_SECRET");
  const url = tokenUrl ?? `https://login.microsoftonline.com/${client.tenant}/oauth2/v2.0/token`;
  return formRequest(url, { grant_type: "client_credentials", client_id: client.clientId, client_secret: client.secret, scope });
}

/** The request for the token of the service account that this machine has at Google. */
export function googleMachineRequest(): TokenRequest {
  return metadataRequest(googleMetadata, { "metadata-flavor": "Google" });
}

const googleMetadata = "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token";

export function metadataRequest(url: string, headers: Readonly<Record<string, string>>): TokenRequest {
  return { method: "GET", url, headers: { accept: "application/json", ...headers }, body: null, metadata: true };
}

export function formRequest(url: string, fields: Readonly<Record<string, string>>): TokenRequest {
  const headers = { accept: "application/json", "content-type": "application/x-www-form-urlencoded" };
  return { method: "POST", url, headers, body: new URLSearchParams(fields).toString(), metadata: false };
}

/** Reads the answer of a token service. Of a refusal only the code is kept: its text may repeat what was sent. */
export function readToken(status: number, body: string, wallMs = Number.NaN): AccessToken | Failure {
  const answer = objectIn(body);
  if (status !== 200) return refusedBy("the token service", status, answer?.["error"]);
  const value = answer?.["access_token"];
  // The identity services of some machines only give the time at which it ends.
  const seconds = Number(answer?.["expires_in"] ?? Number(answer?.["expires_on"]) - wallMs / 1000);
  if (typeof value !== "string" || value.length > tokenMax || !/^[\x21-\x7e]+$/.test(value)) {
    return failure("bad_response", "the token service answered without a token", { scope: "credential" });
  }
  if (!(seconds > 0)) return failure("bad_response", "the token service does not say how long its token is valid", { scope: "credential" });
  return { value, lifetimeMs: Math.min(seconds, lifetimeMaxSeconds) * 1000 };
}

/** The largest tokens are some kilobytes, with the groups of a user in them. */
const tokenMax = 32 * 1024;
const lifetimeMaxSeconds = 86_400;

export function objectIn(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : null;
  } catch {
    return null;
  }
}

function base64url(data: string | Buffer): string {
  return Buffer.from(data).toString("base64url");
}
