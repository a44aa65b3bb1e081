// Needs: servers. It uses a real PostgreSQL or Redis.
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../../src/app/durable.ts";
import { keptBackups } from "../../src/app/kept-backups.ts";
import type { GroupView } from "../../src/manage/group-view.ts";
import type { KeyView } from "../../src/manage/key-view.ts";
import { restoreStore } from "../../src/store/backup/restore.ts";
import type { Price } from "../../src/usage/price.ts";
import { startAdmin, type AdminWorld } from "../support/admin.ts";
import { CommandLine, remotely, type Outcome } from "../support/command-line.ts";
import { migratedDataDir } from "../support/databases.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";
import { refusedUrl } from "../support/refused-port.ts";
import { makeCertificates } from "../support/tls.ts";

// Some commands are processes of their own; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

const masterKey = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex");
const shippedPrice: Price = {
  provider: null,
  model: "shipped-model",
  fromMs: 0,
  rates: { input: 1_500_000_000, longAboveTokens: 200_000 },
};
const filePrice: Price = { provider: "router", model: "file-model", fromMs: 0, rates: { output: 250_000_000, stated: true } };

let world: AdminWorld;
let tokens: Readonly<Record<"admin" | "viewer" | "eve", string>>;
const ids: Record<string, string> = {};
const keys: Record<string, string> = {};

const as =
  (who: keyof typeof tokens) =>
  (...args: readonly string[]): Promise<Outcome> =>
    remotely(args, { SLUICE_ADMIN_URL: world.url, SLUICE_ADMIN_TOKEN: tokens[who] });
const admin = as("admin");
const viewer = as("viewer");
/** The administrator of the team web. */
const eve = as("eve");

async function shown<T>(run: (...args: readonly string[]) => Promise<Outcome>, ...args: readonly string[]): Promise<T> {
  const { code, out, err } = await run(...args, "--json");
  if (code !== 0) throw new Error(`sluice ${args.join(" ")} ended with ${code}: ${err}`);
  return JSON.parse(out) as T;
}

/** An organisation with the teams web and ads, each with a key that made one call. */
beforeAll(async () => {
  const dataDir = await migratedDataDir();
  // The store remembers its master key.
  await (await openStore({ store: "sqlite", dataDir }, masterKey, false)).database.close();
  const backups = keptBackups({ store: "sqlite", dataDir }, masterKey, { info: () => undefined, error: () => undefined });
  world = await startAdmin({ dataDir, services: { backups, prices: () => ({ shipped: [shippedPrice], file: [filePrice] }) } });
  const bearer = async (...whose: Parameters<AdminWorld["token"]>): Promise<string> =>
    ((await world.token(...whose))["authorization"] ?? "").replace("Bearer ", "");
  tokens = { admin: await bearer("admin"), viewer: await bearer("viewer"), eve: "" };
  await admin("groups", "create", "org", "--kind", "organisation", "--budget", "500", "--budget-period", "month");
  for (const name of ["web", "ads"]) await admin("groups", "create", name, "--kind", "team", "--parent", "org");
  for (const group of await shown<readonly GroupView[]>(admin, "groups", "list")) ids[group.name] = group.id;
  tokens = { ...tokens, eve: await bearer("group_admin", ids["web"]) };
  for (const name of ["web", "ads"]) {
    const made = await shown<KeyView>(admin, "keys", "create", `${name}-key`, "--group", name, "--budget", "5", "--rpm", "60");
    keys[name] = made.id;
    const owners = [ids[name] ?? "", ids["org"] ?? ""];
    const startedMs = Date.now();
    await world.receipts(
      sampleReceipt({ startedMs, id: `r-${name}`, requestId: `req-${name}`, keyId: made.id, owners, billedNanos: 250_000_000 }),
    );
  }
});

