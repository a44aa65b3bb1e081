import { describe, expect, test } from "bun:test";
import { loadConfig, type Loaded, type Settings } from "../../../src/config/load.ts";

const keys = "keys:\n  - { name: jobs, key: jobs-key-0123456789, models: [small-*], limits: { rpm: 5 } }\n";
const oidc = "issuer: https://login.example.com/, client_id: sluice, client_secret: hush-hush";

function load(text: string): Promise<Loaded> {
  return loadConfig({ path: "sluice.yaml", text: `channels: [{ name: a, provider: ollama }]\n${text}`, env: {}, nofile: 20_000 });
}

async function settingsOf(text: string): Promise<Settings> {
  const loaded = await load(text);
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return loaded.settings;
}

async function problemsOf(text: string): Promise<readonly string[]> {
  const loaded = await load(text);
  return loaded.ok ? [] : loaded.problems.map(({ path, reason }) => `${path}: ${reason}`);
}

describe("sign_in", () => {
  test("is by local accounts alone unless the file says otherwise", async () => {
    expect((await settingsOf("")).signIn).toEqual({
      localAccounts: true,
      sessionLifeMs: 12 * 3_600_000,
      sessionIdleMs: 30 * 60_000,
      oidc: null,
    });
  });

  test("names a provider, with its issuer and the place after a sign-out as they are written", async () => {
    const text = `admin_tls: true\nsign_in: { local_accounts: false, session: 8h, idle: 15m, oidc: { ${oidc}, public_url: https://sluice.example.com/, logout_redirect: https://sluice.example.com/, scopes: [groups], group_admins: { leads: web }, viewer_groups: ["*"] } }`;
    expect((await settingsOf(text)).signIn).toEqual({
      localAccounts: false,
      sessionLifeMs: 8 * 3_600_000,
      sessionIdleMs: 15 * 60_000,
      oidc: {
        issuer: "https://login.example.com/",
        clientId: "sluice",
        clientSecret: "hush-hush",
        publicUrl: "https://sluice.example.com",
        logoutRedirect: "https://sluice.example.com/",
        scopes: ["openid", "groups"],
        groupsClaim: "groups",
        adminGroups: [],
        groupAdmins: new Map([["leads", "web"]]),
        viewerGroups: ["*"],
      },
    });
  });

  const wrong: readonly (readonly [what: string, text: string, problem: string])[] = [
    ["nobody", "sign_in: { local_accounts: false }", "sign_in.local_accounts: nobody could sign in"],
    [
      "an issuer without TLS",
      "sign_in: { oidc: { issuer: http://login.example.com, client_id: a, public_url: http://127.0.0.1:4401, admin_groups: [a] } }",
      "sign_in.oidc.issuer: an issuer must be reached over https, unless it is on this machine",
    ],
    [
      "a metadata service",
      "sign_in: { oidc: { issuer: https://169.254.169.254, client_id: a, public_url: http://127.0.0.1:4401, admin_groups: [a] } }",
      "sign_in.oidc.issuer: this is the address of a cloud's metadata service or of a link-local network, which is never allowed",
    ],
    ["no role", `sign_in: { oidc: { ${oidc}, public_url: http://127.0.0.1:4401 } }`, "sign_in.oidc: nobody would have a role"],
    [
      "admins of everybody",
      `sign_in: { oidc: { ${oidc}, public_url: http://127.0.0.1:4401, admin_groups: ["*"] } }`,
      "sign_in.oidc.admin_groups: everybody whom the provider lets in would be an admin",
    ],
    [
      "browsers without TLS",
      `sign_in: { oidc: { ${oidc}, public_url: http://sluice.example.com, admin_groups: [a] } }`,
      "sign_in.oidc.public_url: whoever signs in over plain HTTP can be listened to",
    ],
    [
      "https that nobody speaks",
      `sign_in: { oidc: { ${oidc}, public_url: https://sluice.example.com, admin_groups: [a] } }`,
      "sign_in.oidc.public_url: the admin listener is not set up to be reached over https",
    ],
    [
      "a path",
      `sign_in: { oidc: { ${oidc}, public_url: http://127.0.0.1:4401/sluice, admin_groups: [a] } }`,
      "sign_in.oidc.public_url: the admin listener serves no path of its own",
    ],
  ];
  test.each(wrong)("with %s is a problem", async (_, text, problem) => {
    expect(await problemsOf(text)).toContain(problem);
  });
});

