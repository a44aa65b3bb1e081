import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { SignInTrouble, type BegunSignIn } from "../../../src/gateway/sign-in.ts";
import { IssuerClient, type FetchIssuerText } from "../../../src/identity/issuer-client.ts";
import { OidcProvider } from "../../../src/identity/oidc-provider.ts";
import { issuerUrl, signed, signingKey, type SigningKey } from "../../support/issuer.ts";

let key: SigningKey;
let other: SigningKey;
/** What the provider does, which each test changes. */
let world: {
  keys: SigningKey[];
  metadata: Record<string, unknown>;
  claims: Record<string, unknown>;
  signs: SigningKey;
  idToken: ((token: string) => string) | null;
  token: { status: number; body: unknown } | null;
  userinfo: Record<string, unknown>;
  down: boolean;
  asked: { method: string; url: string; body: string | null; reach: string }[];
  nowMs: number;
  /** How far the clock of the provider and of the store is ahead of that of this machine. */
  aheadMs: number;
};

beforeAll(async () => {
  [key, other] = [await signingKey("one"), await signingKey("two")];
});

beforeEach(() => {
  world = {
    keys: [key],
    metadata: {},
    claims: {},
    signs: key,
    idToken: null,
    token: null,
    userinfo: { sub: "u-1", email: "ada@example.com", groups: ["platform"] },
    down: false,
    asked: [],
    nowMs: 1_000_000,
    aheadMs: 0,
  };
});

const fetchText: FetchIssuerText = async ({ method, url, body, reach }) => {
  world.asked.push({ method, url, body, reach });
  if (world.down) return { ok: false, problem: "connection refused" };
  const answer = (value: unknown, status = 200) => ({
    ok: true as const,
    status,
    contentType: "application/json",
    body: JSON.stringify(value),
  });
  if (url.endsWith("/.well-known/openid-configuration")) {
    return answer({
      issuer: issuerUrl,
      authorization_endpoint: `${issuerUrl}/auth`,
      token_endpoint: `${issuerUrl}/token`,
      userinfo_endpoint: `${issuerUrl}/userinfo`,
      jwks_uri: `${issuerUrl}/keys`,
      end_session_endpoint: `${issuerUrl}/end`,
      response_types_supported: ["code"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["ES256", "RS256", "HS256", "none"],
      authorization_response_iss_parameter_supported: true,
      ...world.metadata,
    });
  }
  if (url.endsWith("/keys")) return answer({ keys: world.keys.map(({ publicJwk }) => publicJwk) });
  if (url.endsWith("/userinfo")) return answer(world.userinfo);
  if (world.token !== null) return answer(world.token.body, world.token.status);
  const seconds = Math.floor((Date.now() + world.aheadMs) / 1000);
  const usual = { aud: "sluice", sub: "u-1", iat: seconds, exp: seconds + 300 };
  const token = await signed(world.signs, { ...usual, ...world.claims });
  return answer({ access_token: "access", token_type: "Bearer", id_token: world.idToken?.(token) ?? token });
};

function provider(groupsClaim = "groups"): OidcProvider {
  return new OidcProvider({
    client: new IssuerClient(issuerUrl, false, fetchText),
    clientId: "sluice",
    clientSecret: "hush hush",
    redirectUrl: "https://gateway.example/admin/api/sign-in/callback",
    logoutRedirect: "https://gateway.example/console",
    scopes: ["openid", "email"],
    groupsClaim,
    nowMs: () => world.nowMs,
    wallMs: () => Date.now() + world.aheadMs,
  });
}

/** A sign-in whose browser returns with these parameters in place of the usual ones. */
async function signIn(parameters: Record<string, string | undefined> = {}, used = provider()) {
  const begun = (await used.begin()) as BegunSignIn;
  const { pending } = begun;
  world.claims = { nonce: pending.nonce, ...world.claims };
  const all = { code: "code-1", state: pending.state, iss: issuerUrl, ...parameters };
  const given = Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]));
  return used.finish(new URLSearchParams(given), pending);
}