describe("through the admin API of a gateway elsewhere, an admin", () => {
  test("creates, lists, shows, changes, rotates and revokes keys as on the store", async () => {
    const created = await admin("keys", "create", "laptop", "--owner", "ada", "--model", "small-*", "--expires", "30d", "--long-audio");
    expect(created).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^sk-gw_\w+\n$/),
      err: expect.stringContaining("Created key laptop"),
    });
    const budget = "eu:channels=eu-*,budget_usd=2.5,budget_period=day";
    const limits = [
      "--tpm",
      "1000",
      "--budget",
      "0.1",
      "--budget-period",
      "day",
      "--per-model",
      "large-*:rpm=3",
      "--selected-budget",
      budget,
    ];
    expect((await admin("keys", "limits", "laptop", ...limits)).out.trim().split("\n")).toEqual([
      "all models  1000 tokens/min, 0.1 dollars a day, 1 budget for some calls",
      "large-*     3 requests/min",
      "budget eu   2.5 dollars a day for channels eu-*",
    ]);
    expect((await admin("keys", "limits", "laptop", "--no-tpm", "--selected-budget", "eu:off")).out).not.toContain("token");
    expect(await shown<object>(admin, "keys", "edit", "laptop", "--name", "a / b?", "--no-owner")).toMatchObject({
      name: "a / b?",
      owner: null,
      models: ["small-*"],
      long_audio: "split",
      limits: { budget_usd: 0.1, budget_period: "day", per_model: [{ model: "large-*", rpm: 3 }] },
    });
    expect((await admin("keys", "show", "a / b?")).out).toMatch(/spent +0 of 0.1 dollars a day/);
    const local = await world.storage.keys.find("a / b?");
    expect((await admin("keys", "rotate", "a / b?", "--overlap", "0")).out).toMatch(/^sk-gw_\w+\n$/);
    expect((await world.storage.keys.find("a / b?"))?.tokens[0]?.last4).not.toBe(local?.tokens[0]?.last4);
    expect((await admin("keys", "list", "--search", "a / b")).out).toContain("a / b?");
    expect((await admin("keys", "revoke", "a / b?")).out).toStartWith("Revoked key a / b?");
    expect((await admin("keys", "list", "--search", "a / b")).err).toContain("No key matches");
    for (const name of ["nobody", "..", "."]) {
      expect(await admin("keys", "show", name)).toMatchObject({ code: 1, err: expect.stringContaining("There is no key") });
    }
  });

  test.each(["keys", "groups"])("loses no limit of %s that others set at the same moment", async (list) => {
    await admin(list, "create", "shared");
    const limits = ["rpm", "tpm", "concurrency", "characters"];
    const outcomes = await Promise.all(limits.map((limit) => admin(list, "limits", "shared", `--${limit}`, "7")));
    expect(outcomes.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(await shown<unknown>(admin, list, "limits", "shared")).toEqual({ rpm: 7, tpm: 7, concurrency: 7, characters: 7 });
    await admin(list, list === "keys" ? "revoke" : "delete", "shared", "--yes");
  });

  test("creates, shows, freezes, moves and deletes groups", async () => {
    expect((await admin("groups", "create", "tmp", "--parent", "web", "--key-defaults", "rpm=6")).out).toStartWith("Created group tmp");
    expect((await admin("groups", "freeze", "web")).out).toStartWith("Froze team web");
    expect((await admin("groups", "show", "tmp")).out).toMatch(/state +frozen, because web is[^]*below +web, below org/);
    expect((await admin("groups", "unfreeze", "web")).code).toBe(0);
    expect((await admin("groups", "show", "org")).out).toMatch(/spent +0.5 of 500 dollars a month/);
    expect((await admin("groups", "move", "tmp")).out).toStartWith("Moved group tmp");
    expect((await admin("groups", "limits", "tmp", "--rpm", "5")).out).toContain("5 requests/min");
    expect((await admin("groups", "edit", "tmp", "--note", "x")).code).toBe(0);
    expect((await admin("groups", "delete", "tmp", "--yes")).out).toStartWith("Deleted group tmp");
    expect(await admin("groups", "create", "web")).toMatchObject({ code: 1, err: expect.stringContaining("already") });
  });

  test("sees usage, calls and the audit log, and takes a change back", async () => {
    const usage = (await admin("usage", "--by", "key")).out;
    // The rows cost the same, so that either may be the first.
    for (const row of [/^web-key +1 /m, /^ads-key +1 /m, /\ntotal +2 .* 0\.5\n$/]) expect(usage).toMatch(row);
    expect(await shown<object>(admin, "usage", "--by", "group", "--since", "2026-01-01")).toContainEqual(
      expect.objectContaining({ group_name: "org", calls: 2, cost_usd: 0.5 }),
    );
    expect((await admin("requests", "--status", "2xx", "--min-cost", "0.25", "--key", "ads-key")).out).toContain("req-ads");
    expect((await admin("requests", "--status", "429")).err).toContain("No call matches");
    expect((await admin("explain", "req-ads")).out).toContain("channel-1 answered at once.");
    expect((await admin("usage", "--key", "gone")).err).toContain('there is no key "gone"');
    await admin("groups", "limits", "ads", "--rpm", "9");
    const [entry] = await shown<readonly { id: string; action: string }[]>(admin, "audit", "--limit", "1");
    expect(entry?.action).toBe("group.change");
    const undone = await admin("audit", "undo", entry?.id ?? "");
    expect(undone).toMatchObject({ code: 0, err: expect.stringContaining("limits.requests: null → 9") });
    expect((await shown<GroupView>(admin, "groups", "show", "ads")).limits).toEqual({});
    expect((await admin("audit", "--format", "jsonl")).out.split("\n").length).toBeGreaterThan(8);
    expect(await admin("audit", "undo", "nothing")).toMatchObject({ code: 1 });
  });

  test("lists the channels, and lets the gateway make real calls to one", async () => {
    expect(await admin("channels", "list", "--json")).toMatchObject({ code: 0 });
    const cli = new CommandLine();
    const audio = join(cli.folder, "speech.mp3");
    const tested = await admin("channels", "test", "tested", "--model", "m", "--operations", "speech", "--audio", audio);
    expect(tested).toMatchObject({ code: 0, out: expect.stringMatching(/speech +m +ok +5 +3 bytes of audio/) });
    expect([...readFileSync(audio)]).toEqual([1, 2, 3]);
    expect(await shown<object>(admin, "channels", "test", "tested")).toMatchObject({ channel: "tested", calls: [{ ok: true, tookMs: 5 }] });
    expect(await admin("channels", "test", "gone")).toMatchObject({ code: 1, err: expect.stringContaining("channel") });
  });

  test("lists, sets and removes prices as on the store", async () => {
    const listed = (await admin("prices", "list")).out;
    expect(listed).toMatch(/file-model +router +always +- +0\.25 +- +yes +now +file/);
    expect(listed).toMatch(/shipped-model +any +always +1\.5 +- +>200000 +- +now +shipped/);
    const args = ["--provider", "router", "--from", "2026-02-01", "--input", "0.1", "--cached-input", "0.025", "--long-above-tokens", "9"];
    const set = await shown<{ id: string }>(admin, "prices", "set", "shipped-model", ...args, "--note", "of the contract");
    expect(set).toMatchObject({
      source: "store",
      provider: "router",
      from_at: "2026-02-01T00:00:00.000Z",
      rates: { input: 0.1, cached_input: 0.025, long_above_tokens: 9 },
      state: "now",
      note: "of the contract",
    });
    expect((await world.storage.prices.list()).map(({ id, rates }) => ({ id, rates }))).toEqual([
      { id: set.id, rates: { input: 100_000_000, cachedInput: 25_000_000, longAboveTokens: 9 } },
    ]);
    expect((await admin("prices", "remove", "shipped-model")).out).toStartWith("Removed the price of shipped-model");
    expect(await admin("prices", "remove", "shipped-model")).toMatchObject({
      code: 1,
      err: expect.stringContaining("shipped with Sluice"),
    });
    expect(await admin("prices", "remove", "file-model")).toMatchObject({
      code: 1,
      err: expect.stringContaining("configuration of the gateway"),
    });
    expect(await viewer("prices", "set", "x", "--input", "1")).toMatchObject({ code: 77 });
  });

  test("manages accounts, admin tokens and sessions", async () => {
    const withPassword = (...args: readonly string[]): Promise<Outcome> =>
      remotely(args, { SLUICE_ADMIN_URL: world.url, SLUICE_ADMIN_TOKEN: tokens.admin }, "three unrelated words");
    expect((await withPassword("accounts", "create", "Bob", "--role", "viewer")).out).toBe("Created account bob with role viewer.\n");
    expect(await withPassword("accounts", "create", "bob", "--role", "viewer")).toMatchObject({
      code: 1,
      err: expect.stringContaining("already exists"),
    });
    expect((await withPassword("accounts", "password", "bob")).code).toBe(0);
    expect((await admin("accounts", "disable", "bob")).out).toContain("Disabled account bob");
    expect((await admin("accounts", "list")).out).toMatch(/bob +viewer +disabled +\d{4}-/);
    expect((await admin("accounts", "enable", "bob")).out).toContain("Enabled account bob");
    expect((await admin("accounts", "end-sessions", "bob")).out).toContain("bob has no session");
    expect((await admin("accounts", "remove", "bob")).out).toContain("Removed account bob");
    const { token, group } = await shown<{ token: string; group: string }>(
      admin,
      "accounts",
      "tokens",
      "create",
      "ci",
      "--role",
      "group_admin",
      "--group",
      "web",
    );
    expect(token).toStartWith("sk-gwa_");
    expect(group).toBe(ids["web"] ?? "");
    expect((await remotely(["keys", "list", "--url", world.url, "--token", token])).out).toContain("web-key");
    expect((await admin("accounts", "tokens", "revoke", "ci")).out).toBe("Revoked token ci.\n");
    expect((await admin("accounts", "tokens")).out).toMatch(/ci +group_admin +revoked/);
    expect(await viewer("accounts", "list")).toMatchObject({ code: 77 });
    expect(await admin("accounts", "allow-local")).toMatchObject({
      code: 64,
      err: expect.stringContaining("on the machine of the gateway"),
    });
  });

  test("blocks and unblocks subjects of an issuer of tokens", async () => {
    expect((await admin("issuers", "block", "jobs", "repo:acme/app:x")).out).toContain("Blocked the tokens of subject repo:acme/app:x");
    expect((await admin("issuers", "blocked")).out).toMatch(/jobs +repo:acme\/app:x +\d{4}-/);
    expect((await admin("issuers", "block", "jobs")).out).toContain("Blocked all tokens of issuer jobs");
    expect(await shown<object>(admin, "issuers", "unblock", "jobs")).toEqual({ issuer: "jobs", subject: null, blocked: false });
    expect(await admin("issuers", "block", "other")).toMatchObject({ code: 1, err: expect.stringContaining("it has jobs") });
  });

  test("explains the configuration of the gateway and what its store says", async () => {
    const rows = (await admin("config", "explain")).out;
    expect(rows).toMatch(/listen +127\.0\.0\.1:4400 +\/etc\/sluice\.yaml:1\n/);
    expect(rows).toMatch(/groups\.web\.kind +team +store\n/);
    expect(await shown<object>(viewer, "config", "explain", "keys.web-key.group", "groups.web.kind")).toEqual([
      expect.objectContaining({ path: "groups.web.kind", value: "team", origin: "store" }),
      expect.objectContaining({ path: "keys.web-key.group", value: "web", overridden_by: null }),
    ]);
    expect(await admin("config", "explain", "nothing")).toMatchObject({
      code: 1,
      err: expect.stringContaining("There is no setting nothing"),
    });
  });

  test("exports, compares and applies resource files, with the variables of this machine alone", async () => {
    const cli = new CommandLine();
    const file = join(cli.folder, "resources.yaml");
    const run = (...args: readonly string[]): Promise<Outcome> =>
      remotely(args, { SLUICE_ADMIN_URL: world.url, SLUICE_ADMIN_TOKEN: tokens.admin, LABEL: "from here" });
    const exported = await run("config", "export", "--only", "groups", "prices");
    expect(exported.out).toContain("- name: ads");
    writeFileSync(file, exported.out);
    expect(await run("config", "diff", file)).toMatchObject({ code: 0, err: expect.stringContaining("Nothing differs") });

    writeFileSync(
      file,
      `${exported.out}channels: []\n`.replace("prices: []", "prices:\n  - {model: applied, input: 0.5, note: '${LABEL}'}"),
    );
    const planned = await run("config", "diff", file);
    expect(planned).toMatchObject({ code: 2, out: expect.stringMatching(/^\+ price applied \(line \d+\): create: .*from here/) });
    expect(await run("config", "apply", file, "--dry-run")).toMatchObject({ code: 2, err: expect.stringContaining("1 change to make.") });
    expect((await world.storage.prices.list()).some(({ model }) => model === "applied")).toBe(false);
    expect(await run("config", "apply", file)).toMatchObject({ code: 0, err: expect.stringContaining("1 change made.") });
    expect(await world.storage.prices.list()).toContainEqual(expect.objectContaining({ model: "applied", note: "from here" }));
    const [entry] = await shown<readonly object[]>(admin, "audit", "--action", "config.apply");
    expect(entry).toMatchObject({ subject: file, actor: { kind: "admin" } });

    // A variable of the gateway is none of the caller's business.
    writeFileSync(file, "prices: [{model: applied, input: 0.5, note: '${PATH}'}]");
    expect(await run("config", "diff", file)).toMatchObject({ code: 64, err: expect.stringContaining("PATH is not set") });
    writeFileSync(file, "prices: [{model: applied, inputs: 0.5}]");
    expect(await run("config", "apply", file)).toMatchObject({ code: 64, err: expect.stringContaining(`${file}:1`) });
    expect(await run("config", "diff", join(cli.folder, "gone.yaml"))).toMatchObject({ code: 64, err: expect.stringContaining("ENOENT") });
    writeFileSync(file, `# ${"x".repeat(300 * 1024)}`);
    expect(await run("config", "diff", file)).toMatchObject({ code: 64, err: expect.stringContaining("larger than 256 KiB") });
    expect(await viewer("config", "export")).toMatchObject({ code: 77 });
    expect(await eve("config", "diff", file)).toMatchObject({ code: 77 });
  });

  test("makes a backup there and brings it here; nothing of it stays on the gateway", async () => {
    const cli = new CommandLine();
    const file = join(cli.folder, "sluice.backup");
    const made = await shown<{ bytes: number }>(admin, "backup", file);
    expect(made).toEqual({ file, bytes: statSync(file).size, encrypted_with: "master_key" } as object as typeof made);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(world.services.backups.list()).toEqual([]);
    // It can be opened with the master key of the gateway.
    const { masterKey: fits } = await restoreStore({
      store: "sqlite",
      dataDir: cli.dataDir,
      given: masterKey,
      from: { file, passphrase: null, checkOnly: true },
      onProgress: () => undefined,
    });
    expect(fits.kind).toBe("fits");
    expect(await admin("backup", file)).toMatchObject({ code: 64, err: expect.stringContaining("exists already") });
    const other = join(cli.folder, "other.backup");
    expect(await viewer("backup", other)).toMatchObject({ code: 77 });
    expect(existsSync(other)).toBe(false);
  });
});

