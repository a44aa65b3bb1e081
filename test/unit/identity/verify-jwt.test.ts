import { beforeAll, describe, expect, test } from "bun:test";
import { exportSPKI, importJWK, SignJWT, UnsecuredJWT } from "jose";
import { IssuerClient } from "../../../src/identity/issuer-client.ts";
import { KeySet } from "../../../src/identity/key-set.ts";
import { verifyJwt, type JwtVerdict } from "../../../src/identity/verify-jwt.ts";
import { issuerUrl, nowMs, PaperIssuer, signed, signingKey, type SigningKey } from "../../support/issuer.ts";

let key: SigningKey;
let stranger: SigningKey;
const issuer = new PaperIssuer();
const keys = new KeySet(new IssuerClient(issuerUrl, false, issuer.fetchText), null, () => 0);
const seconds = nowMs / 1000;

beforeAll(async () => {
  key = await signingKey("one");
  stranger = await signingKey("one");
  // A shared secret in the key set must verify nothing.
  issuer.keys = [key.publicJwk, { kty: "oct", k: "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0", kid: "shared", alg: "HS256" }];
});

function verify(token: string): Promise<JwtVerdict> {
  return verifyJwt(token, { issuer: issuerUrl, audience: "sluice", keys, lifetimeMaxMs: 3_600_000 }, nowMs);
}

