import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { verifyPassword } from "../../src/admin/login/password.ts";
import { CommandLine } from "../support/command-line.ts";

// Some commands are processes of their own; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

const password = "quiet otters sing at dawn";

async function opens(cli: CommandLine, name: string, given: string): Promise<boolean> {
  return cli.withStorage(async ({ accounts }) => verifyPassword(given, (await accounts.passwordHash(name))?.hash ?? null));
}

describe("an account", () => {
  test("is created with a password from standard input, which works and is not printed", async () => {
    const cli = new CommandLine();
    const { code, out, err } = await cli.run(["accounts", "create", "Ada", "--role", "admin"], { input: `${password}\n` });
    expect([code, (out + err).includes(password)]).toEqual([0, false]);
    expect(await opens(cli, "ada", password)).toBe(true);
    expect(await cli.json<unknown>("accounts", "list")).toEqual([
      { name: "ada", role: "admin", created_at: expect.any(String), disabled_at: null },
    ]);
    expect(await cli.here(["accounts", "create", "ada", "--role", "viewer"], { input: password })).toMatchObject({ code: 1 });
  });

  test("asks twice on a terminal, without showing what is typed", async () => {
    const cli = new CommandLine();
    const command = ["accounts", "create", "ada", "--role", "admin"];
    const wrong = await cli.onTerminal(command, [
      ["Password for ada", `${password}\r`],
      ["Repeat it", "something else\r"],
    ]);
    expect([wrong.code, wrong.out.includes("do not match")]).toEqual([64, true]);
    const right = await cli.onTerminal(command, [
      ["Password for ada", `${password}\r`],
      ["Repeat it", `${password}\r`],
    ]);
    expect([right.code, right.out.includes(password)]).toEqual([0, false]);
    expect(await opens(cli, "ada", password)).toBe(true);
  });

  test.each([
    ["ada", "short", /at least 12/],
    ["ada", "adaadaadaada", /easy to guess/],
    ["a b", password, /A name has/],
  ])("is refused for %s with %s", async (name, given, words) => {
    const cli = new CommandLine();
    expect(await cli.here(["accounts", "create", name, "--role", "admin"], { input: given })).toMatchObject({
      code: 64,
      err: expect.stringMatching(words),
    });
    expect(await cli.json<unknown>("accounts", "list")).toEqual([]);
  });

  test("gets a new password, is disabled, enabled and removed; the last administrator stays", async () => {
    const cli = new CommandLine();
    for (const [name, role] of [
      ["ada", "admin"],
      ["bob", "viewer"],
    ] as const) {
      await cli.here(["accounts", "create", name, "--role", role], { input: password });
    }
    expect((await cli.here(["accounts", "password", "bob"], { input: "seven grey stones in rain" })).code).toBe(0);
    expect([await opens(cli, "bob", password), await opens(cli, "bob", "seven grey stones in rain")]).toEqual([false, true]);
    expect(await cli.json<unknown>("accounts", "disable", "bob")).toMatchObject({ disabled_at: expect.any(String) });
    expect(await cli.json<unknown>("accounts", "enable", "BOB")).toMatchObject({ disabled_at: null });
    for (const act of ["disable", "remove"]) {
      expect(await cli.here(["accounts", act, "ada"])).toMatchObject({ code: 1, err: expect.stringContaining("last administrator") });
    }
    expect((await cli.here(["accounts", "remove", "bob"])).code).toBe(0);
    expect(await cli.here(["accounts", "password", "bob"], { input: password })).toMatchObject({
      code: 1,
      err: expect.stringContaining("no account"),
    });
    const actions = (await cli.json<{ action: string }[]>("audit")).map(({ action }) => action);
    expect(actions).toEqual(["account.remove", "account.change", "account.change", "account.change", "account.create", "account.create"]);
  });
});

