import { describe, expect, test } from "bun:test";
import { createVerify, generateKeyPairSync } from "node:crypto";
import { serviceAccountOf, serviceAccountText } from "../../../../src/channels/channel-auth.ts";
import { entraIdentity } from "../../../../src/net/credentials/entra-identity.ts";
import {
  googleMachineRequest,
  readToken,
  tokenRequest,
  type TokenAuth,
  type TokenRequest,
} from "../../../../src/net/credentials/token-request.ts";
import { isFailure, type Failure } from "../../../../src/operations/failure.ts";

const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const pem = privateKey.export({ type: "pkcs8", format: "pem" });
const account = { type: "service_account", client_email: "robot@project.example", private_key: pem, private_key_id: "k1", token_uri: "x" };
const google: TokenAuth = { kind: "google", scope: "https://scope.example/all", tokenUrl: "https://tokens.example/token" };
const entra: TokenAuth = { kind: "entra", scope: "https://service.example/.default", tokenUrl: null };
const wallMs = Date.UTC(2026, 10, 17);

function requested(request: TokenRequest | Failure): TokenRequest {
  if (isFailure(request)) throw new Error(request.detail);
  return request;
}

describe("a request for a token", () => {
  test.each([
    ["its file", JSON.stringify(account, null, 2)],
    ["base64", Buffer.from(JSON.stringify(account)).toString("base64")],
    ["a key whose line breaks a shell kept escaped", JSON.stringify({ ...account, private_key: pem.replaceAll("\n", "\\n") })],
    ["the form in which it is kept", serviceAccountText(serviceAccountOf(JSON.stringify(account))!)],
  ])("of a service account is signed with its key, given as %s", (_, secret) => {
    const { method, url, body, metadata } = requested(tokenRequest(google, secret, wallMs));
    expect([method, url, metadata]).toEqual(["POST", "https://tokens.example/token", false]);
    const form = new URLSearchParams(body ?? "");
    expect(form.get("grant_type")).toBe("urn:ietf:params:oauth:grant-type:jwt-bearer");
    const [header = "", claims = "", signature = ""] = form.get("assertion")?.split(".") ?? [];
    expect(createVerify("RSA-SHA256").update(`${header}.${claims}`).verify(publicKey, Buffer.from(signature, "base64url"))).toBe(true);
    expect(decoded(header)).toEqual({ alg: "RS256", typ: "JWT", kid: "k1" });
    expect(decoded(claims)).toEqual({
      iss: "robot@project.example",
      scope: "https://scope.example/all",
      aud: "https://tokens.example/token",
      iat: wallMs / 1000,
      exp: wallMs / 1000 + 3600,
    });
  });

  test("of a service account without a usable key is a failure of the credential that shows nothing of it", () => {
    const broken = { ...account, private_key: "-----BEGIN PRIVATE KEY-----\nnonsense-of-a-key\n-----END PRIVATE KEY-----\n" };
    const elliptic = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ type: "pkcs8", format: "pem" });
    for (const secret of [JSON.stringify(broken), JSON.stringify({ ...account, private_key: elliptic }), "nonsense-of-a-key", "{}"]) {
      const outcome = tokenRequest(google, secret, wallMs);
      expect(outcome).toMatchObject({ kind: "misconfigured", scope: "credential" });
      expect(JSON.stringify(outcome)).not.toContain("nonsense-of-a-key");
    }
  });

  test("without a secret goes to the metadata service of the machine, and nowhere else", async () => {
    expect(googleMachineRequest()).toMatchObject({ method: "GET", metadata: true, headers: { "metadata-flavor": "Google" } });
    const asked: TokenRequest[] = [];
    const ask = (request: TokenRequest) => {
      asked.push(request);
      return Promise.resolve({ status: 404, body: "" });
    };
    const ports = { env: {}, readFile: () => Promise.resolve(null), ask, wallMs: () => wallMs };
    expect(await entraIdentity(entra.scope, ports)).toMatchObject({ kind: "unauthorized" });
    expect(asked).toMatchObject([{ method: "GET", metadata: true, headers: { metadata: "true" } }]);
    expect(new URL(asked[0]?.url ?? "").searchParams.get("resource")).toBe("https://service.example");
  });

  test("of an application carries its id and its secret", () => {
    const { url, body } = requested(tokenRequest(entra, "tenant.example:0000-11:se:cret~", wallMs));
    expect(url).toBe("https://login.microsoftonline.com/tenant.example/oauth2/v2.0/token");
    expect(Object.fromEntries(new URLSearchParams(body ?? ""))).toEqual({
      grant_type: "client_credentials",
      client_id: "0000-11",
      client_secret: "se:cret~",
      scope: "https://service.example/.default",
    });
  });
});

describe("the answer of a token service", () => {
  test("gives the token and how long it is valid, as a number or as text", () => {
    expect(readToken(200, '{"access_token":"t","expires_in":3599}')).toEqual({ value: "t", lifetimeMs: 3_599_000 });
    expect(readToken(200, '{"access_token":"t","expires_in":"3599"}')).toEqual({ value: "t", lifetimeMs: 3_599_000 });
    expect(readToken(200, '{"access_token":"t","expires_in":1e99}')).toEqual({ value: "t", lifetimeMs: 86_400_000 });
  });

  test.each([
    [200, "", "bad_response"],
    [200, "<html>", "bad_response"],
    [200, "null", "bad_response"],
    [200, '{"access_token":"t"}', "bad_response"],
    [200, '{"access_token":"t","expires_in":-1}', "bad_response"],
    [200, '{"access_token":"two\\r\\nlines","expires_in":1}', "bad_response"],
    [400, '{"error":"invalid_grant","error_description":"robot@project.example"}', "unauthorized"],
    [401, '{"error":"invalid_client"}', "unauthorized"],
    [404, "not found", "unauthorized"],
    [429, "", "overloaded"],
    [503, "", "overloaded"],
  ] as const)("with status %d and %j is %s of the credential", (status, body, kind) => {
    const outcome = readToken(status, body);
    expect(outcome).toMatchObject({ kind, scope: "credential" });
    expect(JSON.stringify(outcome)).not.toContain("robot@");
  });
});

function decoded(part: string): unknown {
  return JSON.parse(Buffer.from(part, "base64url").toString());
}