describe("token_issuers", () => {
  const issuer = "name: ci, issuer: https://ci.example.com, audience: sluice";

  test("have rules that name keys of the file", async () => {
    const text = `${keys}token_issuers: [{ ${issuer}, lifetime: 1h, rules: [{ key: jobs, claims: { repository: acme/* } }] }]`;
    const [read] = (await settingsOf(text)).tokenIssuers;
    expect(read).toMatchObject({ name: "ci", issuer: "https://ci.example.com", audience: "sluice", jwksUri: null, lifetimeMs: 3_600_000 });
    expect(read?.rules.map(({ key, claims }) => [key.id, [...claims]])).toEqual([["file:jobs", [["repository", "acme/*"]]]]);
  });

  test("have rules that name groups of the file, with or without a key", async () => {
    const groups = "groups: [{ name: robots }]\n";
    const text = `${keys}${groups}token_issuers: [{ ${issuer}, rules: [{ key: jobs, group: robots, claims: { a: b } }, { group: robots }] }]`;
    const [read] = (await settingsOf(text)).tokenIssuers;
    expect(read?.rules.map(({ key }) => key)).toMatchObject([
      { group: "file-group:robots", models: ["small-*"], limits: { requests: 5 } },
      { group: "file-group:robots", models: null, limits: { requests: null } },
    ]);
  });

  test("have rules that name groups of the store, and a warning says so where one of the file may be meant", async () => {
    const groups = "groups: [{ name: robots }]\n";
    const text = `${keys}${groups}token_issuers: [{ ${issuer}, rules: [{ key: jobs, group: web }, { group: robot }] }]`;
    const loaded = await load(text);
    if (!loaded.ok) throw new Error("it cannot be used");
    expect(loaded.settings.tokenIssuers[0]?.rules.map(({ key, storedGroup }) => [key.group, storedGroup])).toEqual([
      [null, "web"],
      [null, "robot"],
    ]);
    expect(loaded.warnings.map(({ reason, fix }) => `${reason}: ${fix}`)).toEqual([
      "there is no group 'robot' in this file, so that a group of the store is meant: write 'robots' if you mean the one in this file",
    ]);
  });

  test("have rules that name keys of the store, and a warning says so where one of the file may be meant", async () => {
    const groups = "groups: [{ name: robots }]\n";
    const text = `${keys}${groups}token_issuers: [{ ${issuer}, rules: [{ key: other, group: robots }, { key: job }] }]`;
    const loaded = await load(text);
    if (!loaded.ok) throw new Error("it cannot be used");
    expect(loaded.settings.tokenIssuers[0]?.rules.map(({ key, storedKey, namesGroup }) => [key.group, storedKey, namesGroup])).toEqual([
      ["file-group:robots", "other", true],
      [null, "job", false],
    ]);
    expect(loaded.warnings.map(({ reason, fix }) => `${reason}: ${fix}`)).toEqual([
      "there is no key 'job' in this file, so that a key of the store is meant: write 'jobs' if you mean the one in this file",
    ]);
  });

  const wrong: readonly (readonly [what: string, entry: string, problem: string])[] = [
    ["neither key nor group", `{ ${issuer}, rules: [{ claims: { a: b } }] }`, "token_issuers[0].rules[0]: tokens would have no limits"],
    ["no rule", `{ ${issuer} }`, "token_issuers[0]: every token would be refused"],
    ["a lifetime of two days", `{ ${issuer}, lifetime: 2d, rules: [{ key: jobs }] }`, "token_issuers[0].lifetime: '2d' is out of range"],
    ["no audience", "{ name: ci, issuer: https://ci.example.com, rules: [{ key: jobs }] }", "token_issuers[0].audience: this is missing"],
    [
      "the same issuer twice",
      `{ ${issuer}, rules: [{ key: jobs }] }, { ${issuer.replace("ci,", "two,")}, rules: [{ key: jobs }] }`,
      "token_issuers[1].issuer: this issuer is listed already",
    ],
  ];
  test.each(wrong)("with %s are a problem", async (_, entry, problem) => {
    expect((await problemsOf(`${keys}token_issuers: [${entry}]`)).join("\n")).toContain(problem.split(": '")[0] ?? "");
  });
});