describe("a sign-in", () => {
  test("sends the browser to the provider with state, nonce and PKCE, each new", async () => {
    const used = provider();
    const [one, two] = [(await used.begin()) as BegunSignIn, (await used.begin()) as BegunSignIn];
    const query = new URL(one.url).searchParams;
    expect(one.url).toStartWith(`${issuerUrl}/auth?`);
    expect(Object.fromEntries(query)).toMatchObject({
      client_id: "sluice",
      response_type: "code",
      redirect_uri: "https://gateway.example/admin/api/sign-in/callback",
      scope: "openid email",
      state: one.pending.state,
      nonce: one.pending.nonce,
      code_challenge_method: "S256",
    });
    expect(query.get("code_challenge")).not.toBe(one.pending.verifier);
    expect(new Set([...Object.values(one.pending), ...Object.values(two.pending)]).size).toBe(6);
  });

  test("that the provider confirms tells who it is, and the groups that only its user info has", async () => {
    expect(await signIn()).toEqual({
      subject: "u-1",
      name: "ada@example.com",
      groups: ["platform"],
      idToken: expect.stringMatching(/^eyJ/) as string,
    });
    const exchange = world.asked.find(({ url }) => url.endsWith("/token"));
    expect(Object.fromEntries(new URLSearchParams(exchange?.body ?? ""))).toMatchObject({
      grant_type: "authorization_code",
      code: "code-1",
      code_verifier: expect.stringMatching(/^[\w-]{43,}$/) as string,
    });
  });

  test("does without user info where the ID token names groups", async () => {
    world.claims = { groups: "solo", preferred_username: "ada" };
    expect(await signIn()).toMatchObject({ subject: "u-1", name: "ada", groups: ["solo"] });
    expect(world.asked.some(({ url }) => url.endsWith("/userinfo"))).toBe(false);
  });

  test("finds nested groups that only its user info has, also where the ID token has the claim without them", async () => {
    world.claims = { realm: { name: "main" } };
    world.userinfo = { sub: "u-1", realm: { roles: ["platform"] } };
    expect(await signIn({}, provider("realm.roles"))).toMatchObject({ groups: ["platform"] });
    // No groups are not the same as none that are named.
    world.claims = { realm: { roles: [] } };
    expect(await signIn({}, provider("realm.roles"))).toMatchObject({ groups: [] });
  });

  const lies: readonly (readonly [what: string, lie: () => void, parameters?: Record<string, string | undefined>])[] = [
    ["another state", () => {}, { state: "other" }],
    ["no state", () => {}, { state: undefined }],
    ["an answer of another issuer (RFC 9207)", () => {}, { iss: "https://evil.example" }],
    ["no issuer, although this one tells", () => {}, { iss: undefined }],
    ["an error of the provider", () => {}, { code: undefined, error: "access_denied" }],
    ["another nonce", () => (world.claims["nonce"] = "other")],
    ["an ID token for another client", () => (world.claims["aud"] = "other")],
    ["an ID token for several clients, one of them this", () => Object.assign(world.claims, { aud: ["sluice", "b"], azp: "b" })],
    ["an ID token of another issuer", () => (world.claims["iss"] = "https://evil.example")],
    ["an ID token that has expired", () => (world.claims["exp"] = Math.floor(Date.now() / 1000) - 120)],
    ["an ID token that is not valid yet", () => (world.claims["nbf"] = Math.floor(Date.now() / 1000) + 300)],
    ["an ID token signed with a key of somebody else", () => (world.signs = other)],
    ["an ID token without a signature", () => (world.idToken = (token) => unsigned(token, "none"))],
    ["an ID token of an algorithm that needs a secret", () => (world.idToken = (token) => unsigned(token, "HS256"))],
    ["no ID token", () => (world.idToken = () => "")],
    ["a refused code", () => (world.token = { status: 400, body: { error: "invalid_grant" } })],
    ["a token of another type", () => (world.token = { status: 200, body: { access_token: "a", token_type: "Bearer" } })],
    ["user info of another person", () => (world.userinfo["sub"] = "u-2")],
  ];
  test.each(lies)("with %s is refused", async (_, lie, parameters = {}) => {
    lie();
    const outcome = await signIn(parameters);
    expect(outcome).toBeInstanceOf(SignInTrouble);
    expect((outcome as SignInTrouble).kind).toBe("refused");
  });

  const hourMs = 3_600_000;
  test.each([hourMs, -hourMs])("is judged by the clock of the store where that is %d ms ahead of this machine's", async (aheadMs) => {
    world.aheadMs = aheadMs;
    world.claims = { nbf: Math.floor((Date.now() + aheadMs) / 1000) };
    expect(await signIn()).toMatchObject({ subject: "u-1" });
    world.claims = { exp: Math.floor((Date.now() + aheadMs) / 1000) - 120 };
    expect(await signIn()).toMatchObject({ kind: "refused" });
  });

  test("works after the provider has replaced its keys, once the old ones are ten seconds old", async () => {
    const used = provider();
    expect(await signIn({}, used)).toMatchObject({ subject: "u-1" });
    [world.keys, world.signs, world.claims] = [[other], other, {}];
    expect(await signIn({}, used)).toBeInstanceOf(SignInTrouble);
    world.nowMs += 10_000;
    world.claims = {};
    expect(await signIn({}, used)).toMatchObject({ subject: "u-1" });
  });
});

