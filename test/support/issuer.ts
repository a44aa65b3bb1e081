import { exportJWK, generateKeyPair, SignJWT, type JWK } from "jose";
import type { FetchIssuerText } from "../../src/identity/issuer-client.ts";

export const issuerUrl = "https://issuer.example";
export const nowMs = Date.UTC(2027, 0, 31, 12);

export interface SigningKey {
  readonly kid: string;
  readonly alg: string;
  readonly privateKey: CryptoKey;
  readonly publicJwk: JWK;
}

export async function signingKey(kid: string, alg = "ES256"): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  return { kid, alg, privateKey, publicJwk: { ...(await exportJWK(publicKey)), kid, alg } };
}

/** A token as an honest issuer makes it; what `claims` says is replaced, and what it sets to undefined is left out. */
export async function signed(
  key: SigningKey,
  claims: Readonly<Record<string, unknown>> = {},
  header: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const seconds = Math.floor(nowMs / 1000);
  const all = { iss: issuerUrl, aud: "sluice", sub: "job-1", iat: seconds, exp: seconds + 600, ...claims };
  const given = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
  return new SignJWT(given).setProtectedHeader({ alg: key.alg, kid: key.kid, ...header }).sign(key.privateKey);
}

/** The documents of an issuer, without a network, and what was asked of it. */
export class PaperIssuer {
  readonly asked: string[] = [];
  readonly reaches: string[] = [];
  keys: unknown[] = [];
  metadata: Record<string, unknown> = { issuer: issuerUrl, jwks_uri: `${issuerUrl}/keys` };
  /** Why it cannot be reached; null if it can. */
  down: string | null = null;
  /** What it waits for before it answers. */
  hangs: Promise<void> | null = null;
  /** In place of the key set. */
  body: string | null = null;
  status = 200;

  readonly fetchText: FetchIssuerText = async ({ url, reach }) => {
    this.asked.push(url);
    this.reaches.push(reach);
    await this.hangs;
    if (this.down !== null) return { ok: false, problem: this.down };
    const isMetadata = url.includes("/.well-known/");
    const body = isMetadata ? JSON.stringify(this.metadata) : (this.body ?? JSON.stringify({ keys: this.keys }));
    return { ok: true, status: this.status, contentType: "application/json", body };
  };
}