describe("a token", () => {
  test("of the issuer for this audience is valid until a minute after its end", async () => {
    const verdict = await verify(await signed(key, { groups: ["a"] }));
    expect(verdict).toMatchObject({ kind: "valid", subject: "job-1", expiresMs: nowMs + 660_000, claims: { groups: ["a"] } });
  });

  test("may name several audiences, and its clock may be half a minute off", async () => {
    expect((await verify(await signed(key, { aud: ["other", "sluice"] }))).kind).toBe("valid");
    expect((await verify(await signed(key, { iat: seconds + 30, nbf: seconds + 30, exp: seconds + 60 }))).kind).toBe("valid");
    expect((await verify(await signed(key, { iat: seconds - 600, exp: seconds - 30 }))).kind).toBe("valid");
  });

  const wrong: readonly (readonly [what: string, claims: Record<string, unknown>])[] = [
    ["that has expired", { iat: seconds - 900, exp: seconds - 61 }],
    ["that is not valid yet", { nbf: seconds + 61 }],
    ["that was issued in the future", { iat: seconds + 61, exp: seconds + 600 }],
    ["of another issuer", { iss: "https://issuer.example/" }],
    ["without an issuer", { iss: undefined }],
    ["for another audience", { aud: "sluice-staging" }],
    ["for no audience", { aud: undefined }],
    ["without a subject", { sub: undefined }],
    ["with an empty subject", { sub: "" }],
    ["with a subject that is no text", { sub: { admin: true } }],
    ["with a subject of two thousand characters", { sub: "x".repeat(2000) }],
    ["without an end", { exp: undefined }],
    ["without a time of issue", { iat: undefined }],
    ["whose times are texts", { iat: String(seconds) }],
    ["that is valid for longer than allowed", { exp: seconds + 3_601 }],
  ];
  test.each(wrong)("%s is refused", async (_, claims) => {
    expect((await verify(await signed(key, claims))).kind).toBe("refused");
  });

  test("signed by another key of the same name is refused", async () => {
    expect(await verify(await signed(stranger))).toEqual({ kind: "refused", reason: "its signature is wrong" });
  });

  test("signed with a key that has replaced another of the same name is valid, and the old key is worth nothing then", async () => {
    const [before, after] = [await signingKey("one"), await signingKey("one")];
    const paper = new PaperIssuer();
    paper.keys = [before.publicJwk];
    let atMs = 0;
    const replaced = new KeySet(new IssuerClient(issuerUrl, false, paper.fetchText), null, () => atMs);
    const kindOf = async (by: SigningKey) =>
      (await verifyJwt(await signed(by), { issuer: issuerUrl, audience: "sluice", keys: replaced, lifetimeMaxMs: 3_600_000 }, nowMs)).kind;
    expect(await kindOf(before)).toBe("valid");
    paper.keys = [after.publicJwk];
    expect(await kindOf(after)).toBe("refused");
    atMs = 10_000;
    expect(await kindOf(after)).toBe("valid");
    expect(await kindOf(before)).toBe("refused");
    // Whoever forges tokens makes the gateway ask once in ten seconds.
    const { length } = paper.asked;
    for (let at = 0; at < 20; at += 1) expect(await kindOf(stranger)).toBe("refused");
    atMs = 20_000;
    for (let at = 0; at < 20; at += 1) expect(await kindOf(stranger)).toBe("refused");
    expect(paper.asked.length).toBe(length + 2);
  });

  test("of an issuer that publishes several keys of one name, or keys without names, may be signed with any of them", async () => {
    const [old, now] = [await signingKey("one"), await signingKey("one")];
    const { kid: _, ...unnamed } = now.publicJwk;
    for (const [published, header] of [
      [[old.publicJwk, now.publicJwk], {}],
      [[old.publicJwk, unnamed], { kid: undefined }],
    ] as const) {
      const paper = new PaperIssuer();
      paper.keys = [...published];
      const keySet = new KeySet(new IssuerClient(issuerUrl, false, paper.fetchText), null, () => 0);
      const rules = { issuer: issuerUrl, audience: "sluice", keys: keySet, lifetimeMaxMs: 3_600_000 };
      expect((await verifyJwt(await signed(now, {}, header), rules, nowMs)).kind).toBe("valid");
      expect(await verifyJwt(await signed(now, { aud: "other" }, header), rules, nowMs)).toMatchObject({
        kind: "refused",
        reason: "its claim 'aud' is missing or wrong",
      });
      expect((await verifyJwt(await signed(stranger, {}, header), rules, nowMs)).kind).toBe("refused");
    }
  });

  test("that brings its own key is refused", async () => {
    const token = await signed(stranger, {}, { jwk: stranger.publicJwk, jku: "https://evil.example/keys" });
    expect((await verify(token)).kind).toBe("refused");
    expect(issuer.asked.every((url) => url.startsWith(issuerUrl))).toBe(true);
  });

  test("without a signature is refused", async () => {
    const bare = new UnsecuredJWT({ iss: issuerUrl, aud: "sluice", sub: "job-1", iat: seconds, exp: seconds + 60 }).encode();
    expect(await verify(bare)).toMatchObject({ kind: "refused", reason: expect.stringContaining("none") as string });
  });

  test("signed with the public key, or with a shared secret of the key set, as if it was an HMAC, is refused", async () => {
    const publicKey = await importJWK(key.publicJwk, "ES256", { extractable: true });
    const secrets = [await exportSPKI(publicKey as CryptoKey), "secret-secret-secret-secret"];
    for (const [at, secret] of secrets.entries()) {
      const token = await new SignJWT({ iss: issuerUrl, aud: "sluice", sub: "job-1", iat: seconds, exp: seconds + 60 })
        .setProtectedHeader({ alg: "HS256", kid: ["one", "shared"][at] ?? "" })
        .sign(new TextEncoder().encode(secret));
      expect(await verify(token)).toMatchObject({ kind: "refused", reason: expect.stringContaining("HS256") as string });
    }
  });

  test("with a changed byte anywhere is refused", async () => {
    const token = await signed(key);
    // Not the last one, whose last bits mean nothing.
    for (let at = 0; at < token.length - 1; at += 7) {
      const changed = token.slice(0, at) + (token[at] === "A" ? "B" : "A") + token.slice(at + 1);
      expect([at, (await verify(changed)).kind]).toEqual([at, "refused"]);
    }
  });

  test.each(["", ".", "..", "eyJ", "eyJhbGciOiJFUzI1NiJ9..", "a.b.c", "eyJhbGciOjF9.e30.AA", "é".repeat(100)])(
    "that is none (%j) is refused",
    async (text) => {
      expect((await verify(text)).kind).toBe("refused");
    },
  );
});