describe("a provider", () => {
  test("that is down is said to be, and asked again after a pause", async () => {
    world.down = true;
    const used = provider();
    expect(await used.begin()).toEqual(new SignInTrouble("unavailable", "issuer.example: connection refused"));
    world.down = false;
    expect(await used.begin()).toBeInstanceOf(SignInTrouble);
    expect(world.asked.length).toBe(1);
    world.nowMs += 5_001;
    expect(await used.begin()).toMatchObject({ url: expect.stringContaining("/auth?") as string });
  });

  test("that goes down in between is unavailable, and does not refuse", async () => {
    const used = provider();
    const begun = (await used.begin()) as BegunSignIn;
    world.down = true;
    const outcome = await used.finish(new URLSearchParams({ code: "c", state: begun.pending.state, iss: issuerUrl }), begun.pending);
    expect(outcome).toEqual(new SignInTrouble("unavailable", "issuer.example: connection refused"));
  });

  test.each([
    ["the issuer of somebody else", { issuer: "https://evil.example" }],
    ["an issuer that differs in a slash", { issuer: `${issuerUrl}/` }],
    ["a script in place of an address", { authorization_endpoint: "javascript:alert(1)" }],
    ["plain HTTP for tokens", { token_endpoint: "http://issuer.example/token" }],
    ["no keys", { jwks_uri: undefined }],
  ])("whose metadata names %s is not used", async (_, metadata) => {
    world.metadata = metadata;
    expect(await provider().begin()).toMatchObject({ kind: "unavailable" });
  });

  test("tells where to sign out, if it has such a place", async () => {
    const used = provider();
    const place = new URL((await used.endSessionUrl("a.b.c")) ?? "");
    expect(place.href).toStartWith(`${issuerUrl}/end?`);
    expect(Object.fromEntries(place.searchParams)).toEqual({
      client_id: "sluice",
      id_token_hint: "a.b.c",
      post_logout_redirect_uri: "https://gateway.example/console",
    });
    expect(await used.endSessionUrl(null)).not.toContain("id_token_hint");
    world.metadata = { end_session_endpoint: undefined };
    expect(await provider().endSessionUrl("a.b.c")).toBeNull();
  });

  test("whose documents lead to another origin is followed to the public internet only", async () => {
    world.metadata = { token_endpoint: "https://tokens.example/token" };
    await signIn();
    expect(world.asked.map(({ url, reach }) => `${reach} ${new URL(url).host}`)).toContain("public tokens.example");
  });
});

/** The same claims, with another algorithm in the head and nothing that proves them. */
function unsigned(token: string, alg: string): string {
  const [, payload = ""] = token.split(".");
  return `${Buffer.from(JSON.stringify({ alg, kid: "one" })).toString("base64url")}.${payload}.${alg === "none" ? "" : "AAAA"}`;
}
