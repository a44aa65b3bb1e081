// Needs: servers. It uses a real PostgreSQL or Redis.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { SignJWT, UnsecuredJWT, type JWK, type JWTPayload } from "jose";
import { callbackPath } from "../../src/admin/routes/sign-in-routes.ts";
import type { OidcServices } from "../../src/admin/services.ts";
import type { AuditEntry } from "../../src/gateway/storage.ts";
import { IssuerClient } from "../../src/identity/issuer-client.ts";
import { OidcProvider } from "../../src/identity/oidc-provider.ts";
import { makeFetchText } from "../../src/net/client/fetch-text.ts";
import { makeTextSeal } from "../../src/store/secrets/text-seal.ts";
import { codeOf, goodPassword, startAdmin, tester, type AdminWorld, type Called, type ErrorBody } from "../support/admin.ts";
import { newGroup } from "../support/groups.ts";
import { clientSecret, IdentityProvider, makeSigningJwk, PlainBrowser } from "../support/identity-provider.ts";

setDefaultTimeout(60_000);

const minuteMs = 60_000;
const callback = new RegExp(RegExp.escape(callbackPath));
let provider: IdentityProvider;
let world: AdminWorld;
/** The gateway's clocks for a provider, which a test moves. */
const clock = { offsetMs: 0, wallOffsetMs: 0 };
const signIn: { localAccounts: boolean; readonly sessionLifeMs: number; readonly sessionIdleMs: number; oidc: OidcServices | null } = {
  localAccounts: true,
  sessionLifeMs: 8 * 60 * minuteMs,
  sessionIdleMs: 15 * minuteMs,
  oidc: null,
};

beforeAll(async () => {
  provider = await IdentityProvider.start();
  world = await startAdmin({ services: { signIn } });
  await provider.serve(world.url + callbackPath);
  signIn.oidc = oidcServices();
  await world.account("local", "admin");
});

afterAll(async () => {
  await provider[Symbol.asyncDispose]();
});

function oidcServices(): OidcServices {
  const nowMs = (): number => performance.now() + clock.offsetMs;
  return {
    provider: new OidcProvider({
      client: new IssuerClient(provider.issuer, false, makeFetchText({ nowMs })),
      clientId: "sluice",
      clientSecret,
      redirectUrl: world.url + callbackPath,
      logoutRedirect: `${world.url}/console`,
      scopes: ["openid", "email", "groups"],
      groupsClaim: "groups",
      nowMs,
      wallMs: () => Date.now() + clock.wallOffsetMs,
    }),
    publicUrl: world.url,
    adminGroups: ["platform"],
    groupAdmins: new Map([
      ["leads", "web"],
      ["heads", "org"],
      ["sellers", "sales"],
      ["ghosts", "no-such-group"],
    ]),
    viewerGroups: ["engineering"],
    seal: makeTextSeal({ version: "1", bytes: new Uint8Array(32).fill(7) }),
  };
}

async function signedIn(person: string): Promise<{ readonly browser: PlainBrowser; readonly response: Response }> {
  provider.person = person;
  const browser = new PlainBrowser();
  return { browser, response: await browser.go(`${world.url}/admin/api/sign-in?return_to=/admin/api/keys?limit=5`) };
}

const me = (browser: PlainBrowser): Promise<Called> =>
  world.call("GET", "/admin/api/me", { headers: { cookie: browser.cookies(world.url) } });

async function audited(action: string): Promise<readonly AuditEntry[]> {
  return world.storage.audit.list({ action, subject: null, actor: null, sinceMs: null, before: null, limit: 20 });
}

/** With the gateway's clock that far from the provider's, or with other ID tokens. */
async function withIdToken<T>(wrong: number | NonNullable<IdentityProvider["forge"]>, signIn: () => Promise<T>): Promise<T> {
  if (typeof wrong === "number") clock.wallOffsetMs = wrong;
  else provider.forge = wrong;
  try {
    return await signIn();
  } finally {
    clock.wallOffsetMs = 0;
    provider.forge = null;
  }
}