test("an admin token is printed once, listed without its secret, and revoked", async () => {
  const cli = new CommandLine();
  const { code, out } = await cli.run(["accounts", "tokens", "create", "monitoring", "--role", "viewer"]);
  expect([code, out]).toEqual([0, expect.stringMatching(/^sk-gwa_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}\n$/)]);
  const listed = await cli.json<unknown>("accounts", "tokens", "list");
  expect(listed).toMatchObject([{ name: "monitoring", role: "viewer", last4: out.trim().slice(-4), revoked_at: null }]);
  expect(JSON.stringify(listed)).not.toContain(out.trim().slice(20, 60));
  const { token } = await cli.json<{ token: string }>("accounts", "tokens", "create", "second", "--role", "admin");
  expect(token).toStartWith("sk-gwa_");
  expect(await cli.here(["accounts", "tokens", "revoke", "monitoring"])).toMatchObject({ code: 0 });
  expect(await cli.here(["accounts", "tokens", "revoke", "nobody"])).toMatchObject({ code: 1, err: expect.stringContaining("no token") });
  expect((await cli.here(["accounts", "tokens"])).out).toMatch(/monitoring +viewer +revoked/);
});

test("local accounts are allowed for a while, and not any longer, by a command that is in the audit log", async () => {
  const cli = new CommandLine();
  const { local_accounts_until: until } = await cli.json<{ local_accounts_until: string }>("accounts", "allow-local", "--for", "30m");
  expect(Date.parse(until)).toBeGreaterThan(Date.now());
  expect(await cli.json<unknown>("accounts", "allow-local", "--for", "0")).toEqual({ local_accounts_until: null });
  expect(await cli.here(["accounts", "allow-local", "--for", "2d"])).toMatchObject({ code: 64 });
  expect(await cli.json<unknown>("audit")).toMatchObject([{ action: "account.allow_local" }, { action: "account.allow_local" }]);
});

test("the sessions of a person are ended by a command", async () => {
  const cli = new CommandLine();
  const session = {
    account: "oidc:ada",
    issuer: "https://login.example.com",
    subject: "1",
    role: "admin",
    csrf: "c",
    createdMs: 1,
    seenMs: 1,
  } as const;
  await cli.withStorage(async ({ accounts }) => {
    for (const digest of ["one", "two"]) await accounts.openSession({ ...session, digest });
    await accounts.openSession({ ...session, digest: "other", account: "oidc:bob", subject: "2" });
  });
  expect(await cli.here(["accounts", "end-sessions", "oidc:ada"])).toMatchObject({ code: 0, out: "Ended 2 sessions of oidc:ada.\n" });
  expect(await cli.json<unknown>("accounts", "end-sessions", "oidc:ada")).toEqual({ name: "oidc:ada", ended: 0 });
  expect(await cli.json<unknown>("audit")).toMatchObject([{ action: "account.end_sessions", subject: "oidc:ada", detail: { ended: 2 } }]);
});

test("subjects of an issuer are blocked and unblocked, and a name that no issuer has is not", async () => {
  const keys = [{ name: "jobs", key: "sk-nobody-has-this-one-0123456789" }];
  const token_issuers = [{ name: "ci", issuer: "https://ci.example.com", audience: "sluice", rules: [{ key: "jobs" }] }];
  const cli = new CommandLine({ keys, token_issuers });
  expect(await cli.here(["issuers", "block", "cy"])).toMatchObject({ code: 1, err: expect.stringContaining("it has ci") });
  expect(await cli.here(["issuers", "block", "ci", "job-1"])).toMatchObject({ code: 0 });
  expect(await cli.here(["issuers", "block", "ci"])).toMatchObject({ code: 0 });
  expect(await cli.json<unknown>("issuers", "blocked")).toMatchObject([
    { issuer: "ci", subject: "job-1" },
    { issuer: "ci", subject: null },
  ]);
  expect((await cli.here(["issuers"])).out).toMatch(/ci +\(all\)/);
  expect(await cli.here(["issuers", "unblock", "ci"])).toMatchObject({ code: 0 });
  expect(await cli.here(["issuers", "unblock", "ci"])).toMatchObject({ code: 1, err: expect.stringContaining("not blocked") });
  const actions = (await cli.json<{ action: string }[]>("audit")).map(({ action }) => action);
  expect(actions).toEqual(["issuer.unblock", "issuer.block", "issuer.block"]);
});