test("what cannot be done from elsewhere is refused before anything is asked, and says where it can be done", async () => {
  for (const [args, words] of [
    [["backup", "x", "--plain"], "encrypts its backups with its master key"],
    [["restore", "x", "--check"], "all gateways must be stopped"],
    [["master-key", "show"], "on the machine of the gateway alone"],
    [["master-key", "rotate"], "all gateways must be stopped"],
    [["open"], "/console in a browser"],
    [["models", "list"], "on the machine of the gateway"],
    [["doctor"], "on the machine of the gateway"],
  ] as const) {
    const outcome = await remotely([...args, "--url", "http://127.0.0.1:1", "--token", "t"]);
    expect([args, outcome]).toEqual([args, { code: 64, out: "", err: expect.stringContaining(words) }]);
  }
});

describe("through the admin API, the administrator of a group", () => {
  test("sees the keys, groups, usage, calls and changes of that group alone", async () => {
    expect((await shown<readonly KeyView[]>(eve, "keys", "list")).map(({ name }) => name)).toEqual(["web-key"]);
    expect((await shown<readonly GroupView[]>(eve, "groups", "list")).map(({ name }) => name)).toEqual(["web"]);
    const own = (await eve("groups", "show", "web")).out;
    expect(own).toMatch(/^name +web$/m);
    // Not even that there is a group above it.
    expect(own).not.toContain("below");
    expect(own).not.toContain(ids["org"] ?? "");
    expect((await shown<readonly { key_name: string }[]>(eve, "usage", "--by", "key")).map(({ key_name }) => key_name)).toEqual([
      "web-key",
    ]);
    expect((await shown<readonly { request_id: string }[]>(eve, "requests")).map(({ request_id }) => request_id)).toEqual(["req-web"]);
    expect((await eve("explain", "req-web")).code).toBe(0);
    const subjects = (await shown<readonly { subject: string }[]>(eve, "audit")).map(({ subject }) => subject);
    expect(subjects).toContain(keys["web"] ?? "");
    expect(subjects).not.toContain(keys["ads"] ?? "");
    expect(subjects).not.toContain(ids["org"] ?? "");
  });

  test("manages it: keys are made, changed and revoked there", async () => {
    expect((await eve("keys", "create", "eve-key", "--group", "web", "--rpm", "5")).code).toBe(0);
    expect((await eve("keys", "limits", "eve-key", "--rpm", "6")).out).toContain("6 requests/min");
    const [change] = await shown<readonly { id: string }[]>(eve, "audit", "--limit", "1");
    expect(await eve("audit", "undo", change?.id ?? "")).toMatchObject({ code: 0, err: expect.stringContaining("limits.requests: 5 → 6") });
    expect((await eve("keys", "show", "eve-key")).out).toContain("5 requests/min");
    expect((await eve("keys", "revoke", "eve-key")).code).toBe(0);
    expect((await eve("groups", "create", "app", "--parent", "web")).code).toBe(0);
    expect((await eve("groups", "delete", "app", "--yes")).code).toBe(0);
  });

  test("is refused everywhere else, in the words of the API and with an exit code", async () => {
    for (const [args, code, words] of [
      [["keys", "show", "ads-key"], 1, 'There is no key "ads-key"'],
      [["keys", "revoke", keys["ads"] ?? ""], 1, "There is no key"],
      [["keys", "create", "x"], 64, "Choose a group that you manage."],
      [["keys", "create", "x", "--group", "ads"], 64, "There is no such group."],
      [["keys", "edit", "web-key", "--no-group"], 64, "Choose a group that you manage."],
      [["groups", "show", "ads"], 1, 'There is no group "ads"'],
      [["groups", "limits", "web", "--rpm", "9"], 1, "Your own group is managed by those above it."],
      [["groups", "create", "top"], 64, "Choose a group that you manage."],
      [["groups", "freeze", "ads"], 1, "There is no such group."],
      [["explain", "req-ads"], 1, 'No call has the id "req-ads"'],
      [["audit", "undo", "any"], 1, "There is no such entry in the audit log"],
      [["channels", "list"], 77, "This needs the role 'admin'"],
      [["tail"], 77, "This needs the role 'admin'"],
      [["lab"], 77, "This needs the role 'admin'"],
    ] as const) {
      expect([args, await eve(...args)]).toEqual([[...args], { code, out: "", err: expect.stringContaining(words) }]);
    }
    expect(await shown<object>(eve, "usage", "--key", keys["ads"] ?? "")).toEqual([]);
    expect(await shown<object>(eve, "requests", "--group", "ads")).toEqual([]);
    expect((await world.storage.keys.find("ads-key"))?.revokedMs).toBeNull();
  });
});