function signedBy(key: JWK, claims: JWTPayload): Promise<string> {
  return new SignJWT(claims).setProtectedHeader({ alg: "RS256", kid: key.kid ?? "" }).sign(key);
}

describe("a sign-in with a real provider", () => {
  test("opens a session whose role comes from the person's groups, and sends the browser on", async () => {
    const { browser, response } = await signedIn("ada");
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toStartWith("text/html");
    const page = await response.text();
    expect(page).toContain(`content="0;url=${world.url}/admin/api/keys?limit=5"`);
    // A page without an icon makes the browser ask for one, which is not there.
    expect(page).toContain('<link rel="icon" href="data:,">');
    const cookies = response.headers.getSetCookie();
    expect(cookies[0]).toContain("SameSite=Strict");
    expect(cookies[1]).toStartWith("sluice_sign_in=; Max-Age=0");
    expect((await me(browser)).json).toMatchObject({ kind: "oidc", name: "oidc:ada@example.com", role: "admin", idle_seconds: 900 });
    expect((await audited("login"))[0]).toMatchObject({
      subject: "oidc:ada@example.com",
      detail: { issuer: provider.issuer, subject: "ada", role: "admin" },
      actor: { kind: "admin", name: "oidc:ada@example.com", address: "127.0.0.1" },
    });
    expect((await me((await signedIn("bob")).browser)).json).toMatchObject({ role: "viewer" });
  });

  test("tells a program its session in JSON", async () => {
    provider.person = "bob";
    const browser = new PlainBrowser();
    const response = await browser.go(`${world.url}/admin/api/sign-in`, { accept: "application/json" });
    expect(await response.json()).toMatchObject({ role: "viewer", csrf_token: expect.stringMatching(/^[\w-]{43}$/) as string });
  });

  test("of a person without a role is refused, and is in the audit log", async () => {
    const { browser, response } = await signedIn("eve");
    expect([response.status, browser.cookies(world.url)]).toEqual([403, expect.not.stringContaining("sluice_session") as string]);
    expect((await audited("login.failed"))[0]).toMatchObject({ subject: "oidc:eve@example.com", detail: { subject: "eve" } });
  });

  test("makes a group admin of who leads a group, once that group exists", async () => {
    expect((await signedIn("gil")).response.status).toBe(403);
    expect((await audited("login.failed"))[0]).toMatchObject({ detail: { subject: "gil", reason: "there is no group 'web'" } });
    await world.storage.groups.create("grp_web", newGroup("web"), [], tester);
    const { browser } = await signedIn("gil");
    expect((await me(browser)).json).toMatchObject({ kind: "oidc", role: "group_admin", group: "grp_web" });
    const get = async (path: string): Promise<Called> => world.call("GET", path, { headers: { cookie: browser.cookies(world.url) } });
    expect((await get("/admin/api/groups")).json).toMatchObject({ groups: [{ id: "grp_web" }] });
    expect(codeOf(await get("/admin/api/channels"))).toBe("forbidden");
    expect((await audited("login"))[0]).toMatchObject({ detail: { subject: "gil", role: "group_admin", group: "grp_web" } });
  });

  test("makes who leads several groups an admin of the widest, and says in the audit log which others are not managed", async () => {
    const { groups } = world.storage;
    await groups.create("grp_org", newGroup("org"), [], tester);
    await groups.create("grp_sales", newGroup("sales"), [], tester);
    if ((await groups.get("grp_web")) === null) await groups.create("grp_web", newGroup("web"), [], tester);
    await groups.change("grp_web", { parent: "grp_org" }, [], tester);
    const managedBy = async (person: string, own: readonly string[]): Promise<unknown> => {
      provider.people[person] = [...own];
      return ((await me((await signedIn(person)).browser)).json as { readonly group?: string }).group;
    };
    expect(await managedBy("hal", ["leads", "heads", "ghosts"])).toBe("grp_org");
    expect((await audited("login"))[0]?.detail).toEqual({ issuer: provider.issuer, subject: "hal", role: "group_admin", group: "grp_org" });
    expect(await managedBy("ida", ["leads", "sellers"])).toBe("grp_web");
    expect((await audited("login"))[0]?.detail).toMatchObject({ group: "grp_web", passed_over: ["grp_sales"] });
    expect(await managedBy("joe", ["sellers", "heads", "leads"])).toBe("grp_org");
    expect((await audited("login"))[0]?.detail).toMatchObject({ group: "grp_org", passed_over: ["grp_sales"] });
  });

  test("lets an admin change things with the CSRF token only", async () => {
    const { browser } = await signedIn("ada");
    const { csrf_token: token } = (await me(browser)).json as { csrf_token: string };
    const cookie = browser.cookies(world.url);
    const change = (headers: Record<string, string>): Promise<Called> =>
      world.call("POST", "/admin/api/tokens", { headers: { cookie, origin: world.url, ...headers }, body: { name: "t", role: "viewer" } });
    expect(codeOf(await change({}))).toBe("csrf");
    expect((await change({ "x-csrf-token": token })).status).toBe(201);
  });

  test("cannot be finished twice, nor in another browser, nor after ten minutes", async () => {
    provider.person = "ada";
    const browser = new PlainBrowser();
    await browser.go(`${world.url}/admin/api/sign-in`, undefined, callback);
    const place = browser.seen.at(-1) ?? "";
    const cookie = browser.cookies(world.url);
    const finish = (headers: Record<string, string>): Promise<Called> => world.call("GET", place.slice(world.url.length), { headers });
    expect(codeOf(await finish({}))).toBe("sign_in_expired");
    const another = new PlainBrowser();
    await another.go(`${world.url}/admin/api/sign-in`, undefined, callback);
    expect(codeOf(await finish({ cookie: another.cookies(world.url) }))).toBe("sign_in_expired");
    expect(codeOf(await finish({ cookie: `${cookie.slice(0, -6)}AAAAAA` }))).toBe("sign_in_expired");
    expect((await finish({ cookie })).status).toBe(200);
    expect(codeOf(await finish({ cookie }))).toBe("sign_in_expired");
    const late = new PlainBrowser();
    await late.go(`${world.url}/admin/api/sign-in`, undefined, callback);
    world.pass(10 * minuteMs);
    expect(
      codeOf(await world.call("GET", (late.seen.at(-1) ?? "").slice(world.url.length), { headers: { cookie: late.cookies(world.url) } })),
    ).toBe("sign_in_expired");
  });

  test("with a code that another replica has used is refused by the provider", async () => {
    provider.person = "ada";
    const browser = new PlainBrowser();
    await browser.go(`${world.url}/admin/api/sign-in`, undefined, callback);
    const place = new URL(browser.seen.at(-1) ?? "");
    const replica = await startAdmin({ services: { signIn } });
    const headers = { cookie: browser.cookies(world.url) };
    expect((await replica.call("GET", place.pathname + place.search, { headers })).status).toBe(200);
    const called = await world.call("GET", place.pathname + place.search, { headers });
    expect([called.status, codeOf(called)]).toEqual([401, "sign_in_failed"]);
    expect((await audited("login.failed"))[0]).toMatchObject({ detail: { reason: "the provider answered 'invalid_grant'" } });
  });

  test.each<readonly [string, string, number | NonNullable<IdentityProvider["forge"]>]>([
    ["expired", "timestamp", 2 * minuteMs + 2_000],
    ["not valid yet", "issued in the future", -2 * minuteMs],
    [
      "forged, by a key that has the name of the provider's",
      "signature",
      async (claims, { kid }) => signedBy(await makeSigningJwk(kid), claims),
    ],
    ["signed by nobody", "invalid response", async (claims) => new UnsecuredJWT(claims).encode()],
    ["of another provider", "claim value", (claims, key) => signedBy(key, { ...claims, iss: "https://elsewhere.example" })],
    ["for another client", "claim value", (claims, key) => signedBy(key, { ...claims, aud: "another" })],
    ["of another sign-in", "claim value", (claims, key) => signedBy(key, { ...claims, nonce: "of-another-sign-in" })],
  ])("with an ID token that is %s opens no session, and is in the audit log", async (_, reason, wrong) => {
    const [before] = await audited("login.failed");
    provider.person = "ada";
    const browser = new PlainBrowser();
    const response = await withIdToken(wrong, () => browser.go(`${world.url}/admin/api/sign-in`, { accept: "application/json" }));
    expect([response.status, ((await response.json()) as ErrorBody).error.code]).toEqual([401, "sign_in_failed"]);
    expect(response.headers.getSetCookie()).toEqual([]);
    expect((await me(browser)).status).toBe(401);
    const [failed] = await audited("login.failed");
    expect(failed?.id).not.toBe(before?.id);
    expect(failed).toMatchObject({
      subject: "unknown",
      detail: { issuer: provider.issuer, reason: expect.stringContaining(reason) as string },
      actor: { kind: "admin", address: "127.0.0.1" },
    });
  });

  test("with an ID token that is as it should be opens one, also where clocks differ by less than a minute", async () => {
    const signIns = [minuteMs + 40_000, -40_000, (claims: JWTPayload, key: JWK) => signedBy(key, claims)];
    for (const idToken of signIns) expect((await withIdToken(idToken, () => signedIn("ada"))).response.status).toBe(200);
  });

  test("that another provider answers opens no session, whoever it says that it is", async () => {
    await using other = await IdentityProvider.start();
    await other.serve(world.url + callbackPath);
    for (const [iss, reason, asked] of [
      [other.issuer, "invalid response", []],
      [null, "invalid response", []],
      [provider.issuer, "invalid_grant", ["/token"]],
    ] as const) {
      const begun = await world.call("GET", "/admin/api/sign-in");
      const [cookie = ""] = (begun.headers.get("set-cookie") ?? "").split(";");
      const place = new URL(begun.headers.get("location") ?? "");
      // The other one is asked all that the first one should be.
      const browser = new PlainBrowser();
      await browser.go(other.issuer + place.pathname + place.search, undefined, callback);
      const answer = new URL(browser.seen.at(-1) ?? "");
      expect([answer.searchParams.get("iss"), answer.searchParams.get("state")]).toEqual([other.issuer, place.searchParams.get("state")]);
      answer.searchParams.delete("iss");
      if (iss !== null) answer.searchParams.set("iss", iss);
      provider.asked.length = other.asked.length = 0;
      const called = await world.call("GET", answer.pathname + answer.search, { headers: { cookie } });
      expect([called.status, codeOf(called), called.headers.get("set-cookie")]).toEqual([401, "sign_in_failed", null]);
      expect([provider.asked, other.asked]).toEqual([[...asked], []]);
      const detail = { issuer: provider.issuer, reason: expect.stringContaining(reason) as string };
      expect((await audited("login.failed"))[0]).toMatchObject({ detail, actor: { address: "127.0.0.1" } });
    }
  });

  test("works after the provider has replaced its keys", async () => {
    await provider.serve(world.url + callbackPath);
    clock.offsetMs += 10_000;
    expect((await signedIn("ada")).response.status).toBe(200);
  });

  test.each([
    "//evil.example",
    "https://evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/\t/evil.example",
    "evil",
    "javascript:alert(1)",
  ])("does not send the browser to %j", async (place) => {
    const called = await world.call("GET", `/admin/api/sign-in?return_to=${encodeURIComponent(place)}`);
    expect([called.status, called.headers.get("location")]).toEqual([400, null]);
  });

  test("is not held up by others that fail, because nothing can be guessed there", async () => {
    world.pass(minuteMs);
    for (let each = 0; each < 25; each++) {
      const begun = await world.call("GET", "/admin/api/sign-in");
      const state = new URL(begun.headers.get("location") ?? "").searchParams.get("state") ?? "";
      const [cookie = ""] = (begun.headers.get("set-cookie") ?? "").split(";");
      const refused = await world.call("GET", `${callbackPath}?error=access_denied&state=${state}`, { headers: { cookie } });
      expect(codeOf(refused)).toBe("sign_in_failed");
    }
    expect((await signedIn("ada")).response.status).toBe(200);
  });

  test("sends the browser to no other site by a path that looks like one", async () => {
    provider.person = "ada";
    const response = await new PlainBrowser().go(
      `${world.url}/admin/api/sign-in?return_to=${encodeURIComponent('/.//evil.example/"><script>')}`,
    );
    const [, target = ""] = /0;url=([^"]*)"/.exec(await response.text()) ?? [];
    expect(new URL(target).origin).toBe(world.url);
    expect(target).not.toContain("<");
  });
});

describe("a session of a provider", () => {
  test("ends with its idle time, with its longest time, and with the log-out, which tells where to sign out at the provider", async () => {
    const idle = (await signedIn("ada")).browser;
    world.pass(14 * minuteMs);
    expect((await me(idle)).status).toBe(200);
    world.pass(15 * minuteMs);
    expect(codeOf(await me(idle))).toBe("session_ended");

    const long = (await signedIn("ada")).browser;
    for (let passed = 0; passed < 8 * 60; passed += 10) {
      expect((await me(long)).status).toBe(200);
      world.pass(10 * minuteMs);
    }
    expect(codeOf(await me(long))).toBe("session_ended");

    const { browser } = await signedIn("ada");
    const cookie = browser.cookies(world.url);
    const headers = {
      cookie,
      origin: world.url,
      "content-type": "application/json",
      "x-csrf-token": ((await me(browser)).json as { csrf_token: string }).csrf_token,
    };
    const left = await world.call("POST", "/admin/api/logout", { headers });
    expect(left.json).toEqual({ done: true, end_session_url: expect.stringMatching(/\/session\/end\?.*client_id=sluice/) as string });
    expect((await world.call("GET", "/admin/api/me", { headers: { cookie } })).status).toBe(401);
    expect((await audited("logout"))[0]).toMatchObject({ subject: "oidc:ada@example.com" });
  });

  test("can be ended at the provider too, which knows by the ID token which one is meant", async () => {
    const { browser } = await signedIn("ada");
    const leave = async (cookie: string): Promise<URL> => {
      const token = ((await me(browser)).json as { csrf_token: string }).csrf_token;
      const headers = { cookie, origin: world.url, "content-type": "application/json", "x-csrf-token": token };
      const { json } = await world.call("POST", "/admin/api/logout", { headers });
      return new URL((json as { end_session_url: string }).end_session_url);
    };
    const asksAgain = async (): Promise<boolean> => {
      const from = browser.seen.length;
      await browser.go(`${world.url}/admin/api/sign-in`);
      return browser.seen.slice(from).some((place) => place.includes("/interaction/"));
    };
    const kept = browser.cookies(world.url);
    expect(await asksAgain()).toBe(false);
    // The ID token of another session is not given away, and none is needed: then the provider asks the person.
    const other = /sluice_id_token=[^;]+/.exec(kept)?.[0] ?? "";
    const mixed = browser.cookies(world.url).replace(/sluice_id_token=[^;]+/, other);
    expect((await leave(mixed)).searchParams.has("id_token_hint")).toBe(false);
    expect(await asksAgain()).toBe(false);

    const place = await leave(browser.cookies(world.url));
    const hint = place.searchParams.get("id_token_hint") ?? "";
    expect(JSON.parse(Buffer.from(hint.split(".")[1] ?? "", "base64url").toString())).toMatchObject({ iss: provider.issuer, sub: "ada" });
    const forged = new URL(place);
    forged.searchParams.set("id_token_hint", `${hint.slice(0, -8)}AAAAAAAA`);
    expect((await browser.go(forged.href)).status).toBe(400);
    const form = await (await browser.go(place.href)).text();
    const xsrf = /name="xsrf" value="([^"]+)"/.exec(form)?.[1] ?? "";
    const confirmed = await fetch(`${provider.issuer}/session/end/confirm`, {
      method: "POST",
      body: new URLSearchParams({ xsrf, logout: "yes" }),
      headers: { cookie: browser.cookies(provider.issuer) },
      redirect: "manual",
    });
    expect([confirmed.status, confirmed.headers.get("location")]).toEqual([303, `${world.url}/console`]);
    expect(await asksAgain()).toBe(true);
  });

  test("has no password, and ends when its provider is not the one of the configuration any more", async () => {
    const { browser } = await signedIn("ada");
    const { csrf_token: token } = (await me(browser)).json as { csrf_token: string };
    const headers = { cookie: browser.cookies(world.url), origin: world.url, "x-csrf-token": token };
    const called = await world.call("POST", "/admin/api/password", {
      headers,
      body: { current: goodPassword, password: `${goodPassword} two` },
    });
    expect(codeOf(called)).toBe("not_a_session");
    const { oidc } = signIn;
    signIn.oidc = null;
    expect((await me(browser)).status).toBe(401);
    signIn.oidc = oidc;
    expect((await me(browser)).status).toBe(200);
  });

  test("of two people who call themselves the same has two names, and what they do tells who it was", async () => {
    provider.people["mal"] = ["engineering"];
    provider.emails["mal"] = "ada@example.com";
    const [ada, mal] = [(await signedIn("ada")).browser, (await signedIn("mal")).browser];
    const nameOf = async (browser: PlainBrowser): Promise<string> => ((await me(browser)).json as { name: string }).name;
    expect(await nameOf(ada)).toBe("oidc:ada@example.com");
    const other = await nameOf(mal);
    expect(other).toMatch(/^oidc:ada@example\.com#[0-9a-f]{16}$/);
    expect(await nameOf((await signedIn("mal")).browser)).toBe(other);
    // Nobody takes the other's name by calling themselves so.
    provider.people["max"] = ["engineering"];
    provider.emails["max"] = other.slice("oidc:".length);
    expect(await nameOf((await signedIn("max")).browser)).toMatch(/^oidc:ada@example\.com#[0-9a-f]{16}#[0-9a-f]{16}$/);

    const admin = await world.session("local");
    const headers = {
      cookie: ada.cookies(world.url),
      origin: world.url,
      "x-csrf-token": ((await me(ada)).json as { csrf_token: string }).csrf_token,
    };
    await world.call("POST", "/admin/api/tokens", { headers, body: { name: "of-ada", role: "viewer" } });
    const [made] = (
      (await world.call("GET", "/admin/api/audit?subject=of-ada", { headers: admin })).json as { entries: readonly unknown[] }
    ).entries;
    expect(made).toMatchObject({
      actor: { name: "oidc:ada@example.com", issuer: provider.issuer, subject: "ada" },
      detail: { role: "viewer", last4: expect.any(String) as string },
    });
    const history = (await world.call("GET", "/admin/api/history?subject=of-ada", { headers: admin })).json as {
      entries: readonly { actor: unknown; changes: readonly { field: string }[] }[];
    };
    expect(history.entries[0]?.actor).toMatchObject({ subject: "ada" });
    expect(history.entries[0]?.changes.map(({ field }) => field).toSorted()).toEqual(["last4", "role"]);

    const ended = await world.call("POST", "/admin/api/sessions/end", { headers: admin, body: { name: other } });
    expect(ended.json).toEqual({ name: other, ended: 2 });
    expect([(await me(mal)).status, (await me(ada)).status]).toEqual([401, 200]);
  });

  test("can be ended by an admin", async () => {
    const { browser } = await signedIn("bob");
    const admin = await world.session("local");
    const ended = await world.call("POST", "/admin/api/sessions/end", { headers: admin, body: { name: "oidc:bob@example.com" } });
    expect(ended.json).toMatchObject({ name: "oidc:bob@example.com" });
    expect(codeOf(await me(browser))).toBe("session_ended");
    expect((await audited("account.end_sessions"))[0]).toMatchObject({ subject: "oidc:bob@example.com", actor: { name: "local" } });
  });
});

describe("local accounts", () => {
  test("remain beside the provider, and can be turned off, with a way back for the operator", async () => {
    const methods = async (): Promise<unknown> => (await world.call("GET", "/admin/api/sign-in/methods")).json;
    const login = (): Promise<Called> => world.call("POST", "/admin/api/login", { body: { name: "local", password: goodPassword } });
    world.pass(2 * minuteMs);
    const session = await world.session("local");
    expect(await methods()).toEqual({ local_accounts: true, oidc: { issuer: provider.issuer, path: "/admin/api/sign-in" } });
    signIn.localAccounts = false;
    expect(await methods()).toMatchObject({ local_accounts: false });
    expect((await world.call("GET", "/admin/api/start")).json).toEqual({ first_account: false, command: "sluice" });
    expect([(await login()).status, codeOf(await login())]).toEqual([403, "local_accounts_off"]);
    expect((await world.call("GET", "/admin/api/me", { headers: session })).status).toBe(401);
    expect((await me((await signedIn("ada")).browser)).status).toBe(200);

    world.pass(2 * minuteMs);
    await world.storage.accounts.allowLocal(world.services.wallMs() + 10 * minuteMs, tester);
    expect((await login()).status).toBe(200);
    expect((await world.call("GET", "/admin/api/me", { headers: session })).status).toBe(200);
    expect((await audited("account.allow_local"))[0]).toMatchObject({ actor: { kind: "cli", name: "tester" } });
    world.pass(10 * minuteMs);
    expect((await login()).status).toBe(403);
    signIn.localAccounts = true;
  });

  test("still log in while the provider is down, which the sign-in says, and open sessions go on until they are left", async () => {
    const { browser } = await signedIn("ada");
    const begun = new PlainBrowser();
    await begun.go(`${world.url}/admin/api/sign-in`, undefined, callback);
    await provider.stop();
    const place = (begun.seen.at(-1) ?? "").slice(world.url.length);
    const finished = await world.call("GET", place, { headers: { cookie: begun.cookies(world.url) } });
    expect([finished.status, codeOf(finished)]).toEqual([503, "sign_in_unavailable"]);
    expect((await audited("login.failed"))[0]).toMatchObject({
      subject: "unknown",
      detail: { issuer: provider.issuer, reason: expect.stringContaining(new URL(provider.issuer).host) as string },
    });
    signIn.oidc = oidcServices();
    world.pass(2 * minuteMs);
    const called = await world.call("GET", "/admin/api/sign-in");
    expect([called.status, codeOf(called)]).toEqual([503, "sign_in_unavailable"]);
    expect((called.json as { error: { message: string } }).error.message).toContain("POST /admin/api/login");
    expect(await world.session("local")).toHaveProperty("cookie");
    const opened = await me(browser);
    expect(opened.json).toMatchObject({ name: "oidc:ada@example.com", role: "admin" });
    const token = (opened.json as { csrf_token: string }).csrf_token;
    const headers = { cookie: browser.cookies(world.url), origin: world.url, "content-type": "application/json", "x-csrf-token": token };
    const left = await world.call("POST", "/admin/api/logout", { headers });
    expect([left.status, left.json]).toEqual([200, { done: true, end_session_url: null }]);
    expect(codeOf(await me(browser))).toBe("session_ended");
  });
});

test("none of this was a bug", () => {
  expect(world.bugs).toEqual([]);
});
