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
