// Needs: quiet. It waits for changes of the store to be noticed, which may take seconds.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { clientSecret, IdentityProvider, PlainBrowser } from "../support/identity-provider.ts";
import { defaultGroup } from "../../src/keys/stored-group.ts";
import { limitsOf } from "../../src/limits/limit-fields.ts";
import { dollars, openKeys, spentNanosOf, type Keys } from "../support/keys.ts";
import { signed, signingKey, type SigningKey } from "../support/issuer.ts";
import { eventually } from "../support/eventually.ts";
import { setUp, type Rig } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

let signing: SigningKey;
let stranger: SigningKey;
let issuer: ReturnType<typeof Bun.serve>;
let provider: IdentityProvider;
let rig: Rig<"a">;
let keys: Keys;
/** As browsers see the admin listener, behind a proxy. */
const publicUrl = "http://127.0.0.1:1";
/** What was asked of the issuer. */
const asked: string[] = [];

beforeAll(async () => {
  [signing, stranger] = [await signingKey("one"), await signingKey("one")];
  issuer = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ url }) => {
      const { pathname, origin } = new URL(url);
      asked.push(pathname);
      if (pathname === "/.well-known/openid-configuration") return Response.json({ issuer: origin, jwks_uri: `${origin}/keys` });
      return Response.json({ keys: [signing.publicJwk] });
    },
  });
  provider = await IdentityProvider.start();
  await provider.serve(`${publicUrl}/admin/api/sign-in/callback`);
  const token_issuers = [
    {
      name: "ci",
      issuer: address(),
      audience: "sluice",
      lifetime: "1h",
      rules: [
        { group: "robots", claims: { tier: "group" } },
        { group: "metered", claims: { tier: "metered" } },
        { group: "nightly", claims: { tier: "stored" } },
        { key: "workers", claims: { tier: "stored-key" } },
        { key: "fleet", claims: { tier: "fleet" } },
        { key: "limited", claims: { tier: "small" } },
        { key: "tester", claims: { tier: "tester" } },
        { key: "jobs", claims: { repository: "acme/*" } },
      ],
    },
  ];
  rig = await setUp(
    { a: { models: ["plain", "large", "priced"] } },
    {
      prices: [{ model: "priced", call: 0.01 }],
      keys: [
        { name: "tester", key: "sk-client-canary-0123456789abcdef" },
        { name: "jobs", key: "sk-nobody-has-this-one-0123456789", models: ["plain"] },
        { name: "limited", key: "sk-nobody-has-this-two-0123456789", limits: { rpm: 2 } },
      ],
      groups: [
        { name: "robots", limits: { rpm: 3 } },
        { name: "metered", limits: { budget_usd: 0.03 }, defaults: { keys: { concurrency: 1 } } },
      ],
      token_issuers,
      admin: "127.0.0.1:0",
      sign_in: {
        local_accounts: false,
        oidc: {
          issuer: provider.issuer,
          client_id: "sluice",
          client_secret: clientSecret,
          public_url: publicUrl,
          scopes: ["email", "groups"],
          admin_groups: ["platform"],
        },
      },
      server: { wrong_keys: "off" },
    },
  );
  keys = await openKeys(rig.gateway);
});

