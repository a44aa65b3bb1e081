import { decodeProtectedHeader, errors, jwtVerify, type JWTPayload } from "jose";
import { IssuerProblem } from "./issuer-client.ts";
import type { FoundKeys, KeySet } from "./key-set.ts";

export interface JwtRules {
  readonly issuer: string;
  readonly audience: string;
  readonly keys: KeySet;
  /** The longest time from the issue of a token to its end. */
  readonly lifetimeMaxMs: number;
}

export type JwtVerdict =
  | { readonly kind: "valid"; readonly claims: JWTPayload; readonly subject: string; readonly expiresMs: number }
  /** The reason is for the operator, and is not told to the caller. */
  | { readonly kind: "refused"; readonly reason: string }
  /** The issuer's keys are not known. */
  | { readonly kind: "unavailable"; readonly reason: string };

/**
 * Verifies a token of an issuer (RFC 7519, and the advice of RFC 8725): only signatures with a public key are accepted, the key comes
 * from the issuer and never from the token, and issuer, audience, subject and times must be there and be right.
 */
export async function verifyJwt(token: string, rules: JwtRules, wallMs: number): Promise<JwtVerdict> {
  const header = headerOf(token);
  if (header === null) return refused("it is not a signed JWT");
  if (!algorithms.includes(header.alg)) return refused(`the algorithm '${header.alg.slice(0, 20)}' is not accepted`);
  let found = await rules.keys.find(header);
  if (found instanceof IssuerProblem) return { kind: "unavailable", reason: found.message };
  if (found.keys.length === 0) return refused("its key is not among those of the issuer");
  let claims = await verifiedClaims(token, found, rules, wallMs);
  // Some issuers replace a key by one of the same name.
  if (isForged(claims) && (await rules.keys.isReplaced(found))) {
    found = await rules.keys.find(header);
    if (!(found instanceof IssuerProblem) && found.keys.length > 0) claims = await verifiedClaims(token, found, rules, wallMs);
  }
  if (claims instanceof Error) return refused(reasonOf(claims));
  // The types are what the issuer should have written, and not more.
  const { sub: subject, iat, exp } = claims as Readonly<Record<string, unknown>>;
  if (typeof subject !== "string" || subject === "" || subject.length > subjectCharactersMax)
    return refused("its subject is empty or too long");
  if (typeof iat !== "number" || typeof exp !== "number") return refused("its times are not numbers");
  if (iat * 1000 > wallMs + clockSkewMs) return refused("it was issued in the future");
  if ((exp - iat) * 1000 > rules.lifetimeMaxMs) return refused("it is valid for longer than allowed");
  return { kind: "valid", claims, subject, expiresMs: exp * 1000 + clockSkewMs };
}

/** What a token claims, or why it is not accepted. */
async function verifiedClaims(token: string, { keys }: FoundKeys, rules: JwtRules, wallMs: number): Promise<JWTPayload | Error> {
  let problem = new Error("there is no key");
  for (const key of keys) {
    try {
      const verified = await jwtVerify(token, key, {
        algorithms: [...algorithms],
        issuer: rules.issuer,
        audience: rules.audience,
        clockTolerance: clockSkewMs / 1000,
        currentDate: new Date(wallMs),
        requiredClaims: ["sub", "iat", "exp"],
      });
      return verified.payload;
    } catch (error) {
      problem = error instanceof Error ? error : new Error(String(error));
      if (isOfClaims(problem)) return problem;
    }
  }
  return problem;
}

/** What is wrong with the claims is known once the signature is right. */
function isOfClaims(error: Error): boolean {
  return error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired || error instanceof errors.JWTInvalid;
}

function isForged(result: unknown): result is errors.JWSSignatureVerificationFailed {
  return result instanceof errors.JWSSignatureVerificationFailed;
}

/** How far the clocks of an issuer and of this machine may differ. */
export const clockSkewMs = 60_000;

/** Signatures that are verified with a public key. Neither `none`, nor HMAC, for which a public key could be mistaken for the secret. */
const algorithms: readonly string[] = [..."RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512".split(" "), ...["EdDSA", "Ed25519"]];

/** Longer than the longest that issuers are known to make. */
const subjectCharactersMax = 1024;

function headerOf(token: string): { readonly alg: string; readonly kid?: string } | null {
  try {
    const { alg, kid } = decodeProtectedHeader(token);
    if (typeof alg !== "string") return null;
    return typeof kid === "string" ? { alg, kid } : { alg };
  } catch {
    return null;
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof errors.JWTExpired) return "it has expired";
  if (error instanceof errors.JWTClaimValidationFailed) return `its claim '${error.claim.slice(0, 20)}' is missing or wrong`;
  if (error instanceof errors.JWSSignatureVerificationFailed) return "its signature is wrong";
  return error instanceof errors.JOSEError ? error.message : "it cannot be verified";
}

function refused(reason: string): JwtVerdict {
  return { kind: "refused", reason };
}
