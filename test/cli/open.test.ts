import { expect, setDefaultTimeout, test } from "bun:test";
import { CommandLine } from "../support/command-line.ts";

setDefaultTimeout(60_000);

const hash = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$c29tZWhhc2g";

test("sluice open prints a link to the console for the only admin, and asks which one where there are several", async () => {
  const cli = new CommandLine({ admin: "127.0.0.1:4999" });
  const none = await cli.here(["open", "--print"]);
  expect([none.code === 0, none.err]).toEqual([false, expect.stringContaining("sluice accounts create")]);
  const add = (name: string, role: "admin" | "viewer"): Promise<unknown> =>
    cli.withStorage(({ accounts }) => accounts.create({ name, role, passwordHash: hash }, { kind: "cli", name: "tester" }));
  await add("ada", "admin");
  await add("ben", "viewer");
  expect((await cli.here(["open", "--print"])).out).toMatch(/^http:\/\/127\.0\.0\.1:4999\/console#link=sk-gwa_\w+\n$/);
  expect(JSON.parse((await cli.here(["open", "--json", "--account", "Ben"])).out)).toMatchObject({ account: "ben" });
  await add("eve", "admin");
  expect((await cli.here(["open", "--print"])).err).toContain("ada, eve");
  expect((await cli.here(["open", "--print", "--account", "nobody"])).err).toContain("no active account nobody");
});

test("sluice open says that the console is off where the admin API is", async () => {
  expect((await new CommandLine().here(["open"])).err).toContain("admin: off");
});