afterAll(async () => {
  await keys[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
  await provider[Symbol.asyncDispose]();
  await issuer.stop(true);
});

function address(): string {
  return `http://127.0.0.1:${issuer.port}`;
}

function token(claims: Record<string, unknown> = {}, key = signing): Promise<string> {
  const seconds = Math.floor(Date.now() / 1000);
  return signed(key, { iss: address(), iat: seconds, exp: seconds + 600, repository: "acme/app", ...claims });
}

async function statusOf(key: string, model = "plain"): Promise<number> {
  return (await rig.chat({ model }, { key })).status;
}

describe("a token of an issuer, sent in place of a key,", () => {
  test("opens what its rule's key may use, and its subject is in the access log and on the receipt", async () => {
    const key = await token({ sub: "repo:acme/app" });
    const reply = await rig.chat({ model: "plain" }, { key });
    expect(reply.status).toBe(200);
    expect(await rig.accessLine(reply.requestId)).toMatchObject({ key: "jwt:ci:repo:acme/app" });
    expect(await keys.receipts("jwt:ci:repo:acme/app", 1, slowed(10_000))).toHaveLength(1);
    expect(await statusOf(key, "large")).toBe(403);
    expect(asked.length).toBe(2);
  });

  test("has limits for its subject alone, whichever token it sends", async () => {
    const of = (sub: string, jti: string): Promise<string> => token({ sub, jti, tier: "small" });
    expect([await statusOf(await of("one", "a")), await statusOf(await of("one", "b")), await statusOf(await of("one", "c"))]).toEqual([
      200, 200, 429,
    ]);
    expect(await statusOf(await of("two", "a"))).toBe(200);
  });

  test("of a group has the limits of the group, which all of its subjects share, and the group is on the receipt", async () => {
    const of = (sub: string): Promise<string> => token({ sub, tier: "group" });
    const first = await rig.chat({ model: "large" }, { key: await of("r2") });
    expect(first.status).toBe(200);
    expect(await keys.receipt(first.requestId)).toMatchObject({
      keyId: "jwt:ci:r2",
      owners: expect.arrayContaining(["file-group:robots"]) as string[],
    });
    expect([await statusOf(await of("c3")), await statusOf(await of("r2")), await statusOf(await of("bb"))]).toEqual([200, 200, 429]);
  });

  test("of a group spends the budget that all of its subjects share, and has its default number of calls at once for its subject alone", async () => {
    const call = async (sub: string) =>
      rig.chat({ model: "priced" }, { key: await token({ sub, jti: crypto.randomUUID(), tier: "metered" }) });
    const upstream = rig.upstream.a;
    const before = upstream.ledger.chats.length;
    upstream.behaviour = "fault:held";
    const held = call("m1");
    await eventually("it runs", () => upstream.ledger.chats.length > before).finally(() => (upstream.behaviour = null));
    const replies = [await call("m1"), await call("m2")];
    upstream.release();
    expect([...replies, await held, await call("m1")].map(({ status, error }) => error?.code ?? status)).toEqual([
      "concurrency_limit",
      200,
      200,
      200,
    ]);
    for (const sub of ["m1", "m2", "m3"]) expect(await call(sub)).toMatchObject({ status: 429, error: { code: "insufficient_quota" } });
    expect(upstream.ledger.chats.length - before).toBe(3);
    await eventually("all of it is counted as spent", async () => (await spentNanosOf(keys.store, "file-group:metered")) === dollars(0.03));
  });

  test("of a group of the store is refused until it exists, has its limits then, and is refused while it is frozen", async () => {
    const seconds = Math.floor(Date.now() / 1000);
    const of = (sub: string, more: Record<string, unknown> = {}, by = signing): Promise<string> =>
      token({ sub, tier: "stored", ...more }, by);
    const key = await of("n1");
    expect(await statusOf(key)).toBe(401);
    await rig.gateway.waitForLog(({ event, detail }) => event === "token_refused" && String(detail).includes("'nightly'"));
    const { groups } = keys.store.storage;
    const by = { kind: "cli", name: "ada" } as const;
    const limits = limitsOf({ rpm: 2 });
    const { id } = await groups.create("grp_nightly00001", { ...defaultGroup, name: "nightly", limits }, [], by);
    await eventually("that it is accepted", async () => (await statusOf(key, "large")) === 200, slowed(10_000));
    expect([await statusOf(await of("n2")), await statusOf(await of("n3"))]).toEqual([200, 429]);
    // The group of its rule does not help a token that is forged or expired.
    expect(await statusOf(await of("n1", {}, stranger))).toBe(401);
    expect(await statusOf(await of("n1", { iat: seconds - 900, exp: seconds - 300 }))).toBe(401);
    await groups.change(id, { frozen: true, limits: limitsOf({}) }, [], by);
    await eventually("that it is frozen", async () => (await statusOf(key)) === 403, slowed(10_000));
  });

  test("of a key of the store has its permissions as they change, and its running stream ends when that is revoked", async () => {
    const key = await token({ sub: "w1", tier: "stored-key" });
    expect(await statusOf(key)).toBe(401);
    await rig.gateway.waitForLog(({ event, detail }) => event === "token_refused" && String(detail).includes("'workers'"));
    const { id } = await keys.make({ name: "workers", models: ["plain"] });
    await eventually("that it is accepted", async () => (await statusOf(key)) === 200, slowed(10_000));
    expect(await statusOf(key, "large")).toBe(403);
    await keys.store.storage.keys.change(id, { models: ["large"] }, { kind: "cli", name: "ada" });
    await eventually("that it may use the other model", async () => (await statusOf(key, "large")) === 200, slowed(10_000));
    expect(await statusOf(key)).toBe(403);
    const streaming = { model: "large", x_tokens: 4_000, x_pace_ms: 20 };
    const stream = await rig.open(streaming, { key, stream: true, timeoutMs: slowed(60_000) });
    await stream.untilBody(500);
    // The stream began before this change, and no token of its subject is verified after it.
    await keys.store.storage.keys.change(id, { models: null }, { kind: "cli", name: "ada" });
    const other = await token({ sub: "w2", tier: "stored-key" });
    await eventually("that it may use both models", async () => (await statusOf(other)) === 200, slowed(10_000));
    await keys.revoke(id);
    expect(await stream.reply).toMatchObject({ status: 200, done: false, error: { code: "key_revoked" } });
    expect(await statusOf(key, "large")).toBe(401);
  });

  test("is in the group of the key of its rule, and its running stream ends when that is put into a frozen one", async () => {
    const by = { kind: "cli", name: "ada" } as const;
    const { id } = await keys.make({ name: "fleet", models: ["large"] });
    const { groups } = keys.store.storage;
    const { id: stopped } = await groups.create("grp_stopped00001", { ...defaultGroup, name: "stopped", frozen: true }, [], by);
    const key = await token({ sub: "f1", tier: "fleet" });
    await eventually("that it is accepted", async () => (await statusOf(key, "large")) === 200, slowed(10_000));
    const stream = await rig.open({ model: "large", x_tokens: 2_000, x_pace_ms: 20 }, { key, stream: true, timeoutMs: slowed(60_000) });
    await stream.untilBody(500);
    await keys.store.storage.keys.change(id, { group: stopped }, by);
    expect(await stream.reply).toMatchObject({ status: 200, done: false, error: { code: "group_frozen" } });
    expect(await statusOf(key, "large")).toBe(403);
  });

  test("that is forged, expired, for others, or matches no rule gets the answer of a wrong key, which tells nothing", async () => {
    const seconds = Math.floor(Date.now() / 1000);
    const wrong = [
      "sk-unknown-0123456789abcdef0123456789",
      await token({}, stranger),
      await token({ iat: seconds - 900, exp: seconds - 300 }),
      await token({ aud: "somebody else" }),
      await token({ exp: seconds + 7200 }),
      await token({ repository: "evil/app" }),
      await token({ iss: "https://elsewhere.example" }),
      `${await token()}x`,
      await token({ filler: "x".repeat(10_000) }),
    ];
    const answers = await Promise.all(
      wrong.map(async (key) => {
        const response = await fetch(`${rig.gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
        const { error } = (await response.json()) as { error: { message: string; code: string } };
        return `${response.status} ${error.code} ${error.message}`;
      }),
    );
    expect(new Set(answers).size).toBe(1);
    expect(answers[0]).toStartWith("401 invalid_api_key");
    await rig.gateway.waitForLog(({ event, issuer: name }) => event === "token_refused" && name === "ci");
  });

  test("may have two thousand characters, and stands in any header that takes a key", async () => {
    const long = await token({ filler: "x".repeat(1500) });
    const response = await fetch(`${rig.gateway.url}/v1/models`, { headers: { "x-api-key": long } });
    expect([long.length > 2000, response.status]).toEqual([true, 200]);
  });

  test("is refused within moments after its subject was blocked, and accepted again after that was undone", async () => {
    const blocked = await token({ sub: "leaver" });
    expect(await statusOf(blocked)).toBe(200);
    await keys.store.storage.blockedSubjects.block("ci", "leaver", { kind: "cli", name: "ada" });
    await eventually("that it is refused", async () => (await statusOf(blocked)) === 401, slowed(10_000));
    expect(await statusOf(await token({ sub: "stayer" }))).toBe(200);
    await keys.store.storage.blockedSubjects.unblock("ci", "leaver", { kind: "cli", name: "ada" });
    await eventually("that it is accepted", async () => (await statusOf(blocked)) === 200, slowed(10_000));
    const [last] = await keys.store.storage.audit.list({
      action: "issuer.unblock",
      subject: "ci",
      actor: null,
      sinceMs: null,
      before: null,
      limit: 1,
    });
    expect(last).toMatchObject({ actor: { name: "ada" }, detail: { subject: "leaver" } });
  });

  test("ends its running stream when its subject is blocked, and leaves those of others alone", async () => {
    const streaming = (sub: string, tokens: number) =>
      token({ sub }).then((key) =>
        rig.open({ model: "plain", x_tokens: tokens, x_pace_ms: 20 }, { key, stream: true, timeoutMs: slowed(60_000) }),
      );
    const [stopped, other] = await Promise.all([streaming("dismissed", 4_000), streaming("colleague", 400)]);
    await Promise.all([stopped.untilBody(500), other.untilBody(500)]);
    await keys.store.storage.blockedSubjects.block("ci", "dismissed", { kind: "cli", name: "ada" });
    const reply = await stopped.reply;
    expect(reply).toMatchObject({ status: 200, done: false, finishReason: null, error: { code: "key_revoked" } });
    expect(await keys.receipt(reply.requestId)).toMatchObject({ keyId: "jwt:ci:dismissed", state: "interrupted", error: "key_revoked" });
    expect(await other.reply).toMatchObject({ status: 200, done: true, error: null });
  });
});

test("a person signs in to the admin API with a provider, and blocks a subject there, which the audit log tells", async () => {
  const { adminUrl } = rig.gateway;
  const browser = new PlainBrowser();
  await browser.go(`${adminUrl}/admin/api/sign-in`, undefined, /^http:\/\/127\.0\.0\.1:1\//);
  // As the proxy would pass it on.
  const place = (browser.seen.at(-1) ?? "").replace(publicUrl, adminUrl);
  const finished = await browser.go(place, { accept: "application/json" });
  const session = (await finished.json()) as { readonly csrf_token: string };
  expect(session).toMatchObject({ name: "oidc:ada@example.com", role: "admin" });
  const ask = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`${adminUrl}/admin/api${path}`, {
      ...init,
      headers: {
        cookie: browser.cookies(adminUrl),
        origin: adminUrl,
        "content-type": "application/json",
        "x-csrf-token": session.csrf_token,
      },
    });
  const refused = await ask("/login", { method: "POST", body: JSON.stringify({ name: "ada", password: "does not matter" }) });
  expect([refused.status, await refused.text()]).toEqual([403, expect.stringContaining("local_accounts_off") as string]);
  expect((await ask("/issuers/ci/block", { method: "POST", body: JSON.stringify({ subject: "robot" }) })).status).toBe(200);
  const key = await token({ sub: "robot" });
  await eventually("that it is refused", async () => (await statusOf(key)) === 401, slowed(10_000));
  const { entries } = (await (await ask("/audit?limit=2")).json()) as { readonly entries: unknown };
  const who = { kind: "admin", name: "oidc:ada@example.com", address: "127.0.0.1" };
  expect(entries).toMatchObject([
    { action: "issuer.block", subject: "ci", detail: { subject: "robot" }, actor: who },
    { action: "login", subject: "oidc:ada@example.com", detail: { issuer: provider.issuer, subject: "ada", role: "admin" }, actor: who },
  ]);
});

test("a token ends with the key of the file that it has its permissions from, and those of other keys go on", async () => {
  const streaming = (claims: Record<string, unknown>, tokens: number) =>
    token(claims).then((key) =>
      rig.open({ model: "plain", x_tokens: tokens, x_pace_ms: 20 }, { key, stream: true, timeoutMs: slowed(60_000) }),
    );
  const [stopped, other] = await Promise.all([streaming({ sub: "job-7" }, 4_000), streaming({ sub: "job-7", tier: "tester" }, 100)]);
  await Promise.all([stopped.untilBody(500), other.untilBody(500)]);
  const left = (rig.config["keys"] as readonly { readonly name: string }[]).filter(({ name }) => name !== "jobs");
  await rig.gateway.rewriteConfig({ ...rig.config, keys: left });
  rig.gateway.signal("SIGHUP");
  expect(await stopped.reply).toMatchObject({ status: 200, done: false, error: { code: "key_revoked" } });
  expect(await statusOf(await token({ sub: "job-7" }))).toBe(401);
  expect(await other.reply).toMatchObject({ status: 200, done: true, error: null });
});