test("a viewer sees everything and changes nothing", async () => {
  expect((await shown<readonly KeyView[]>(viewer, "keys", "list")).length).toBeGreaterThan(1);
  expect(await viewer("keys", "revoke", "ads-key")).toMatchObject({
    code: 77,
    err: expect.stringContaining("This needs the role 'admin'"),
  });
});

describe("the gateway elsewhere", () => {
  test("and its token are taken from options, from variables and from a file", async () => {
    const cli = new CommandLine();
    const file = join(cli.folder, "token");
    writeFileSync(file, `${tokens.viewer}\n`);
    const variables = { SLUICE_ADMIN_URL: world.url, SLUICE_ADMIN_TOKEN_FILE: file };
    expect((await cli.run(["keys", "list"], { env: variables })).out).toContain("ads-key");
    // A file that is named goes before the variables.
    expect((await cli.run(["keys", "list", "--config", cli.config], { env: variables })).err).toContain("There are no keys");
    expect((await remotely(["keys", "list", "--url", `${world.url}/admin/api/`, "--token", tokens.eve])).out).toContain("web-key");
    expect((await remotely(["--url", world.url, "keys", "list"], { SLUICE_ADMIN_TOKEN: tokens.eve })).out).toContain("web-key");
  });

  test("is refused with what is missing or wrong, and how to fix it", async () => {
    const wrong = `sk-gwa_${"0".repeat(40)}`;
    for (const [args, code, words] of [
      [["--url", "https://x:1", "keys", "list"], 64, "SLUICE_ADMIN_TOKEN"],
      [["--token", "t", "keys", "list"], 64, "give its address with --url"],
      [["--url", "gateway:4401", "--token", "t", "keys", "list"], 64, "must be like https://gateway:4401"],
      [["--url", "https://a@x:1", "--token", "t", "keys", "list"], 64, "without a user"],
      [["--url", "http://x:1", "--token", "two words", "keys", "list"], 64, "characters that no token has"],
      [["--url", "http://x:1", "--token", "t", "start"], 64, "not for sluice start"],
      [["--url", "http://x:1", "--token", "t", "keys", "list", "--config", "x.yaml"], 64, "both given"],
      [["--url", world.url, "--token", wrong, "keys", "list"], 77, "Incorrect or missing admin token"],
      [["--url", refusedUrl(), "--token", wrong, "keys", "list"], 69, "No gateway can be reached"],
      [["--url", `${world.url}/elsewhere`, "--token", wrong, "keys", "list"], 69, "may be older"],
    ] as const) {
      expect([args, await remotely(args)]).toEqual([args, { code, out: "", err: expect.stringContaining(words) }]);
    }
  });

  test("may be something else: what it answers is neither followed nor taken for an answer", async () => {
    let asked = 0;
    const answers = [new Response("hello"), Response.redirect("/admin/api/keys", 307), new Response("x", { status: 502 })];
    using server = Bun.serve({ port: 0, fetch: () => answers[asked++] ?? Response.json({ keys: [], next: null }) });
    const list = (): Promise<Outcome> => remotely(["keys", "list", "--url", server.url.href, "--token", "t"]);
    expect(await list()).toMatchObject({ code: 69, err: expect.stringContaining("is not the admin API") });
    expect(await list()).toMatchObject({ code: 69, err: expect.stringContaining("status 307") });
    expect(await list()).toMatchObject({ code: 69, err: expect.stringContaining("status 502") });
    expect(asked).toBe(3);
  });

  test("needs a certificate that can be verified; an authority of one's own can be named", async () => {
    const made = await makeCertificates();
    if (made === null) return;
    const cli = new CommandLine();
    const authority = join(cli.folder, "authority.pem");
    writeFileSync(authority, made.authority);
    using server = Bun.serve({ port: 0, tls: made.valid, fetch: () => Response.json({ keys: [], next: null }) });
    const args = ["--url", `https://localhost:${server.port}`, "--token", "t", "keys", "list"];
    expect(await remotely(args)).toMatchObject({ code: 69, err: expect.stringContaining("NODE_EXTRA_CA_CERTS") });
    expect(await cli.run(args, { env: { NODE_EXTRA_CA_CERTS: authority } })).toMatchObject({
      code: 0,
      err: expect.stringContaining("no keys"),
    });
  });
});
